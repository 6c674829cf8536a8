"""Levels of numbered paragraphs and points: "1." holds "(a)", "(a)" holds "(i)"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.documents import clauses, numerals
from engine.documents.base import Block
from engine.documents.clauses import Point
from engine.models import NodeKind

_DEEPEST = 9
_Key = tuple[str, ...]


def label_points(blocks: Sequence[Block]) -> list[Block]:
    """Label PARAGRAPH blocks that open with a number and give them a level by the order of label shapes.

    The first shape after a heading is level 1, a new shape below it level 2, and a known shape goes back to its level.
    """
    levels = _Levels()
    made: list[Block] = []
    for block in blocks:
        if block.kind in (NodeKind.SECTION, NodeKind.ARTICLE) or block.outline:
            levels = _Levels()
        if block.kind is not NodeKind.PARAGRAPH:
            made.append(block)
            continue
        if block.label:
            point = clauses.match_point(f"{block.label} ")
            level = levels.of(point) if point else levels.of_label(block.label)
            made.append(replace(block, level=block.level or level))
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


class _Levels:
    """The label shapes that are open, outermost first, and the last letters seen of each."""

    def __init__(self) -> None:
        self._open: list[_Key] = []
        self._last: dict[_Key, str] = {}

    def of(self, point: Point) -> int:
        key = self._letter_key(point) if point.letters else point.style
        self._last[key] = point.letters
        return self._enter(key)

    def of_label(self, label: str) -> int:
        """A label of no known shape ("Article 5", "Step 2:") is told apart by its letters."""
        return self._enter(("label", "".join(filter(str.isalpha, label))))

    def _enter(self, key: _Key) -> int:
        if key in self._open:
            del self._open[self._open.index(key) + 1 :]
        elif len(self._open) < _DEEPEST:
            self._open.append(key)
        return len(self._open)

    def _letter_key(self, point: Point) -> _Key:
        """Tells Roman numbers from letters: "(i)" after "(h)" is a letter, elsewhere it opens a Roman row."""
        letter, roman = ("letter", *point.style[1:]), ("roman", *point.style[1:])
        if numerals.roman_value(point.letters) is None:
            return letter
        if letter in self._open and self._follows(self._last.get(letter, ""), point.letters):
            return letter
        if roman in self._open or point.letters == "i" or len(point.letters) > 1:
            return roman
        return letter

    @staticmethod
    def _follows(last: str, letters: str) -> bool:
        return len(last) == 1 == len(letters) and ord(letters) == ord(last) + 1
