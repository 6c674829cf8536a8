"""A document as the strategies read it, with what several of them need computed once: tokens, outline, sentences, sentence vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine import tokens
from engine.models import Document, Span
from engine.providers.base import Embedder, Vectors
from engine.strategies.blocks import Heading, Outline, paragraph_starts, scan
from engine.strategies.outline import tree_headings
from engine.strategies.sentences import sentence_edges
from engine.tokens import TokenMap

_SPACE = np.array([chr(code).isspace() for code in range(0x3002)])
"""Whether a code point is white space; none above the last entry is."""
_ASCII_SPACE = _SPACE[:256].tobytes()
"""The same for `bytes.translate`, which is faster."""


def _spaces(text: str) -> NDArray[np.bool_]:
    """Whether each character is white space: shape `(n_characters,)`."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii").translate(_ASCII_SPACE), dtype=np.bool_)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return _SPACE.take(codes, mode="clip")


def word_starts(text: str) -> NDArray[np.int64]:
    """Where words begin: offsets of characters that are not white space and follow white space or nothing."""
    space = _spaces(text)
    begins = ~space
    begins[1:] &= space[:-1]
    return np.flatnonzero(begins)


SOURCE_CODE = "text/x-source"
"""Media type of documents that are one source file."""


class Source:
    """One document, shared by all strategies that cut it. Safe to use from several threads."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text
        self._lock = threading.Lock()
        self._vectors: dict[str, Vectors] = {}

    @cached_property
    def tokens(self) -> TokenMap:
        return TokenMap(self.text)

    @cached_property
    def outline(self) -> Outline:
        """Markdown headings, fences, tables and other blocks of the text. Source files have none: their `#` is a comment."""
        return Outline((), ()) if self.document.media_type == SOURCE_CODE else scan(self.text)

    @cached_property
    def headings(self) -> tuple[Heading, ...]:
        """Headings of the document tree and of the Markdown text, in order, one per place."""
        found = {heading.start: heading for heading in self.outline.headings}
        found.update({heading.start: heading for heading in tree_headings(self.document)})
        return tuple(found[start] for start in sorted(found))

    @cached_property
    def paragraphs(self) -> tuple[int, ...]:
        """Where a paragraph begins: 0, and each line after blank lines that is not inside a fence, a table or an HTML block."""
        return (0, *paragraph_starts(self.text, self.outline))

    @cached_property
    def sentence_edges(self) -> list[int]:
        """Where the sentences begin, and the text's end: sentence i is `[edges[i], edges[i + 1])`. A text of none has one edge."""
        return sentence_edges(self.text)

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Sentences that tile the text: the first starts at 0, each ends where the next starts, the last ends at the text's end."""
        return tuple(map(Span._make, pairwise(self.sentence_edges)))

    def sentence_vectors(self, embedder: Embedder) -> Vectors:
        """Vectors of the stripped sentences, embedded once per document and model: shape `(n_sentences, dimension)`, rows of unit length."""
        with self._lock:
            if embedder.model not in self._vectors:
                self._vectors[embedder.model] = embedder.embed(
                    [span.slice(self.text).strip() for span in self.sentences]
                ).vectors
            return self._vectors[embedder.model]

    @cached_property
    def word_starts(self) -> NDArray[np.int64]:
        """Where words begin: ascending offsets."""
        return word_starts(self.text)

    @cached_property
    def visible_characters(self) -> int:
        """Characters of the text that are not white space."""
        return len(self.text) - int(np.count_nonzero(_spaces(self.text)))

    def next_visible(self, offsets: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The first offset at or after each that is not white space; the text's length where none is. Offsets from 0, in any order."""
        text, places = self.text, np.minimum(np.asarray(offsets, dtype=np.int64), len(self.text))
        begins = self.word_starts.searchsorted(places)
        after = np.append(self.word_starts, len(text))[begins]
        blank = np.fromiter((text[place : place + 1].isspace() for place in places.tolist()), np.bool_, places.size)
        return np.where(blank, after, places)

    def word_counts(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Words of each span on its own, as `str.split` counts them."""
        text, begun = self.text, self.word_starts
        counts = begun.searchsorted(ends) - begun.searchsorted(starts)
        inside = [start > 0 and not (text[start - 1].isspace() or text[start].isspace()) for start in starts]
        result: list[int] = (counts + np.array(inside, dtype=np.int64)).tolist()
        return result

    def count(self, text: str) -> int:
        return tokens.count(text)
