"""Complex fields: instruction text is not shown, the stored result is. A field may span many paragraphs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from engine.documents.docx.symbols import symbol
from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import W, integer, toggle

_SHOWS_NOTHING = frozenset(
    [
        "XE",
        "TC",
        "TA",
        "RD",
        "PRIVATE",
        "SET",
        "ASK",
        "BOOKMARK",
        "NEXT",
        "NEXTIF",
        "SKIPIF",
        "ADVANCE",
        "PRINT",
        "TOC",
        "INDEX",
        "PAGE",
        "NUMPAGES",
    ]
)
_OUTSIDE = frozenset(["INCLUDEPICTURE", "INCLUDETEXT", "INCLUDE", "IMPORT", "LINK", "DDE", "DDEAUTO", "DATABASE"])
"""Fields that refer to content outside of the file."""
_TARGET = re.compile(r"\"([^\"]+)\"|(?<=\s)([^\s\"\\]*[./:][^\s\"]*)")
_LONGEST_INSTRUCTION = 2000
_BUTTON = re.compile(r"\s*(?:MACROBUTTON|GOTOBUTTON)\s+\S+\s*(.*)", re.DOTALL)
_SYMBOL = re.compile(r"\s*SYMBOL\s+(0x[0-9a-fA-F]+|\d+)(?:.*?\\f\s+\"?([^\"\\]+))?", re.DOTALL)


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    in_result: bool = False
    form: Any | None = None

    @property
    def is_contents(self) -> bool:
        return self.instruction.split(None, 1)[:1] == ["TOC"]


class Fields:
    """The fields that are open at one place of a story."""

    def __init__(self, tally: Tally) -> None:
        self._open: list[_Field] = []
        self._instructing = 0
        """Open fields that are still in their instruction."""
        self._contents = 0
        """Open tables of contents."""
        self._tally = tally

    @property
    def shows(self) -> bool:
        """Whether text here is seen: no open field is still in its instruction."""
        return not self._instructing

    @property
    def in_contents(self) -> bool:
        """Whether a table of contents is open, in its result."""
        return self._contents > 0

    def instruct(self, text: str) -> None:
        if self._open and not self._open[-1].in_result and len(self._open[-1].instruction) < _LONGEST_INSTRUCTION:
            self._open[-1].instruction += text

    def mark(self, element: Any) -> str:
        """Handle a `w:fldChar`; returns what a field without a stored result shows."""
        kind = element.get(W + "fldCharType")
        if kind == "begin":
            self._open.append(_Field(form=element.find(W + "ffData")))
            self._instructing += 1
        elif kind == "separate" and self._open and not self._open[-1].in_result:
            self._open[-1].in_result = True
            self._instructing -= 1
            self._contents += self._open[-1].is_contents
        elif kind == "end" and self._open:
            field = self._open.pop()
            self._instructing -= not field.in_result
            self._contents -= field.in_result and field.is_contents
            self._note_outside(field.instruction)
            if not field.in_result and self.shows:
                return self._shown(field)
        return ""

    def _note_outside(self, instruction: str) -> None:
        name, _, rest = instruction.strip().partition(" ")
        if name.upper() in _OUTSIDE:
            target = _TARGET.search(f" {rest}")
            self._tally.outside(f"field {name.upper()}", (target[1] or target[2]) if target else "")

    def _shown(self, field: _Field) -> str:
        name = (field.instruction.split(None, 1) or [""])[0].upper()
        if field.form is not None:
            return form_value(field.form)
        button = _BUTTON.match(field.instruction)
        if button is not None:
            return button[1].strip()
        sign = _SYMBOL.match(field.instruction)
        if sign is not None:
            return symbol((sign[2] or "").strip(), f"{int(sign[1], 0):x}") or ""
        if name and name not in _SHOWS_NOTHING:
            self._tally.add("field")
        return ""


def form_value(form: Any) -> str:
    """What an old form field shows: the chosen entry of a list, or a ticked or empty box."""
    choices = form.find(W + "ddList")
    if choices is not None:
        entries = [entry.get(W + "val") or "" for entry in choices.iterchildren(W + "listEntry")]
        chosen = choices.find(W + "result")
        if chosen is None:
            chosen = choices.find(W + "default")
        index = integer(chosen.get(W + "val")) if chosen is not None else 0
        return entries[index] if index is not None and 0 <= index < len(entries) else ""
    box = form.find(W + "checkBox")
    if box is not None:
        state = toggle(box, "checked")
        return "☒" if (state if state is not None else toggle(box, "default")) else "☐"
    return ""
