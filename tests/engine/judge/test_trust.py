"""Spread, warnings, agreement and the corrected estimate, by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.judge.trust import agreement, repeat, self_preference_warning
from engine.models import StrategySpec
from engine.records import Judgement, Query
from tests.engine.judge.test_judge import GOOD, RETRIEVED, Scripted, document, verdicts

BAD = verdicts(("The fee is 300 euros.", "not_found", ""))


def query(judged: bool | None = None, rated: bool | None = None, rating: int | None = None) -> Query:
    judgement = None
    if judged is not None:
        judgement = Judgement(status={}, hallucination=not judged, faithfulness=10.0 if judged else 1.0)
    return Query(
        query_id="q",
        question="How high is the fee?",
        spec=StrategySpec(strategy_name="sentence", params={}, label="sentence"),
        document_ids=("d",),
        answer="The fee is 300 euros.",
        retrieved=RETRIEVED,
        top_k=2,
        embedding_model="none",
        judgement=judgement,
        rated_faithful=rated,
        rating=rating,
        request_id="r",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_a_judge_that_changes_its_mind_has_a_spread() -> None:
    """Faithfulness 10 and 1: standard deviation of two values is 9 / sqrt(2) = 6.364."""

    class Fickle(Scripted):
        def complete(self, request):  # type: ignore[no-untyped-def]
            self.requests.append(request)
            return Scripted(GOOD if request.seed == 1 else BAD).complete(request)

    model = Fickle()
    spread = {s.measure: s for s in repeat(model, [query()], ["300 euros"], document, 2)}
    assert spread["faithfulness"].mean_deviation == pytest.approx(6.364, abs=0.001)
    assert spread["hallucination"].changed == 1.0
    assert (spread["context_relevance"].mean_deviation, spread["context_relevance"].changed) == (0.0, 0.0)
    assert {request.seed for request in model.requests} == {1, 2}


def test_one_model_that_writes_and_judges_is_warned_about() -> None:
    assert "judges its own answers" in (self_preference_warning("gpt-4o-mini", "gpt-4o-mini-2024-07-18") or "")
    assert "same family" in (self_preference_warning("gpt-4o-mini", "gpt-4.1") or "")
    assert self_preference_warning("gpt-4o-mini", "mistral-large") is None
    assert self_preference_warning(None, "gpt-4o") is None


def test_too_few_ratings_give_no_agreement() -> None:
    result = agreement([query(True, True, 9)] * 5)
    assert (result.kappa, result.spearman, result.corrected, result.note) == (
        None,
        None,
        None,
        "15 more rated answers are needed.",
    )
    assert result.judged_mean == 1.0


def test_people_correct_the_judge() -> None:
    """The judge calls 30 of 40 faithful; of 20 rated, people call 5 of its 10 faithful ones unfaithful.

    Judge 0.75, gap -5/20 = -0.25: corrected 0.5. Observed agreement 15/20; by chance 0.25 * 0.5 + 0.75 * 0.5 = 0.5: kappa 0.5.
    """
    rated = [query(True, True, 9)] * 5 + [query(True, False, 4)] * 5 + [query(False, False, 2)] * 10
    result = agreement(rated + [query(True)] * 20)
    assert result.judged_mean == pytest.approx(0.75)
    assert result.corrected == pytest.approx(0.5)
    assert result.kappa == pytest.approx(0.5)
    assert result.low is not None
    assert result.high is not None
    assert result.low < 0.5 < result.high
    assert result.spearman is not None
    assert 0.5 < result.spearman < 1.0
