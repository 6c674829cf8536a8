"""HTML: all content of the body as blocks. Navigation, scripts and hidden parts are left out and counted."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from engine.documents.base import Block, Parsed
from engine.documents.decode import clean, clean_value, decode, non_blank
from engine.documents.html_table import Cell, grid, is_layout
from engine.documents.limits import check_paragraphs
from engine.documents.names import shown
from engine.documents.patterns import PLAIN, Hint, assign, split_number
from engine.documents.tree import build
from engine.errors import BadDocument
from engine.models import NodeKind, Notice
from engine.settings import Settings

MAX_NESTING = 256
"""Deepest nesting of elements: the walk is recursive."""

_LEFT_OUT = {
    "nav": "Navigation was left out.",
    "script": "Scripts were left out.",
    "style": "Style sheets were left out.",
    "template": "Templates that no reader sees were left out.",
    "noscript": "Content for browsers without scripts was left out.",
    "hidden": "Parts marked as hidden were left out.",
    "iframe": "Embedded pages and media were left out; they are not fetched.",
}
_SAME = {
    "object": "iframe", "embed": "iframe", "audio": "iframe", "video": "iframe", "canvas": "iframe", "applet": "iframe",
    "frame": "iframe", "link": "style",
}  # fmt: skip
_IGNORED = frozenset(("head", "meta", "base", "title", "wbr", "col", "colgroup", "source", "track", "input"))
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "dir", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend", "li",
    "main", "menu", "ol", "optgroup", "option", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead",
    "tr", "ul",
))  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NO_LINK = ("#", "javascript:", "data:", "vbscript:")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\n\f\r\u00a0]+")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang)-([\w+#-]+)")


@dataclass(slots=True)
class HtmlContent:
    """The blocks of a page, and what was counted while they were taken out."""

    blocks: list[Block] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    """How each block looks."""
    visible_characters: int = 0
    kept_characters: int = 0
    notices: list[Notice] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class HtmlReader:
    """Web pages and other HTML."""

    media_type = "text/html"
    version = "html-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument for an unknown encoding, a page without text, too deep nesting and too many paragraphs."""
        markup, notices = _markup(data, name)
        content = html_content(markup, name)
        check_paragraphs(len(content.blocks), name, settings)
        if not content.kept_characters:
            raise BadDocument(
                f"{shown(name)} has no text outside of scripts and navigation. Nothing was stored. "
                "Open the page in a browser, save it when it has loaded, and upload that."
            )
        assigned = assign(content.blocks, content.hints)
        built = build(assigned.blocks)
        return Parsed(
            text=built.text,
            tree=built.tree,
            structure=assigned.structure,
            visible_characters=content.visible_characters,
            kept_characters=content.kept_characters,
            warnings=(*notices, *content.notices),
            metadata=content.metadata,
        )


READER = HtmlReader()


def html_content(markup: str, name: str) -> HtmlContent:
    """The blocks of an HTML page or fragment, in reading order. Nothing is fetched, no script is run.

    Raises BadDocument when elements are nested deeper than `MAX_NESTING`.
    """
    content = HtmlContent()
    markup = _XML_DECLARATION.sub("", clean(markup).text, count=1)
    if not markup.strip():
        return content
    # Without `huge_tree` the parser gives up on pages of more than 10 MB; the upload limit bounds their size here.
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(markup.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        if "memory" in str(error).lower():
            raise MemoryError from None
        root = None
    if root is not None and _is_too_deep(root):
        raise BadDocument(
            f"{shown(name)} nests its content too deeply to be read whole. Nothing was stored. "
            "Save it again in a simpler form, or as PDF, and upload that."
        )
    if root is None:
        return content
    content.visible_characters = _visible_characters(root)
    walker = _Walker(content)
    walker.walk(root)
    walker.finish()
    content.metadata |= _metadata(root)
    return content


def _is_too_deep(root: Any) -> bool:
    level = [root]
    for _ in range(MAX_NESTING):
        level = [child for element in level for child in element]
    return bool(level)


def _markup(data: bytes, name: str) -> tuple[str, tuple[Notice, ...]]:
    """The markup as text: by byte order mark, UTF-8 where it is valid, the declared charset, detection."""
    declared = _CHARSET.search(data[:4096])
    if declared is not None and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            try:
                codec = codecs.lookup(declared[1].decode("ascii"))
                cleaned = clean(codec.decode(data, "strict")[0])
                return cleaned.text, cleaned.notices
            except (LookupError, UnicodeDecodeError, AttributeError):
                pass
    decoded = decode(data, name)
    return decoded.text, decoded.notices


class _Walker:
    """Walks the elements once. Inline content gathers in a buffer; the start and end of a block element empty it."""

    def __init__(self, content: HtmlContent) -> None:
        self._content = content
        self._buffer: list[str] = []
        self._list_depth = 0
        self._item: tuple[int, str | None] | None = None
        """Level and label of the list item whose first text has not come yet."""
        self._direction: str | None = None
        self._bold_depth = 0
        self._all_bold = True
        """Whether all words in the buffer are bold."""
        self._left_out: Counter[str] = Counter()

    def finish(self) -> None:
        self._flush()
        for kind in _LEFT_OUT:
            if self._left_out[kind]:
                notice = Notice(kind=kind, message=_LEFT_OUT[kind], count=self._left_out[kind])
                self._content.notices.append(notice)

    def walk(self, element: Any) -> None:
        """The element with everything in it, without the text behind it."""
        tag = element.tag
        if not isinstance(tag, str):
            return
        reason = _reason_to_leave_out(element)
        if reason is not None:
            self._left_out[reason] += 1
            return
        if tag in _IGNORED:
            return
        outer = self._direction
        if element.get("dir") in ("rtl", "ltr"):
            self._direction = element.get("dir") if element.get("dir") == "rtl" else None
        handler = getattr(self, f"_on_{tag}", None)
        if handler is not None:
            handler(element)
        elif tag in _HEADINGS:
            self._heading(element, _HEADINGS[tag])
        elif tag in _BLOCKS:
            self._flush()
            self._children(element)
            self._flush()
        else:
            self._children(element)
        self._direction = outer

    def _children(self, element: Any) -> None:
        self._text(element.text)
        for child in element:
            self.walk(child)
            self._text(child.tail)

    def _text(self, text: str | None) -> None:
        if text:
            count = non_blank(text)
            self._content.kept_characters += count
            self._buffer.append(_SPACE.sub(" ", text))
            self._all_bold = self._all_bold and (self._bold_depth > 0 or count == 0)

    def _flush(self) -> None:
        """Buffered inline content becomes one block, or several where two line breaks stand together."""
        if not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer.clear()
        for part in re.split(r"\n\s*\n", text):
            body = "\n".join(line for line in (_SPACE.sub(" ", raw).strip() for raw in part.split("\n")) if line)
            if body:
                self._paragraph(body)
        self._all_bold = True

    def _paragraph(self, body: str) -> None:
        if self._item is not None:
            level, label = self._item
            self._item = None
            self._add(Block(NodeKind.LIST_ITEM, body, level=level, label=label, rule="li"))
        else:
            hint = Hint(bold=True) if self._all_bold else PLAIN
            self._add(Block(NodeKind.PARAGRAPH, body, level=self._level(), rule="p"), hint)

    def _add(self, block: Block, hint: Hint = PLAIN) -> None:
        if self._direction:
            block.attributes["direction"] = self._direction
        self._content.blocks.append(block)
        self._content.hints.append(hint)

    def _level(self) -> int:
        return self._list_depth + 1 if self._list_depth else 0

    def _heading(self, element: Any, level: int) -> None:
        self._flush()
        self._children(element)
        text = " ".join("".join(self._buffer).split())
        self._buffer.clear()
        self._all_bold = True
        if not text:
            return
        if self._list_depth:
            self._paragraph(text)
        else:
            self._add(split_number(Block(NodeKind.SECTION, text, level=level, rule="heading")))

    def _on_br(self, _: Any) -> None:
        self._buffer.append("\n")

    def _on_img(self, element: Any) -> None:
        alt = clean_value(element.get("alt") or "")
        if alt:
            self._buffer.append(f"![{alt}]")

    def _on_a(self, element: Any) -> None:
        href = "".join((element.get("href") or "").split())
        start = len(self._buffer)
        blocks = len(self._content.blocks)
        self._children(element)
        words = "".join(self._buffer[start:])
        if href and words.strip() and len(self._content.blocks) == blocks and not href.lower().startswith(_NO_LINK):
            lead = words[: len(words) - len(words.lstrip())]
            tail = words[len(words.rstrip()) :]
            target = href.replace("(", "%28").replace(")", "%29")
            self._buffer[start:] = [f"{lead}[{words.strip()}]({target}){tail}"]

    def _on_b(self, element: Any) -> None:
        self._bold_depth += 1
        self._children(element)
        self._bold_depth -= 1

    _on_strong = _on_b

    def _on_code(self, element: Any) -> None:
        start = len(self._buffer)
        self._children(element)
        words = "".join(self._buffer[start:]).strip()
        if words and "`" not in words and "\n" not in words:
            self._buffer[start:] = [f"`{words}`"]

    def _on_pre(self, element: Any) -> None:
        self._flush()
        text = "".join(_preformatted(element))
        self._content.kept_characters += non_blank(text)
        if text.strip():
            code = element.find("code")
            classes = f"{element.get('class') or ''} {'' if code is None else code.get('class') or ''}"
            language = _LANGUAGE.search(classes)
            attributes = {"language": language[1]} if language else {}
            self._add(Block(NodeKind.CODE, text, self._level(), rule="pre", attributes=attributes))

    def _on_ul(self, element: Any) -> None:
        self._list(element, ordered=False)

    def _on_ol(self, element: Any) -> None:
        self._list(element, ordered=True)

    _on_menu = _on_dir = _on_ul

    def _list(self, element: Any, *, ordered: bool) -> None:
        self._flush()
        self._text(element.text)
        self._flush()
        self._list_depth += 1
        number = _integer(element.get("start"), 1)
        style = element.get("type") or "1"
        for child in element:
            if child.tag == "li" and _reason_to_leave_out(child) is None:
                number = _integer(child.get("value"), number)
                self._item = (self._list_depth, f"{_numeral(number, style)}." if ordered else None)
                self.walk(child)
                self._item = None
                number += 1
            else:
                self.walk(child)
            self._text(child.tail)
            self._flush()
        self._list_depth -= 1

    def _on_table(self, element: Any) -> None:
        self._flush()
        table = grid(element)
        for loose in table.loose:
            if isinstance(loose, str):
                self._text(loose)
            else:
                self.walk(loose)
        self._flush()
        if is_layout(element, table):
            for row in table.rows:
                for cell in row:
                    if cell.first:
                        self._children(cell.element)
                        self._flush()
            return
        rows = tuple(tuple(self._cell_text(cell) for cell in row) for row in table.rows)
        if any(any(row) for row in rows):
            self._add(
                Block(
                    NodeKind.TABLE,
                    "",
                    self._level(),
                    rule="table",
                    rows=rows,
                    header_rows=min(table.header_rows, len(rows)),
                )
            )

    def _cell_text(self, cell: Cell) -> str:
        """Markdown of a cell on its own lines. Repeats of a merged cell are not counted again."""
        if cell.text is None:
            inner = _Walker(HtmlContent())
            inner._children(cell.element)
            inner._flush()
            found = inner._content
            self._content.kept_characters += found.kept_characters
            self._left_out.update(inner._left_out)
            cell.set_text("\n".join(_flat(block) for block in found.blocks))
        return cell.text or ""


def _flat(block: Block) -> str:
    """A block inside a table cell, as plain lines."""
    if block.kind is NodeKind.TABLE:
        return "; ".join(": ".join(cell.replace("\n", " ") for cell in row if cell) for row in block.rows)
    if block.kind is NodeKind.LIST_ITEM:
        return f"{block.label or '-'} {block.text}"
    return f"{block.label} {block.text}".strip() if block.label else block.text


def _reason_to_leave_out(element: Any) -> str | None:
    tag = element.tag
    if tag in _LEFT_OUT and tag != "hidden":
        return str(tag)
    if tag in _SAME:
        return _SAME[tag]
    if element.get("role") == "navigation":
        return "nav"
    if element.get("hidden") is not None or _HIDDEN_STYLE.search(element.get("style") or ""):
        return "hidden"
    return None


def _visible_characters(root: Any) -> int:
    """Characters of all text a reader of the page sees, counted apart from the walk that keeps them."""
    count = 0
    stack = [root]
    while stack:
        element = stack.pop()
        if isinstance(element.tag, str) and element.tag not in _IGNORED and _reason_to_leave_out(element) is None:
            count += non_blank(element.text or "")
            stack.extend(element)
        if element is not root:
            count += non_blank(element.tail or "")
    return count


def _preformatted(element: Any) -> Iterator[str]:
    if _reason_to_leave_out(element) is None:
        yield element.text or ""
        for child in element:
            if child.tag == "br":
                yield "\n"
            elif isinstance(child.tag, str):
                yield from _preformatted(child)
            yield child.tail or ""


def _integer(value: str | None, default: int) -> int:
    return int(value) if value is not None and re.fullmatch(r"-?\d{1,9}", value.strip()) else default


_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


def _numeral(number: int, style: str) -> str:
    """A list number in the style of the `type` attribute: 1, a, A, i, I."""
    if number < 1 or style not in ("a", "A", "i", "I") or number > 3999:
        return str(number)
    letters = ""
    if style in "aA":
        while number:
            number, rest = divmod(number - 1, 26)
            letters = chr(97 + rest) + letters
    else:
        for value, sign in _ROMAN:
            count, number = divmod(number, value)
            letters += sign * count
    return letters.upper() if style in "AI" else letters


_META = {
    "author": "author", "dc.creator": "author", "dcterms.creator": "author", "article:author": "author",
    "date": "date", "dc.date": "date", "dcterms.date": "date", "article:published_time": "date", "dcterms.issued": "date",
    "description": "description",
}  # fmt: skip


def _metadata(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    title = root.find(".//title")
    if title is not None and (words := clean_value("".join(title.itertext()))):
        found["title"] = words
    if root.get("lang"):
        found["language"] = clean_value(root.get("lang"))
    for meta in root.iter("meta"):
        key = _META.get((meta.get("name") or meta.get("property") or "").lower())
        if key and meta.get("content"):
            found.setdefault(key, clean_value(meta.get("content")))
    return found
