from __future__ import annotations

import math
import random

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.metrics.ceiling import Pool
from engine.metrics.retrieval import BUDGETS, CURVE_BUDGETS, depth_needed, recall_curve, score_question
from engine.metrics.targets import Target
from engine.metrics.walk import Unit
from engine.models import Span
from engine.records import RetrievedChunk
from tests.engine.metrics.examples import chunk, hits, question

FIRST, SECOND, THIRD = chunk(0, 100, 20), chunk(100, 200, 20), chunk(200, 300, 20)


def test_a_chunk_with_half_of_the_gold() -> None:
    """Gold is [50, 150); the chunk [0, 100) holds 50 of its 100 characters."""
    scores = score_question(question((50, 150)), hits(FIRST), ks=(1,), budgets=())
    assert scores["recall@1"] == 0.5
    assert scores["precision@1"] == 0.5
    assert scores["f1@1"] == 0.5
    assert scores["iou@1"] == pytest.approx(50 / 150)
    assert scores["hit@1"] == 0
    assert scores["mrr"] == 1
    assert scores["tokens@1"] == 20
    assert scores["redundancy@1"] == 0


def test_the_second_chunk_completes_two_spans() -> None:
    """Gold is [10, 20) and [110, 140), 40 characters; the first hit holds none of it."""
    scores = score_question(question((10, 20), (110, 140)), hits(THIRD, SECOND, FIRST), ks=(1, 2, 3), budgets=())
    assert (scores["recall@1"], scores["recall@2"], scores["recall@3"]) == (0, 0.75, 1)
    assert scores["precision@3"] == pytest.approx(40 / 300)
    assert scores["iou@2"] == pytest.approx(30 / 210)
    assert scores["f1@2"] == pytest.approx(2 * 0.75 * 0.15 / 0.9)
    assert (scores["hit@1"], scores["hit@2"]) == (0, 1)
    assert scores["mrr"] == 0.5
    assert scores["tokens@3"] == 60


def test_overlap_counts_once_in_precision_and_shows_as_redundancy() -> None:
    """[0, 100) and [50, 150) read 150 characters, 200 with repetition; gold is [50, 100)."""
    retrieved = hits(FIRST, chunk(50, 150))
    scores = score_question(question((50, 100)), retrieved, ks=(2,), budgets=())
    assert scores["precision@2"] == pytest.approx(50 / 150)
    assert scores["redundancy@2"] == pytest.approx(1 - 150 / 200)
    compat = score_question(question((50, 100)), retrieved, ks=(2,), budgets=(), compat=True)
    assert compat["precision@2"] == pytest.approx(50 / 200)
    assert compat["iou@2"] == pytest.approx(50 / 200)
    assert scores["iou@2"] == pytest.approx(50 / 150)


def test_a_chunk_that_only_touches_the_gold_holds_none_of_it() -> None:
    scores = score_question(question((100, 120)), hits(FIRST), ks=(1,), budgets=())
    assert (scores["recall@1"], scores["mrr"]) == (0, 0)


def test_the_last_chunk_is_truncated_at_the_budget() -> None:
    """30 tokens are the first chunk and half of the second: characters [0, 150) of gold [80, 180)."""
    scores = score_question(question((80, 180)), hits(FIRST, SECOND), ks=(), budgets=(30,))
    assert scores["recall@30tok"] == pytest.approx(0.7)
    assert scores["precision@30tok"] == pytest.approx(70 / 150)
    assert scores["iou@30tok"] == pytest.approx(70 / 180)
    assert scores["hit@30tok"] == 0


def test_a_budget_that_ends_with_a_chunk_and_one_beyond_the_list() -> None:
    scores = score_question(question((80, 180)), hits(FIRST, SECOND), ks=(), budgets=(20, 40, 4000))
    assert scores["recall@20tok"] == pytest.approx(0.2)
    assert scores["recall@40tok"] == scores["recall@4000tok"] == 1


def test_gold_in_another_document_never_counts() -> None:
    scores = score_question(question((0, 50)), hits(chunk(0, 100, document_id="copy")), ks=(1,), budgets=(500,))
    assert scores["recall@1"] == scores["recall@500tok"] == scores["mrr"] == scores["hit@1"] == 0
    both = score_question(question((0, 50)), hits(chunk(0, 100, document_id="copy"), FIRST), ks=(2,), budgets=())
    assert both["recall@2"] == 1
    assert both["precision@2"] == pytest.approx(50 / 200)


def test_any_copy_of_a_repeated_quote_will_do() -> None:
    """The quote stands at [10, 20) and [210, 220); reading the second is as good as reading the first, reading both is not better."""
    asked = question((10, 20), (210, 220), copies=True)
    one = score_question(asked, hits(THIRD), ks=(1,), budgets=())
    both = score_question(asked, hits(THIRD, FIRST), ks=(2,), budgets=())
    assert one["recall@1"] == both["recall@2"] == 1
    assert one["precision@1"] == pytest.approx(10 / 100)
    assert both["precision@2"] == pytest.approx(20 / 200)
    chosen = score_question(question((10, 20)), hits(THIRD), ks=(1,), budgets=())
    assert chosen["recall@1"] == 0


def test_searched_and_delivered_unit_are_scored_apart() -> None:
    """The child [100, 120) was found, its parent [50, 150) was given."""
    child = chunk(100, 120, 4, parent=(50, 150))
    hit = RetrievedChunk(chunk=child, score=1, rank=1, delivered_span=Span(50, 150), delivered_text="word " * 20)
    scores = score_question(question((90, 110)), [hit], ks=(1,), budgets=())
    assert (scores["recall@1"], scores["delivered.recall@1"]) == (0.5, 1)
    assert (scores["precision@1"], scores["delivered.precision@1"]) == (0.5, 0.2)
    assert (scores["hit@1"], scores["delivered.hit@1"]) == (0, 1)
    assert scores["tokens@1"] == 4
    assert scores["delivered.tokens@1"] == 21


def test_a_parent_delivered_by_a_better_hit_costs_and_gains_nothing_again() -> None:
    first, second = chunk(0, 50, parent=(0, 100)), chunk(50, 100, parent=(0, 100))
    retrieved = [
        RetrievedChunk(chunk=first, score=2, rank=1, delivered_span=Span(0, 100), delivered_text="x" * 100),
        RetrievedChunk(chunk=second, score=1, rank=2),
    ]
    scores = score_question(question((60, 80)), retrieved, ks=(1, 2), budgets=())
    assert scores["delivered.recall@1"] == 1
    assert scores["delivered.tokens@1"] == scores["delivered.tokens@2"]
    assert scores["delivered.redundancy@2"] == 0
    assert (scores["recall@1"], scores["recall@2"]) == (0, 1)


def test_a_context_line_costs_tokens_before_the_passage_begins() -> None:
    """100 characters of context, then the passage [0, 100): half of the tokens are gone before the first gold character."""
    unit = Unit("d", Span(0, 100), tokens=40, lead=100)
    assert unit.cut_to(20).span == Span(0, 0)
    assert unit.cut_to(30).span == Span(0, 50)
    assert unit.cut_to(40).span == Span(0, 100)


def test_ndcg_by_hand() -> None:
    """Gold: 10 characters in the first chunk, 30 in the second. Best order: second, first. Found order: third, first, second."""
    pool = Pool([FIRST, SECOND, THIRD])
    asked = question((0, 10), (100, 130))
    scores = score_question(asked, hits(THIRD, FIRST, SECOND), ks=(1, 2, 3), budgets=(), pool=pool)
    ideal = 30 / math.log2(2) + 10 / math.log2(3)
    assert scores["ndcg@1"] == 0
    assert scores["ndcg@2"] == pytest.approx((10 / math.log2(3)) / ideal)
    assert scores["ndcg@3"] == pytest.approx((10 / math.log2(3) + 30 / math.log2(4)) / ideal)
    best = score_question(asked, hits(SECOND, FIRST), ks=(2,), budgets=(40,), pool=pool)
    assert best["ndcg@2"] == best["ndcg@40tok"] == 1


def test_ndcg_counts_repeated_gold_once() -> None:
    """The second chunk repeats the gold of the first; it gains nothing, and the value stays at most 1."""
    again = chunk(0, 90)
    scores = score_question(question((0, 50)), hits(FIRST, again), ks=(2,), budgets=(), pool=Pool([FIRST, again]))
    assert scores["ndcg@2"] == 1


@given(st.randoms(use_true_random=False))
def test_ndcg_and_mrr_agree_with_ir_measures(rng: random.Random) -> None:
    """Where chunks do not overlap, the gain of a chunk is fixed, and the measures are the classic ones."""
    chunks = [chunk(100 * i, 100 * i + 100) for i in range(12)]
    held = {i: rng.randint(1, 100) for i in rng.sample(range(12), 4)}
    asked = question(*((100 * i, 100 * i + size) for i, size in held.items()))
    order = rng.sample(range(12), 8)
    scores = score_question(asked, hits(*(chunks[i] for i in order)), ks=(5,), budgets=(), pool=Pool(chunks))
    run = {"q": {str(i): float(-rank) for rank, i in enumerate(order)}}
    gains = {"q": {str(i): held.get(i, 0) for i in range(12)}}
    found = {"q": {str(i): int(i in held) for i in range(12)}}
    ndcg = ir_measures.calc_aggregate([ir_measures.nDCG @ 5], gains, run)
    mrr = ir_measures.calc_aggregate([ir_measures.RR], found, run)
    assert scores["ndcg@5"] == pytest.approx(ndcg[ir_measures.nDCG @ 5])
    assert scores["mrr"] == pytest.approx(mrr[ir_measures.RR])


def test_mrr_needs_half_of_a_span() -> None:
    asked = question((90, 120))
    assert score_question(asked, hits(FIRST, SECOND), ks=(), budgets=())["mrr"] == 0.5
    assert score_question(question((90, 110)), hits(FIRST, SECOND), ks=(), budgets=())["mrr"] == 1


def test_questions_without_gold_have_no_retrieval_scores() -> None:
    assert score_question(question(), hits(FIRST)) == {}
    assert recall_curve(question(), hits(FIRST)) == ()
    assert score_question(question((5, 5)), hits(FIRST), pool=Pool([FIRST])) == {}
    nothing_beside = score_question(question((0, 10), (5, 5)), hits(FIRST), pool=Pool([FIRST]))
    assert nothing_beside == score_question(question((0, 10)), hits(FIRST), pool=Pool([FIRST]))


def test_nothing_retrieved_scores_zero_and_not_nothing() -> None:
    scores = score_question(question((0, 10)), [], ks=(5,), budgets=(500,))
    assert scores["recall@5"] == scores["precision@5"] == scores["f1@5"] == scores["iou@5"] == 0
    assert scores["recall@500tok"] == scores["mrr"] == scores["tokens@5"] == 0
    assert scores["delivered.recall@500tok"] == scores["delivered.recall@5"] == scores["delivered.tokens@5"] == 0


def test_cuts_beyond_the_hits_that_were_asked_for_were_not_measured() -> None:
    """Two hits of 20 tokens were asked for: k = 5 and 500 tokens lie beyond them."""
    scores = score_question(question((0, 10)), hits(FIRST, SECOND), ks=(1, 2, 5), budgets=(30, 500), depth=2)
    assert {"recall@1", "recall@2", "recall@30tok"} <= scores.keys()
    assert not {"recall@5", "recall@500tok", "recall_auc"} & scores.keys()
    everything = score_question(question((0, 10)), hits(FIRST, SECOND), ks=(5,), budgets=(500,), depth=3)
    assert {"recall@5", "recall@500tok", "recall_auc"} <= everything.keys()
    whole = score_question(
        question((0, 10)), hits(FIRST, SECOND), ks=(5,), budgets=(500,), depth=2, pool=Pool([FIRST, SECOND])
    )
    assert {"recall@5", "recall@500tok", "recall_auc"} <= whole.keys()


def test_depth_needed_fills_the_budget_with_the_smallest_chunks() -> None:
    assert depth_needed([100, 10, 20, 70], ks=(1,), budgets=(90,)) == 3
    assert depth_needed([100, 10, 20, 70], ks=(1,), budgets=(500,)) == 4
    assert depth_needed([1000] * 50, ks=(20,), budgets=(4000,)) == 20
    assert depth_needed([], ks=(20,), budgets=(4000,)) == 0


def test_the_curve_and_its_area() -> None:
    """One chunk of 1,000 tokens that is all gold: recall at a budget is the share of its tokens."""
    retrieved = hits(chunk(0, 100_000, 1000))
    curve = recall_curve(question((0, 100_000)), retrieved)
    assert [point.budget for point in curve] == list(CURVE_BUDGETS)
    assert [point.recall for point in curve] == pytest.approx([0.25, 0.354, 0.5, 0.707, 1, 1, 1, 1, 1])
    scores = score_question(question((0, 100_000)), retrieved)
    assert scores["recall_auc"] == pytest.approx((0.25 + 0.354 + 0.5 + 0.707 + 5) / 9)


def test_the_order_of_evidence_and_of_the_list_changes_nothing() -> None:
    retrieved = hits(THIRD, SECOND, FIRST)
    pool = Pool([FIRST, SECOND, THIRD])
    one = score_question(question((10, 20), (110, 140)), retrieved, pool=pool)
    other = score_question(question((110, 140), (10, 20)), retrieved[::-1], pool=Pool([THIRD, FIRST, SECOND]))
    assert one == other


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 80), st.integers(1, 40)), max_size=8), st.booleans())
def test_every_share_is_between_0_and_1_and_recall_never_falls(found: list[tuple[int, int, int]], copies: bool) -> None:
    retrieved = hits(*(chunk(start, start + length, tokens) for start, length, tokens in found))
    asked = question((20, 60), (100, 110), (250, 330), copies=copies)
    pool = Pool([hit.chunk for hit in retrieved])
    scores = score_question(asked, retrieved, ks=(1, 2, 4, 8), budgets=(10, 50, 200), pool=pool)
    shares = [value for name, value in scores.items() if not name.startswith(("tokens", "pieces"))]
    assert all(-1e-12 <= value <= 1 + 1e-12 for value in shares)
    assert scores["recall@1"] <= scores["recall@2"] <= scores["recall@4"] <= scores["recall@8"]
    assert scores["recall@10tok"] <= scores["recall@50tok"] <= scores["recall@200tok"]


def test_gold_of_unresolved_quotes_is_no_target() -> None:
    assert Target.of(question()) is None
    assert len(BUDGETS) == 4
