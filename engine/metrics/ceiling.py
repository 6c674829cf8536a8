"""What a strategy's chunks allow a perfect retriever to reach: precision-omega, intact evidence, pieces per gold span. No retrieval involved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.metrics import spans
from engine.metrics.base import Metric
from engine.metrics.spans import Holders
from engine.metrics.targets import Target, common, size
from engine.metrics.walk import Unit, searched_unit
from engine.models import Chunk, Span


class UnitPool:
    """The units of one strategy, by document, for finding those near a gold span quickly."""

    def __init__(self, units: Iterable[Unit]) -> None:
        grouped: dict[str, list[Unit]] = {}
        for unit in units:
            if unit.span is not None:
                grouped.setdefault(unit.document_id, []).append(unit)
        self._units = {
            document: sorted(members, key=lambda unit: unit.span or Span(0, 0)) for document, members in grouped.items()
        }
        self._holders = {
            document: Holders(unit.span for unit in members if unit.span is not None)
            for document, members in self._units.items()
        }

    def near(self, target: Target, edges: bool = False) -> list[Unit]:
        """Units that share a character with the gold, each once; with `edges`, also those that only touch it."""
        found: dict[tuple[str, int], Unit] = {}
        for document, gold in target.places:
            if document in self._holders:
                for place in self._holders[document].touching(gold, edges):
                    found[document, place] = self._units[document][place]
        return [found[key] for key in sorted(found)]

    def holders(self, document_id: str) -> Holders:
        return self._holders.get(document_id, _NOTHING)


_NOTHING = Holders(())


class Pool:
    """All chunks of one strategy over the documents of a benchmark. Build it once per strategy and score many questions with it."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = tuple(chunks)

    @cached_property
    def searched(self) -> UnitPool:
        return UnitPool(searched_unit(chunk) for chunk in self.chunks)

    @cached_property
    def delivered(self) -> UnitPool:
        """Parents where chunks have them, each once, their tokens in proportion to those of their children; else the chunks."""
        families: dict[tuple[str, Span], list[Chunk]] = {}
        for chunk in self.chunks:
            families.setdefault((chunk.document_id, chunk.parent_span or chunk.evidence_span), []).append(chunk)
        return UnitPool(_family_unit(document, span, members) for (document, span), members in families.items())

    def units(self, delivered: bool) -> UnitPool:
        return self.delivered if delivered else self.searched


def _family_unit(document: str, span: Span, members: Sequence[Chunk]) -> Unit:
    characters = sum(chunk.evidence_span.length for chunk in members)
    tokens = sum(chunk.token_count for chunk in members)
    return Unit(document, span, round(tokens * span.length / characters) if characters else tokens)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A metric of a strategy's units and one question's gold: `compute(units, target, compat)`."""

    about: Metric
    compute: Callable[[UnitPool, Target, bool], float]


def precision_omega(units: UnitPool, target: Target, compat: bool = False) -> float:
    """Precision of a retriever that returns every unit holding gold, and no other.

    Strict: half-open spans, a unit that ends where the gold begins holds none of it. Compat: it counts, as in the published figures.
    """
    cover: dict[str, list[Span]] = {}
    for unit in units.near(target, edges=compat):
        if unit.span is not None:
            cover.setdefault(unit.document_id, []).append(unit.span)
    merged = {document: spans.union(found) for document, found in cover.items()}
    held = common(target.everything, merged)
    return held / (size(target.everything) + size(merged) - held)


def intact_rate(units: UnitPool, target: Target, compat: bool = False) -> float:
    """Share of gold spans that lie wholly in one unit; of copies, one is enough."""
    kept = sum(any(units.holders(document).hold(gold) for document, gold in places) for places in target.evidence)
    return kept / len(target.evidence)


def pieces_per_span(units: UnitPool, target: Target, compat: bool = False) -> float:
    """Mean over gold spans of the fewest units that together hold it; a span with lost characters counts the units that hold the rest, plus one."""
    return sum(min(_pieces(units, document, gold) for document, gold in places) for places in target.evidence) / len(
        target.evidence
    )


def _pieces(units: UnitPool, document: str, gold: Span) -> int:
    holders = units.holders(document)
    whole = holders.pieces(gold)
    return len(holders.touching(gold)) + 1 if whole is None else whole


def one_unit(units: UnitPool, target: Target, compat: bool = False) -> float:
    """1 when one unit holds all evidence of the question, else 0."""
    for unit in units.near(target):
        if unit.span is not None and all(
            any(
                document == unit.document_id and unit.span.start <= gold.start and gold.end <= unit.span.end
                for document, gold in places
            )
            for places in target.evidence
        ):
            return 1.0
    return 0.0


CEILINGS: tuple[Ceiling, ...] = (
    Ceiling(
        Metric(
            "precision_omega",
            "Precision-omega",
            "gold characters / characters of gold and of all chunks that hold gold: the precision of a perfect retriever",
            "higher",
            "share",
            "Chroma, Evaluating Chunking Strategies for Retrieval (2024); strict half-open spans unless compat",
            "ceiling",
        ),
        precision_omega,
    ),
    Ceiling(
        Metric(
            "intact_rate",
            "Intact evidence",
            "share of gold spans that lie wholly in one chunk",
            "higher",
            "share",
            "information completeness without a model",
            "ceiling",
        ),
        intact_rate,
    ),
    Ceiling(
        Metric(
            "pieces_per_span",
            "Pieces per gold span",
            "fewest chunks that together hold a gold span, averaged over the spans",
            "lower",
            "chunks",
            "information completeness without a model",
            "ceiling",
        ),
        pieces_per_span,
    ),
    Ceiling(
        Metric(
            "one_chunk",
            "All evidence in one chunk",
            "1 when one chunk holds all evidence of the question, else 0",
            "higher",
            "share",
            "information completeness without a model",
            "ceiling",
        ),
        one_unit,
    ),
)
