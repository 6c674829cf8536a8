from __future__ import annotations

import pytest

from engine.errors import BadParameter
from engine.judge.scores import MEASURES
from engine.metrics import METRICS, Pool, describe, measure, score_question
from engine.metrics.answers import score_answer
from engine.metrics.base import ON_DELIVERED, ON_SEARCHED
from engine.metrics.thresholds import THRESHOLDS, check_thresholds
from engine.strategies.source import Source
from tests.engine.metrics.examples import chunk, chunk_set, document, hits, question


def test_every_metric_says_what_it_is() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert all((metric.title, metric.definition, metric.source, metric.unit))
        assert metric.direction in ("higher", "lower", "none")


def test_every_value_that_is_computed_has_a_declaration() -> None:
    chunks = [chunk(0, 100, parent=(0, 200)), chunk(100, 200, parent=(0, 200))]
    retrieved = [
        hit.model_copy(update={"delivered_span": hit.chunk.parent_span, "delivered_text": "x y"})
        for hit in hits(*chunks)
    ]
    text = "# A\n\nOne. Two."
    computed = [
        *score_question(question((10, 20)), retrieved, pool=Pool(chunks)),
        *measure(chunk_set(text, (0, 8), (8, len(text))), Source(document(text))),
        *score_answer("The answer is 5.", ["The answer is 5."], "It is 5."),
        *(f"judge.{name}" for name in MEASURES),
    ]
    for name in computed:
        assert describe(name).name == name


def test_a_stored_name_in_words() -> None:
    described = describe("delivered.recall@1000tok")
    assert described.title == "Delivered recall at 1,000 tokens"
    assert (described.budget, described.k, described.delivered) == (1000, None, True)
    assert not described.unequal_tokens
    assert describe("recall@5").unequal_tokens
    assert describe("delivered.iou@5").title == "Delivered IoU at 5"


def test_a_definition_says_which_text_is_counted() -> None:
    searched, delivered = describe("recall@5").definition, describe("delivered.recall@5").definition
    assert searched == "gold characters in the retrieved text / gold characters; " + ON_SEARCHED
    assert delivered == "gold characters in the retrieved text / gold characters; " + ON_DELIVERED
    assert describe("intact_rate").definition == describe("intact_rate").metric.definition


@pytest.mark.parametrize("name", ["recal@5", "mrr@5", "recall", "tokens@500tok", "", "recall@x", "judge.recall"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match="There is no metric"):
        describe(name)


def test_the_five_thresholds_are_shown_beside_the_value() -> None:
    values = {"intact_rate": 0.95, "break_rate": 0.06, "uniformity": 0.7, "precision@5": 0.2}
    checked = check_thresholds(values)
    assert [one.outcome for one in checked] == ["pass", "fail", "pass", "fail", "not measured"]
    assert [one.value for one in checked] == [0.95, 0.06, 0.7, 0.2, None]
    assert [one.threshold.words for one in checked] == ["≥ 95%", "≤ 5%", "≥ 0.7", "≥ 60%", "≥ 80%"]
    assert all(describe(threshold.metric) for threshold in THRESHOLDS)
