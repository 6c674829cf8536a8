"""Answers from retrieved text: extractive with no model, generated with citations when there is one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.models import Span
from engine.providers.base import Embedder
from engine.records import Citation, RetrievedChunk
from engine.strategies.sentences import sentence_spans

EXTRACTIVE_SENTENCES = 3
"""Most sentences in an extractive answer."""

EXTRACTIVE_FLOOR = 0.25
"""Least cosine between question and best sentence. Below it the extractive answer is "the documents do not answer this"."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the quotes it rests on."""

    text: str
    answered: bool
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    document_id: str
    chunk_id: str
    span: Span
    rank: int


def extractive(question: str, retrieved: Sequence[RetrievedChunk], embedder: Embedder) -> Answer:
    """The sentences of the delivered text nearest to the question, in reading order, each a citation of itself.

    Nearness is the cosine of sentence and question plus the share of the question's words in the sentence, halved.
    No text is written, so the answer is faithful by construction; whether it is complete is not claimed.
    """
    sentences = [s for hit in retrieved if hit.delivered_span is not None for s in _sentences(hit)]
    if not sentences:
        return Answer("", False, ())
    vectors = embedder.embed([s.text for s in sentences]).vectors
    target = embedder.embed([question], kind="query").vectors[0]
    cosine = vectors @ target
    words = set(_WORD.findall(question.lower()))
    shared = np.array([len(words & set(_WORD.findall(s.text.lower()))) / max(1, len(words)) for s in sentences])
    score = (cosine + shared) / 2
    order = sorted(range(len(sentences)), key=lambda i: (-score[i], sentences[i].rank, sentences[i].span))
    best = order[:EXTRACTIVE_SENTENCES]
    if cosine[best[0]] < EXTRACTIVE_FLOOR:
        return Answer("", False, ())
    keep = [i for i in best if score[i] >= 0.6 * score[best[0]]]
    chosen = sorted((sentences[i] for i in keep), key=lambda s: (s.rank, s.span))
    citations = tuple(
        Citation(quote=s.text, chunk_id=s.chunk_id, document_id=s.document_id, span=s.span) for s in chosen
    )
    return Answer(" ".join(s.text for s in chosen), True, citations)


def _sentences(hit: RetrievedChunk) -> list[_Sentence]:
    delivered = hit.delivered_span
    assert delivered is not None
    found = []
    for span in sentence_spans(hit.delivered_text):
        raw = span.slice(hit.delivered_text)
        text = raw.strip()
        if len(_WORD.findall(text)) < 3:
            continue
        start = delivered.start + span.start + len(raw) - len(raw.lstrip())
        found.append(
            _Sentence(text, hit.chunk.document_id, hit.chunk.chunk_id, Span(start, start + len(text)), hit.rank)
        )
    return found
