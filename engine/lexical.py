"""Search by words: BM25 over the chunks of one strategy, and reciprocal rank fusion with another ranking."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(rf"[\w{_MARKS}]+")
"""Letters, digits and the combining marks that Python's word class leaves out."""
_WORDS_AND_GAPS = re.compile(f"({_WORD.pattern})")
_BLOCK = 1 << 16
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean: written without spaces, or with long compounds."""


class Term(NamedTuple):
    text: str
    start: int
    """Code point offset in the text the terms were taken from."""
    end: int


def terms(text: str) -> Iterator[Term]:
    """The searchable terms of a text: case-folded words; runs of scripts written without spaces as overlapping pairs of characters."""
    for piece in _pieces(text):
        if piece.paired:
            for start, pair in enumerate(_terms_of(piece), start=piece.start):
                yield Term(pair, start, start + 2)
        else:
            yield Term(_folded(piece.text), piece.start, piece.start + len(piece.text))


class _Piece(NamedTuple):
    """A word, or a part of one that is all in scripts written without spaces or all in others."""

    text: str
    start: int
    paired: bool
    """Whether its terms are pairs of characters."""


def _pieces(text: str) -> Iterator[_Piece]:
    for match in _WORD.finditer(text):
        word, start, reached = match.group(), match.start(), 0
        if word.isascii():
            yield _Piece(word, start, False)
            continue
        for run in _UNSPACED.finditer(word):
            if run.start() > reached:
                yield _Piece(word[reached : run.start()], start + reached, False)
            yield _Piece(run.group(), start + run.start(), len(run.group()) > 1)
            reached = run.end()
        if reached < len(word):
            yield _Piece(word[reached:], start + reached, False)


def _terms_of(piece: _Piece) -> list[str]:
    if not piece.paired:
        return [_folded(piece.text)]
    pairs = list(map(add, piece.text, piece.text[1:]))
    # No part of a folded text changes when it is folded on its own.
    return pairs if _folded(piece.text) == piece.text else [_folded(pair) for pair in pairs]


def words(text: str) -> list[str]:
    """The texts of `terms`, without their places: several times faster where words are written with spaces."""
    if text.isascii():
        return _WORD.findall(text.lower())
    if _UNSPACED.search(text) is None:
        return [_folded(word) for word in _WORD.findall(text)]
    return [term for piece in _pieces(text) for term in _terms_of(piece)]


class PlacedWords(NamedTuple):
    words: list[str]
    """The texts of `terms`."""
    starts: NDArray[np.int64]
    """The offset of each in the whole text."""


def placed_words(text: str) -> Iterator[PlacedWords]:
    """The texts and starts of `terms`, some ten thousand at a time: as fast as `words`, and a long text's words are never held all at once."""
    start = 0
    while start < len(text):
        end = min(start + _BLOCK, len(text))
        unfinished = _WORD.match(text, end)
        end = end if unfinished is None else unfinished.end()
        words, starts = _placed(text[start:end])
        yield PlacedWords(words, starts + start)
        start = end


def _placed(block: str) -> tuple[list[str], NDArray[np.int64]]:
    if not block.isascii() and _UNSPACED.search(block) is not None:
        pieces = list(_pieces(block))
        found = [_terms_of(piece) for piece in pieces]
        places = chain.from_iterable(
            range(piece.start, piece.start + len(of)) for piece, of in zip(pieces, found, strict=True)
        )
        return list(chain.from_iterable(found)), np.fromiter(places, np.int64)
    parts = _WORDS_AND_GAPS.split(block.lower() if block.isascii() else block)
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    words = parts[1::2] if block.isascii() else [_folded(word) for word in parts[1::2]]
    return words, lengths.cumsum()[:-1:2]


def inside_word(text: str, offset: int) -> bool:
    """Whether a cut at the offset would go through a word."""
    around = _WORD.match(text, offset - 1, offset + 1) if offset > 0 else None
    return around is not None and around.end() > offset


def written_without_spaces(character: str) -> bool:
    return _UNSPACED.match(character) is not None


def _folded(word: str) -> str:
    return word.casefold() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


class LexicalHit(NamedTuple):
    position: int
    """Place of the text in the sequence the index was built from."""
    score: float


class Bm25:
    """BM25 (Robertson & Zaragoza, 2009) with Lucene's never-negative idf, `ln(1 + (N - n + 0.5) / (n + 0.5))`. Immutable, safe for threads.

    k1 = 1.2: how soon repeating a word stops helping. b = 0.75: how much long texts are discounted.
    """

    def __init__(self, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        self._vocabulary: dict[str, int] = {}
        rows: list[int] = []
        columns: list[int] = []
        counts: list[int] = []
        lengths = np.zeros(len(texts))
        for row, text in enumerate(texts):
            frequencies = Counter(words(text))
            lengths[row] = frequencies.total()
            for term, count in frequencies.items():
                rows.append(row)
                columns.append(self._vocabulary.setdefault(term, len(self._vocabulary)))
                counts.append(count)
        self._n_texts = len(texts)
        self._postings = _postings(
            np.asarray(rows, int), np.asarray(columns, int), np.asarray(counts, float), lengths, k1, b
        )

    def search(self, query: str, limit: int) -> list[LexicalHit]:
        """The best texts, best first, ties in the order of the texts. Texts that share no term with the query are no hits."""
        wanted = Counter(self._vocabulary[word] for word in words(query) if word in self._vocabulary)
        if not wanted or limit <= 0:
            return []
        scores = np.zeros(self._n_texts)
        for column, count in wanted.items():
            held = slice(self._postings.starts[column], self._postings.starts[column + 1])
            scores[self._postings.rows[held]] += count * self._postings.values[held]
        found = np.flatnonzero(scores > 0)
        order = found[np.argsort(-scores[found], kind="stable")][:limit]
        return [LexicalHit(int(position), float(scores[position])) for position in order]


class _Postings(NamedTuple):
    """What each term adds to the score of each text that holds it, term after term."""

    starts: NDArray[np.int64]
    """Where the postings of each term begin, and the end: shape `(n_terms + 1,)`."""
    rows: NDArray[np.int64]
    """The texts that hold the term: shape `(n_postings,)`, no text twice for one term."""
    values: NDArray[np.float64]


def _postings(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    counts: NDArray[np.float64],
    lengths: NDArray[np.float64],
    k1: float,
    b: float,
) -> _Postings:
    n_texts, n_terms = lengths.size, int(columns.max()) + 1 if columns.size else 0
    holding = np.bincount(columns, minlength=n_terms)
    idf = np.log1p((n_texts - holding + 0.5) / (holding + 0.5))
    average = lengths.mean() if lengths.any() else 1.0
    discount = k1 * (1 - b + b * lengths / average)
    values = idf[columns] * counts * (k1 + 1) / (counts + discount[rows])
    order = np.argsort(columns, kind="stable")
    return _Postings(np.append(0, np.cumsum(holding)), rows[order], values[order])


Key = TypeVar("Key", bound=Hashable)


def fuse(rankings: Sequence[Sequence[Key]], limit: int, k: int = 60) -> list[tuple[Key, float]]:
    """Reciprocal rank fusion (Cormack, Clarke & Büttcher, 2009): the sum over rankings of `1 / (k + rank)`, best first.

    Ties keep the order in which the first ranking, then the next, names them.
    """
    scores: defaultdict[Key, float] = defaultdict(float)
    for ranking in rankings:
        for rank, key in enumerate(dict.fromkeys(ranking), start=1):
            scores[key] += 1 / (k + rank)
    return sorted(scores.items(), key=lambda item: -item[1])[:limit]
