"""Plain text: the file's own text is canonical; paragraphs by blank lines, structure by patterns."""

from __future__ import annotations

from engine.documents import clauses
from engine.documents.base import Block, Parsed
from engine.documents.decode import Lines, decode, non_blank
from engine.documents.limits import check_paragraphs
from engine.documents.patterns import PLAIN, Hint
from engine.documents.placing import fill_gaps, structured
from engine.documents.tree import Placed, nest
from engine.models import NodeKind
from engine.settings import Settings

LONG_LINE = 150
"""Characters above which a line was not wrapped by hand."""


class TextReader:
    """Text files in any encoding that can be told."""

    media_type = "text/plain"
    version = "text-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument when the encoding cannot be told or there are too many paragraphs."""
        decoded = decode(data, name)
        text = decoded.text
        paragraphs = _paragraphs(text)
        check_paragraphs(len(paragraphs), name, settings)
        placed, structure = structured(paragraphs, [_look(item.block.text) for item in paragraphs], text)
        characters = non_blank(text)
        return Parsed(
            text=text,
            tree=nest(fill_gaps(placed, text), len(text)),
            structure=structure,
            visible_characters=characters,
            kept_characters=characters,
            warnings=decoded.notices,
            metadata={"encoding": decoded.encoding},
        )


READER = TextReader()


def _look(text: str) -> Hint:
    return Hint(contents=True) if clauses.is_contents_line(text) else PLAIN


def _paragraphs(text: str) -> list[Placed]:
    """Stretches between blank lines, cut before lines that open with a label; every line where lines are whole paragraphs."""
    lines = Lines(text)
    by_line = _one_line_each(lines)
    placed: list[Placed] = []
    first: int | None = None
    for index in range(lines.count + 1):
        line = lines.line(index) if index < lines.count else ""
        if first is not None and (by_line or not line.strip() or _opens_with_label(line)):
            # Indentation of a first line is left to the gap before it.
            span = lines.span(first, index)
            body = span.slice(text)
            span = span._replace(start=span.start + len(body) - len(body.lstrip()))
            placed.append(Placed(Block(NodeKind.PARAGRAPH, body.strip(), rule="blank line"), span))
            first = None
        if first is None and line.strip():
            first = index
    return placed


def _one_line_each(lines: Lines) -> bool:
    """Whether each line is a paragraph: no blank lines, or many lines longer than people wrap by hand."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return False
    blank = any(not line.strip() for line in list(lines)[:-1])
    return not blank or sum(len(line) > LONG_LINE for line in filled) > 0.3 * len(filled)


def _opens_with_label(line: str) -> bool:
    return clauses.match_clause(line) is not None or clauses.match_point(line) is not None
