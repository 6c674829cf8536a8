"""What may be concluded from a benchmark: tie groups instead of a bare rank, and "no clear difference" as a possible outcome."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine import stats
from engine.metrics.registry import describe, in_sentence
from engine.models import Record
from engine.records import Group, Kind, Lead, Verdict

MINIMUM_QUESTIONS = 30
"""Below this many common questions no winner is named: intervals of so few are themselves unsure."""
UNREALISTIC = 100
"""Times the questions there are, beyond which more questions are no advice."""
SAME_COST = 0.05
"""Costs within 5 % of each other count as equal."""


class Cost(Record):
    """What a strategy costs by one criterion. None: unknown."""

    criterion: str
    """In words, such as "tokens delivered per question"."""
    values: tuple[float | None, ...]
    """One per strategy, in the order of the labels; less is better."""
    negligible: float = 0.0
    """A difference up to this is no reason to prefer one."""


def decide(
    values: ArrayLike,
    labels: Sequence[str],
    metric: str,
    *,
    clusters: Sequence[Hashable] | None = None,
    costs: Sequence[Cost] = (),
    lower_is_better: bool = False,
    noise_floor: float = 0.0,
    seed: int = 0,
    resamples: int = stats.RESAMPLES,
    minimum_questions: int = MINIMUM_QUESTIONS,
) -> Verdict:
    """The verdict on one metric. `values`: shape `(n_strategies, n_questions)`, NaN where not scored; compared on the questions all have.

    A difference counts when its sign-flip p, Holm-adjusted over all pairs, is at most 5 %, its interval excludes 0 and it exceeds `noise_floor`.
    """
    scores = np.asarray(values, dtype=np.float64)
    common = np.flatnonzero(~np.isnan(scores).any(axis=0))
    scores = scores[:, common]
    keys = None if clusters is None else [clusters[int(i)] for i in common]
    n = scores.shape[1]
    independent = n if keys is None else len(set(keys))
    if scores.shape[0] < 2 or n == 0:
        return Verdict(kind="nothing_to_compare", metric=metric, n=n, clusters=independent)
    if lower_is_better:
        scores = -scores
    pairs = stats.all_pairs(scores, keys, seed, resamples)
    means = np.sort(scores, axis=1).mean(axis=1)
    # Equal means are ordered by their scores before their names, so that renaming a strategy changes nothing.
    order = sorted(range(len(labels)), key=lambda i: (-round(means[i], 12), sorted(scores[i]), labels[i]))
    ahead = _clearly_ahead(pairs, noise_floor)
    members = _tie_groups(order, ahead)
    sign = -1.0 if lower_is_better else 1.0
    groups = tuple(
        Group(labels=tuple(labels[i] for i in group), best_mean=float(sign * means[group[0]])) for group in members
    )
    first, second = order[0], order[1]
    gap = float(pairs.stats.difference[first, second])
    needed = None if gap <= 1e-12 else _whole(float(pairs.stats.needed(pairs.stats.difference)[first, second]))
    kind: Kind
    if n < minimum_questions:
        kind = "too_few_questions"
    elif len(members[0]) == 1:
        kind = "winner"
    else:
        kind = "no_clear_difference" if len(members) == 1 else "tie"
    candidates = members[0] if kind != "too_few_questions" else order
    proposal, reason = _proposal(candidates, labels, costs, kind)
    return Verdict(
        kind=kind,
        metric=metric,
        n=n,
        clusters=independent,
        groups=groups,
        leads=tuple(_lead(pairs, first, other, labels, sign) for other in order[1:]),
        detectable=_known(pairs.stats.detectable[first, second]),
        needed=needed,
        proposal=proposal,
        proposal_reason=reason,
    )


def _clearly_ahead(pairs: stats.AllPairs, noise_floor: float) -> NDArray[np.bool_]:
    """Which row is clearly better than which column."""
    floor = 0.0 if math.isnan(noise_floor) else noise_floor
    return np.asarray(
        (pairs.p_holm <= stats.ALPHA) & (pairs.stats.low > 0) & (pairs.stats.difference > floor), dtype=np.bool_
    )


def _tie_groups(order: Sequence[int], ahead: NDArray[np.bool_]) -> list[list[int]]:
    left, groups = list(order), []
    while left:
        leader = left[0]
        groups.append([i for i in left if not ahead[leader, i]])
        left = [i for i in left if ahead[leader, i]]
    return groups


def _lead(pairs: stats.AllPairs, first: int, other: int, labels: Sequence[str], sign: float) -> Lead:
    low, high = _known(pairs.stats.low[first, other]), _known(pairs.stats.high[first, other])
    if sign < 0 and low is not None and high is not None:
        low, high = -high, -low
    return Lead(
        over=labels[other],
        difference=float(sign * pairs.stats.difference[first, other]),
        low=low,
        high=high,
        p=float(pairs.p_holm[first, other]),
    )


def _proposal(
    candidates: Sequence[int], labels: Sequence[str], costs: Sequence[Cost], kind: Kind
) -> tuple[str | None, str]:
    """The winner, or the cheapest among equals by the first criterion that tells them apart."""
    if kind == "too_few_questions":
        return None, "too few questions to propose anything"
    if len(candidates) == 1:
        return labels[candidates[0]], "clearly ahead of all others"
    left = list(candidates)
    for cost in costs:
        known = [(i, cost.values[i]) for i in left]
        amounts = [value for _, value in known if value is not None]
        if len(amounts) < len(known) or not amounts:
            continue
        least, most = min(amounts), max(amounts)
        left = [
            i
            for i, value in known
            if value is not None and value <= max(least * (1 + SAME_COST), least + cost.negligible)
        ]
        if len(left) == 1:
            return (
                labels[left[0]],
                f"cheapest of {len(candidates)} that tie, by {cost.criterion}: {_number(least)} against up to {_number(most)}",
            )
    return None, f"{len(left)} of {len(candidates)} that tie cost the same" if costs else "no cost was measured"


def in_words(verdict: Verdict) -> str:
    """The verdict as a paragraph."""
    if verdict.kind == "nothing_to_compare":
        return _with_left_out(
            verdict, ["Nothing can be recommended: fewer than two strategies were scored on a common question."]
        )
    title = in_sentence(describe(verdict.metric).title)
    sentences = [_opening(verdict, title)]
    nearest = verdict.leads[0]
    if verdict.kind == "tie":
        sentences.extend(_behind(verdict))
    if verdict.kind == "no_clear_difference":
        sentences.append(
            f"The two best, {verdict.groups[0].labels[0]} and {nearest.over}, differ by {_interval(nearest)}."
        )
    if verdict.kind != "winner" and verdict.detectable is not None:
        sentences.append(_power(verdict))
    if verdict.kind != "too_few_questions":
        if verdict.proposal is not None and verdict.kind != "winner":
            sentences.append(f"Take {verdict.proposal}: it is the {verdict.proposal_reason}.")
        elif verdict.proposal is None:
            sentences.append(f"Nothing speaks for one of them: {verdict.proposal_reason}.")
    return _with_left_out(verdict, sentences)


def _with_left_out(verdict: Verdict, sentences: list[str]) -> str:
    if verdict.left_out:
        them = "it has" if len(verdict.left_out) == 1 else "they have"
        sentences.append(f"Left out, because {them} no score: {_listed(verdict.left_out)}.")
    return " ".join(sentences)


def _opening(verdict: Verdict, title: str) -> str:
    best, basis = verdict.groups[0].labels[0], _basis(verdict)
    mean = f"{verdict.groups[0].best_mean:.3f}"
    if verdict.kind == "winner":
        nearest = verdict.leads[0]
        return f"Take {best}: on {basis} its {title} is {mean}, ahead of {nearest.over}, the next best, by {_interval(nearest)}."
    if verdict.kind == "tie":
        return f"On {basis} {_listed(verdict.groups[0].labels)} lead in {title} (best mean {mean}), and the questions cannot tell them apart."
    if verdict.kind == "too_few_questions":
        return f"Too few questions: on {basis} the highest mean {title} is {mean} ({best}), but no difference can be trusted below {MINIMUM_QUESTIONS} questions."
    return f"No clear difference: on {basis} the {title} of {_listed(verdict.groups[0].labels)} cannot be told apart (best mean {mean})."


def _behind(verdict: Verdict) -> list[str]:
    """All that stand outside the first group, best first, and how far the leader is ahead of the nearest of them."""
    behind = [lead for lead in verdict.leads if not _in_first(verdict, lead.over)]
    if not behind:
        return []
    best, nearest = verdict.groups[0].labels[0], behind[0]
    if len(behind) == 1:
        return [f"Clearly behind is {nearest.over}: {best} is ahead of it by {_interval(nearest)}."]
    names = _listed([lead.over for lead in behind])
    return [f"Clearly behind are {names}: {best} is ahead of the nearest, {nearest.over}, by {_interval(nearest)}."]


def _basis(verdict: Verdict) -> str:
    basis = f"{verdict.n} question{'s' if verdict.n != 1 else ''}"
    if verdict.clusters < verdict.n:
        basis += f" in {verdict.clusters} independent group{'s' if verdict.clusters != 1 else ''}"
    return basis


def _interval(lead: Lead) -> str:
    if lead.low is None or lead.high is None:
        return f"{lead.difference:+.3f} (no interval: too few independent questions)"
    return f"{lead.difference:+.3f} (95 % interval {lead.low:+.3f} to {lead.high:+.3f}, adjusted p {lead.p:.3f})"


def _power(verdict: Verdict) -> str:
    if not verdict.detectable:
        return "Their scores are the same on every question."
    text = f"With these questions only a difference of {verdict.detectable:.3f} or more would be found reliably (80 % power)"
    if verdict.needed is not None and verdict.needed > UNREALISTIC * verdict.n:
        return f"{text}; no realistic number of questions would settle the difference seen between the two best."
    if verdict.needed is not None and verdict.needed > verdict.n:
        return (
            f"{text}; settling the difference seen between the two best would take about {verdict.needed:,} questions."
        )
    return f"{text}."


def _in_first(verdict: Verdict, label: str) -> bool:
    return label in verdict.groups[0].labels


def _listed(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
