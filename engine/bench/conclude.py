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
        recommendation=_partial(experiment, verdict.n) + in_words(verdict),
    )


def conclusions(experiment: Experiment) -> Statistics | None:
    """What an experiment says, also where its run broke off before that was stored. None: it still runs, or has no answer."""
    if experiment.statistics is not None or experiment.status == "running" or not experiment.cells:
        return experiment.statistics
    return conclude(experiment)


def answers_there(experiment: Experiment) -> tuple[int, int]:
    """Answers under its strategies that are stored, and how many a whole run has. A strategy that failed is asked for none."""
    failed = {result.spec.spec_id for result in experiment.results if result.status == "failed"}
    asked = {spec.spec_id for spec in experiment.specs} - failed
    # Extractive answers never vary and are asked for once.
    repeats = experiment.plan.repeats if experiment.plan.answers and experiment.llm_model is not None else 1
    whole = len(asked) * len(experiment.questions) * repeats
    return min(whole, sum(cell.spec_id in asked for cell in experiment.cells)), whole


def _partial(experiment: Experiment, compared: int) -> str:
    """How the words about a run begin that lacks answers; empty for a whole run. `compared`: questions they rest on."""
    there, whole = answers_there(experiment)
    if there == whole:
        return ""
    questions = len(experiment.questions)
    return f"Partial, resting on {compared:,} of {questions:,} questions, as only {there:,} of {whole:,} answers are there: "
