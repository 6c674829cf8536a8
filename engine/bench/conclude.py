"""What the cells of a benchmark say: paired differences to the baseline, a verdict, a recommendation in words."""

from __future__ import annotations

from engine import recommend
from engine.bench.summary import JUDGE
from engine.metrics.base import split_name
from engine.records import Experiment, Statistics
from engine.verdict import in_words

COMPARED = frozenset({"recall", "precision", "f1", "iou", "ndcg", "hit", "tokens", "mrr", "recall_auc", "intact_rate"})
"""Metrics that are compared with the baseline, by registry name."""
BUDGET = 1000
"""Token budget at which metrics are compared; recall is compared at every budget."""


def compared_metrics(experiment: Experiment) -> list[str]:
    """The measured metrics worth a comparison: at token budgets, at the plan's k, without a cut, and what a judge said."""
    return [name for name in recommend.measured_metrics(experiment) if _is_compared(name, experiment.plan.top_k)]


def _is_compared(name: str, top_k: int) -> bool:
    if name.startswith(JUDGE):
        return True
    parts = split_name(name)
    if parts is None or parts.base not in COMPARED or parts.k not in (None, top_k):
        return False
    return parts.budget in (None, BUDGET) or parts.base == "recall"


def conclude(experiment: Experiment) -> Statistics:
    """The statistics of a benchmark; its cells may come without their queries."""
    baseline = experiment.plan.baseline or experiment.specs[0].spec_id
    verdict = recommend.experiment_verdict(experiment)
    return Statistics(
        baseline=baseline,
        comparisons=recommend.compare(experiment, compared_metrics(experiment), baseline),
        verdict=verdict,
        recommendation=in_words(verdict),
    )
