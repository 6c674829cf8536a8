"""Number labels as Word prints them: "Article 5", "Section 1.01", "(a)", "第三条".

Counters belong to an abstract numbering definition and run through the document in reading order, table cells and text
boxes included (ECMA-376 part 1, section 17.9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine.documents.docx.formats import LEGAL_DECIMAL, format_number
from engine.documents.docx.styles import StyleSheet
from engine.documents.docx.xml import MC, W, integer, toggle, value

LEVELS = 9
_LONGEST_TEXT = 255
"""Characters of a level's pattern; more would let a small file print a huge one."""
_PLACEHOLDER = re.compile(r"%([1-9])")


class Label(NamedTuple):
    """What Word prints in front of a numbered paragraph."""

    text: str
    """Empty for bullets and for levels that print nothing."""
    path: tuple[int, ...]
    """Counters from the outermost level down to the paragraph's own; empty for bullets."""
    separator: str
    """What stands between label and text: a space for tab and space, nothing where Word prints nothing."""
    level: int
    """Depth in the list; 0 is the outermost."""
    bullet: bool
    list_id: str
    """The definition whose counters the label shows."""


@dataclass(frozen=True, slots=True)
class _Level:
    format: str = "decimal"
    custom: str | None = None
    """The pattern of a custom format, such as "001, 002, 003, ..."."""
    text: str = ""
    start: int = 0
    """A level without `w:start` counts from 0."""
    suffix: str = "tab"
    restart: int | None = None
    """`w:lvlRestart`: 0 never, n after a paragraph of level n (1-based) or higher; None after any higher level."""
    legal: bool = False
    style: str | None = None


@dataclass(frozen=True, slots=True)
class _Num:
    """A use of an abstract definition, with its own replaced levels and starts."""

    abstract: str
    levels: tuple[_Level, ...]
    start_overrides: dict[int, int]


class Numbering:
    """All lists of a document and their running counters."""

    def __init__(self, root: Any | None, styles: StyleSheet) -> None:
        self._styles = styles
        self._abstract: dict[str, tuple[_Level, ...]] = {}
        self._links: dict[str, str] = {}
        self._raw_nums: dict[str, Any] = {}
        self._nums: dict[str, _Num | None] = {}
        self._counters: dict[str, list[int | None]] = {}
        self._started: set[tuple[str, int]] = set()
        if root is None:
            return
        for abstract in root.iterchildren(W + "abstractNum"):
            abstract_id = abstract.get(W + "abstractNumId", "")
            self._abstract[abstract_id] = _levels(abstract)
            link = value(abstract, "numStyleLink")
            if link is not None:
                self._links[abstract_id] = link
        for num in root.iterchildren(W + "num"):
            self._raw_nums[num.get(W + "numId", "")] = num

    def label(self, properties: Any | None, style_id: str | None) -> Label | None:
        """Count a paragraph and return its label; None when it is in no list.

        `properties` is the paragraph's `w:pPr`. Call it once per paragraph that Word counts, in reading order.
        """
        found = self._reference(properties, style_id)
        if found is None:
            return None
        num_id, level = found
        num = self._num(num_id)
        if num is None or level >= len(num.levels):
            return None
        definition = num.levels[level]
        counters = self._count(num_id, num, level)
        if definition.format == "bullet":
            return Label("", (), " ", level, bullet=True, list_id=num.abstract)
        path = tuple(count or 0 for count in counters[: level + 1])
        printed = _printed(num.levels, level, path)
        glued = definition.suffix == "nothing" and not printed[-1:].isspace()
        separator = "" if glued else " "
        return Label(printed.strip(), path, separator, level, bullet=False, list_id=num.abstract)

    def _reference(self, properties: Any | None, style_id: str | None) -> tuple[str, int] | None:
        """List and level in force: the paragraph's own, else its style's, else the level that names the style."""
        direct = properties.find(W + "numPr") if properties is not None else None
        num_id = value(direct, "numId")
        level = integer(value(direct, "ilvl"))
        from_style, naming = self._styles.number(style_id)
        own_list = num_id is not None
        if num_id is None:
            num_id = from_style.num_id
        if num_id is None or num_id == "0":
            return None
        if level is None and not own_list:
            level = from_style.level if from_style.level is not None else self._level_of_style(num_id, naming)
        level = level if level is not None else from_style.level or 0
        return (num_id, level) if 0 <= level < LEVELS else None

    def _level_of_style(self, num_id: str, naming: tuple[str, ...]) -> int | None:
        num = self._num(num_id)
        for style in naming:
            for index, level in enumerate(num.levels if num else ()):
                if level.style == style:
                    return index
        return None

    def _num(self, num_id: str) -> _Num | None:
        if num_id not in self._nums:
            self._nums[num_id] = self._read_num(num_id)
        return self._nums[num_id]

    def _read_num(self, num_id: str) -> _Num | None:
        raw = self._raw_nums.get(num_id)
        if raw is None:
            return None
        abstract = self._resolve(value(raw, "abstractNumId") or "")
        levels = list(self._abstract.get(abstract, ()))
        if not levels:
            return None
        starts: dict[int, int] = {}
        for override in raw.iterchildren(W + "lvlOverride"):
            index = integer(override.get(W + "ilvl"))
            if index is None or not 0 <= index < LEVELS:
                continue
            replaced = override.find(W + "lvl")
            if replaced is not None:
                levels[index] = _level(replaced)
            start = integer(value(override, "startOverride"))
            if start is not None:
                starts[index] = start
        return _Num(abstract, tuple(levels), starts)

    def _resolve(self, abstract: str) -> str:
        """Follow `w:numStyleLink` to the definition that holds the levels."""
        seen: set[str] = set()
        while abstract in self._links and abstract not in seen:
            seen.add(abstract)
            style = self._styles.element(self._links[abstract])
            num_id = value(style.find(f"{W}pPr/{W}numPr"), "numId") if style is not None else None
            raw = self._raw_nums.get(num_id or "")
            if raw is None:
                break
            abstract = value(raw, "abstractNumId") or ""
        return abstract

    def _count(self, num_id: str, num: _Num, level: int) -> list[int | None]:
        counters = self._counters.setdefault(num.abstract, [None] * LEVELS)
        current = counters[level]
        first_use = (num_id, level) not in self._started
        self._started.add((num_id, level))
        if first_use and level in num.start_overrides:
            counters[level] = num.start_overrides[level]
        elif current is None:
            counters[level] = num.levels[level].start
        else:
            counters[level] = current + 1
        for higher in range(level):
            if counters[higher] is None:
                # A level that is skipped prints its start, and the next paragraph on it goes on from there.
                counters[higher] = num.start_overrides.get(higher, num.levels[higher].start)
        for deeper in range(level + 1, LEVELS):
            restart = num.levels[deeper].restart if deeper < len(num.levels) else None
            if restart is None or level < restart:
                counters[deeper] = None
        return counters


def _printed(levels: tuple[_Level, ...], level: int, path: tuple[int, ...]) -> str:
    definition = levels[level]

    def number(match: re.Match[str]) -> str:
        index = int(match[1]) - 1
        if index > level:
            return ""
        shape = levels[index]
        name = LEGAL_DECIMAL.get(shape.format, shape.format) if definition.legal else shape.format
        return format_number(path[index], name, shape.custom)

    return _PLACEHOLDER.sub(number, definition.text)


def _levels(abstract: Any) -> tuple[_Level, ...]:
    levels = [_Level(text="", format="none")] * LEVELS
    found = False
    for element in abstract.iterchildren(W + "lvl"):
        index = integer(element.get(W + "ilvl"))
        if index is not None and 0 <= index < LEVELS:
            levels[index] = _level(element)
            found = True
    return tuple(levels) if found else ()


def _level(element: Any) -> _Level:
    name, custom = _number_format(element)
    level = _Level(
        format=name,
        custom=custom,
        text=(value(element, "lvlText") or "")[:_LONGEST_TEXT],
        start=integer(value(element, "start")) or 0,
        suffix=value(element, "suff") or "tab",
        restart=integer(value(element, "lvlRestart")),
        legal=toggle(element, "isLgl") or False,
        style=value(element, "pStyle"),
    )
    picture = element.find(W + "lvlPicBulletId") is not None
    return replace(level, format="bullet") if picture else level


def _number_format(element: Any) -> tuple[str, str | None]:
    """Name and pattern of the number format; a custom one hides in `mc:AlternateContent`."""
    plain = element.find(W + "numFmt")
    if plain is None:
        plain = element.find(f"{MC}AlternateContent/{MC}Choice/{W}numFmt")
    if plain is None:
        plain = element.find(f"{MC}AlternateContent/{MC}Fallback/{W}numFmt")
    if plain is None:
        return "decimal", None
    return plain.get(W + "val", "decimal"), plain.get(W + "format")
