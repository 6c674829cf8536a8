"""Sentence spans that tile the text."""

from __future__ import annotations

import re

from engine.models import Span

_END = re.compile(r"(?<=[.!?。！？؟۔।])\s+|\n\s*\n\s*|(?<=[。！？])(?!\s)")


def sentence_spans(text: str) -> tuple[Span, ...]:
    """Sentences in order; each ends where the next begins, white space after a sentence belongs to it."""
    if not text:
        return ()
    starts = [0, *(match.end() for match in _END.finditer(text) if 0 < match.end() < len(text))]
    return tuple(Span(start, end) for start, end in zip(starts, [*starts[1:], len(text)], strict=True))


def sentence_starts(text: str, start: int, end: int) -> list[int]:
    """Where a sentence begins, strictly inside the span, which is read on its own."""
    return [start + span.start for span in sentence_spans(text[start:end])[1:]]
