"""Paired comparison of strategies: interval, p, effect size, smallest detectable difference. Every column of numbers is analysed at once.

Questions about one article of one document are not independent, so resampling and sign flips move whole clusters of questions.
Every result depends only on the values: the same numbers under other names or in another order give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.records import Question

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000
ALPHA = 0.05
POWER = 0.80
_NORMAL = NormalDist()
DETECTABLE = _NORMAL.inv_cdf(1 - ALPHA / 2) + _NORMAL.inv_cdf(POWER)
"""Standard errors a true difference must have to be found with 80 % power at two-sided 5 %: 2.80."""
EXACT_CLUSTERS = 12
"""Up to this many clusters all 2^n sign flips are counted; above it, `RESAMPLES` random ones."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Paired differences, one entry per column. NaN: not defined for the numbers there were (see `n` and `clusters`)."""

    n: Ints
    """Questions both sides have scored."""
    clusters: Ints
    """Independent groups those questions form."""
    difference: Floats
    """Mean over the common questions; NaN when there are none."""
    low: Floats
    high: Floats
    """95 % BCa bootstrap interval; NaN below two clusters; equal to the difference when all differences are equal."""
    p: Floats
    """Two-sided sign-flip p; 1 when no flip can tell (one cluster, or all differences zero); NaN without common questions."""
    deviation: Floats
    """Standard deviation of the differences; NaN below two questions."""
    error: Floats
    """Cluster-robust standard error of the mean difference; NaN below two clusters."""
    effect: Floats
    """Difference / deviation (Cohen's d of paired values); 0 for no difference at all; NaN when every difference is the same and not 0."""
    detectable: Floats
    """Smallest true difference that would be found with 80 % power: 2.80 standard errors."""

    def needed(self, difference: ArrayLike) -> Floats:
        """Questions needed to find a true `difference` with 80 % power, spread like these; NaN where that is unknown, inf for 0."""
        wanted = np.abs(np.asarray(difference, dtype=np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.ceil(self.n * (self.detectable / wanted) ** 2), dtype=np.float64)


def paired(
    differences: ArrayLike, clusters: Sequence[Hashable] | None = None, seed: int = 0, resamples: int = RESAMPLES
) -> Paired:
    """Analyses paired differences. `differences`: shape `(n_questions, n_columns)`, NaN where one side was not scored.

    `clusters`: one key per question; None: every question stands alone. Interval: BCa bootstrap over clusters (Efron, 1987). p: sign
    flips of whole clusters, `(1 + extreme) / (1 + flips)`, exact for few clusters. Error: cluster-robust (Miller, 2024).
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError("differences must have the shape (n_questions, n_columns)")
    # A against B and B against A are analysed in one and the same direction, so that they mirror each other to the last bit.
    signs = np.where(_mirrored(values), -1.0, 1.0)
    values = values * signs
    sums, counts = _by_cluster(values, _codes(clusters, values.shape[0]))
    held = (counts > 0).sum(axis=0)
    n = counts.sum(axis=0).astype(np.int64)
    result = Paired(n, held.astype(np.int64), *(np.full(values.shape[1], np.nan) for _ in range(8)))
    _describe(values, sums, counts, result)
    order = np.lexsort((counts, sums, counts == 0), axis=0)
    sums, counts = np.take_along_axis(sums, order, axis=0), np.take_along_axis(counts, order, axis=0)
    for size in np.unique(held):
        columns = np.flatnonzero(held == size)
        if size == 0:
            continue
        own_sums, own_counts = sums[:size, columns], counts[:size, columns]
        rng = np.random.default_rng([seed, int(size)])
        result.p[columns] = _sign_flip(own_sums, rng, resamples)
        if size >= 2:
            result.low[columns], result.high[columns] = _bca(own_sums, own_counts, rng, resamples)
    low, high = result.low.copy(), result.high.copy()
    result.low[:], result.high[:] = np.where(signs < 0, -high, low), np.where(signs < 0, -low, high)
    result.difference[:] *= signs
    result.effect[:] *= signs
    return result


def _codes(clusters: Sequence[Hashable] | None, n: int) -> Ints:
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} cluster keys for {n} questions")
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in clusters], dtype=np.int64)


def _by_cluster(values: Floats, codes: Ints) -> tuple[Floats, Floats]:
    """Sum and count of the scored differences per cluster and column."""
    groups = int(codes.max()) + 1 if codes.size else 0
    scored = ~np.isnan(values)
    sums, counts = np.zeros((groups, values.shape[1])), np.zeros((groups, values.shape[1]))
    # Sorting first makes each sum independent of the order of the questions, to the last bit.
    order = np.argsort(values, axis=0, kind="stable")
    for column in range(values.shape[1]):
        own = order[:, column]
        own = own[scored[own, column]]
        sums[:, column] = np.bincount(codes[own], weights=values[own, column], minlength=groups)
        counts[:, column] = np.bincount(codes[own], minlength=groups)
    return sums, counts


def _describe(values: Floats, sums: Floats, counts: Floats, result: Paired) -> None:
    """Fills mean, deviation, error, effect and detectable difference."""
    ordered = np.sort(values, axis=0)
    total = np.nansum(ordered, axis=0)
    n, clusters = result.n, result.clusters
    with np.errstate(divide="ignore", invalid="ignore"):
        result.difference[:] = np.where(n > 0, total / n, np.nan)
        spread = np.nansum((ordered - result.difference) ** 2, axis=0)
        constant = _constant(ordered)
        result.deviation[:] = np.where(n > 1, np.where(constant, 0.0, np.sqrt(spread / (n - 1))), np.nan)
        residual = np.sort((sums - counts * result.difference) ** 2, axis=0).sum(axis=0)
        error = np.sqrt(residual * clusters / (clusters - 1)) / n
        result.error[:] = np.where(clusters > 1, np.where(constant, 0.0, error), np.nan)
        effect = np.where(result.deviation > 0, result.difference / result.deviation, np.nan)
        result.effect[:] = np.where((n > 0) & (result.difference == 0), 0.0, effect)
    result.detectable[:] = DETECTABLE * result.error


def _constant(ordered: Floats) -> NDArray[np.bool_]:
    """Columns whose scored values are all the same, apart from rounding."""
    if not ordered.shape[0]:
        return np.zeros(ordered.shape[1], dtype=np.bool_)
    filled = np.where(np.isnan(ordered), ordered[0], ordered)
    lowest, highest = filled.min(axis=0), filled.max(axis=0)
    return np.asarray(highest - lowest <= 1e-12 * np.maximum(1.0, np.abs(highest)), dtype=np.bool_)


def _mirrored(values: Floats) -> NDArray[np.bool_]:
    """Columns to analyse with their sign turned: those whose sum is negative, or whose sum is 0 and whose cubes sum to less."""
    ordered = np.nan_to_num(np.sort(values, axis=0))
    total = ordered.sum(axis=0) + ordered[::-1].sum(axis=0)
    skew = (ordered**3).sum(axis=0) + (ordered[::-1] ** 3).sum(axis=0)
    return np.asarray((total < 0) | ((total == 0) & (skew < 0)), dtype=np.bool_)


def _sign_flip(sums: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    size = sums.shape[0]
    exact = size <= EXACT_CLUSTERS
    if exact:
        bits = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
        flips = 1.0 - 2.0 * bits
    else:
        flips = 1.0 - 2.0 * rng.integers(0, 2, size=(resamples, size))
    observed = np.abs(sums.sum(axis=0))
    slack = 1e-9 * np.maximum(1.0, np.abs(sums).sum(axis=0))
    extreme = (np.abs(flips @ sums) >= observed - slack).sum(axis=0)
    return np.asarray(extreme / len(flips) if exact else (1 + extreme) / (1 + len(flips)), dtype=np.float64)


def _bca(sums: Floats, counts: Floats, rng: np.random.Generator, resamples: int) -> tuple[Floats, Floats]:
    """Bias-corrected and accelerated bootstrap interval of the ratio `sum of sums / sum of counts`, resampling rows."""
    size = sums.shape[0]
    picks = rng.integers(0, size, size=(resamples, size))
    picks += np.arange(resamples)[:, None] * size
    weights = np.bincount(picks.ravel(), minlength=resamples * size).reshape(resamples, size).astype(np.float64)
    means = (weights @ sums) / (weights @ counts)
    observed = sums.sum(axis=0) / counts.sum(axis=0)
    slack = 1e-12 * np.maximum(1.0, np.abs(observed))
    below = (means < observed - slack).mean(axis=0) + (np.abs(means - observed) <= slack).mean(axis=0) / 2
    bias = _each(_NORMAL.inv_cdf, np.clip(below, 1 / (resamples + 1), resamples / (resamples + 1)))
    acceleration = _acceleration(sums, counts)
    means.sort(axis=0)
    bounds = []
    for tail in (ALPHA / 2, 1 - ALPHA / 2):
        shifted = bias + _NORMAL.inv_cdf(tail)
        position = _each(_NORMAL.cdf, bias + shifted / (1 - acceleration * shifted)) * (resamples - 1)
        lower = np.floor(position).astype(np.int64)
        upper = np.minimum(lower + 1, resamples - 1)
        share = position - lower
        columns = np.arange(sums.shape[1])
        bounds.append(means[lower, columns] * (1 - share) + means[upper, columns] * share)
    return bounds[0], bounds[1]


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.fromiter(map(function, values.tolist()), dtype=np.float64, count=values.size)


def _acceleration(sums: Floats, counts: Floats) -> Floats:
    left_out = (sums.sum(axis=0) - sums) / np.maximum(counts.sum(axis=0) - counts, 1e-300)
    centred = left_out.mean(axis=0) - left_out
    square = (centred**2).sum(axis=0)
    cube = (centred**3).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(square > 1e-24, cube / (6 * square**1.5), 0.0), dtype=np.float64)


def holm(p: ArrayLike) -> Floats:
    """Holm's adjustment along the first axis (Holm, 1979). NaN entries are no tests and stay NaN."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    tests = (~np.isnan(ordered)).sum(axis=0)
    rank = np.arange(values.shape[0]).reshape(-1, *([1] * (values.ndim - 1)))
    factors = np.maximum(tests - rank, 1)
    stepped = np.minimum(np.maximum.accumulate(np.where(np.isnan(ordered), -np.inf, ordered * factors), axis=0), 1.0)
    stepped = np.where(np.isnan(ordered), np.nan, stepped)
    adjusted = np.empty_like(values)
    np.put_along_axis(adjusted, order, stepped, axis=0)
    return adjusted


@dataclass(frozen=True, slots=True)
class Versus:
    """All strategies against a baseline. Arrays have the shape `(n_strategies, n_metrics)`; the baseline's row compares it with itself."""

    baseline: int
    stats: Paired
    p_holm: Floats
    """Adjusted over the strategies compared with the baseline, per metric; NaN in the baseline's row."""
    means: Floats
    """Mean of the strategy over the questions both have scored."""
    baseline_means: Floats
    """Mean of the baseline over the same questions."""
    needed: Floats
    """Questions needed to find the observed difference with 80 % power."""


def versus_baseline(
    values: ArrayLike,
    baseline: int,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Versus:
    """Every strategy minus the baseline. `values`: shape `(n_strategies, n_questions, n_metrics)`, NaN where not scored."""
    scores = np.asarray(values, dtype=np.float64)
    strategies, questions, metrics = scores.shape
    differences = scores - scores[baseline]
    flat = paired(differences.transpose(1, 0, 2).reshape(questions, strategies * metrics), clusters, seed, resamples)
    stats = Paired(*(getattr(flat, name).reshape(strategies, metrics) for name in Paired.__slots__))
    tested = stats.p.copy()
    tested[baseline] = np.nan
    common = ~np.isnan(differences)
    return Versus(
        baseline,
        stats,
        holm(tested),
        _masked_mean(scores, common),
        _masked_mean(np.broadcast_to(scores[baseline], scores.shape), common),
        stats.needed(stats.difference),
    )


@dataclass(frozen=True, slots=True)
class AllPairs:
    """Every strategy against every other on one metric. Arrays have the shape `(n_strategies, n_strategies)`: row minus column.

    The diagonal is no comparison: `n` is 0 there, differences are 0 and the rest is NaN.
    """

    stats: Paired
    p_holm: Floats
    """Adjusted over all pairs; NaN on the diagonal."""


def all_pairs(
    values: ArrayLike, clusters: Sequence[Hashable] | None = None, seed: int = 0, resamples: int = RESAMPLES
) -> AllPairs:
    """`values`: shape `(n_strategies, n_questions)`, NaN where not scored."""
    scores = np.asarray(values, dtype=np.float64)
    strategies = scores.shape[0]
    first, second = np.triu_indices(strategies, k=1)
    found = paired((scores[first] - scores[second]).T, clusters, seed, resamples)
    adjusted = holm(found.p)

    def square(upper: NDArray[Any], lower: NDArray[Any], diagonal: float) -> NDArray[Any]:
        table = np.full((strategies, strategies), diagonal, dtype=upper.dtype)
        table[first, second], table[second, first] = upper, lower
        return table

    def same(values: NDArray[Any], diagonal: float = np.nan) -> NDArray[Any]:
        return square(values, values, diagonal)

    stats = Paired(
        n=same(found.n, 0),
        clusters=same(found.clusters, 0),
        difference=square(found.difference, -found.difference, 0.0),
        low=square(found.low, -found.high, np.nan),
        high=square(found.high, -found.low, np.nan),
        p=same(found.p),
        deviation=same(found.deviation),
        error=same(found.error),
        effect=square(found.effect, -found.effect, 0.0),
        detectable=same(found.detectable),
    )
    return AllPairs(stats, same(adjusted))


def noise_floor(repeats: ArrayLike) -> float:
    """The largest difference of means that repeating one and the same configuration explains: 1.96 standard deviations of a difference of two runs.

    `repeats`: shape `(n_runs, n_questions)`, NaN where not scored; only questions scored in every run count. NaN below two runs or without such questions.
    """
    values = np.asarray(repeats, dtype=np.float64)
    common = ~np.isnan(values).any(axis=0)
    if values.shape[0] < 2 or not common.any():
        return float("nan")
    return float(_NORMAL.inv_cdf(1 - ALPHA / 2) * np.sqrt(2) * values[:, common].mean(axis=1).std(ddof=1))


def mean_interval(
    values: ArrayLike, clusters: Sequence[Hashable] | None = None, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Mean of one strategy's scores and its 95 % BCa interval. `values`: shape `(n_questions,)`, NaN where not scored. Bounds are NaN below two clusters."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    stats = paired(column, clusters, seed, resamples)
    return float(stats.difference[0]), float(stats.low[0]), float(stats.high[0])


def cluster_keys(questions: Iterable[Question]) -> list[Hashable]:
    """The independent group of each question: document and article of its first gold. Questions without either stand alone."""
    keys: list[Hashable] = []
    for question in questions:
        first = next(iter(question.gold), None)
        if first is None or first.unit is None:
            keys.append(("question", question.question_id))
        else:
            keys.append((first.document_id, first.unit))
    return keys


def _masked_mean(values: Floats, scored: NDArray[np.bool_]) -> Floats:
    counts = scored.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            np.where(counts > 0, np.sort(np.where(scored, values, 0.0), axis=1).sum(axis=1) / counts, np.nan)
        )
