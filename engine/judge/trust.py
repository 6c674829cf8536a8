"""What a judge's scores are worth: spread over repeats, agreement with people, the estimate corrected by them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from engine.judge.judge import judge
from engine.judge.scores import MEASURES
from engine.models import Document, Record
from engine.providers.base import ChatModel
from engine.records import Judgement, Query

ENOUGH_RATINGS = 20
"""Below this many rated answers no agreement and no corrected estimate is given: they would say more about chance."""


class Spread(Record):
    """How far repeats of one judgement differ, for one measure."""

    measure: str
    answers: int
    """Answers with at least two scored repeats."""
    repeats: int
    mean_deviation: float | None
    """Mean over answers of the standard deviation over repeats, in points of 1 to 10; hallucination counts as 0 or 1."""
    changed: float | None
    """Share of answers whose repeats are not all the same."""


def repeat(
    model: ChatModel,
    queries: Sequence[Query],
    expected: Sequence[str | None],
    document: Callable[[str], Document],
    repeats: int,
) -> tuple[Spread, ...]:
    """Judge every query's answer `repeats` times and describe the spread. Repeats carry different seeds, so none comes from the cache of another."""

    def one(item: tuple[Query, str | None, int]) -> Judgement:
        query, answer, seed = item
        return judge(model, query.question, answer, query.answer, query.retrieved, document, seed)

    work = [(q, e, seed) for q, e in zip(queries, expected, strict=True) for seed in range(1, repeats + 1)]
    with ThreadPoolExecutor(8, "judge-repeat") as pool:
        verdicts = list(pool.map(one, work))
    by_answer = [verdicts[start : start + repeats] for start in range(0, len(verdicts), repeats)]
    return tuple(_spread(measure, by_answer, repeats) for measure in MEASURES)


def _spread(measure: str, by_answer: Sequence[Sequence[Judgement]], repeats: int) -> Spread:
    scored = [
        [float(getattr(verdict, measure)) for verdict in verdicts if verdict.status[measure] == "scored"]
        for verdicts in by_answer
    ]
    usable = [values for values in scored if len(values) >= 2]
    if not usable:
        return Spread(measure=measure, answers=0, repeats=repeats, mean_deviation=None, changed=None)
    return Spread(
        measure=measure,
        answers=len(usable),
        repeats=repeats,
        mean_deviation=float(np.mean([np.std(values, ddof=1) for values in usable])),
        changed=float(np.mean([len(set(values)) > 1 for values in usable])),
    )


_VERSION = re.compile(r"[-:@](\d{4}-?\d{2}-?\d{2}|\d{4}|latest|preview)$")


def self_preference_warning(answers_by: str | None, judged_by: str | None) -> str | None:
    """A warning when one model, or two of one family, both write and judge: models prefer what reads like themselves (arXiv 2404.13076)."""
    if answers_by is None or judged_by is None:
        return None
    if _VERSION.sub("", answers_by) == _VERSION.sub("", judged_by):
        return f"{judged_by} judges its own answers; models prefer their own text. Set JUDGE_MODEL to a model of another maker."
    if _family(answers_by) == _family(judged_by):
        return f"{judged_by} is of the same family as {answers_by}, whose answers it judges. Set JUDGE_MODEL to a model of another maker."
    return None


def _family(model: str) -> str:
    return re.split(r"[-:.\d]", model.rsplit("/", 1)[-1], maxsplit=1)[0].lower()


class Agreement(Record):
    """A judge beside the people who rated the same answers."""

    ratings: int
    """Answers with a rating and a judge's faithfulness."""
    verdicts: int
    """Answers a person and the judge both called faithful or not."""
    spearman: float | None
    """Rank correlation of ratings and faithfulness, -1 to 1."""
    kappa: float | None
    """Cohen's kappa of the verdicts, -1 to 1."""
    judged_mean: float | None
    """Share of answers the judge calls faithful."""
    corrected: float | None
    """Share of faithful answers, corrected by the people's verdicts."""
    low: float | None
    high: float | None
    """95 % interval of the corrected share."""
    note: str


def agreement(queries: Sequence[Query]) -> Agreement:
    """Agreement over queries with a judgement, and the corrected estimate once `ENOUGH_RATINGS` carry a person's verdict.

    Corrected share = mean(judge, all) + mean(person - judge, rated): prediction-powered inference (arXiv 2601.05420).
    """
    judged = [q for q in queries if q.judgement is not None and q.judgement.hallucination is not None]
    said = np.array([not q.judgement.hallucination for q in judged if q.judgement is not None], dtype=float)
    rated = [(q, i) for i, q in enumerate(judged) if q.rated_faithful is not None]
    people = np.array([float(bool(q.rated_faithful)) for q, _ in rated])
    same = said[[i for _, i in rated]] if rated else np.array([])
    scored = [q for q in judged if q.rating is not None]
    enough, ranked = len(rated) >= ENOUGH_RATINGS, len(scored) >= ENOUGH_RATINGS
    corrected = low = high = None
    if enough:
        gap = people - same
        corrected = float(said.mean() + gap.mean())
        error = math.sqrt(said.var(ddof=1) / said.size + gap.var(ddof=1) / gap.size)
        reach = NormalDist().inv_cdf(0.975) * error
        low, high = max(0.0, corrected - reach), min(1.0, corrected + reach)
        corrected = min(1.0, max(0.0, corrected))
    missing = ENOUGH_RATINGS - max(len(rated), len(scored))
    return Agreement(
        ratings=len(scored),
        verdicts=len(rated),
        spearman=_spearman(
            np.array([float(q.rating or 0) for q in scored]),
            np.array([q.judgement.faithfulness or 0.0 for q in scored if q.judgement is not None]),
        )
        if ranked
        else None,
        kappa=_kappa(people, same) if enough else None,
        judged_mean=float(said.mean()) if said.size else None,
        corrected=corrected,
        low=low,
        high=high,
        note=f"{missing} more rated answers are needed." if missing > 0 else "",
    )


def _kappa(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Cohen's kappa of two yes/no verdicts; None when chance alone agrees always."""
    observed = float((first == second).mean())
    expected = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    return None if expected == 1.0 else (observed - expected) / (1 - expected)


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Pearson correlation of ranks, ties at their mean rank; None when one side never varies."""
    ranks = [_ranks(values) for values in (first, second)]
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)
    return np.asarray((upto - (counts - 1) / 2)[place], dtype=np.float64)
