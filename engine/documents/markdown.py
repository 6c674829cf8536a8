"""Markdown: the file's own text is canonical; nodes get their spans from the line ranges of the parser's tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from engine.documents.base import Block, Parsed
from engine.documents.decode import Lines, clean_value, decode, non_blank
from engine.documents.limits import check_paragraphs
from engine.documents.patterns import PLAIN, Hint, split_number
from engine.documents.placing import fill_gaps, structured
from engine.documents.tree import Placed, nest
from engine.models import NodeKind, Span
from engine.settings import Settings

_LEAVES = {"fence": NodeKind.CODE, "code_block": NodeKind.CODE, "html_block": NodeKind.PARAGRAPH}
_FRONT_MATTER_LINE = re.compile(r"^([A-Za-z][\w-]{0,40}):[ \t]+(\S.*)$", re.MULTILINE)
_BOLD_LINE = re.compile(r"(\*\*|__)(?!\s)[^\n]{1,200}(?<!\s)\1")
_TITLE_LIMIT = 2000
"""Characters of a heading whose inline markup is resolved; longer ones are kept as written."""


class MarkdownReader:
    """CommonMark with tables, footnotes and front matter."""

    media_type = "text/markdown"
    version = "markdown-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument when the encoding cannot be told or there are too many paragraphs."""
        decoded = decode(data, name)
        text = decoded.text
        lines = Lines(text)
        tokens = _parser().parse(text)
        walk = _Walk(tokens, lines)
        check_paragraphs(len(walk.placed), name, settings)
        placed, structure = structured(walk.placed, walk.hints, text)
        metadata = {"encoding": decoded.encoding}
        if tokens and tokens[0].type == "front_matter":
            metadata |= _front_matter(tokens[0].content)
        characters = non_blank(text)
        return Parsed(
            text=text,
            tree=nest(fill_gaps(placed, text), len(text)),
            structure=structure,
            visible_characters=characters,
            kept_characters=characters,
            warnings=decoded.notices,
            metadata=metadata,
        )


READER = MarkdownReader()


class _Walk:
    """Block tokens, in order, to placed blocks. Quotes are transparent; what stands in a list item hangs on the item."""

    def __init__(self, tokens: Sequence[Token], lines: Lines) -> None:
        self._tokens = tokens
        self._lines = lines
        self._depth = 0
        """List items around the current token."""
        self.placed: list[Placed] = []
        self.hints: list[Hint] = []
        """How each placed block looks."""
        index = 0
        while index < len(tokens):
            index = self._step(index)

    def _step(self, index: int) -> int:
        """Handles the token and returns the index of the next one to look at."""
        token = self._tokens[index]
        if token.type == "heading_open":
            self._heading(token, self._tokens[index + 1].content)
            return index + 3
        if token.type == "paragraph_open":
            self._paragraph(token, self._tokens[index + 1].content)
            return index + 3
        if token.type == "list_item_open":
            return self._item(index)
        if token.type == "list_item_close":
            self._depth -= 1
        elif token.type == "table_open":
            return self._table(index)
        elif token.type == "footnote_reference_open":
            return self._note(index)
        elif token.type in _LEAVES:
            self._leaf(token)
        return index + 1

    def _heading(self, token: Token, content: str) -> None:
        if token.level > 0:
            self._paragraph(token, content)
            return
        span = self._span(token)
        block = Block(NodeKind.SECTION, plain(content), level=int(token.tag[1]), rule="heading")
        self._place(Placed(split_number(block), span, heading=span))

    def _item(self, index: int) -> int:
        token, first = self._tokens[index], self._tokens[index + 1]
        self._depth += 1
        span, content, after = self._span(token), "", index + 2
        if first.type == "paragraph_open":
            span, content, after = self._span(first), self._tokens[index + 2].content, index + 4
        elif first.type in _LEAVES:
            span, content = self._span(first), first.content
        else:
            after = index + 1
            if first.type != "list_item_close":
                span = Span(span.start, span.start)
        label = f"{token.info}{token.markup}" if token.info else None
        block = Block(NodeKind.LIST_ITEM, content, level=self._depth, label=label, rule="list")
        self._place(Placed(block, span))
        return after

    def _table(self, index: int) -> int:
        table = self._tokens[index]
        rows: list[tuple[str, ...]] = []
        spans: list[Span] = []
        header_rows = 0
        cells: list[str] = []
        while self._tokens[index].type != "table_close":
            token = self._tokens[index]
            if token.type == "tr_open":
                cells = []
                spans.append(self._span(token))
            elif token.type == "inline":
                cells.append(token.content)
            elif token.type == "tr_close":
                rows.append(tuple(cells))
            elif token.type == "thead_close":
                header_rows = len(rows)
            index += 1
        whole = self._span(table)
        # The line of dashes belongs to the header, so that the rows tile the table.
        delimiter_end = self._lines.span(table.map[0], table.map[0] + 2).end if table.map else whole.end
        spans[0] = Span(whole.start, delimiter_end)
        block = Block(NodeKind.TABLE, "", level=self._level(), rule="table", rows=tuple(rows), header_rows=header_rows)
        self._place(Placed(block, whole, row_spans=tuple(spans)))
        return index + 1

    def _note(self, index: int) -> int:
        token = self._tokens[index]
        label = str(token.meta["label"])
        contents = []
        while self._tokens[index].type != "footnote_reference_close":
            if self._tokens[index].type == "inline":
                contents.append(self._tokens[index].content)
            index += 1
        block = Block(NodeKind.NOTE, "\n\n".join(contents), level=self._level(), label=label, rule="footnote")
        self._place(Placed(block, self._span(token)))
        return index + 1

    def _leaf(self, token: Token) -> None:
        attributes = {}
        if token.type == "fence" and token.info.strip():
            attributes["language"] = token.info.split()[0]
        block = Block(_LEAVES[token.type], token.content, self._level(), rule=token.type, attributes=attributes)
        self._place(Placed(block, self._span(token)))

    def _paragraph(self, token: Token, content: str) -> None:
        bold = _BOLD_LINE.fullmatch(content)
        block = Block(NodeKind.PARAGRAPH, plain(content) if bold else content, self._level(), rule="paragraph")
        self._place(Placed(block, self._span(token)), Hint(bold=True) if bold else PLAIN)

    def _place(self, placed: Placed, hint: Hint = PLAIN) -> None:
        self.placed.append(placed)
        self.hints.append(hint)

    def _level(self) -> int:
        return self._depth + 1 if self._depth else 0

    def _span(self, token: Token) -> Span:
        assert token.map is not None
        return self._lines.span(token.map[0], token.map[1])


def plain(markdown: str) -> str:
    """The words of one line of Markdown, without its markup."""
    if len(markdown) > _TITLE_LIMIT:
        return " ".join(markdown.split())
    words = []
    for token in _inline_parser().parseInline(markdown):
        for child in token.children or ():
            if child.type in ("text", "code_inline", "image"):
                words.append(child.content)
            elif child.type in ("softbreak", "hardbreak"):
                words.append(" ")
    return " ".join("".join(words).split())


@cache
def _parser() -> MarkdownIt:
    """Blocks only: inline markup stays as written, and footnotes stay where they were defined."""
    parser = MarkdownIt("commonmark").enable("table").use(footnote_plugin).use(front_matter_plugin)
    return parser.disable(["inline", "footnote_tail", "text_join"])


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _front_matter(content: str) -> dict[str, str]:
    """The plain `key: value` lines. Not a YAML parser: lists and nested values stay in the text only."""
    return {key.lower(): clean_value(value.strip("\"' ")) for key, value in _FRONT_MATTER_LINE.findall(content)}
