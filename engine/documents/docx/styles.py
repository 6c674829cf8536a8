"""The style sheet, read once per document: headings, numbers and looks by style id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from engine.documents.docx.xml import W, integer, toggle, value

BODY_LEVEL = 9
"""`w:outlineLvl` value of body text."""
DEFAULT_SIZE = 10.0
"""Points of text when nothing sets a size."""
_MAX_CHAIN = 50

_BUILT_IN = re.compile(r"heading ([1-9])", re.IGNORECASE)
_LOCALISED = re.compile(
    r"(?:überschrift|titre|título|titulo|titolo|nadpis|nagłówek|заголовок|başlık|标题|標題|見出し|제목|عنوان|kop|rubrik|"
    r"overskrift|otsikko|cmsor|heading)\s*([1-9])",
    re.IGNORECASE,
)


class HeadingLevel(NamedTuple):
    level: int
    """1 is the top."""
    rule: str


class NumberReference(NamedTuple):
    """Which list a paragraph belongs to. Either part may be missing."""

    num_id: str | None
    level: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """Run and paragraph properties; None where nothing is said."""

    bold: bool | None = None
    caps: bool | None = None
    hidden: bool | None = None
    size: float | None = None
    centered: bool | None = None

    def over(self, below: Look) -> Look:
        """These properties where given, else those below."""
        return Look(
            bold=self.bold if self.bold is not None else below.bold,
            caps=self.caps if self.caps is not None else below.caps,
            hidden=self.hidden if self.hidden is not None else below.hidden,
            size=self.size if self.size is not None else below.size,
            centered=self.centered if self.centered is not None else below.centered,
        )


def look_of(run_properties: Any | None, paragraph_properties: Any | None = None) -> Look:
    """What `w:rPr` and `w:pPr` elements say themselves."""
    half_points = integer(value(run_properties, "sz"))
    alignment = value(paragraph_properties, "jc")
    return Look(
        bold=toggle(run_properties, "b"),
        caps=toggle(run_properties, "caps"),
        hidden=toggle(run_properties, "vanish"),
        size=half_points / 2 if half_points else None,
        centered=None if alignment is None else alignment == "center",
    )


class StyleSheet:
    """Styles by id. Every look-up follows `w:basedOn` once and is remembered."""

    def __init__(self, root: Any | None) -> None:
        self._styles: dict[str, Any] = {}
        self._default_paragraph: str | None = None
        defaults = Look()
        if root is not None:
            for style in root.iterchildren(W + "style"):
                style_id = style.get(W + "styleId")
                if style_id is None:
                    continue
                self._styles.setdefault(style_id, style)
                if style.get(W + "type") == "paragraph" and style.get(W + "default") in ("1", "true", "on"):
                    self._default_paragraph = style_id
            default_run = root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr")
            defaults = look_of(default_run)
        self._defaults = defaults.over(Look(bold=False, caps=False, hidden=False, size=DEFAULT_SIZE, centered=False))
        self.chain = lru_cache(maxsize=None)(self._chain)
        self.name = lru_cache(maxsize=None)(self._name)
        self.heading = lru_cache(maxsize=None)(self._heading)
        self.number = lru_cache(maxsize=None)(self._number)
        self.look = lru_cache(maxsize=None)(self._look)
        self.paragraph_look = lru_cache(maxsize=None)(self._paragraph_look)
        self.is_contents = lru_cache(maxsize=None)(self._is_contents)

    def paragraph_style(self, style_id: str | None) -> str | None:
        """The style in force: the named one, or the default of the document."""
        return style_id if style_id in self._styles else self._default_paragraph

    def element(self, style_id: str) -> Any | None:
        return self._styles.get(style_id)

    def _chain(self, style_id: str | None) -> tuple[str, ...]:
        """The style and those it is based on, nearest first. Stops at a cycle."""
        chain: list[str] = []
        seen: set[str] = set()
        while style_id is not None and style_id in self._styles and style_id not in seen and len(chain) < _MAX_CHAIN:
            chain.append(style_id)
            seen.add(style_id)
            style_id = value(self._styles[style_id], "basedOn")
        return tuple(chain)

    def _name(self, style_id: str | None) -> str:
        style = self._styles.get(style_id) if style_id is not None else None
        return value(style, "name") or style_id or ""

    def _heading(self, style_id: str | None) -> HeadingLevel | None:
        """Level by the nearest outline level of the chain, else by the built-in name, else by a localised name."""
        chain = self.chain(style_id)
        for link in chain:
            level = integer(value(self._styles[link].find(W + "pPr"), "outlineLvl"))
            if level is not None:
                return HeadingLevel(level + 1, "style") if 0 <= level < BODY_LEVEL else None
            built_in = _BUILT_IN.fullmatch(self.name(link).strip())
            if built_in is not None:
                return HeadingLevel(int(built_in[1]), "style")
        for link in chain:
            localised = _LOCALISED.fullmatch(self.name(link).strip())
            if localised is not None:
                return HeadingLevel(int(localised[1]), "name")
        return None

    def _is_contents(self, style_id: str | None) -> bool:
        """Whether a style is one of a table of contents, of figures or of authorities."""
        names = (self.name(link).lower() for link in self.chain(style_id))
        return any(
            re.fullmatch(r"(?:toc|contents|index) ?\d|table of (?:figures|authorities)|toc heading", name)
            for name in names
        )

    def _number(self, style_id: str | None) -> tuple[NumberReference, tuple[str, ...]]:
        """List and level that the chain gives, and the chain down to the style that names the list."""
        num_id: str | None = None
        level: int | None = None
        naming: list[str] = []
        for link in self.chain(style_id):
            properties = self._styles[link].find(f"{W}pPr/{W}numPr")
            if properties is not None:
                level = integer(value(properties, "ilvl")) if level is None else level
                num_id = value(properties, "numId")
            naming.append(link)
            if num_id is not None:
                break
        return NumberReference(num_id, level), tuple(naming)

    def _look(self, style_id: str | None) -> Look:
        look = Look()
        for link in self.chain(style_id):
            style = self._styles[link]
            look = look.over(look_of(style.find(W + "rPr"), style.find(W + "pPr")))
        return look

    def _paragraph_look(self, style_id: str | None) -> Look:
        """Look of a paragraph's plain text: its style over the document's defaults. Every property is set."""
        return self.look(style_id).over(self._defaults)
