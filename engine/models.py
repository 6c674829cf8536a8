"""The records that cross boundaries: documents and their tree, chunks, strategy specs.

All offsets are Unicode code points of a document's canonical text; all spans are half-open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, InstanceOf
from pydantic.json_schema import SkipJsonSchema

from engine import ids


class Span(NamedTuple):
    """Half-open range `[start, end)` in code points of the canonical text."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start

    def slice(self, text: str) -> str:
        return text[self.start : self.end]

    def overlap(self, other: Span) -> int:
        """Characters both spans hold; 0 when they only touch."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))


class Record(BaseModel):
    """Base of every record: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeKind(StrEnum):
    DOCUMENT = "document"
    SECTION = "section"
    ARTICLE = "article"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    ROW = "row"
    CODE = "code"
    NOTE = "note"


class Node(Record):
    """One node of a document tree."""

    kind: NodeKind
    span: Span
    """The whole node, heading and descendants included."""
    level: int = 0
    """Depth among nodes of structure: a top section is 1; points nested in a paragraph count from 1 again."""
    label: str | None = None
    """The number as printed ("Article 5", "(a)"), kept apart from the title."""
    number_path: tuple[int, ...] = ()
    """The counters behind the label, outermost first."""
    title: str | None = None
    """The heading without its label."""
    heading: Span | None = None
    """Where the heading line stands, markup included; None for nodes without one."""
    rule: str | None = None
    """Which rule classified the node (outline level, style, pattern, form, ...)."""
    attributes: dict[str, Any] = Field(default_factory=dict)
    """What only some formats know: page, header row, language, symbol path, direction, body index."""
    children: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """Label and title as one line, for heading paths."""
        return " ".join(part for part in (self.label, self.title) if part)

    def walk(self) -> Iterator[Node]:
        """The node and its descendants in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


class Notice(Record):
    """One thing the reader of a document dropped, changed or could not know."""

    kind: str
    message: str
    count: int = 1


class Structure(Record):
    """Which rule built the tree, and how sure it is."""

    rule: str
    confidence: Literal["high", "medium", "low", "none"]


class DocumentInfo(Record):
    """A document without its text and tree: what lists show."""

    document_id: str
    name: str
    """The uploaded file's name. Data, never a path."""
    media_type: str
    byte_size: int
    sha256: str
    parser_version: str
    structure: Structure
    visible_characters: int
    """Characters a reader of the original sees (white space not counted)."""
    kept_characters: int
    """How many of those are in the canonical text."""
    token_count: int
    """cl100k_base tokens of the canonical text."""
    node_counts: dict[str, int] = Field(default_factory=dict)
    """Nodes per kind."""
    warnings: tuple[Notice, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Title, author, headers and footers, page count: whatever the format knows."""
    created_at: datetime
    parse_seconds: float | None = None
    """How long it took to read the file; None where that was not measured."""


class Document(DocumentInfo):
    """An uploaded file as every strategy sees it."""

    text: str
    """The canonical text. Never changed after parsing; every offset refers to it."""
    tree: Node

    @property
    def info(self) -> DocumentInfo:
        return DocumentInfo.model_construct(**{name: getattr(self, name) for name in DocumentInfo.model_fields})


class StrategySpec(Record):
    """A strategy with validated parameters. Build it with `registry.spec(...)`, which validates."""

    strategy_name: str
    params: dict[str, Any]
    label: str
    """Short name for columns and legends, such as `recursive 512/50`."""

    @property
    def spec_id(self) -> str:
        return ids.spec_id(self.strategy_name, self.params)


Position = Literal["start", "middle", "end"]


class Chunk(Record):
    """The unified model all strategies return."""

    chunk_id: str
    """Content-derived: the same document, spec and place give the same id in every run."""
    document_id: str
    document_name: str
    strategy_name: str
    spec_id: str
    chunk_index: int
    total_chunks: int
    text: str
    span: Span | None
    """Where `text` stands verbatim in the canonical text; None for text that does not (propositions)."""
    source_span: Span | None = None
    """For text that is not verbatim: the passage it was made from."""
    token_count: int
    """cl100k_base tokens of `text` on its own."""
    character_count: int
    word_count: int
    content_hash: str
    heading_path: tuple[str, ...] = ()
    section: str | None = None
    article: str | None = None
    separator: str | None = None
    """Recursive only: the separator level the chunk was cut at."""
    context: str | None = None
    """Text a model or a rule put before the chunk for embedding."""
    embedding_text: str | None = None
    """What is embedded, where it is not `text`."""
    parent_id: str | None = None
    parent_span: Span | None = None
    """The larger unit given to the model when this chunk is found."""
    position: Position = "middle"
    summary: str | None = None
    keywords: tuple[str, ...] = ()
    language: str | None = None
    flags: tuple[str, ...] = ()
    """`blank`, `over_limit`, `unverified`, ...: what a reader should know about this chunk."""
    attributes: dict[str, Any] = Field(default_factory=dict)
    """What only some strategies know: file path, symbol path, line numbers, page."""

    @property
    def embed_text(self) -> str:
        return self.text if self.embedding_text is None else self.embedding_text

    @property
    def evidence_span(self) -> Span:
        """The span that metrics count: `span`, or `source_span` where the text is not verbatim."""
        span = self.span or self.source_span
        if span is None:
            raise ValueError(f"chunk {self.chunk_id} has neither span nor source_span")
        return span


class SimilarityCurve(Record):
    """Similarity of neighbouring sentences, for the semantic strategies."""

    positions: tuple[int, ...]
    """Code point offset of the boundary between sentence i and i + 1."""
    values: tuple[float, ...]
    """Cosine similarity across that boundary."""
    threshold: float
    """Below this value a boundary was cut."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkVectors:
    """Vectors a strategy made itself, in the order of its chunks."""

    model: str
    """The embedding model the collection is bound to."""
    rows: NDArray[np.float32]
    """Shape `(n_chunks, dimension)`, rows of unit length."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkVectors) and self.model == other.model and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.model, self.rows.shape))


class ChunkSet(Record):
    """All chunks of one document under one spec, with what a page draws beside them."""

    document_id: str
    spec: StrategySpec
    chunks: tuple[Chunk, ...]
    uncovered: tuple[Span, ...] = ()
    """Non-blank runs of the canonical text that no chunk holds."""
    curve: SimilarityCurve | None = None
    seconds: Mapping[str, float] = Field(default_factory=dict)
    """Latency breakdown of making the chunks: chunk, enrich, embed."""
    vectors: SkipJsonSchema[InstanceOf[ChunkVectors] | None] = Field(None, exclude=True, repr=False)
    """Only where the strategy makes its own vectors (late chunking): they are indexed in place of `embed_text`. Never stored as a record."""
