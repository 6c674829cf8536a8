"""What can be said about an answer without a model: lexical proxies, in columns of their own, never mixed with a judge's scores.

On human votes about summaries, the share of word triples found in the source separated faithful from unfaithful sentences with an area
under the curve of 0.85 where the text was nearly extractive and 0.57 where it was rephrased (QAGS, CNN/DailyMail and XSum).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine.lexical import words
from engine.metrics.base import Metric
from engine.models import Span
from engine.providers.base import Embedder
from engine.strategies.sentences import sentence_spans

ACCURACY = "lexical proxy: area under the curve 0.85 on nearly extractive text, 0.57 on rephrased text"
"""Printed beside the values."""
SUPPORT_THRESHOLD = 0.3
"""Share of word triples below which a sentence is marked unsupported."""
COPIED_RUN = 8
"""Words in a row that make a passage of an answer a copy."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


class SentenceSupport(NamedTuple):
    """One sentence of an answer."""

    span: Span
    """Code points of the answer."""
    support: float
    """Share of its word triples that stand in the delivered text, 0 to 1."""

    @property
    def unsupported(self) -> bool:
        return self.support < SUPPORT_THRESHOLD


METRICS: tuple[Metric, ...] = (
    Metric(
        "answered",
        "Answered",
        "questions that got an answer / questions the documents answer",
        "higher",
        "share",
        "counted, no model asked",
        "answers",
    ),
    Metric(
        "abstained",
        "Abstained rightly",
        'questions met with "the documents do not answer this" / questions the documents do not answer',
        "higher",
        "share",
        "counted, no model asked",
        "answers",
    ),
    Metric(
        "answer_token_f1",
        "Token F1 to the expected answer",
        "harmonic mean of the shares of words the answer and the expected answer have in common",
        "higher",
        "share",
        "SQuAD (Rajpurkar et al., 2016), on folded words; lexical proxy",
        "answers",
    ),
    Metric(
        "answer_embedding_similarity",
        "Embedding similarity to the expected answer",
        "cosine of the vectors of answer and expected answer, negative values as 0",
        "higher",
        "share",
        "vectors of the bundled model, whatever the run searches with; lexical proxy",
        "answers",
    ),
    Metric(
        "trigram_support",
        "Trigram support",
        "word triples of the answer that stand in the delivered text / word triples of the answer",
        "higher",
        "share",
        ACCURACY,
        "answers",
    ),
    Metric(
        "unsupported_sentences",
        "Unsupported sentences",
        f"sentences of the answer with less than {SUPPORT_THRESHOLD:.0%} of their word triples in the delivered text / sentences",
        "lower",
        "share",
        ACCURACY,
        "answers",
    ),
    Metric(
        "numbers_found",
        "Numbers found",
        "numbers and dates of the answer that stand in the delivered text / numbers and dates of the answer",
        "higher",
        "share",
        "lexical proxy; an answer without numbers has no value",
        "answers",
    ),
    Metric(
        "copied_share",
        "Copied text",
        f"words of the answer inside runs of {COPIED_RUN} or more that stand in the delivered text / words of the answer",
        "none",
        "share",
        "shown because judges reward copying (2412.11567)",
        "answers",
    ),
)


def score_answer(
    answer: str, delivered: Sequence[str], expected: str | None = None, embedder: Embedder | None = None
) -> dict[str, float]:
    """All proxies that apply, by name. A blank answer has none; without an expected answer, no similarity; without an embedder, no embedding similarity.

    Raises ModelCallFailed.
    """
    if not answer.strip():
        return {}
    scores: dict[str, float] = {}
    if expected is not None and expected.strip():
        scores["answer_token_f1"] = token_f1(answer, expected)
        if embedder is not None:
            scores["answer_embedding_similarity"] = embedding_similarity(answer, expected, embedder)
    source = _Delivered(delivered)
    sentences = source.sentences(answer)
    if sentences:
        scores["trigram_support"] = source.support(words(answer))
        scores["unsupported_sentences"] = sum(sentence.unsupported for sentence in sentences) / len(sentences)
        scores["copied_share"] = source.copied(words(answer), COPIED_RUN)
    numbers = numbers_found(answer, delivered)
    if numbers is not None:
        scores["numbers_found"] = numbers
    return scores


def token_f1(answer: str, expected: str) -> float:
    """Harmonic mean of word precision and recall, repeated words counted as often as both have them."""
    own, wanted = Counter(words(answer)), Counter(words(expected))
    common = (own & wanted).total()
    return 2 * common / (own.total() + wanted.total()) if common else 0.0


def embedding_similarity(answer: str, expected: str, embedder: Embedder) -> float:
    """Cosine of the two texts, 0 to 1. Raises ModelCallFailed."""
    first, second = embedder.embed([answer, expected]).vectors
    return float(np.clip(np.dot(first, second), 0.0, 1.0))


def sentence_support(answer: str, delivered: Sequence[str]) -> list[SentenceSupport]:
    """Every sentence of the answer that has words, with its support."""
    return _Delivered(delivered).sentences(answer)


def trigram_support(answer: str, delivered: Sequence[str]) -> float:
    """Share of the answer's word triples that stand in the delivered text; of its words, for an answer shorter than three. 0 without words."""
    return _Delivered(delivered).support(words(answer))


def numbers_found(answer: str, delivered: Sequence[str]) -> float | None:
    """Share of the answer's numbers and dates, as written, that stand in the delivered text; None when the answer has none."""
    wanted = _NUMBER.findall(answer)
    if not wanted:
        return None
    present = {number for text in delivered for number in _NUMBER.findall(text)}
    return sum(number in present for number in wanted) / len(wanted)


def copied_share(answer: str, delivered: Sequence[str], run: int = COPIED_RUN) -> float:
    """Share of the answer's words inside verbatim runs of at least `run` words of the delivered text; 0 for shorter answers."""
    return _Delivered(delivered).copied(words(answer), run)


class _Delivered:
    """The words of the delivered texts, taken apart once for all measures; no run of words spans two texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        found = [words(text) for text in texts]
        self._triples = {triple for own in found for triple in _triples(own)}
        self._words = {word for own in found for word in own}
        self._joined = [_line(own) for own in found]

    def sentences(self, answer: str) -> list[SentenceSupport]:
        spans = [(span, words(span.slice(answer))) for span in sentence_spans(answer)]
        return [SentenceSupport(span, self.support(own)) for span, own in spans if own]

    def support(self, own: Sequence[str]) -> float:
        if len(own) < 3:
            known = [word in self._words for word in own]
        else:
            known = [triple in self._triples for triple in _triples(own)]
        return sum(known) / len(known) if known else 0.0

    def copied(self, own: Sequence[str], run: int) -> float:
        copied = [False] * len(own)
        for i in range(len(own) - run + 1):
            wanted = _line(own[i : i + run])
            if any(wanted in joined for joined in self._joined):
                copied[i : i + run] = [True] * run
        return sum(copied) / len(own) if own else 0.0


def _line(own: Sequence[str]) -> str:
    """Words in which no other words can be found: some characters fold to a word with a space, none to one with a line break."""
    return "\n".join(["", *own, ""])


def _triples(own: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return zip(own, own[1:], own[2:], strict=False)
