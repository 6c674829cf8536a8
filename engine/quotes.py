"""Where a quote stands in the text a reader was given: looked up on the canonical text, so a chunk boundary does not hide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.lexical import terms
from engine.metrics import spans
from engine.models import Document, Span
from engine.questions.normalise import Normalised
from engine.records import RetrievedChunk


class Found(NamedTuple):
    """A quote's place."""

    document_id: str
    span: Span


class DeliveredText:
    """Everything that was delivered for one question, as passages of the documents: neighbours and overlaps joined."""

    def __init__(self, retrieved: Sequence[RetrievedChunk], document: Callable[[str], Document]) -> None:
        delivered: dict[str, list[Span]] = {}
        for hit in retrieved:
            if hit.delivered_span is not None:
                delivered.setdefault(hit.chunk.document_id, []).append(hit.delivered_span)
        self._passages = [
            (document_id, span, span.slice(document(document_id).text))
            for document_id, found in delivered.items()
            for span in spans.union(found)
        ]
        self._normalised: list[Normalised] | None = None

    def find(self, quote: str) -> Found | None:
        """The first place of the quote, to the letter or else but for spaces, quotation marks, hyphens, markup and case.

        A quote without a word, such as a full stop, stands everywhere and shows nothing: it is not found.
        """
        quote = quote.strip()
        if next(terms(quote), None) is None:
            return None
        for document_id, span, text in self._passages:
            at = text.find(quote)
            if at >= 0:
                return Found(document_id, Span(span.start + at, span.start + at + len(quote)))
        needle = Normalised(quote).text.strip()
        if not needle:
            return None
        if self._normalised is None:
            self._normalised = [Normalised(text) for _, _, text in self._passages]
        for (document_id, span, _), normalised in zip(self._passages, self._normalised, strict=True):
            at = normalised.text.find(needle)
            if at >= 0:
                place = normalised.origin(at, at + len(needle))
                return Found(document_id, Span(span.start + place.start, span.start + place.end))
        return None
