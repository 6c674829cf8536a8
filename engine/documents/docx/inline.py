"""The content of one paragraph: its text, its look, and what hangs on it (notes, text boxes)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from engine.documents.docx.drawing import read_drawing
from engine.documents.docx.equations import equation_text
from engine.documents.docx.fields import Fields
from engine.documents.docx.styles import Look, StyleSheet, look_of
from engine.documents.docx.symbols import UNKNOWN, symbol
from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import MC, REMOVED, SILENT, WRAPPERS, M, W, alternate, elements, own_text, value

_LONGEST_OPENING = 400
"""Characters after which emphasised text is no opening but an emphasised paragraph."""
_BREAKS = (W + "br", W + "cr")
_TABS = (W + "tab", W + "ptab")
_DRAWINGS = (W + "drawing", W + "pict", W + "object")
_NOTES = {W + "footnoteReference": "footnote", W + "endnoteReference": "endnote"}
_COUNTED = {W + "commentReference": "comments", W + "subDoc": "subdocument"}
_SILENT_RUN = frozenset(
    W + name for name in ("dayShort", "monthShort", "yearShort", "dayLong", "monthLong", "yearLong", "pgNum", "delText")
)


class NoteMarks(Protocol):
    """Gives notes their numbers in order of first reference."""

    def marker(self, kind: str, note_id: str | None) -> str: ...


class Attached(NamedTuple):
    """Content that stands after the paragraph: a text box or a paragraph inside a run (an element), or bare text."""

    element: Any | None
    text: str = ""


@dataclass(slots=True)
class Inline:
    """The visible content of a paragraph."""

    pieces: list[str] = field(default_factory=list)
    attached: list[Attached] = field(default_factory=list)
    note_ids: list[tuple[str, str]] = field(default_factory=list)
    """(kind, id) of the notes referred to, in order."""
    bold: int = 0
    caps: int = 0
    shown: int = 0
    """Non-blank characters, and how many of them are bold or in capitals by format."""
    size: float = 0.0
    """Font size of the first visible text."""
    opening: str = ""
    """Bold or underlined text the paragraph opens with, while no other text has followed."""
    opening_over: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, text: str, look: Look, emphasised: bool) -> None:
        self.pieces.append(text)
        visible = len("".join(text.split()))
        if not visible:
            self.opening += "" if self.opening_over else text[:1]
            return
        self.shown += visible
        self.bold += visible if look.bold else 0
        self.caps += visible if look.caps else 0
        self.size = self.size or look.size or 0.0
        self.opening_over = self.opening_over or not emphasised or len(self.opening) > _LONGEST_OPENING
        if not self.opening_over:
            self.opening += text

    def run_on(self, later: Inline) -> None:
        """Take in the next paragraph: the mark of this one was deleted, so its content runs on into this one."""
        self.pieces.extend(later.pieces)
        self.attached.extend(later.attached)
        self.note_ids.extend(later.note_ids)
        self.bold += later.bold
        self.caps += later.caps
        if self.shown:
            self.opening_over = True
        else:
            self.opening, self.opening_over, self.size = later.opening, later.opening_over, later.size
        self.shown += later.shown


class InlineReader:
    """Reads the paragraphs of one story (body, note, header). Fields stay open from one paragraph to the next."""

    def __init__(self, styles: StyleSheet, tally: Tally, notes: NoteMarks) -> None:
        self._styles = styles
        self._tally = tally
        self._notes = notes
        self.fields = Fields(tally)

    def read(self, paragraph: Any, style_id: str | None) -> Inline:
        inline = Inline()
        self._content(paragraph, self._styles.paragraph_look(style_id), inline, tracked=False)
        return inline

    def _content(self, parent: Any, base: Look, inline: Inline, *, tracked: bool) -> None:
        for child in elements(parent):
            tag = child.tag
            if tag == W + "r":
                self._run(child, base, inline, tracked)
            elif tag in SILENT:
                continue
            elif tag in WRAPPERS:
                self._content(child, base, inline, tracked=tracked or tag in (W + "ins", W + "moveTo"))
            elif tag == W + "sdt":
                content = child.find(W + "sdtContent")
                self._content(child if content is None else content, base, inline, tracked=tracked)
            elif tag in REMOVED:
                count_removed(child, self._tally)
            elif tag == MC + "AlternateContent":
                branch = alternate(child)
                if branch is not None:
                    self._content(branch, base, inline, tracked=tracked)
            else:
                self._other(child, base, inline, tracked)

    def _other(self, child: Any, base: Look, inline: Inline, tracked: bool) -> None:
        """What may stand both in a paragraph and, in files of other producers, where it does not belong."""
        tag = child.tag
        if tag in (M + "oMath", M + "oMathPara"):
            self._show(f" {equation_text(child)} " if inline.pieces else equation_text(child), base, inline, tracked)
        elif tag in (W + "p", W + "tbl"):
            inline.attached.append(Attached(child))
        elif tag in _COUNTED:
            self._tally.add(_COUNTED[tag])
        elif tag == W + "t" or tag in _BREAKS or tag in _TABS or tag in _DRAWINGS:
            self._run_child(child, base, inline, tracked)
        else:
            self._tally.unknown(tag)
            self._content(child, base, inline, tracked=tracked)

    def _run(self, run: Any, base: Look, inline: Inline, tracked: bool) -> None:
        properties = run.find(W + "rPr")
        look = base
        emphasised = False
        if properties is not None:
            style = value(properties, "rStyle")
            look = look_of(properties).over(self._styles.look(style).over(base) if style else base)
            underline = value(properties, "u")
            emphasised = underline is not None and underline != "none"
        if look.hidden:
            self._hidden(run)
            return
        emphasised = emphasised or bool(look.bold)
        for child in elements(run):
            self._run_child(child, look, inline, tracked, emphasised)

    def _run_child(self, child: Any, look: Look, inline: Inline, tracked: bool, emphasised: bool = False) -> None:
        tag = child.tag
        if tag == W + "t":
            self._show(own_text(child), look, inline, tracked, emphasised)
        elif tag in _TABS:
            self._show("\t", look, inline, tracked, emphasised)
        elif tag in _BREAKS:
            self._show("\n", look, inline, tracked, emphasised)
        elif tag == W + "noBreakHyphen":
            self._show("-", look, inline, tracked, emphasised)
        elif tag == W + "sym":
            sign = symbol(child.get(W + "font"), child.get(W + "char"))
            self._tally.add("symbol", sign is None)
            self._show(sign or UNKNOWN, look, inline, tracked, emphasised)
        elif tag == W + "fldChar":
            self._show(self.fields.mark(child), look, inline, tracked, emphasised)
        elif tag == W + "instrText":
            self.fields.instruct(own_text(child))
        elif tag in _NOTES:
            self._note(_NOTES[tag], child, inline)
        elif tag in _DRAWINGS:
            self._drawing(child, look, inline, tracked)
        elif tag == W + "ruby":
            self._ruby(child, look, inline, tracked)
        elif tag == MC + "AlternateContent":
            branch = alternate(child)
            for inner in elements(branch) if branch is not None else ():
                self._run_child(inner, look, inline, tracked, emphasised)
        elif tag not in SILENT and tag not in _SILENT_RUN:
            self._content_in_run(child, look, inline, tracked)

    def _content_in_run(self, child: Any, look: Look, inline: Inline, tracked: bool) -> None:
        """Elements that belong outside of a run but occur inside one."""
        tag = child.tag
        if tag in WRAPPERS or tag == W + "r":
            self._content([child], look, inline, tracked=tracked)
        elif tag in REMOVED:
            count_removed(child, self._tally)
        elif tag in _COUNTED or tag in (W + "p", W + "tbl", W + "sdt", M + "oMath", M + "oMathPara"):
            self._content([child], look, inline, tracked=tracked)
        else:
            self._tally.unknown(tag)
            for inner in elements(child):
                self._run_child(inner, look, inline, tracked)

    def _show(self, text: str, look: Look, inline: Inline, tracked: bool, emphasised: bool = False) -> None:
        if not text or not self.fields.shows:
            return
        inline.add(text, look, emphasised)
        if tracked:
            self._tally.add("inserted", len("".join(text.split())))

    def _note(self, kind: str, reference: Any, inline: Inline) -> None:
        note_id = reference.get(W + "id")
        marker = self._notes.marker(kind, note_id)
        if marker and self.fields.shows:
            inline.pieces.append(f"[^{marker}]")
            inline.note_ids.append((kind, note_id))

    def _drawing(self, element: Any, look: Look, inline: Inline, tracked: bool) -> None:
        if not self.fields.shows:
            return
        found = read_drawing(element, self._tally)
        if found.alt:
            inline.pieces.append(f"![{found.alt}]")
        inline.attached.extend(Attached(box) for box in found.boxes)
        inline.attached.extend(Attached(None, text) for text in found.texts)
        inline.attached.extend(Attached(diagram) for diagram in found.diagrams)

    def _ruby(self, ruby: Any, look: Look, inline: Inline, tracked: bool) -> None:
        """Base text, then its reading in brackets."""
        for name, left, right in (("rubyBase", "", ""), ("rt", "(", ")")):
            part = ruby.find(W + name)
            if part is not None:
                self._show(left, look, inline, tracked)
                self._content(part, look, inline, tracked=tracked)
                self._show(right, look, inline, tracked)

    def _hidden(self, run: Any) -> None:
        """Count hidden text; field marks in it count all the same, or a field would never close."""
        for child in elements(run):
            if child.tag == W + "t" and self.fields.shows:
                self._tally.add("hidden", len("".join(own_text(child).split())))
            elif child.tag == W + "fldChar":
                self.fields.mark(child)
            elif child.tag == W + "instrText":
                self.fields.instruct(own_text(child))


def count_removed(element: Any, tally: Tally) -> None:
    """Count the characters of a tracked deletion or of the old place of a move."""
    kind = "moved" if element.tag == W + "moveFrom" else "deleted"
    for text in element.iter(W + "delText", W + "t"):
        tally.add(kind, len("".join(own_text(text).split())))
