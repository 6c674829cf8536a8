from __future__ import annotations

import pytest

from engine.metrics.ceiling import Pool, intact_rate, one_unit, pieces_per_span, precision_omega
from engine.metrics.retrieval import score_question
from engine.metrics.targets import Target
from tests.engine.metrics.examples import chunk, hits, question

POOL = Pool([chunk(0, 100), chunk(100, 200), chunk(200, 300)]).searched


def target(*gold: tuple[int, int], copies: bool = False) -> Target:
    found = Target.of(question(*gold, copies=copies))
    assert found is not None
    return found


def test_precision_omega_of_one_and_of_two_chunks() -> None:
    assert precision_omega(POOL, target((10, 30))) == pytest.approx(20 / 100)
    assert precision_omega(POOL, target((90, 110))) == pytest.approx(20 / 200)


def test_precision_omega_strict_and_compat_differ_where_a_chunk_only_touches_the_gold() -> None:
    assert precision_omega(POOL, target((50, 100))) == pytest.approx(50 / 100)
    assert precision_omega(POOL, target((50, 100)), compat=True) == pytest.approx(50 / 200)


def test_precision_omega_counts_gold_that_no_chunk_holds_and_overlap_once() -> None:
    pool = Pool([chunk(0, 60), chunk(40, 100)]).searched
    assert precision_omega(pool, target((50, 55), (150, 170))) == pytest.approx(5 / (100 + 20))
    assert precision_omega(pool, target((150, 170))) == 0


def test_intact_rate_and_pieces() -> None:
    """[10, 30) is whole, [90, 110) is in two pieces, [90, 210) in three."""
    assert intact_rate(POOL, target((10, 30), (90, 110))) == 0.5
    assert intact_rate(POOL, target((0, 100))) == 1
    assert pieces_per_span(POOL, target((10, 30), (90, 110))) == 1.5
    assert pieces_per_span(POOL, target((90, 210))) == 3
    assert pieces_per_span(POOL, target((290, 310))) == 2


def test_of_copies_one_intact_is_enough() -> None:
    assert intact_rate(POOL, target((90, 110), (10, 30), copies=True)) == 1
    assert pieces_per_span(POOL, target((90, 110), (10, 30), copies=True)) == 1


def test_all_evidence_in_one_chunk() -> None:
    assert one_unit(POOL, target((10, 30), (40, 50))) == 1
    assert one_unit(POOL, target((10, 30), (140, 150))) == 0


def test_parents_are_the_delivered_units() -> None:
    """The children cut the gold, their common parent holds it."""
    children = [chunk(0, 50, parent=(0, 100)), chunk(50, 100, parent=(0, 100))]
    retrieved = [
        hit.model_copy(update={"delivered_text": "x" * 100, "delivered_span": hit.chunk.parent_span})
        for hit in hits(*children)
    ]
    scores = score_question(question((40, 60)), retrieved, ks=(1,), budgets=(), pool=Pool(children))
    assert (scores["intact_rate"], scores["delivered.intact_rate"]) == (0, 1)
    assert (scores["precision_omega"], scores["delivered.precision_omega"]) == (0.2, 0.2)
    assert (scores["one_chunk"], scores["delivered.one_chunk"]) == (0, 1)


def test_the_tokens_of_a_parent_are_in_proportion_to_its_children() -> None:
    """Children of 10 + 20 tokens hold 60 of the parent's 100 characters: it has about 50."""
    pool = Pool([chunk(0, 20, 10, parent=(0, 100)), chunk(20, 60, 20, parent=(0, 100)), chunk(100, 130, 7)])
    units = pool.delivered.near(target((0, 120)))
    assert [(unit.span, unit.tokens) for unit in units] == [((0, 100), 50), ((100, 130), 7)]
