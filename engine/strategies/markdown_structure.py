"""Markdown structure: one chunk per leaf section, tables and code whole where they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pydantic import Field

from engine.providers.base import Models
from engine.strategies.base import Cut, Params, Piece, Strategy
from engine.strategies.blocks import Block, Heading, heading_paths
from engine.strategies.outline import Seams, between
from engine.strategies.packing import OVER_LIMIT, Level, Part, Ruler, TokenRuler, pack
from engine.strategies.sentences import sentence_starts
from engine.strategies.source import Source

HEADER_NOT_REPEATED = "header_not_repeated"
"""Flag of a part of a table whose header row takes more than half of the size, so that its rows stand without it."""


class MarkdownStructureParams(Params):
    size: int = Field(
        512, ge=1, le=100_000, description="Most tokens in a chunk. A longer section is cut between its blocks."
    )


class MarkdownStructure(Strategy[MarkdownStructureParams]):
    name = "markdown_structure"
    title = "Markdown structure"
    rule = "One chunk per leaf section, never across headings; long sections are cut between paragraphs, long tables between rows."
    best_for = "Documents with real headings whose sections each answer one question: regulations, manuals, wikis."
    avoid_when = "There are no headings, or many sections of one line: chunks become uneven."
    cost = "No model. About the time of counting the tokens."
    params_type = MarkdownStructureParams

    def _cut(self, source: Source, params: MarkdownStructureParams, models: Models) -> Cut:
        text, measure = source.text, TokenRuler(source.tokens)
        seams = Seams(text, source.headings)
        units = Level("blank line", between(seams.kept(source.paragraphs)))
        paths = _Paths(source.headings)
        made: list[Piece] = []
        for start, end in pairwise([0, *(place for place in seams.headings() if place), len(text)]):
            path = paths.of(start, end)
            for part in pack(start, end, [units], measure, params.size, "heading", _Finer(source, seams)):
                made.append(_piece(source, part, path, measure, params.size))
        return Cut(made)


class _Paths:
    """The heading path of a leaf: the one of the last heading before its body."""

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        self._paths = list(heading_paths(headings))
        self._next = 0

    def of(self, start: int, end: int) -> tuple[str, ...] | None:
        """Called for leaves in order. None before the first heading."""
        while self._next < len(self._headings) and self._headings[self._next].start < end:
            self._next += 1
        return self._paths[self._next - 1] if self._next else None


class _Finer:
    """Cuts a unit that is too long: a table between rows, code between lines, anything else between sentences."""

    def __init__(self, source: Source, seams: Seams) -> None:
        self._source = source
        self._seams = seams

    def __call__(self, start: int, end: int, measure: Ruler, size: int) -> Iterator[Part]:
        text, seams = self._source.text, self._seams
        block = self._source.outline.first_block(start, end)
        if block is None:
            sentences = Level("sentence", lambda first, last: seams.kept(sentence_starts(text, first, last)))
            return pack(start, end, [sentences], measure, size)
        if block.kind == "table":
            reserved = _header_units(block, measure, size)
            rows = Level(
                "row", lambda first, last: [place for place in seams.lines(first, last) if _cuts_rows(block, place)]
            )
            return pack(start, end, [rows], measure, size - reserved)
        return pack(start, end, [Level("line", seams.lines)], measure, size)


def _cuts_rows(table: Block, place: int) -> bool:
    """Not inside the header, and not between the header and its first row."""
    return not table.start < place <= table.body_start


def _header_units(table: Block, measure: Ruler, size: int) -> int:
    """Tokens of the header rows where they are repeated, else 0."""
    units = measure.exact(table.start, table.body_start)
    return units if 2 * units <= size else 0


def _piece(source: Source, part: Part, path: tuple[str, ...] | None, measure: Ruler, size: int) -> Piece:
    flags = (OVER_LIMIT,) if part.over_limit else ()
    embedding_text = None
    table = source.outline.block_at(part.start)
    if table is not None and table.kind == "table" and part.start >= table.body_start:
        if _header_units(table, measure, size):
            embedding_text = source.text[table.start : table.body_start] + source.text[part.start : part.end]
        else:
            flags = (*flags, HEADER_NOT_REPEATED)
    return Piece(
        part.start,
        part.end,
        embedding_text=embedding_text,
        flags=flags,
        token_count=part.units,
        heading_path=path,
    )
