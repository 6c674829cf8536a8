"""The blocks of a Markdown text that matter for cutting: headings, fenced code, tables, HTML blocks, front matter.

Follows CommonMark 0.31 and the tables of GitHub Flavored Markdown for blocks that stand at the top level of a document.
Nothing is parsed inline; every offset is a code point of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

BlockKind = Literal["fence", "table", "html", "front_matter"]


class Heading(NamedTuple):
    start: int
    """Where the heading's line begins, markup included."""
    end: int
    """Where its last line ends, after the line break."""
    level: int
    title: str


class Block(NamedTuple):
    """A block that is cut only where it is too long to stay whole."""

    kind: BlockKind
    start: int
    end: int
    """After the last line's break."""
    body_start: int
    """Fence: after the opening line. Table: after the delimiter row. Else `start`."""
    body_end: int
    """Fence: before the closing line. Else `end`."""
    info: str = ""
    """Fence: the info string."""


@dataclass(frozen=True, slots=True)
class Outline:
    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]
    """In order, not overlapping."""

    def block_at(self, place: int) -> Block | None:
        """The block that `place` is strictly inside of: a cut there would split it."""
        index = bisect_right(self.blocks, place, key=_block_start) - 1
        if index < 0:
            return None
        block = self.blocks[index]
        return block if block.start < place < block.end else None

    def first_block(self, start: int, end: int) -> Block | None:
        """The first block that begins in `[start, end)`."""
        index = bisect_left(self.blocks, start, key=_block_start)
        return self.blocks[index] if index < len(self.blocks) and self.blocks[index].start < end else None


def _block_start(block: Block) -> int:
    return block.start


_HTML_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|"
    "fieldset|figcaption|figure|footer|form|frame|frameset|h1|h2|h3|h4|h5|h6|head|header|hr|html|iframe|legend|li|link|"
    "main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|"
    "title|tr|track|ul"
)
_EVENT = re.compile(
    r"\n {0,3}(?:"
    r"(?P<fence>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})"
    r"|(?P<atx>#{1,6})(?=[ \t\n]|\Z)"
    r"|(?P<setext>=+|-+)[ \t]*(?=\n|\Z)"
    r"|(?P<delimiter>[|:-][-:| \t]*)(?=\n|\Z)"
    r"|(?P<html><(?=[!?/a-zA-Z]))"
    r")"
)
_HTML_UNTIL = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?=[ \t>\n]|\Z)", re.IGNORECASE),
        re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r"<![a-zA-Z]"), re.compile(r">")),
)
_HTML_BLOCK = re.compile(rf"</?(?:{_HTML_NAMES})(?=[ \t\n>]|/>|\Z)", re.IGNORECASE)
_ATTRIBUTE = r"""[ \t]+[a-zA-Z_:][\w.:-]*(?:[ \t]*=[ \t]*(?:[^ \t\n"'=<>`]+|'[^'\n]*'|"[^"\n]*"))?"""
_HTML_TAG = re.compile(
    rf"(?:<[a-zA-Z][a-zA-Z0-9-]*(?:{_ATTRIBUTE})*[ \t]*/?>|</[a-zA-Z][a-zA-Z0-9-]*[ \t]*>)[ \t]*(?=\n|\Z)"
)
_BLANK_LINE = re.compile(r"\n[ \t]*(?=\n|\Z)")
_ATX_CLOSE = re.compile(r"(?:^|[ \t])[ \t]*#+[ \t]*$|[ \t]+$")
_CELL = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_FRONT_MATTER = re.compile(r"\n---[ \t]*\n(?=[\w.\"'-]+[ \t]*:|\#)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?=\n|\Z)")
_CONTAINER = re.compile(r" {0,3}(?:>|(?!(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,})\Z)(?:[-+*]|\d{1,9}[.)])(?:[ \t]+\S))")
_NOT_PARAGRAPH = re.compile(
    r" {0,3}(?:\#{1,6}(?:[ \t]|\Z)|(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:[-+*]|\d{1,9}[.)])[ \t]*)\Z)"
)
_ENDS_TABLE = re.compile(rf" {{4}}|\t|{_CONTAINER.pattern}|{_NOT_PARAGRAPH.pattern}| {{0,3}}(?:`{{3}}|~{{3}}|<)")
_NO_PARAGRAPH, _IN_CONTAINER = -1, -2


def scan(text: str) -> Outline:
    """The outline of a Markdown text, in one pass."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        # Line endings of equal length keep offsets; a line break in front lets every line begin the same way.
        if "\r" in text:
            text = text.replace("\r\n", " \n").replace("\r", "\n")
        self.text = "\n" + text
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.free_from = 0
        """Offset in `self.text` of the line break after the last finished heading or block."""
        self._known = (_NO_PARAGRAPH, _NO_PARAGRAPH)

    def run(self) -> Outline:
        place = self._front_matter()
        while (event := _EVENT.search(self.text, place)) is not None:
            place = self._handle(event)
        return Outline(tuple(self.headings), tuple(self.blocks))

    def _front_matter(self) -> int:
        found = _FRONT_MATTER.match(self.text)
        if found is None:
            return 0
        return self._block("front_matter", 0, found.end(), 0, found.end())

    def _handle(self, event: re.Match[str]) -> int:
        """Note what the event begins; returns where to go on, on a line break."""
        kind, start = event.lastgroup, event.start()
        if kind == "fence":
            return self._fence(start, event)
        if kind == "atx":
            end = self._line_end(event.end())
            self._heading(start, end, len(event["atx"]), _ATX_CLOSE.sub("", self.text[event.end() : end].strip()))
            return end
        if kind == "html":
            return self._html(start, event)
        return self._underline(start, event)

    def _line_end(self, place: int) -> int:
        end = self.text.find("\n", place)
        return len(self.text) if end < 0 else end

    def _heading(self, start: int, end: int, level: int, title: str) -> None:
        self.headings.append(Heading(start, min(end, len(self.text) - 1), level, title.strip()))
        self.free_from = end

    def _block(self, kind: BlockKind, start: int, end: int, body_start: int, body_end: int, info: str = "") -> int:
        """Offsets of `self.text` whose line break in front makes them offsets of the text after the break before them."""
        limit = len(self.text) - 1
        self.blocks.append(Block(kind, start, min(end, limit), min(body_start, limit), min(body_end, limit), info))
        self.free_from = end
        return end

    def _fence(self, start: int, event: re.Match[str]) -> int:
        marks = event["fence"]
        opened = self._line_end(event.end())
        info = self.text[event.end() : opened].strip()
        close = re.compile(rf"\n {{0,3}}{re.escape(marks[0])}{{{len(marks)},}}[ \t]*(?=\n|\Z)").search(
            self.text, opened
        )
        if close is None:
            return self._block("fence", start, len(self.text), opened, len(self.text), info)
        return self._block("fence", start, close.end(), opened, close.start(), info)

    def _html(self, start: int, event: re.Match[str]) -> int:
        begin = event.end() - 1
        for opening, closing in _HTML_UNTIL:
            if opening.match(self.text, begin) is not None:
                found = closing.search(self.text, begin + 2)
                end = len(self.text) if found is None else self._line_end(found.end())
                return self._block("html", start, end, start, end)
        if _HTML_BLOCK.match(self.text, begin) is None and (
            self._paragraph_start(start) is not None or _HTML_TAG.match(self.text, begin) is None
        ):
            return event.end()
        blank = _BLANK_LINE.search(self.text, event.end())
        end = len(self.text) if blank is None else blank.start()
        return self._block("html", start, end, start, end)

    def _underline(self, start: int, event: re.Match[str]) -> int:
        line = self.text[event.start() + 1 : self._line_end(event.end())].strip()
        paragraph = self._paragraph_start(start)
        if paragraph is None:
            return event.end()
        if event.lastgroup == "setext":
            title = " ".join(self.text[paragraph:start].split())
            self._heading(paragraph, event.end(), 1 if line[0] == "=" else 2, title)
            return event.end()
        header = self.text.rfind("\n", 0, start)
        if "|" not in line or _DELIMITER.match(line) is None or _cells(self.text[header + 1 : start]) != _cells(line):
            return event.end()
        end = event.end()
        while end < len(self.text):
            following = self._line_end(end + 1)
            row = self.text[end + 1 : following]
            if not row.strip() or _ENDS_TABLE.match(row) is not None:
                break
            end = following
        return self._block("table", header, end, event.end(), end)

    def _paragraph_start(self, line_break: int) -> int | None:
        """The line break before the paragraph that ends at `line_break`; None when the line above is no paragraph."""
        start = self._above(line_break)
        self._known = (line_break, start)
        return None if start in (_NO_PARAGRAPH, _IN_CONTAINER) else start

    def _above(self, line_break: int) -> int:
        start = _NO_PARAGRAPH
        place = line_break
        while place > self.free_from:
            if place == self._known[0]:
                # Lines above were looked at for an earlier event: a paragraph is read once, not once per line.
                known = self._known[1]
                return start if known == _NO_PARAGRAPH else known
            above = self.text.rfind("\n", self.free_from, place)
            if above < 0:
                break
            line = self.text[above + 1 : place]
            if not line.strip(" \t"):
                break
            if _CONTAINER.match(line) is not None:
                # A list item or quotation takes the lines below in as its own.
                return _IN_CONTAINER
            place = above
            if line.startswith(("    ", "\t")):
                # Goes on with a paragraph further up if there is one; else it is code.
                continue
            if _NOT_PARAGRAPH.match(line) is not None:
                break
            start = above
        return start


def _cells(row: str) -> int:
    row = row.strip()
    row = row.removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return len(_CELL.findall(row)) + 1


_PARAGRAPH_BREAK = re.compile(r"\n(?:[^\S\n]*\n)+")


def paragraph_starts(text: str, outline: Outline) -> list[int]:
    """Where a line begins after blank lines, outside fences, tables, HTML blocks and front matter. Ascending, never 0."""
    blocks = outline.blocks
    starts: list[int] = []
    index = 0
    for found in _PARAGRAPH_BREAK.finditer(text):
        place = found.end()
        while index < len(blocks) and blocks[index].end < place:
            index += 1
        if index < len(blocks) and blocks[index].start < place < blocks[index].end:
            continue
        starts.append(place)
    if starts and starts[-1] == len(text):
        starts.pop()
    return starts


def heading_paths(headings: Sequence[Heading]) -> Iterator[tuple[str, ...]]:
    """The titles above and of each heading; a skipped level leaves no gap."""
    open_headings: list[Heading] = []
    for heading in headings:
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        yield tuple(above.title for above in open_headings if above.title)
