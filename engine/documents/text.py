"""Plain text: the file's own text is canonical."""

from __future__ import annotations

from engine.documents.base import Block, Parsed
from engine.documents.decode import Lines, decode, non_blank
from engine.documents.limits import check_paragraphs
from engine.documents.tree import Placed, nest
from engine.models import NodeKind, Structure
from engine.settings import Settings


class TextReader:
    """Text files in any encoding that can be told."""

    media_type = "text/plain"
    version = "text-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument when the encoding cannot be told or there are too many paragraphs."""
        decoded = decode(data, name)
        text = decoded.text
        placed = _paragraphs(text)
        check_paragraphs(len(placed), name, settings)
        characters = non_blank(text)
        return Parsed(
            text=text,
            tree=nest(placed, len(text)),
            structure=Structure(rule="none", confidence="none"),
            visible_characters=characters,
            kept_characters=characters,
            warnings=decoded.notices,
            metadata={"encoding": decoded.encoding},
        )


READER = TextReader()


def _paragraphs(text: str) -> list[Placed]:
    lines = Lines(text)
    placed: list[Placed] = []
    first: int | None = None
    for index in range(lines.count + 1):
        blank = index == lines.count or not lines.line(index).strip()
        if blank and first is not None:
            span = lines.span(first, index)
            placed.append(Placed(Block(NodeKind.PARAGRAPH, span.slice(text), rule="blank line"), span))
            first = None
        elif not blank and first is None:
            first = index
    return placed
