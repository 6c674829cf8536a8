from __future__ import annotations

import pytest

from engine.metrics.bounds import Bounds, worst_case
from engine.records import MetricValue


def value(metric: str, mean: float | None, n: int, **unscored: int) -> MetricValue:
    return MetricValue(metric=metric, value=mean, n=n, unscored=unscored)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # 8 at 9.0; 2 more at 1 or 10: (72 + 2) / 10 and (72 + 20) / 10.
        (value("judge.faithfulness", 9.0, 8, refused=1, timeout=1), Bounds(7.4, 9.2, 2)),
        # A question without an expected answer could not have been scored at all.
        (value("judge.answer_similarity", 9.0, 8, not_applicable=5), Bounds(9.0, 9.0, 0)),
        (value("judge.hallucination", 0.25, 4, invalid_output=4), Bounds(0.125, 0.625, 4)),
        (value("recall@1000tok", None, 0, failed=3), Bounds(0.0, 1.0, 3)),
        (value("tokens@5", 900.0, 4, failed=1), None),
        (value("judge.faithfulness", None, 0, not_applicable=3), None),
    ],
)
def test_what_is_missing_counts_as_the_lowest_and_as_the_highest(given: MetricValue, expected: Bounds | None) -> None:
    found = worst_case(given)
    assert found == (None if expected is None else pytest.approx(expected))
