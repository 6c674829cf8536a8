"""From verdicts to scores. Pure code: the same verdicts always give the same scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.records import CellStatus, Claim

MEASURES = ("context_relevance", "answer_similarity", "faithfulness", "hallucination")
"""What a judge scores, in the order pages show it."""
FINE = 5
"""Top of the scale the judge is asked on: models agree with people best on 0 to 5 (arXiv 2601.03444)."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Derived scores; None where `status` is not `scored`."""

    context_relevance: float | None
    answer_similarity: float | None
    faithfulness: float | None
    hallucination: bool | None
    status: Mapping[str, CellStatus]


def on_ten(share: float) -> float:
    """A share of 0 to 1 on the scale of 1 to 10 that is shown."""
    return 1.0 + 9.0 * share


def derive(claims: Sequence[Claim], relevance: Mapping[int, int], similarity: int | None) -> Scores:
    """Scores of one answer.

    Faithfulness = supported claims / claims, on 1 to 10 (the ratio of RAGAS, arXiv 2309.15217). Hallucination: any claim that
    is contradicted or not found. Context relevance: mean of the passages' 0 to 5, on 1 to 10. Answer similarity: 0 to 5, on 1 to 10.
    An answer without claims, a question without delivered passages or without an expected answer is `not_applicable`.
    """
    status: dict[str, CellStatus] = {}

    def known(measure: str, is_known: bool) -> bool:
        status[measure] = "scored" if is_known else "not_applicable"
        return is_known

    faithful = [claim.verdict == "supported" for claim in claims]
    return Scores(
        context_relevance=on_ten(sum(relevance.values()) / (FINE * len(relevance)))
        if known("context_relevance", bool(relevance))
        else None,
        answer_similarity=on_ten(similarity / FINE)
        if known("answer_similarity", similarity is not None) and similarity is not None
        else None,
        faithfulness=on_ten(sum(faithful) / len(faithful)) if known("faithfulness", bool(faithful)) else None,
        hallucination=not all(faithful) if known("hallucination", bool(faithful)) else None,
        status=status,
    )
