from __future__ import annotations

from pathlib import Path

from engine.metrics import METRICS
from engine.metrics.retrieval import BUDGETS
from engine.metrics.thresholds import THRESHOLDS


def test_every_metric_is_documented_with_its_definition_and_source(root: Path) -> None:
    rows = [
        line for line in (root / "docs" / "METRICS.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    for metric in METRICS:
        assert any(f"`{metric.name}`" in row and metric.definition in row and metric.source in row for row in rows), (
            metric.name
        )
    for threshold in THRESHOLDS:
        assert any(threshold.label in row and f"`{threshold.metric}`" in row for row in rows), threshold.label


def test_the_budgets_in_the_text_are_those_in_use(root: Path) -> None:
    text = (root / "docs" / "METRICS.md").read_text(encoding="utf-8")
    assert " and ".join([", ".join(f"{budget:,}" for budget in BUDGETS[:-1]), f"{BUDGETS[-1]:,}"]) in text
