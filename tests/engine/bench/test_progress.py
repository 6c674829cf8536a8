"""The progress of a run knows from the start what there is to do."""

from __future__ import annotations

from itertools import product

import pytest

from engine.bench import closed_book, overnight
from engine.bench.progress import Progress, left_in_words
from engine.bench.run import Event
from engine.records import DocumentRef, Experiment
from tests.engine.bench.examples import experiment


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def run() -> Experiment:
    """Two documents, three strategies, four questions."""
    found = experiment("one", {name: [None] * 4 for name in ("sentence", "paragraph", "recursive")})
    documents = tuple(
        DocumentRef(document_id=name, name=name, sha256="", parser_version="1", token_count=1) for name in ("a", "b")
    )
    return found.model_copy(update={"documents": documents})


def test_totals_are_those_of_the_whole_run_before_anything_is_indexed() -> None:
    record = Progress(run(), repeats=2, closed_book=True).record()
    assert (record["done"], record["total"], record["eta_seconds"]) == (0, 4 * (3 + 1) * 2, None)
    ask = {"done": 0, "total": 8}
    planned = {
        f"{name} 1": {"index": {"done": 0, "total": 2}, "ask": ask} for name in ("sentence", "paragraph", "recursive")
    }
    assert record["stages"] == planned | {closed_book.SPEC.label: {"ask": ask}}
    assert Progress().record()["total"] == 0


def test_a_resumed_run_counts_the_answers_there_are_and_its_pace_is_that_of_the_new_ones() -> None:
    whole, clock = run(), Clock()
    first, second, _ = whole.specs
    finished = [(first.spec_id, question.question_id, 0) for question in whole.questions]
    finished += [(second.spec_id, "q0", 0), (second.spec_id, "q0", 1), (second.spec_id, "forgotten", 0)]
    progress = Progress(whole, 1, finished, now=clock)
    assert (progress.record()["done"], progress.record()["total"]) == (5, 12)
    progress.note(Event("ask", first, 4, 4))
    assert progress.record()["stages"][first.label]["index"] == {"done": 2, "total": 2}
    clock.seconds = 100.0
    progress.note(Event("ask", second, 2, 4))
    assert progress.record()["eta_seconds"] is None
    clock.seconds = 103.0
    # A thread that was overtaken tells its step late.
    for done in (4, 3):
        progress.note(Event("ask", second, done, 4))
    record = progress.record()
    assert (record["done"], record["total"]) == (8, 12)
    assert record["eta_seconds"] == pytest.approx(1.5 * 4)


def test_the_passes_of_an_overnight_run_take_nothing_back() -> None:
    whole = run()
    progress = Progress(whole)
    for done, total in ((1, 9), (9, 9), (1, 3)):
        for spec, number in product(whole.specs, (1, 2)):
            progress.note(Event("index", spec, number, 2))
            progress.note(Event("ask", spec, number, 4))
            assert progress.record()["stages"][spec.label]["index"]["done"] == 2
        progress.note(Event("batch", overnight.SPEC, done, total))
        assert progress.record()["stages"][overnight.SPEC.label] == {"batch": {"done": done, "total": total}}
    assert (progress.record()["done"], progress.record()["total"]) == (6, 12)


def test_what_was_spent_only_grows_and_an_unknown_price_stays_unknown() -> None:
    whole = run()
    progress = Progress(whole, spent_usd=0.1)
    assert progress.record()["spent_usd"] == 0.1
    for spent in (0.3, 0.2):
        progress.note(Event("ask", whole.specs[0], 1, 4, spent_usd=spent))
    progress.note(Event("batch", overnight.SPEC, 1, 4))
    assert progress.record()["spent_usd"] == 0.3
    progress.note(Event("ask", whole.specs[0], 2, 4, spent_usd=None))
    progress.note(Event("ask", whole.specs[0], 3, 4, spent_usd=0.4))
    assert progress.record()["spent_usd"] is None


def test_a_strategy_without_any_document_is_asked_nothing() -> None:
    whole = run()
    progress = Progress(whole)
    for number in (1, 1, 2):
        assert progress.record()["total"] == 12
        progress.note(Event("index", whole.specs[0], number, 2, "It cannot be read."))
    assert (progress.record()["total"], progress.record()["error_count"]) == (8, 3)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89.4, "89 s"), (152, "3 min"), (5399, "90 min"), (5400, "2 h"), (36_000, "10 h")],
)
def test_time_left_is_as_exact_as_a_guess_may_be(seconds: float, words: str) -> None:
    assert left_in_words(seconds) == words
