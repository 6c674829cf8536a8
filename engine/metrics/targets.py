"""The gold of one question, ready for counting: by document, copies of one quote kept together as alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.metrics import spans
from engine.models import Span
from engine.records import Question

Place = tuple[str, Span]
"""Document id and span."""
Cover = Mapping[str, Sequence[Span]]
"""Per document, the set of characters that were reached."""


@dataclass(frozen=True)
class Target:
    """The evidence of one question: one tuple of places per quote. Several places of one quote are copies, and any of them will do."""

    evidence: tuple[tuple[Place, ...], ...]

    @classmethod
    def of(cls, question: Question) -> Target | None:
        """None when the question has no gold: it is unanswerable, or its evidence was not found. Gold without characters is none."""
        evidence = [
            tuple((gold.document_id, gold.span) for gold in item.gold if gold.span.length) for item in question.evidence
        ]
        held = tuple(places for places in evidence if places)
        return cls(held) if held else None

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for places in self.evidence for place in places)

    @cached_property
    def has_copies(self) -> bool:
        return any(len(places) > 1 for places in self.evidence)

    @cached_property
    def everything(self) -> Mapping[str, list[Span]]:
        """Per document, the characters of all places, copies included."""
        return _by_document(self.places)

    def chosen(self, cover: Cover) -> Mapping[str, list[Span]]:
        """Per document, the characters that count: of copies, the one that `cover` holds best, the first among equals."""
        if not self.has_copies:
            return self.everything
        return _by_document([max(places, key=lambda place: _held_share(place, cover)) for places in self.evidence])

    def found(self, cover: Cover) -> int:
        """Gold characters in `cover`."""
        return common(self.chosen(cover), cover)


def common(first: Mapping[str, Sequence[Span]], second: Cover) -> int:
    """Characters two sets over documents have in common."""
    return sum(spans.common_length(found, second[document]) for document, found in first.items() if document in second)


def size(sets: Mapping[str, Sequence[Span]]) -> int:
    return sum(spans.length(found) for found in sets.values())


def _by_document(places: Sequence[Place]) -> dict[str, list[Span]]:
    grouped: dict[str, list[Span]] = {}
    for document, span in places:
        grouped.setdefault(document, []).append(span)
    return {document: spans.union(found) for document, found in grouped.items()}


def _held_share(place: Place, cover: Cover) -> float:
    document, span = place
    return spans.covered_length(span, cover.get(document, ())) / span.length if span.length else 0.0
