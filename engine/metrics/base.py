"""What every metric says about itself, and the names under which its values are stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Direction = Literal["higher", "lower", "none"]
"""Which way is better; `none` for values that only describe."""
Unit = Literal["share", "tokens", "characters", "count", "chunks", "score"]
Family = Literal["retrieval", "ceiling", "chunks", "answers", "judge"]
Cuts = Literal["", "k", "tokens", "both"]

DELIVERED = "delivered."
"""Prefix of values about what the model was given; without it they are about what was searched."""
ON_SEARCHED = "counted on the chunks that were searched, whatever is handed on for them"
ON_DELIVERED = (
    "counted on the text that is handed to the model, such as the whole article around a chunk that was found"
)


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric. `name` is the registry name; stored names add a cut (`@5`, `@1000tok`) and a prefix (`delivered.`)."""

    name: str
    title: str
    definition: str
    """The formula in words."""
    direction: Direction
    unit: Unit
    source: str
    """Where the formula comes from."""
    family: Family
    cuts: Cuts = ""
    """Whether values exist after k chunks, at a token budget, or both."""


@dataclass(frozen=True, slots=True)
class Described:
    """A stored metric name, explained."""

    name: str
    title: str
    metric: Metric
    k: int | None = None
    budget: int | None = None
    delivered: bool = False
    unequal_tokens: bool = False
    """True at a fixed k: strategies with larger chunks deliver more text there, so the values favour them."""

    @property
    def definition(self) -> str:
        """The formula in words and, where a metric exists for both, which text it is counted on."""
        if self.metric.family != "retrieval":
            return self.metric.definition
        return f"{self.metric.definition}; {ON_DELIVERED if self.delivered else ON_SEARCHED}"


def at_k(name: str, k: int) -> str:
    return f"{name}@{k}"


def at_tokens(name: str, budget: int) -> str:
    return f"{name}@{budget}tok"


_NAME = re.compile(r"(?P<delivered>delivered\.)?(?P<base>(?:judge\.)?[a-z0-9_]+)(?:@(?P<cut>\d+)(?P<tokens>tok)?)?")


@dataclass(frozen=True, slots=True)
class NameParts:
    base: str
    delivered: bool
    k: int | None
    budget: int | None


def split_name(name: str) -> NameParts | None:
    """The parts of a stored name; None when it has another shape."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    cut = None if match["cut"] is None else int(match["cut"])
    tokens = match["tokens"] is not None
    return NameParts(match["base"], match["delivered"] is not None, None if tokens else cut, cut if tokens else None)
