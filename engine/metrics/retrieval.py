"""Retrieval metrics on character spans, at k and at equal token budgets, for the searched and the delivered unit.

Gold is document + half-open span, so a hit in another document, or beside the span, never counts. Formulas: Chroma,
"Evaluating Chunking Strategies for Retrieval" (2024), with unions where the report sums; `compat` restores its sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.metrics.base import DELIVERED, Metric, at_k, at_tokens
from engine.metrics.ceiling import CEILINGS, Pool
from engine.metrics.targets import Target
from engine.metrics.walk import (
    Cuts,
    Reach,
    Reaches,
    Unit,
    delivered_unit,
    ideal_order,
    searched_unit,
    walk,
)
from engine.records import Question, RetrievedChunk

KS = (1, 2, 3, 5, 10, 15, 20)
BUDGETS = (500, 1000, 2000, 4000)
CURVE_BUDGETS = (250, 354, 500, 707, 1000, 1414, 2000, 2828, 4000)
"""Log-spaced, two per doubling: the grid of the recall-budget curve and its area."""
IDEAL_LIMIT = 50
"""Units in the ideal order of nDCG; gains further down weigh less than a sixth of the first."""
MRR_SHARE = 0.5
"""Part of a gold span a chunk must hold to count as its finder."""

_CHROMA = "Chroma, Evaluating Chunking Strategies for Retrieval (2024), on characters"
_JARVELIN = "Järvelin & Kekäläinen (2002), gain = newly found gold characters"


@dataclass(frozen=True, slots=True)
class CutMetric:
    """A metric of what was read up to a cut. `compute(reach, ideal)`; `compat` is the published formula where it differs."""

    about: Metric
    compute: Callable[[Reach, Reach | None], float | None]
    compat: Callable[[Reach], float] | None = None


def recall(reach: Reach) -> float:
    return reach.found / reach.gold


def precision(reach: Reach) -> float:
    return reach.relevant / reach.read if reach.read else 0.0


def f1(reach: Reach) -> float:
    p, r = precision(reach), recall(reach)
    return 2 * p * r / (p + r) if p + r else 0.0


def iou(reach: Reach) -> float:
    return reach.found / reach.joined


def redundancy(reach: Reach) -> float:
    return 1 - reach.read / reach.summed if reach.summed else 0.0


def dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def ndcg(reach: Reach, ideal: Reach) -> float:
    """The ideal is a greedy order, which overlapping chunks can beat by a little; the better of the two is the divisor."""
    achieved = dcg(reach.gains)
    best = max(dcg(ideal.gains), achieved)
    return achieved / best if best else 0.0


def reciprocal_rank(units: Sequence[Unit], target: Target) -> float:
    """1 / rank of the first unit that holds at least half of a gold span; 0 when none does."""
    for rank, unit in enumerate(units, start=1):
        if unit.span is not None and any(
            document == unit.document_id and 2 * gold.overlap(unit.span) >= gold.length
            for document, gold in target.places
        ):
            return 1 / rank
    return 0.0


CUT_METRICS: tuple[CutMetric, ...] = (
    CutMetric(
        Metric(
            "recall",
            "Recall",
            "gold characters in the retrieved text / gold characters",
            "higher",
            "share",
            _CHROMA,
            "retrieval",
            "both",
        ),
        lambda reach, _: recall(reach),
    ),
    CutMetric(
        Metric(
            "precision",
            "Precision",
            "gold characters in the retrieved text / retrieved characters, each counted once",
            "higher",
            "share",
            _CHROMA + "; the report counts repeated characters each time",
            "retrieval",
            "both",
        ),
        lambda reach, _: precision(reach),
        lambda reach: reach.relevant / reach.summed if reach.summed else 0.0,
    ),
    CutMetric(
        Metric(
            "f1",
            "F1",
            "harmonic mean of precision and recall of the same question",
            "higher",
            "share",
            "van Rijsbergen (1979)",
            "retrieval",
            "both",
        ),
        lambda reach, _: f1(reach),
    ),
    CutMetric(
        Metric(
            "iou",
            "IoU",
            "gold characters in the retrieved text / characters that are gold or retrieved, each counted once",
            "higher",
            "share",
            _CHROMA + "; the report counts repeated characters each time",
            "retrieval",
            "both",
        ),
        lambda reach, _: iou(reach),
        lambda reach: reach.found / (reach.summed + reach.gold - reach.found),
    ),
    CutMetric(
        Metric(
            "ndcg",
            "Span nDCG",
            "discounted gain of newly found gold characters / the same for the best order of this strategy's own chunks",
            "higher",
            "share",
            _JARVELIN,
            "retrieval",
            "both",
        ),
        lambda reach, ideal: None if ideal is None else ndcg(reach, ideal),
    ),
    CutMetric(
        Metric(
            "hit",
            "Hit",
            "1 when some gold span lies wholly in one retrieved chunk, else 0",
            "higher",
            "share",
            "hit rate of information retrieval, on whole spans",
            "retrieval",
            "both",
        ),
        lambda reach, _: float(reach.intact),
    ),
    CutMetric(
        Metric(
            "redundancy",
            "Redundancy",
            "1 - retrieved characters counted once / retrieved characters counted each time",
            "lower",
            "share",
            "the cost of overlap",
            "retrieval",
            "both",
        ),
        lambda reach, _: redundancy(reach),
    ),
    CutMetric(
        Metric(
            "tokens",
            "Tokens",
            "cl100k_base tokens of the first k retrieved chunks",
            "lower",
            "tokens",
            "what a reader of the first k chunks has to read",
            "retrieval",
            "k",
        ),
        lambda reach, _: float(reach.tokens),
    ),
)

MRR = Metric(
    "mrr",
    "MRR",
    "1 / rank of the first chunk that holds at least half of a gold span; 0 when none does",
    "higher",
    "share",
    "mean reciprocal rank (TREC-8 question answering), on spans",
    "retrieval",
)
RECALL_AUC = Metric(
    "recall_auc",
    "Area under the recall-budget curve",
    "mean recall over token budgets 250 to 4,000, two per doubling",
    "higher",
    "share",
    "the recall-budget curve, log-spaced",
    "retrieval",
)
RETRIEVAL: tuple[Metric, ...] = (*(metric.about for metric in CUT_METRICS), MRR, RECALL_AUC)


class CurvePoint(NamedTuple):
    budget: int
    recall: float


def depth_needed(token_counts: Sequence[int], ks: Sequence[int] = KS, budgets: Sequence[int] = CURVE_BUDGETS) -> int:
    """How many hits to ask for, so that every k and every budget can be measured whatever chunks are found.

    `token_counts`: of all chunks of the strategy. As many of its smallest chunks as fill the largest budget.
    """
    limit, filled, needed = max(budgets, default=0), 0, 0
    for count in sorted(token_counts):
        if filled >= limit:
            break
        filled, needed = filled + count, needed + 1
    return min(len(token_counts), max(needed, max(ks, default=0)))


def score_question(
    question: Question,
    retrieved: Sequence[RetrievedChunk],
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    *,
    pool: Pool | None = None,
    depth: int | None = None,
    compat: bool = False,
) -> dict[str, float]:
    """All retrieval metrics of one question under one strategy, by stored name. Empty for a question without gold.

    `retrieved`: best first. `pool`: all chunks of the strategy; without it nDCG and the ceilings are left out. `depth`: how many hits
    were asked for; a cut that lies beyond them was not measured and is left out, unless the hits are the whole pool. None: the list is
    everything there is.
    `compat`: precision and IoU count repeated characters each time, as the published definitions do; precision-omega counts chunks
    that only touch the gold.
    """
    target = Target.of(question)
    if target is None:
        return {}
    hits = sorted(retrieved, key=lambda hit: hit.rank)
    views: list[tuple[str, list[Unit]]] = [("", [searched_unit(hit.chunk) for hit in hits])]
    # A search that finds nothing delivers nothing: that is a 0, not a question without a score.
    if not hits or any(hit.delivered_span is not None or hit.delivered_text for hit in hits):
        views.append((DELIVERED, [delivered_unit(hit) for hit in hits]))
    scores: dict[str, float] = {}
    for prefix, units in views:
        cuts = Cuts(tuple(ks), tuple({*budgets, *CURVE_BUDGETS}))
        ideal = None
        if pool is not None:
            candidates = pool.units(delivered=bool(prefix))
            ideal = walk(ideal_order(candidates.near(target), target, IDEAL_LIMIT), target, cuts)
            for ceiling in CEILINGS:
                scores[prefix + ceiling.about.name] = ceiling.compute(candidates, target, compat)
        reaches = walk(units, target, cuts)
        measured = _measured(units, cuts, None if pool is not None and len(hits) >= len(pool.chunks) else depth)
        _add_cuts(scores, prefix, reaches, ideal, Cuts(tuple(ks), tuple(budgets)), measured, compat)
        scores[prefix + MRR.name] = reciprocal_rank(units, target)
        if all(budget in measured.budgets for budget in CURVE_BUDGETS):
            recalls = [recall(reaches.at_tokens[budget]) for budget in CURVE_BUDGETS]
            scores[prefix + RECALL_AUC.name] = math.fsum(recalls) / len(recalls)
    return scores


def recall_curve(
    question: Question,
    retrieved: Sequence[RetrievedChunk],
    delivered: bool = False,
    budgets: Sequence[int] = CURVE_BUDGETS,
) -> tuple[CurvePoint, ...]:
    """Recall of one question at each token budget; empty without gold. Average the points of many questions for a strategy's curve."""
    target = Target.of(question)
    if target is None:
        return ()
    hits = sorted(retrieved, key=lambda hit: hit.rank)
    units = [delivered_unit(hit) if delivered else searched_unit(hit.chunk) for hit in hits]
    reaches = walk(units, target, Cuts(budgets=tuple(budgets)))
    return tuple(CurvePoint(budget, recall(reach)) for budget, reach in reaches.at_tokens.items())


def _measured(units: Sequence[Unit], cuts: Cuts, depth: int | None) -> Cuts:
    """The cuts that lie within the hits that were asked for."""
    if depth is None or len(units) < depth:
        return cuts
    held = sum(unit.tokens for unit in units)
    return Cuts(tuple(k for k in cuts.ks if k <= depth), tuple(b for b in cuts.budgets if b <= held))


def _add_cuts(
    scores: dict[str, float],
    prefix: str,
    reaches: Reaches,
    ideal: Reaches | None,
    cuts: Cuts,
    measured: Cuts,
    compat: bool,
) -> None:
    at = [(at_k, k, reaches.at_k[k], None if ideal is None else ideal.at_k[k]) for k in cuts.ks if k in measured.ks]
    at_budgets = [
        (at_tokens, b, reaches.at_tokens[b], None if ideal is None else ideal.at_tokens[b])
        for b in cuts.budgets
        if b in measured.budgets
    ]
    for metric in CUT_METRICS:
        for named, cut, reach, best in at if metric.about.cuts == "k" else [*at, *at_budgets]:
            value = metric.compat(reach) if compat and metric.compat else metric.compute(reach, best)
            if value is not None:
                scores[prefix + named(metric.about.name, cut)] = value
