"""All metrics, in the order every page shows them. Adding one is an entry in its family's file, or a file and a line here."""

from __future__ import annotations

from engine.errors import BadParameter
from engine.metrics import answers, chunk_quality, judged
from engine.metrics.base import Described, Metric, split_name
from engine.metrics.ceiling import CEILINGS
from engine.metrics.retrieval import RETRIEVAL

METRICS: tuple[Metric, ...] = (
    *RETRIEVAL,
    *(ceiling.about for ceiling in CEILINGS),
    *chunk_quality.METRICS,
    *answers.METRICS,
    *judged.METRICS,
)

_BY_NAME = {metric.name: metric for metric in METRICS}


def names() -> tuple[str, ...]:
    return tuple(_BY_NAME)


def describe(name: str) -> Described:
    """The declaration behind a stored name such as `delivered.recall@1000tok`, with its title in words. Raises BadParameter."""
    parts = split_name(name)
    metric = None if parts is None else _BY_NAME.get(parts.base)
    if parts is None or metric is None or not _fits(metric, parts.k, parts.budget):
        raise BadParameter(f"There is no metric {name!r}. Choose one of: {', '.join(_BY_NAME)}.")
    title = metric.title
    if parts.k is not None:
        title += f" at {parts.k}"
    if parts.budget is not None:
        title += f" at {parts.budget:,} tokens"
    if parts.delivered:
        title = f"Delivered {in_sentence(title)}"
    return Described(name, title, metric, parts.k, parts.budget, parts.delivered, unequal_tokens=parts.k is not None)


def in_sentence(title: str) -> str:
    """The title as it stands inside a sentence: `Recall` in small letters, `MRR` and `IoU` as they are."""
    first = title.split(" ", 1)[0]
    return title[:1].lower() + title[1:] if first[1:].islower() else title


def _fits(metric: Metric, k: int | None, budget: int | None) -> bool:
    if k is not None:
        return metric.cuts in ("k", "both")
    if budget is not None:
        return metric.cuts in ("tokens", "both")
    return metric.cuts == ""
