"""Footnotes and endnotes: numbered by first reference, each opened once."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from engine.documents.docx.package import WordPackage
from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import W

_PREFIX = {"footnote": "", "endnote": "e"}


class Note(NamedTuple):
    marker: str
    element: Any


class Notes:
    """The notes of a document by kind and id."""

    def __init__(self, package: WordPackage, tally: Tally) -> None:
        self._tally = tally
        self._notes: dict[tuple[str, str], Any] = {}
        self._markers: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        self._opened: set[tuple[str, str]] = set()
        for kind in _PREFIX:
            root = package.related_root(f"/{kind}s")
            for note in root.iterchildren(W + kind) if root is not None else ():
                if note.get(W + "type") in (None, "normal"):
                    self._notes[kind, note.get(W + "id", "")] = note

    def marker(self, kind: str, note_id: str | None) -> str:
        """Number of a note: "1", "2" for footnotes, "e1", "e2" for endnotes. Empty when the note does not exist."""
        key = (kind, note_id or "")
        if key not in self._notes:
            self._tally.add("note")
            return ""
        if key not in self._markers:
            self._counts[kind] += 1
            self._markers[key] = f"{_PREFIX[kind]}{self._counts[kind]}"
        return self._markers[key]

    def open(self, kind: str, note_id: str) -> Note | None:
        """A note at its first reference; None at later ones."""
        key = (kind, note_id)
        if key in self._opened or key not in self._notes:
            return None
        self._opened.add(key)
        return Note(self._markers[key], self._notes[key])

    def opened(self) -> list[Any]:
        """Elements of the notes that the text refers to."""
        return [note for key, note in self._notes.items() if key in self._opened]

    def all(self) -> list[Any]:
        """Elements of all notes, whether the text refers to them or not."""
        return list(self._notes.values())
