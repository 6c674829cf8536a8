"""The contract of every chunking strategy: a rule from a source to pieces, completed here into chunks.

A strategy declares its parameters as data, its guidance as words, and implements `_cut`. `chunk` checks the input,
runs the rule, turns pieces into chunks and counts what no chunk holds.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from engine import ids
from engine.errors import BadParameter, NeedsModel
from engine.memory import no_search_for_cycles
from engine.models import Chunk, ChunkSet, ChunkVectors, Node, NodeKind, SimilarityCurve, Span, StrategySpec
from engine.providers.base import ChatRequest, Models
from engine.strategies.source import Source

MAX_OVERLAP_SHARE = 0.25
"""Overlap above this share of the size repeats text without finding more (DESIGN.md section 5), so it is refused."""


class Need(StrEnum):
    """A model a strategy cannot work without."""

    EMBEDDER = "embedder"
    CHAT = "chat model"
    TOKEN_EMBEDDER = "token embedder"


class Params(BaseModel):
    """Declared parameters: type, default, range and help of each field. Form, command line, API, docs and validation come from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def short(self) -> str:
        """What tells two specs of one strategy apart, for labels: `512/50`."""
        return "/".join(str(value) for value in self.model_dump().values())


class SizedParams(Params):
    """Checks `overlap` against `size` for every strategy that has both."""

    @model_validator(mode="after")
    def _overlap_fits(self) -> SizedParams:
        values = self.model_dump()
        size, overlap = values.get("size"), values.get("overlap")
        if size is None or overlap is None:
            return self
        if overlap >= size:
            raise ValueError(f"overlap {overlap} must be smaller than size {size}")
        if overlap > MAX_OVERLAP_SHARE * size:
            raise ValueError(
                f"overlap {overlap} is more than 25 % of size {size}: most of the text would be stored and paid for several times. Use {int(MAX_OVERLAP_SHARE * size)} or less"
            )
        return self


@dataclass(slots=True)
class Piece:
    """What a rule says about one chunk. Offsets are code points; without `text` the chunk is the verbatim slice.

    Nothing changes a piece once it is made; it is not frozen because a frozen one takes three times as long to make.
    """

    start: int
    end: int
    separator: str | None = None
    parent: Span | None = None
    context: str | None = None
    embedding_text: str | None = None
    text: str | None = None
    """Set only when the chunk is not verbatim: `start` and `end` are then its source span."""
    flags: tuple[str, ...] = ()
    attributes: Mapping[str, Any] | None = None
    token_count: int | None = None
    """Tokens of the piece on its own, where the rule has counted them exactly."""
    own_start: int | None = None
    """Where the text begins that is not overlap, when it is not `start`: the chunk carries the headings of that place."""
    heading_path: tuple[str, ...] | None = None
    """Where the rule knows a better path than the document tree has at `start`."""


@dataclass(frozen=True, slots=True)
class Cut:
    """All pieces of a document in order of their start."""

    pieces: Sequence[Piece]
    curve: SimilarityCurve | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time inside the cut that was not chunking: enrich, embed."""
    vectors: ChunkVectors | None = None
    """One row per piece, from strategies that make their own vectors."""


P = TypeVar("P", bound=Params)


class Strategy(ABC, Generic[P]):
    """One chunking strategy. Instances hold no state: one is enough for all threads."""

    name: ClassVar[str]
    """Canonical name, used in collections, API and metadata."""
    title: ClassVar[str]
    rule: ClassVar[str]
    """The rule in one sentence."""
    best_for: ClassVar[str]
    avoid_when: ClassVar[str]
    cost: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset()
    prompts: ClassVar[tuple[str, ...]] = ()
    """Names of the prompts it sends. Chunks are stored under their versions, so that a changed prompt writes them anew."""
    params_type: ClassVar[type[Params]]

    def parse(self, values: Mapping[str, Any]) -> P:
        """Validated parameters. Raises BadParameter that names the parameter, its value and what is allowed."""
        try:
            return self.params_type(**values)  # type: ignore[return-value]
        except ValidationError as error:
            problems = "; ".join(_in_words(problem) for problem in error.errors())
            raise BadParameter(f"{self.name}: {problems}.") from None

    def spec(self, values: Mapping[str, Any] | None = None) -> StrategySpec:
        params = self.parse(values or {})
        label = f"{self.name} {params.short}".strip()
        return StrategySpec(strategy_name=self.name, params=params.model_dump(mode="json"), label=label)

    def check_models(self, models: Models) -> None:
        """Raises NeedsModel in words when the strategy lacks a model it cannot work without."""
        have = {Need.EMBEDDER: models.embedder, Need.CHAT: models.chat, Need.TOKEN_EMBEDDER: models.token_embedder}
        for need in sorted(self.needs):
            if have[need] is None:
                raise NeedsModel(f"{self.name} needs a {need.value} and none is configured. {_REMEDY[need]}")

    def chunk(self, source: Source, params: P, models: Models) -> ChunkSet:
        """All chunks of the source. An empty text gives none; a blank one gives one chunk flagged `blank`.

        Raises BadParameter, NeedsModel, ModelCallFailed.
        """
        spec = self.spec(params.model_dump())
        self.check_models(models)
        began = time.perf_counter()
        text = source.text
        if not text:
            cut = Cut(())
        elif text.isspace():
            cut = Cut((Piece(0, len(text), flags=("blank",)),))
        else:
            cut = _without_blanks(self._cut(source, params, models), text)
        spans = [Span(piece.start, piece.end) for piece in cut.pieces]
        with no_search_for_cycles():
            chunks = _complete(cut.pieces, spans, source, spec)
        elapsed = time.perf_counter() - began
        other = sum(cut.seconds.values())
        return ChunkSet(
            document_id=source.document.document_id,
            spec=spec,
            chunks=chunks,
            uncovered=uncovered(text, spans),
            curve=cut.curve,
            seconds={"chunk": max(0.0, elapsed - other), **cut.seconds},
            vectors=cut.vectors,
        )

    def requests(self, source: Source, params: P) -> Sequence[ChatRequest]:
        """The model calls that `chunk` will make, for the dry run; most strategies make none."""
        return ()

    @abstractmethod
    def _cut(self, source: Source, params: P, models: Models) -> Cut:
        """The rule. `source.text` is neither empty nor blank."""


_REMEDY = {
    Need.EMBEDDER: "Set EMBEDDING_MODEL.",
    Need.CHAT: "Set OPENAI_API_KEY, or OPENAI_BASE_URL and LLM_MODEL for a compatible server.",
    Need.TOKEN_EMBEDDER: "Install requirements-local.txt and set EMBEDDING_MODEL to local:NAME.",
}


def _in_words(problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name} = {problem['input']!r}: {message}" if name else message


def _without_blanks(cut: Cut, text: str) -> Cut:
    """White space between two cuts is no chunk: there is nothing in it to find."""
    kept = [
        place for place, piece in enumerate(cut.pieces) if piece.text or not text[piece.start : piece.end].isspace()
    ]
    if len(kept) == len(cut.pieces):
        return cut
    vectors = cut.vectors
    if vectors is not None:
        vectors = ChunkVectors(vectors.model, vectors.rows[kept])
    return replace(cut, pieces=[cut.pieces[place] for place in kept], vectors=vectors)


_NON_BLANK = re.compile(r"\S")


def uncovered(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Runs of the text with non-blank characters that no span holds, trimmed of white space."""
    gaps: list[Span] = []
    reached = 0
    for span in sorted(spans):
        if span.start > reached:
            _note_gap(text, reached, span.start, gaps)
        reached = max(reached, span.end)
    _note_gap(text, reached, len(text), gaps)
    return tuple(gaps)


def _note_gap(text: str, start: int, end: int, gaps: list[Span]) -> None:
    first = _NON_BLANK.search(text, start, end)
    if first is not None:
        gaps.append(Span(first.start(), start + len(text[start:end].rstrip())))


class Headings:
    """Heading path, section and article at any offset, from the document tree.

    At a chapter's heading that is followed by its first article, they are the article's: a chunk that begins there holds both.
    """

    def __init__(self, tree: Node) -> None:
        self._starts: list[int] = []
        self._entries: list[tuple[tuple[str, ...], str | None, str | None]] = []
        self._add(tree, (), None, None)

    def _add(self, node: Node, path: tuple[str, ...], section: str | None, article: str | None) -> None:
        if node.kind in (NodeKind.SECTION, NodeKind.ARTICLE) and node.name:
            path = (*path, node.name)
        if node.kind is NodeKind.SECTION:
            section = node.name or section
        elif node.kind is NodeKind.ARTICLE:
            article = node.name or article
        self._note(node.span.start, (path, section, article))
        mine = len(self._starts) - 1
        for child in node.children:
            if child.kind in (NodeKind.SECTION, NodeKind.ARTICLE):
                self._add(child, path, section, article)
                self._note(child.span.end, (path, section, article))
        first = node.children[0] if node.children else None
        if node.heading is not None and first is not None and first.kind in (NodeKind.SECTION, NodeKind.ARTICLE):
            # A heading with nothing of its own below it stands for the first unit under it.
            self._entries[mine] = self._entries[bisect_right(self._starts, first.span.start) - 1]

    def _note(self, start: int, entry: tuple[tuple[str, ...], str | None, str | None]) -> None:
        if self._starts and self._starts[-1] == start:
            self._entries[-1] = entry
        else:
            self._starts.append(start)
            self._entries.append(entry)

    def at(self, offset: int) -> tuple[tuple[str, ...], str | None, str | None]:
        place = bisect_right(self._starts, offset) - 1
        return self._entries[place] if place >= 0 else ((), None, None)


def _complete(pieces: Sequence[Piece], spans: Sequence[Span], source: Source, spec: StrategySpec) -> tuple[Chunk, ...]:
    document, text = source.document, source.text
    headings = Headings(document.tree)
    last = len(pieces) - 1
    chunk_id = ids.chunk_ids(document.document_id, spec.spec_id)
    words = source.word_counts([span.start for span in spans], [span.end for span in spans])
    parent_ids: dict[Span | None, str | None] = {None: None}
    # In the order of the fields, which a record keeps where it is written.
    shared: dict[str, Any] = dict.fromkeys(Chunk.model_fields) | {
        "document_id": document.document_id,
        "document_name": document.name,
        "strategy_name": spec.strategy_name,
        "spec_id": spec.spec_id,
        "total_chunks": len(pieces),
        "keywords": (),
    }
    chunks = []
    for index, (piece, span, word_count) in enumerate(zip(pieces, spans, words, strict=True)):
        start, end = span
        count, parent = piece.token_count, piece.parent
        if piece.text is None:
            body = text[start:end]
            if count is None:
                count = source.tokens.count(start, end)
        else:
            body = piece.text
            word_count = len(body.split())
            if count is None:
                count = source.count(body)
        text_hash = ids.content_hash(body)
        path, section, article = headings.at(start if piece.own_start is None else piece.own_start)
        if parent not in parent_ids and parent is not None:
            parent_ids[parent] = ids.parent_id(document.document_id, parent.start, parent.end)
        chunks.append(
            _chunk(
                {
                    **shared,
                    "chunk_id": chunk_id(start, end, text_hash),
                    "chunk_index": index,
                    "text": body,
                    "span": span if piece.text is None else None,
                    "source_span": None if piece.text is None else span,
                    "token_count": count,
                    "character_count": len(body),
                    "word_count": word_count,
                    "content_hash": text_hash,
                    "heading_path": path if piece.heading_path is None else piece.heading_path,
                    "section": section,
                    "article": article,
                    "separator": piece.separator,
                    "context": piece.context,
                    "embedding_text": piece.embedding_text,
                    "parent_id": parent_ids[parent],
                    "parent_span": parent,
                    "position": "start" if index == 0 else "end" if index == last else "middle",
                    "flags": piece.flags,
                    "attributes": dict(piece.attributes) if piece.attributes else {},
                }
            )
        )
    return tuple(chunks)


_FIELDS = set(Chunk.model_fields)
_set_values, _set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def _chunk(values: dict[str, Any]) -> Chunk:
    """A chunk of values known to be valid. What `model_construct` does, without its look at every field for every chunk."""
    chunk = Chunk.__new__(Chunk)
    _set_values(chunk, values)
    _set_fields(chunk, _FIELDS)
    _set_extra(chunk, None)
    _set_private(chunk, None)
    return chunk
