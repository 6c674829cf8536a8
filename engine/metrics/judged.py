"""What a judge model's scores mean. The judge computes them; here they are declared, so that pages and verdicts can name them."""

from __future__ import annotations

from engine.metrics.base import Direction, Metric, Unit

_RAGAS = "claim verdicts of the judge model, as in RAGAS (2309.15217)"
_SCALE = "0 to 5 by the judge model (2601.03444), shown as 1 to 10"


def _metric(name: str, title: str, definition: str, direction: Direction, unit: Unit, source: str) -> Metric:
    return Metric(f"judge.{name}", title, definition, direction, unit, source, "judge")


METRICS: tuple[Metric, ...] = (
    _metric(
        "context_relevance", "Context relevance", "mean relevance of the delivered passages", "higher", "score", _SCALE
    ),
    _metric(
        "answer_similarity",
        "Answer similarity",
        "agreement of the answer with the expected one",
        "higher",
        "score",
        _SCALE,
    ),
    _metric(
        "faithfulness", "Faithfulness", "1 + 9 x supported claims / claims of the answer", "higher", "score", _RAGAS
    ),
    _metric(
        "hallucination",
        "Hallucination",
        "1 when a claim of the answer is contradicted or not found in the delivered text, else 0",
        "lower",
        "share",
        _RAGAS,
    ),
)
