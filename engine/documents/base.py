"""What a reader of a format returns, before the tree is built and the canonical text is rendered from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.models import Node, NodeKind, Notice, Structure
from engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a document in reading order. `tree.build` nests blocks and renders the canonical text, so spans are exact."""

    kind: NodeKind
    """SECTION and ARTICLE blocks are headings; the others are content."""
    text: str
    """Markdown of the content, or the heading's title, without the label."""
    level: int = 0
    """Depth of a heading (1 is the top); nesting depth of a list item or point."""
    label: str | None = None
    number_path: tuple[int, ...] = ()
    rule: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    rows: tuple[tuple[str, ...], ...] = ()
    """Cells of a TABLE, merged cells already repeated; the first `header_rows` rows are the header."""
    header_rows: int = 0
    nested: tuple[tuple[int, str], ...] = ()
    """Tables inside cells of a TABLE: the row, and the flattened text that stands for the inner table there."""
    separator: str = " "
    """What stands between label and text in the canonical text: ". " of "Article 5. Scope", empty where nothing is printed."""
    title: str | None = None
    """Title of a PARAGRAPH whose opening words name it; the words stay in `text`."""
    outline: int = 0
    """Heading level of a PARAGRAPH that is too long to be a heading: it closes headings this deep. 0 for the others."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reader makes of the bytes of one file."""

    text: str
    """The canonical text."""
    tree: Node
    structure: Structure
    visible_characters: int
    """Non-blank characters a reader of the original sees."""
    kept_characters: int
    """How many of those stand in `text`."""
    warnings: tuple[Notice, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


class Reader(Protocol):
    """One per format. Raises BadDocument in words."""

    media_type: str
    version: str
    """Part of the document id: a change of the reader's output gets a new version."""

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed: ...
