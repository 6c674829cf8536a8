"""Late chunking: the whole document is encoded first, and each chunk's vector is pooled from its tokens afterwards.

After M. Günther et al., "Late Chunking: Contextual Chunk Embeddings Using Long-Context Embedding Models", arXiv 2409.04701.
Chunks are matched to tokens by the encoder's offset mapping, never by counting tokens of chunks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import ModelCallFailed
from engine.models import ChunkSet, ChunkVectors
from engine.providers.base import Models, TokenEmbedder, TokenVectors, Vectors
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.fixed_size import FixedSize
from engine.strategies.markdown_structure import MarkdownStructure
from engine.strategies.paragraph import Paragraph
from engine.strategies.recursive import Recursive
from engine.strategies.sentence import Sentence
from engine.strategies.source import Source

NO_TOKENS = "no_tokens"
"""Flag of a chunk in which the encoder sees no token: its vector is zero and no search finds it."""

_BASES: dict[str, Strategy[Any]] = {
    strategy.name: strategy for strategy in (FixedSize(), Recursive(), Sentence(), Paragraph(), MarkdownStructure())
}


class LateChunkingParams(Params):
    base: Literal["fixed_size", "recursive", "sentence", "paragraph", "markdown_structure"] = Field(
        "recursive", description="The strategy that decides where chunks begin and end, without overlap."
    )
    size: int = Field(512, ge=1, le=100_000, description="Most tokens in a chunk, as the base strategy counts them.")
    window_overlap: int = Field(
        256,
        ge=0,
        le=4096,
        description="Encoder tokens that two windows share where the document is longer than the encoder reads; at most half its context is used.",
    )

    @property
    def short(self) -> str:
        return f"{self.base} {self.size}"


class LateChunking(Strategy[LateChunkingParams]):
    name = "late_chunking"
    title = "Late chunking"
    rule = "The document goes through a long-context encoder as a whole; the vectors of a chunk's tokens are averaged."
    best_for = (
        "Chunks full of references back (it, this article, the above) in documents the encoder reads in one piece."
    )
    avoid_when = (
        "No local encoder with a long context is at hand, or the document is many times longer than its context."
    )
    cost = "One pass of a local encoder over the document; slow without a graphics card."
    needs = frozenset({Need.TOKEN_EMBEDDER})
    params_type = LateChunkingParams

    def chunk(self, source: Source, params: LateChunkingParams, models: Models) -> ChunkSet:
        made = super().chunk(source, params, models)
        if made.vectors is not None or models.token_embedder is None:
            return made
        rows = np.zeros((len(made.chunks), models.token_embedder.dimension), dtype=np.float32)
        return made.model_copy(update={"vectors": ChunkVectors(models.token_embedder.model, rows)})

    def _cut(self, source: Source, params: LateChunkingParams, models: Models) -> Cut:
        assert models.token_embedder is not None
        pieces = _base_pieces(source, params)
        began = time.perf_counter()
        starts = np.array([piece.start for piece in pieces], dtype=np.int64)
        rows = pooled(models.token_embedder, source.text, starts, params.window_overlap)
        embed_seconds = time.perf_counter() - began
        empty: list[bool] = (rows == 0).all(axis=1).tolist()
        marked = [
            replace(piece, flags=(*piece.flags, NO_TOKENS)) if lacks else piece
            for piece, lacks in zip(pieces, empty, strict=True)
        ]
        vectors = ChunkVectors(models.token_embedder.model, rows)
        return Cut(marked, seconds={"embed": embed_seconds}, vectors=vectors)


def embed_query(embedder: TokenEmbedder, question: str) -> Vectors:
    """The question's vector, pooled from its tokens as chunks are: shape `(dimension,)`, unit length."""
    row: Vectors = pooled(embedder, question, np.zeros(1, dtype=np.int64), overlap=0)[0]
    return row


def _base_pieces(source: Source, params: LateChunkingParams) -> Sequence[Piece]:
    base = _BASES[params.base]
    values = {"size": params.size, "overlap": 0}
    known = {name: value for name, value in values.items() if name in base.params_type.model_fields}
    # What the base would embed (a repeated table header) plays no part: the tokens stand in their document.
    return [replace(piece, embedding_text=None) for piece in base._cut(source, base.parse(known), Models()).pieces]


def pooled(embedder: TokenEmbedder, text: str, starts: NDArray[np.int64], overlap: int) -> Vectors:
    """Mean token vector of each chunk, scaled to unit length: shape `(n_chunks, dimension)`, float32; zero without a token.

    `starts`: where chunks that tile the text begin, ascending from 0, shape `(n_chunks,)`. A token belongs to the chunk
    that holds its last character. A text longer than the context is encoded in windows that share `overlap` tokens; of
    each shared stretch the first half is taken from the window before it and the second half from the window after it,
    so that every vector has as much context on its poorer side as there is. Memory: one window at a time.
    """
    sums = np.zeros((len(starts), embedder.dimension), dtype=np.float64)
    for window in _windows(embedder, text, overlap):
        encoded = _encode(embedder, text[window.start : window.end])
        last_characters = encoded.offsets[:, 1] - 1 + window.start
        taken = (last_characters >= window.take_from) & (last_characters < window.take_to)
        chunks = np.searchsorted(starts, last_characters[taken], side="right") - 1
        # Tokens come in order, so each chunk's tokens are one run.
        runs = np.flatnonzero(np.diff(chunks, prepend=-1))
        if runs.size:
            sums[chunks[runs]] += np.add.reduceat(encoded.vectors[taken].astype(np.float64), runs, axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    rows: Vectors = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0).astype(np.float32)
    return rows


class _Window(NamedTuple):
    """A part of the text that is encoded at once, in code points, and the part of it whose tokens count."""

    start: int
    end: int
    take_from: int
    take_to: int


def _windows(embedder: TokenEmbedder, text: str, overlap: int) -> Iterator[_Window]:
    offsets = embedder.token_offsets(text)
    context = embedder.context_tokens
    n_tokens = len(offsets)
    if n_tokens <= context:
        yield _Window(0, len(text), 0, len(text))
        return
    shared = min(overlap, context // 2)
    first, taken = 0, 0
    while True:
        start = 0 if first == 0 else int(offsets[first, 0])
        stop = _fitting(embedder, text, offsets, start, min(first + context, n_tokens))
        if stop >= n_tokens:
            yield _Window(start, len(text), taken, len(text))
            return
        following = max(first + 1, stop - shared)
        seam = int(offsets[(following + stop) // 2, 0])
        yield _Window(start, int(offsets[stop - 1, 1]), taken, seam)
        first, taken = following, seam


def _fitting(embedder: TokenEmbedder, text: str, offsets: NDArray[np.int64], start: int, stop: int) -> int:
    """`stop` moved back until the slice fits the context: cut out of its text, it can have more tokens than its share."""
    while True:
        end = len(text) if stop == len(offsets) else int(offsets[stop - 1, 1])
        surplus = len(embedder.token_offsets(text[start:end])) - embedder.context_tokens
        if surplus <= 0 or end <= start + 1:
            return stop
        stop -= surplus
        if stop < 1 or int(offsets[stop - 1, 1]) <= start:
            raise ModelCallFailed(
                f"{embedder.model} reads only {embedder.context_tokens} tokens at once, too few for late chunking. "
                "No chunk was kept. Choose an encoder with a longer context.",
                "invalid_output",
            )


def _encode(embedder: TokenEmbedder, part: str) -> TokenVectors:
    encoded = embedder.embed_tokens(part)
    if encoded.vectors.shape != (len(encoded.offsets), embedder.dimension):
        raise ModelCallFailed(
            f"{embedder.model} gave vectors of shape {encoded.vectors.shape} for {len(encoded.offsets)} tokens of "
            f"dimension {embedder.dimension}. No chunk was kept. Check EMBEDDING_MODEL.",
            "invalid_output",
        )
    return encoded
