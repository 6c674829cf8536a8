from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from engine.errors import BadParameter
from engine.models import Span, StrategySpec
from engine.recommend import (
    compare,
    distinct_labels,
    experiment_costs,
    experiment_verdict,
    matrix,
    measured_noise,
    primary_metric,
    recommend,
)
from engine.records import Evidence, Experiment, Gold, Plan, Question, QuestionResult, SpecResult, UsageRecord

METRIC = "recall@1000tok"


def spec(name: str, size: int = 100) -> StrategySpec:
    return StrategySpec(strategy_name=name, params={"size": size}, label=f"{name} {size}")


def experiment(
    scores: Sequence[Sequence[float | None]],
    specs: Sequence[StrategySpec] = (spec("fixed"), spec("recursive")),
    *,
    metric: str = METRIC,
    tokens: Sequence[float] = (1000, 600),
    articles: int = 0,
    failed: Sequence[str] = (),
    repeats: int = 1,
) -> Experiment:
    """One row of scores per spec; None where a cell failed. With `articles`, question i belongs to article i modulo their number."""
    questions = []
    for i in range(len(scores[0])):
        gold = Gold(
            document_id="d", span=Span(i, i + 1), text_hash="", unit=f"Article {i % articles}" if articles else None
        )
        questions.append(Question(question_id=f"q{i}", question="?", evidence=(Evidence(quote="q", gold=(gold,)),)))
    cells = [
        QuestionResult(
            question_id=f"q{i}",
            spec_id=one.spec_id,
            status="failed" if value is None else "scored",
            metrics={} if value is None else {metric: value, "tokens@5": cost},
            repeat=repeat,
        )
        for one, row, cost in zip(specs, scores, tokens, strict=True)
        for i, value in enumerate(row)
        for repeat in range(repeats)
    ]
    results = [
        SpecResult(spec=one, status="failed" if one.strategy_name in failed else "ok", usage=UsageRecord(cost_usd=None))
        for one in specs
    ]
    return Experiment(
        experiment_id="e",
        plan=Plan(name="Test", document_ids=("d",), specs=tuple(specs), question_set_id="s", top_k=5),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        documents=(),
        question_set_name="s",
        questions=tuple(questions),
        embedding_model="m",
        llm_model=None,
        judge_model=None,
        settings={},
        versions={},
        request_id="r",
        results=tuple(results),
        cells=tuple(cells),
    )


CLEAR = experiment([[0.0] * 50 + [1.0] * 50, [0.0] * 20 + [1.0] * 80])
EQUAL = experiment([[0.0] * 30 + [1.0] * 70] * 2)


def test_a_clear_result_is_recommended_with_its_interval() -> None:
    text = recommend(CLEAR)
    assert text.startswith(
        "Take recursive 100: on 100 questions its recall at 1,000 tokens is 0.800, ahead of fixed 100"
    )
    assert "95 % interval" in text


def test_equal_strategies_are_not_ranked_and_the_cheaper_is_proposed() -> None:
    text = recommend(EQUAL)
    assert text.startswith("No clear difference")
    assert (
        "Take recursive 100: it is the cheapest of 2 that tie, by tokens delivered per question at 5 chunks: 600"
        in text
    )


def test_comparisons_with_the_baseline() -> None:
    (only,) = compare(CLEAR, [METRIC])
    assert (only.n, only.clusters) == (100, 100)
    assert (only.mean, only.baseline_mean, only.difference) == pytest.approx((0.8, 0.5, 0.3))
    assert only.low is not None
    assert only.high is not None
    assert only.low < 0.3 < only.high
    assert only.p == only.p_holm
    (turned,) = compare(CLEAR, [METRIC], baseline=spec("recursive").spec_id)
    assert turned.difference == pytest.approx(-0.3)
    assert turned.low == -only.high
    with pytest.raises(BadParameter, match="baseline"):
        compare(CLEAR, [METRIC], baseline="other")


def test_every_measured_metric_is_compared_unless_named() -> None:
    assert {row.metric for row in compare(CLEAR)} == {METRIC, "tokens@5"}


def test_failed_cells_are_left_out_and_not_zero() -> None:
    mixed = experiment([[None, *[0.5] * 39], [*[0.7] * 39, None]])
    (row,) = compare(mixed, [METRIC])
    assert row.n == 38
    assert row.difference == pytest.approx(0.2)
    assert np.isnan(matrix(mixed, METRIC)[0, 0])


def test_a_failed_strategy_does_not_hide_the_others() -> None:
    specs = (spec("fixed"), spec("recursive"), spec("semantic"))
    broken = experiment(
        [*[[0.0] * 50 + [1.0] * 50, [0.0] * 20 + [1.0] * 80], [None] * 100],
        specs,
        tokens=(1, 1, 1),
        failed=("semantic",),
    )
    verdict = experiment_verdict(broken)
    assert verdict.kind == "winner"
    assert verdict.n == 100
    assert verdict.left_out == ("semantic 100",)


def test_a_strategy_without_a_score_is_left_out_by_name() -> None:
    """All its calls timed out: with it there would be no common question, and nothing to say about the two others."""
    specs = (spec("fixed"), spec("recursive"), spec("semantic"))
    silent = experiment([[0.0] * 50 + [1.0] * 50, [0.0] * 20 + [1.0] * 80, [None] * 100], specs, tokens=(1, 1, 1))
    verdict = experiment_verdict(silent)
    assert (verdict.kind, verdict.n, verdict.left_out) == ("winner", 100, ("semantic 100",))
    assert recommend(silent).endswith("Left out, because it has no score: semantic 100.")


def test_the_order_in_which_cells_were_finished_changes_no_number() -> None:
    repeats = experiment([[0.1, 0.2, 0.3] * 14, [0.3, 0.1, 0.7] * 14], repeats=3)
    cells = [
        cell.model_copy(update={"metrics": {METRIC: cell.metrics[METRIC] + 0.1 * cell.repeat}})
        for cell in repeats.cells
    ]
    one, other = (repeats.model_copy(update={"cells": tuple(each)}) for each in (cells, cells[::-1]))
    assert matrix(one, METRIC).tolist() == matrix(other, METRIC).tolist()
    assert measured_noise(one, METRIC) == measured_noise(other, METRIC) > 0
    assert compare(one) == compare(other)


def test_questions_of_one_article_are_one_group() -> None:
    grouped = experiment([[0.0] * 50 + [1.0] * 50, [0.0] * 20 + [1.0] * 80], articles=10)
    assert experiment_verdict(grouped).clusters == 10
    assert compare(grouped, [METRIC])[0].clusters == 10


def test_the_deciding_metric_is_recall_at_equal_tokens_and_never_at_k() -> None:
    assert primary_metric(CLEAR) == METRIC
    assert primary_metric(experiment([[0.5]] * 2, metric="recall@5")) is None
    nothing = experiment_verdict(experiment([[0.5] * 40] * 2, metric="recall@5"))
    assert nothing.kind == "nothing_to_compare"
    with pytest.raises(BadParameter, match="only describes"):
        experiment_verdict(CLEAR, "uniformity")
    with pytest.raises(BadParameter, match="no metric"):
        experiment_verdict(CLEAR, "quality")


def test_repeats_are_averaged_and_their_noise_is_measured() -> None:
    repeated = experiment([[0.4] * 40, [0.6] * 40], repeats=2)
    assert matrix(repeated, METRIC)[1].tolist() == [0.6] * 40
    assert measured_noise(repeated, METRIC) == 0
    cells = tuple(
        cell.model_copy(update={"metrics": {METRIC: cell.metrics[METRIC] + (0.2 if i % 2 else 0.0)}})
        for i, cell in enumerate(repeated.cells)
    )
    noisy = repeated.model_copy(update={"cells": cells})
    assert matrix(noisy, METRIC)[0].tolist() == pytest.approx([0.5] * 40)
    assert measured_noise(noisy, METRIC) == pytest.approx(1.959964 * np.sqrt(2) * 0.141421, abs=1e-5)
    assert experiment_verdict(repeated).kind == "winner"
    assert experiment_verdict(noisy).kind == "no_clear_difference"


def test_costs_that_were_not_measured_are_unknown() -> None:
    tokens, dollars, seconds = experiment_costs(CLEAR, [one.spec_id for one in CLEAR.specs])
    assert tokens.values == (1000, 600)
    assert dollars.values == (None, None)
    assert seconds.values == (None, None)


def test_specs_with_one_label_are_told_apart() -> None:
    assert distinct_labels(["a", "b", "a"], ["1234567", "x", "7654321"]) == ["a (123456)", "b", "a (765432)"]
