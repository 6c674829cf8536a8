"""Code aware: code cut at functions and classes, the prose around it like `recursive`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from engine.documents.code import LANGUAGES
from engine.documents.names import extension
from engine.models import Document
from engine.providers.base import Models
from engine.strategies.base import Cut, Params, Piece, Strategy
from engine.strategies.blocks import Block
from engine.strategies.outline import Seams
from engine.strategies.packing import OVER_LIMIT, Level, Part, Ruler, TokenRuler, pack
from engine.strategies.recursive import levels
from engine.strategies.source import SOURCE_CODE, Source
from engine.strategies.syntax import Code, language_of

_NESTING = 12
"""How deep an oversized definition is opened before it is cut between lines."""


class CodeAwareParams(Params):
    size: int = Field(
        512,
        ge=1,
        le=100_000,
        description="Most tokens in a chunk. A longer definition is cut between its members and statements, then lines.",
    )


class CodeAware(Strategy[CodeAwareParams]):
    name = "code_aware"
    title = "Code aware"
    rule = "Code is cut at functions and classes found by a parser, with their comments and decorators; prose around it like `recursive`."
    best_for = "Source files of Python, JavaScript, TypeScript, Java, Go, Rust, C or C++, and manuals with code blocks."
    avoid_when = "There is no code: it then does what `recursive` does without overlap."
    cost = "No model. Parsing the code adds about as much time as counting the tokens."
    params_type = CodeAwareParams

    def _cut(self, source: Source, params: CodeAwareParams, models: Models) -> Cut:
        measure = TokenRuler(source.tokens)
        language = _file_language(source.document)
        if language is not None:
            code = Code(source.text, 0, len(source.text), language)
            parts = list(pack(0, len(source.text), _levels(code, source.text), measure, params.size))
            passages = [code]
        else:
            fences = _Fences(source)
            parts = list(pack(0, len(source.text), fences.coarse, measure, params.size, "document", fences.cut))
            passages = fences.passages()
        return Cut(_pieces(source, parts, passages))


def _file_language(document: Document) -> str | None:
    """The language of a document that is one source file."""
    if document.media_type != SOURCE_CODE:
        return None
    return LANGUAGES.get(extension(document.name))


def _levels(code: Code, text: str) -> list[Level]:
    return [*[Level("definition", code.boundaries)] * _NESTING, Level("line", Seams(text, ()).lines)]


class _Fences:
    """The fenced blocks of a Markdown text. Each is parsed once, when it has to be cut or a chunk with it is described."""

    def __init__(self, source: Source) -> None:
        self._source = source
        seams = Seams(source.text, source.headings)
        heading, blank, *self._fine = levels(source, seams)
        self.coarse = [heading, blank]
        self._codes: dict[int, Code] = {}

    def cut(self, start: int, end: int, measure: Ruler, size: int) -> Iterator[Part]:
        """Cuts a unit between blank lines that is too long."""
        block = self._source.outline.first_block(start, end)
        if block is None or block.kind != "fence":
            return pack(start, end, self._fine, measure, size)
        code = self._code(block)
        if code is None:
            return pack(start, end, [Level("line", Seams(self._source.text, ()).lines)], measure, size)
        definitions = Level("definition", lambda first, last: _inside(code, first, last))
        lines = Level("line", Seams(self._source.text, ()).lines)
        return pack(start, end, [*[definitions] * _NESTING, lines], measure, size)

    def passages(self) -> list[Code]:
        return [
            code
            for block in self._source.outline.blocks
            if block.kind == "fence" and (code := self._code(block)) is not None
        ]

    def _code(self, block: Block) -> Code | None:
        language = language_of(block.info)
        if language is None or block.body_start >= block.body_end:
            return None
        if block.start not in self._codes:
            self._codes[block.start] = Code(self._source.text, block.body_start, block.body_end, language)
        return self._codes[block.start]


def _inside(code: Code, start: int, end: int) -> Sequence[int]:
    """The line that opens a fence stays with its first definition, the one that closes it with the last."""
    if start > code.start:
        return code.boundaries(start, end)
    return [place for place in code.boundaries(code.start, code.end) if start < place < end]


_LINE = re.compile(r"\n")


def _pieces(source: Source, parts: Sequence[Part], passages: Sequence[Code]) -> list[Piece]:
    line_ends = [found.start() for found in _LINE.finditer(source.text)] if passages else []
    made = []
    index = 0
    for part in parts:
        while index < len(passages) and passages[index].end <= part.start:
            index += 1
        made.append(
            Piece(
                part.start,
                part.end,
                flags=(OVER_LIMIT,) if part.over_limit else (),
                attributes=_attributes(source, part, passages, index, line_ends),
                token_count=part.units,
            )
        )
    return made


def _attributes(
    source: Source, part: Part, passages: Sequence[Code], index: int, line_ends: Sequence[int]
) -> Mapping[str, Any]:
    """Path, language, symbols and lines of a chunk with code in it; nothing for prose."""
    symbols: list[str] = []
    languages: list[str] = []
    while index < len(passages) and passages[index].start < part.end:
        symbols.extend(passages[index].symbols(part.start, part.end))
        languages.append(passages[index].language)
        index += 1
    if not languages:
        return {}
    body = source.text[part.start : part.end]
    last = part.start + max(1, len(body.rstrip()))
    first = part.start + len(body) - len(body.lstrip())
    attributes: dict[str, Any] = {
        "path": source.document.name,
        "language": languages[0],
        "symbols": symbols,
        "lines": [bisect_right(line_ends, first - 1) + 1, bisect_right(line_ends, last - 2) + 1],
    }
    if len(symbols) == 1:
        attributes["symbol"] = symbols[0]
    return attributes
