"""From claims to scores, by hand."""

from __future__ import annotations

import pytest

from engine.judge import derive
from engine.records import Claim


def claims(*verdicts: str) -> list[Claim]:
    return [Claim(text=f"claim {i}", verdict=v, said=v) for i, v in enumerate(verdicts)]  # type: ignore[arg-type]


def test_three_of_four_claims_supported() -> None:
    """Faithfulness 1 + 9 * 3/4 = 7.75; relevance 1 + 9 * (5 + 3 + 1) / 15 = 6.4; similarity 1 + 9 * 4/5 = 8.2."""
    scores = derive(claims("supported", "supported", "contradicted", "supported"), {1: 5, 2: 3, 3: 1}, 4)
    assert scores.faithfulness == pytest.approx(7.75)
    assert scores.hallucination is True
    assert scores.context_relevance == pytest.approx(6.4)
    assert scores.answer_similarity == pytest.approx(8.2)
    assert set(scores.status.values()) == {"scored"}


def test_all_claims_supported_and_nothing_relevant() -> None:
    """Faithfulness 10 and no hallucination; relevance 1 + 9 * 0 = 1; no expected answer, so no similarity."""
    scores = derive(claims("supported", "supported"), {1: 0}, None)
    assert (scores.faithfulness, scores.hallucination, scores.context_relevance) == (10.0, False, 1.0)
    assert (scores.answer_similarity, scores.status["answer_similarity"]) == (None, "not_applicable")


def test_a_claim_that_is_nowhere_is_a_hallucination() -> None:
    scores = derive(claims("supported", "not_found"), {1: 5}, 5)
    assert (scores.faithfulness, scores.hallucination) == (5.5, True)


def test_an_answer_without_claims_has_no_faithfulness_rather_than_a_full_one() -> None:
    scores = derive([], {}, None)
    assert (scores.faithfulness, scores.hallucination, scores.context_relevance) == (None, None, None)
    assert set(scores.status.values()) == {"not_applicable"}
