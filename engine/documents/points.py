"""Levels of numbered paragraphs and points: "1." holds "(a)", "(a)" holds "(i)"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.documents import clauses, numerals
from engine.documents.base import Block
from engine.documents.clauses import Point
from engine.models import NodeKind

CONTENTS = "contents"
"""Rule of a line of the table of contents: its number is no label."""
_DEEPEST = 9
_Shape = tuple[str, ...]


def label_points(blocks: Sequence[Block]) -> list[Block]:
    """Label PARAGRAPH blocks that open with a number and give them a level by the order of label shapes.

    The first shape after a heading is level 1, a new shape below it level 2, and a known shape goes back to its level.
    """
    levels = _Levels()
    made: list[Block] = []
    for block in blocks:
        if block.kind in (NodeKind.SECTION, NodeKind.ARTICLE) or block.outline:
            levels = _Levels()
        if block.kind is not NodeKind.PARAGRAPH or block.rule == CONTENTS:
            made.append(block)
            continue
        if block.label:
            made.append(replace(block, level=block.level or levels.of_label(block)))
            continue
        point = clauses.match_point(block.text)
        if point is None or not point.rest.strip():
            made.append(block)
            continue
        made.append(
            replace(
                block,
                text=point.rest,
                label=point.label,
                separator=point.separator,
                number_path=point.number,
                level=levels.of(point),
                rule=block.rule or "point",
            )
        )
    return made


class _Open(NamedTuple):
    """A label shape that is open; `list_id` and `depth` where the word processor numbered it."""

    shape: _Shape
    list_id: str | None = None
    depth: int = 0


class _Levels:
    """The label shapes that are open, outermost first, and the last letters seen of each."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._last: dict[_Shape, str] = {}

    def of(self, point: Point) -> int:
        return self._enter(_Open(self._shape(point)))

    def of_label(self, block: Block) -> int:
        """Level of an automatic number: by its depth where its list is open, else by its shape."""
        label = block.label or ""
        point = clauses.match_point(f"{label} ")
        shape = self._shape(point) if point else ("label", "".join(filter(str.isalpha, label)))
        list_id = block.attributes.get("list")
        entry = _Open(shape, list_id, len(block.number_path))
        same_list = [
            index for index, known in enumerate(self._open) if list_id is not None and known.list_id == list_id
        ]
        if not same_list:
            return self._enter(entry)
        above = [index for index in same_list if self._open[index].depth < entry.depth]
        del self._open[above[-1] + 1 if above else same_list[0] :]
        return self._push(entry)

    def _enter(self, entry: _Open) -> int:
        for index, known in enumerate(self._open):
            if known.shape == entry.shape:
                del self._open[index:]
                break
        return self._push(entry)

    def _push(self, entry: _Open) -> int:
        if len(self._open) < _DEEPEST:
            self._open.append(entry)
        return len(self._open)

    def _shape(self, point: Point) -> _Shape:
        shape = self._letter_shape(point) if point.letters else point.style
        self._last[shape] = point.letters
        return shape

    def _letter_shape(self, point: Point) -> _Shape:
        """Tells Roman numbers from letters: "(i)" after "(h)" is a letter, elsewhere it opens a Roman row."""
        letter, roman = ("letter", *point.style[1:]), ("roman", *point.style[1:])
        if numerals.roman_value(point.letters) is None:
            return letter
        if self._is_open(letter) and self._follows(self._last.get(letter, ""), point.letters):
            return letter
        if self._is_open(roman) or point.letters == "i" or len(point.letters) > 1:
            return roman
        return letter

    def _is_open(self, shape: _Shape) -> bool:
        return any(known.shape == shape for known in self._open)

    @staticmethod
    def _follows(last: str, letters: str) -> bool:
        return len(last) == 1 == len(letters) and ord(letters) == ord(last) + 1
