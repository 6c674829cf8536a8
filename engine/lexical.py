"""Search by words: BM25 over the chunks of one strategy, and reciprocal rank fusion with another ranking."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(rf"[\w{_MARKS}]+")
"""Letters, digits and the combining marks that Python's word class leaves out."""
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
    for match in _WORD.finditer(text):
        word, reached = match.group(), 0
        for run in _UNSPACED.finditer(word):
            if run.start() > reached:
                yield _term(word, reached, run.start(), match.start())
            if len(run.group()) == 1:
                yield _term(word, run.start(), run.end(), match.start())
            for place in range(run.start(), run.end() - 1):
                yield _term(word, place, place + 2, match.start())
            reached = run.end()
        if reached < len(word):
            yield _term(word, reached, len(word), match.start())


def words(text: str) -> list[str]:
    """The texts of `terms`, without their places: several times faster where words are written with spaces."""
    if _UNSPACED.search(text) is None:
        return [_folded(word) for word in _WORD.findall(text)]
    return [term.text for term in terms(text)]


def written_without_spaces(character: str) -> bool:
    return _UNSPACED.match(character) is not None


def _term(word: str, start: int, end: int, offset: int) -> Term:
    return Term(_folded(word[start:end]), offset + start, offset + end)


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
