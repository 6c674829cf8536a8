"""Reading a ranked list from the top and stopping after k chunks or at a token budget: what every retrieval metric is computed from.

Fill policy: the chunk that would exceed a budget is truncated, as it would be for a model. It keeps the same share of its
characters as of its tokens, counted from its beginning and rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine import tokens
from engine.metrics import spans
from engine.metrics.targets import Cover, Target, size
from engine.models import Chunk, Span
from engine.records import RetrievedChunk

FILL_POLICY = "the last chunk is truncated"
"""Printed wherever values at a token budget are shown."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One entry of a ranked list: a passage of a document and what it costs to read."""

    document_id: str
    span: Span | None
    """None where nothing was given for this hit, because a better one had already given it."""
    tokens: int
    lead: int = 0
    """Characters of the given text before the passage, such as a context line. They cost tokens and hold no gold."""

    def cut_to(self, budget: int) -> Unit:
        """The beginning of the unit that fits `budget` tokens."""
        if self.span is None or self.tokens <= budget:
            return self
        kept = (self.lead + self.span.length) * budget // self.tokens - self.lead
        return Unit(self.document_id, Span(self.span.start, self.span.start + max(0, kept)), budget, self.lead)


def searched_unit(chunk: Chunk) -> Unit:
    """What the index matched. A proposition counts as the passage it was made from."""
    return Unit(chunk.document_id, chunk.evidence_span, chunk.token_count)


def delivered_unit(hit: RetrievedChunk) -> Unit:
    """What the model was given for the hit: the parent, or a window of it, or the enriched text."""
    span, text = hit.delivered_span, hit.delivered_text
    count = hit.chunk.token_count if text == hit.chunk.text else _count(text)
    return Unit(hit.chunk.document_id, span, count, 0 if span is None else max(0, len(text) - span.length))


@lru_cache(maxsize=2048)
def _count(text: str) -> int:
    return tokens.count(text)


@dataclass(frozen=True, slots=True)
class Reach:
    """What was read up to a cut. Characters, unless said otherwise."""

    found: int
    """Gold, each copy-group counted through its best-held copy."""
    gold: int
    """All gold of the question."""
    relevant: int
    """Characters read that are gold, every copy included."""
    read: int
    """Characters read, each counted once."""
    summed: int
    """Characters read, repeated ones counted each time."""
    joined: int
    """Characters read or gold, each counted once."""
    tokens: int
    gains: tuple[int, ...]
    """Gold newly found, per unit in order."""
    intact: bool
    """Whether some gold span lies wholly in one unit."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where to stop: after k units, and at token budgets."""

    ks: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reaches:
    at_k: dict[int, Reach]
    at_tokens: dict[int, Reach]
    at_end: Reach


class _State:
    """The running totals of a walk."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.cover: dict[str, list[Span]] = {}
        self.found = self.summed = self.tokens = 0
        self.gains: list[int] = []
        self.intact = False

    def after(self, unit: Unit) -> _State:
        """The state with one more unit; this one is left alone."""
        new = _State(self.target)
        new.cover = dict(self.cover)
        new.found, new.summed, new.tokens = self.found, self.summed, self.tokens + unit.tokens
        new.gains, new.intact = list(self.gains), self.intact
        if unit.span is None:
            new.gains.append(0)
            return new
        new.cover[unit.document_id] = spans.with_span(self.cover.get(unit.document_id, ()), unit.span)
        new.summed += unit.span.length
        new.found = self.target.found(new.cover)
        new.gains.append(new.found - self.found)
        new.intact = self.intact or any(
            document == unit.document_id and unit.span.start <= gold.start and gold.end <= unit.span.end
            for document, gold in self.target.places
        )
        return new

    def reach(self) -> Reach:
        chosen = self.target.chosen(self.cover)
        gold, read = size(chosen), size(self.cover)
        relevant = self.found
        if self.target.has_copies:
            relevant = _common(self.target.everything, self.cover)
        return Reach(
            found=self.found,
            gold=gold,
            relevant=relevant,
            read=read,
            summed=self.summed,
            joined=gold + read - self.found,
            tokens=self.tokens,
            gains=tuple(self.gains),
            intact=self.intact,
        )


def _common(gold: Cover, cover: Cover) -> int:
    return sum(spans.common_length(found, cover[document]) for document, found in gold.items() if document in cover)


def walk(units: Iterable[Unit], target: Target, cuts: Cuts) -> Reaches:
    """What was read at every cut. A list that ends before a cut gives what it holds: the model would be given no more."""
    state = _State(target)
    at_k: dict[int, Reach] = {}
    at_tokens: dict[int, Reach] = {}
    open_budgets = sorted(set(cuts.budgets))
    wanted = set(cuts.ks)
    last = max(wanted, default=0)
    for rank, unit in enumerate(units, start=1):
        while open_budgets and state.tokens + unit.tokens > open_budgets[0]:
            budget = open_budgets.pop(0)
            room = budget - state.tokens
            at_tokens[budget] = (state.after(unit.cut_to(room)) if room else state).reach()
        state = state.after(unit)
        if rank in wanted:
            at_k[rank] = state.reach()
        if rank >= last and not open_budgets:
            break
    end = state.reach()
    return Reaches(
        {k: at_k.get(k, end) for k in sorted(wanted)},
        {b: at_tokens.get(b, end) for b in sorted(set(cuts.budgets))},
        end,
    )


def ideal_order(candidates: Sequence[Unit], target: Target, limit: int) -> list[Unit]:
    """The order a perfect retriever would choose from these units: at each step the one that finds most new gold, the shorter among equals."""
    state = _State(target)
    left = sorted(
        {unit for unit in candidates if unit.span is not None},
        key=lambda u: (u.tokens, u.document_id, u.span or Span(0, 0)),
    )
    order: list[Unit] = []
    while left and len(order) < limit:
        best, best_state = None, state
        for unit in left:
            new = state.after(unit)
            if new.found > best_state.found:
                best, best_state = unit, new
        if best is None:
            break
        order.append(best)
        state = best_state
        left.remove(best)
    return order
