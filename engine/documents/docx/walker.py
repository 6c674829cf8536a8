"""Walks the body of a Word document and turns paragraphs and tables into blocks, in reading order."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from engine.documents.base import Block
from engine.documents.clauses import LONG_HEADING
from engine.documents.docx.chunks import Inserted, inserted_blocks
from engine.documents.docx.diagrams import diagram_root, diagram_texts
from engine.documents.docx.inline import Attached, Inline, InlineReader, count_removed
from engine.documents.docx.notes import Notes
from engine.documents.docx.numbering import Label, Numbering
from engine.documents.docx.package import WordPackage
from engine.documents.docx.styles import BODY_LEVEL, HeadingLevel, StyleSheet
from engine.documents.docx.tables import Row, TableReader, flat_text
from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import (
    DGM,
    MC,
    REMOVED,
    SILENT,
    WRAPPERS,
    M,
    W,
    alternate,
    elements,
    integer,
    toggle,
    value,
)
from engine.documents.patterns import PLAIN, Hint, split_number
from engine.documents.points import CONTENTS
from engine.models import NodeKind

_LONG = 2000
"""Characters above which every line break of a paragraph starts a new one."""
_EMPTY_LINE = re.compile(r"\n[ \t\u00a0]*\n\s*")
_TITLES = ("title", "subtitle")


class Item(NamedTuple):
    """A block and how it looks."""

    block: Block
    hint: Hint = PLAIN


class Walker:
    """One walk through a story: the body, or the text of one note."""

    def __init__(
        self, package: WordPackage, styles: StyleSheet, numbering: Numbering, notes: Notes, tally: Tally, name: str
    ) -> None:
        self._package = package
        self._styles = styles
        self._numbering = numbering
        self._notes = notes
        self._tally = tally
        self._name = name
        self._inline = InlineReader(styles, tally, notes)
        self._pending: Inline | None = None
        self._waiting: deque[tuple[str, str]] | None = None
        """In the text of a note: where notes that it refers to wait for their turn."""
        self._in_contents = 0
        self._index = 0
        self.inserted = Inserted()
        """Inserted files that were read: their characters are no part of the document's own XML."""
        self.diagrams: list[Any] = []
        """Roots of the diagrams that were read."""
        self.title: str | None = None

    def walk(self, container: Any) -> list[Item]:
        """Blocks of all content in a container element."""
        items: list[Item] = []
        self._container(container, items)
        if self._pending is not None:
            items.extend(self._paragraph_items(None, self._pending))
            self._pending = None
        return items

    def _story(self) -> Walker:
        """A walker for another story of the same document: fields of one do not reach into the other."""
        other = Walker(self._package, self._styles, self._numbering, self._notes, self._tally, self._name)
        other.inserted, other.diagrams = self.inserted, self.diagrams
        return other

    def _container(self, container: Any, items: list[Item]) -> None:
        for child in elements(container):
            tag = child.tag
            if tag == W + "p":
                items.extend(self._paragraph(child))
            elif tag == W + "tbl":
                items.extend(self._table(child))
            elif tag in SILENT:
                continue
            elif tag in WRAPPERS:
                self._container(child, items)
            elif tag == W + "sdt":
                self._control(child, items)
            elif tag in REMOVED:
                count_removed(child, self._tally)
            elif tag == MC + "AlternateContent":
                branch = alternate(child)
                if branch is not None:
                    self._container(branch, items)
            elif tag == W + "altChunk":
                items.extend(self._inserted(child))
            elif tag in (M + "oMath", M + "oMathPara", W + "r"):
                items.extend(
                    self._paragraph_items(None, self._inline.read([child], self._styles.paragraph_style(None)))
                )
            else:
                self._tally.unknown(tag)
                self._container(child, items)

    def _control(self, control: Any, items: list[Item]) -> None:
        content = control.find(W + "sdtContent")
        content = control if content is None else content
        gallery = value(control.find(f"{W}sdtPr/{W}docPartObj"), "docPartGallery") or ""
        is_contents = gallery.lower() == "table of contents"
        self._in_contents += is_contents
        self._container(content, items)
        self._in_contents -= is_contents

    def _inserted(self, chunk: Any) -> list[Item]:
        content = inserted_blocks(self._package, chunk, self._tally, self._name)
        self.inserted.visible_characters += content.visible_characters
        self.inserted.kept_characters += content.kept_characters
        return [Item(block) for block in content.blocks]

    # --- paragraphs ----------------------------------------------------------------------------------------------

    def _paragraph(self, paragraph: Any) -> list[Item]:
        self._index += 1
        properties = paragraph.find(W + "pPr")
        style = self._styles.paragraph_style(value(properties, "pStyle"))
        opened_contents = self._inline.fields.in_contents
        inline = self._inline.read(paragraph, style)
        in_contents = opened_contents or self._inline.fields.in_contents or self._in_contents > 0
        mark = properties.find(W + "rPr") if properties is not None else None
        if self._pending is not None:
            self._pending.run_on(inline)
            inline = self._pending
            self._pending = None
        if mark is not None and (mark.find(W + "del") is not None or mark.find(W + "moveFrom") is not None):
            self._pending = inline if inline.pieces or inline.attached else None
            return []
        return self._paragraph_items(paragraph, inline, properties, style, in_contents)

    def _paragraph_items(
        self,
        paragraph: Any | None,
        inline: Inline,
        properties: Any | None = None,
        style: str | None = None,
        in_contents: bool = False,
    ) -> list[Item]:
        label = self._label(properties, style, inline)
        items = self._text_items(inline, label, properties, style, in_contents)
        for attached in inline.attached:
            items.extend(self._attached_items(attached))
        if self._waiting is not None:
            self._waiting.extend(inline.note_ids)
        else:
            items.extend(self._note_items(inline.note_ids))
        return items

    def _label(self, properties: Any | None, style: str | None, inline: Inline) -> Label | None:
        """The number Word prints. Word does not count hidden paragraphs, nor empty ones that only end a section."""
        if not inline.text.strip() and not inline.attached and properties is not None:
            mark = properties.find(W + "rPr")
            if properties.find(W + "sectPr") is not None or toggle(mark, "vanish"):
                return None
        return self._numbering.label(properties, style)

    def _text_items(
        self, inline: Inline, label: Label | None, properties: Any | None, style: str | None, in_contents: bool
    ) -> list[Item]:
        text = inline.text.strip()
        printed = label.text if label is not None else ""
        if not text and not printed:
            return []
        heading = self._heading(properties, style)
        is_contents = self._styles.is_contents(style) or (in_contents and heading is None)
        hint = self._hint(inline, properties, style, is_contents)
        block = Block(
            NodeKind.PARAGRAPH,
            text,
            label=printed or None,
            number_path=label.path if label is not None else (),
            separator=label.separator if label is not None else " ",
            attributes=self._attributes(properties, label),
        )
        if is_contents:
            self._tally.add("contents")
            return [Item(replace(_one_line(block), rule=CONTENTS), hint)]
        if heading is not None:
            return self._heading_items(block, heading, inline, hint)
        if self._styles.name(style).lower() in _TITLES:
            self.title = self.title or " ".join(text.split())
            return [Item(replace(_one_line(block), rule="title", title=" ".join(text.split())), hint)]
        if label is not None and label.bullet:
            return [Item(replace(block, kind=NodeKind.LIST_ITEM, level=label.level + 1), hint)]
        return [Item(piece, hint) for piece in _split(block)]

    def _heading_items(self, block: Block, heading: HeadingLevel, inline: Inline, hint: Hint) -> list[Item]:
        if len(block.text) <= LONG_HEADING:
            section = replace(_one_line(block), kind=NodeKind.SECTION, level=heading.level, rule=heading.rule)
            return [Item(split_number(section), hint)]
        self._tally.add("clause")
        opening = " ".join(inline.opening.split()).rstrip(".:;,– ")
        title = opening if 0 < len(opening) < LONG_HEADING and len(opening) < len(block.text) / 2 else None
        first, *rest = _split(replace(block, rule=heading.rule, outline=heading.level, title=title))
        return [Item(first, hint), *(Item(replace(piece, outline=0, title=None), hint) for piece in rest)]

    def _heading(self, properties: Any | None, style: str | None) -> HeadingLevel | None:
        level = integer(value(properties, "outlineLvl"))
        if level is not None:
            return HeadingLevel(level + 1, "outline") if 0 <= level < BODY_LEVEL else None
        return self._styles.heading(style)

    def _hint(self, inline: Inline, properties: Any | None, style: str | None, is_contents: bool) -> Hint:
        alignment = value(properties, "jc")
        centered = alignment == "center" if alignment else bool(self._styles.paragraph_look(style).centered)
        return Hint(
            bold=0 < inline.shown == inline.bold,
            caps=0 < inline.shown == inline.caps,
            centered=centered,
            size=inline.size,
            contents=is_contents,
        )

    def _attributes(self, properties: Any | None, label: Label | None) -> dict[str, Any]:
        attributes: dict[str, Any] = {"paragraph": self._index}
        if toggle(properties, "bidi"):
            attributes["direction"] = "rtl"
        if label is not None and not label.bullet:
            attributes["list"] = label.list_id
        return attributes

    def _attached_items(self, attached: Attached) -> list[Item]:
        if attached.element is None:
            return [Item(Block(NodeKind.PARAGRAPH, attached.text))]
        if attached.element.tag == DGM + "relIds":
            root = diagram_root(self._package, attached.element)
            if root is None:
                return []
            self.diagrams.append(root)
            return [Item(Block(NodeKind.PARAGRAPH, text)) for text in diagram_texts(root)]
        items: list[Item] = []
        container = attached.element if attached.element.tag == W + "txbxContent" else [attached.element]
        self._container(container, items)
        return items

    def _note_items(self, references: Iterable[tuple[str, str]]) -> list[Item]:
        """The notes that are referred to, then those that they refer to. A chain of them may be of any length."""
        found: list[Item] = []
        waiting = deque(references)
        while waiting:
            kind, note_id = waiting.popleft()
            note = self._notes.open(kind, note_id)
            if note is None:
                continue
            story = self._story()
            story._waiting = waiting
            text = "\n".join(flat_text(item.block) for item in story.walk(note.element))
            found.append(Item(Block(NodeKind.NOTE, text, label=note.marker, attributes={"note": kind})))
        return found

    # --- tables --------------------------------------------------------------------------------------------------

    def _table(self, table: Any) -> list[Item]:
        reader = TableReader(self._tally)
        rows: list[Row] = []
        for row, cells in reader.rows(table):
            for cell in cells:
                items: list[Item] = []
                self._container(cell.element, items)
                cell.fill([item.block for item in items], all(item.hint.bold for item in items) and bool(items))
                cell.hints = [item.hint for item in items]
            rows.append(Row(cells, row))
        strays: list[Item] = []
        self._container(reader.strays, strays)
        if reader.is_layout(rows):
            self._tally.add("layout")
            return [
                Item(block, hint)
                for row in rows
                for cell in row.cells
                for block, hint in zip(cell.blocks, cell.hints, strict=True)
            ] + strays
        notes = [block for row in rows for cell in row.cells for block in cell.blocks if block.kind is NodeKind.NOTE]
        block = reader.block(table, rows)
        table_items = [Item(block, Hint(in_table=True))] if block.rows else []
        return table_items + [Item(note) for note in notes] + strays


def _one_line(block: Block) -> Block:
    return replace(block, text=" ".join(block.text.split()))


def _split(block: Block) -> list[Block]:
    """Empty lines inside a paragraph split it; in a very long one every line break does. The label stays with the first."""
    text = block.text
    pieces = text.split("\n") if len(text) > _LONG else _EMPTY_LINE.split(text)
    pieces = [_clean(piece) for piece in pieces if piece.strip()] or [""]
    first = block if pieces[0] == text else replace(block, text=pieces[0])
    return [first, *(replace(block, text=piece, label=None, number_path=()) for piece in pieces[1:])]


def _clean(text: str) -> str:
    return "\n".join(" ".join(line.replace("\t", " ").split(" ")).strip() for line in text.strip().split("\n"))
