"""Answers from retrieved text: extractive with no model, generated with citations when there is one, closed-book as a baseline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.errors import CallCause, ModelCallFailed
from engine.lexical import words
from engine.models import Document, Span
from engine.prompts import prompt
from engine.providers.base import ChatReply, ChatRequest, Embedder, Vectors
from engine.quotes import DeliveredText
from engine.records import Citation, RetrievedChunk, UsageRecord
from engine.strategies.asking import request
from engine.strategies.sentences import sentence_spans

EXTRACTIVE_SENTENCES = 3
"""Most sentences in an extractive answer."""

SENTENCES_KEPT = 20_000
"""Sentence vectors kept between questions; 1 kB each with the bundled model."""

EXTRACTIVE_FLOOR = 0.25
"""Least cosine between question and best sentence. Below it the extractive answer is "the documents do not answer this"."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the quotes it rests on."""

    text: str
    answered: bool
    citations: tuple[Citation, ...]
    model: str | None = None
    prompt_version: str | None = None
    first_usage: UsageRecord | None = None
    """What a reply from the cache cost when it was paid for."""


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["answered", "answer", "citations"],
    "properties": {
        "answered": {"type": "boolean"},
        "answer": {"type": "string"},
        "citations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["passage", "quote"],
                "properties": {"passage": {"type": "integer"}, "quote": {"type": "string"}},
            },
        },
    },
}


def answer_request(
    question: str, retrieved: Sequence[RetrievedChunk], max_tokens: int, temperature: float
) -> ChatRequest:
    """The call that answers one question from its delivered passages."""
    data = {"Question": question}
    data |= {f"Passage {hit.rank}": hit.delivered_text for hit in retrieved if hit.delivered_span is not None}
    made = request("answer", data, max_tokens=max_tokens, purpose="answer", schema=SCHEMA)
    return replace(made, temperature=temperature)


def closed_book_request(question: str, max_tokens: int, temperature: float) -> ChatRequest:
    """The call that answers a question from the model's memory alone: the baseline for texts it may have been trained on."""
    made = request("answer_closed_book", {"Question": question}, max_tokens=max_tokens, purpose="answer", schema=SCHEMA)
    return replace(made, temperature=temperature)


_ANSWER = re.compile(r'"answer"\s*:\s*"((?:[^"\\]|\\.)*)')


def partial_answer(written: str) -> str:
    """The answer in the beginning of a reply that is still being written; empty before it starts."""
    match = _ANSWER.search(written)
    if match is None:
        return ""
    # The end may be half of an escape such as \u00; what stands before it is whole.
    raw = match[1]
    for cut in range(min(6, len(raw)) + 1):
        try:
            return str(json.loads(f'"{raw[: len(raw) - cut]}"'))
        except ValueError:
            continue
    return ""


def generated(
    reply: ChatReply, model: str, retrieved: Sequence[RetrievedChunk], document: Callable[[str], Document]
) -> Answer:
    """The answer in a model's reply, its quotes looked up in the delivered text. Raises ModelCallFailed for a reply without one."""
    if not reply.ok or not _has_answer(reply.data):
        cause: CallCause = "invalid_output" if reply.status == "ok" else reply.status
        raise ModelCallFailed(reply.detail or f"{model} gave no usable answer ({cause}). Ask again.", cause)
    version = prompt("answer").version
    text = reply.data["answer"].strip()
    if not reply.data["answered"] or not text:
        return Answer("", False, (), model, version, _first_usage(reply))
    delivered = DeliveredText(retrieved, document)
    by_rank = {hit.rank: hit for hit in retrieved}
    citations = []
    for item in reply.data["citations"]:
        found = delivered.find(item["quote"])
        cited = by_rank.get(item["passage"])
        citations.append(
            Citation(
                quote=item["quote"],
                chunk_id=cited.chunk.chunk_id if cited else None,
                document_id=found.document_id if found else None,
                span=found.span if found else None,
            )
        )
    return Answer(text, True, tuple(citations), model, version, _first_usage(reply))


def _first_usage(reply: ChatReply) -> UsageRecord | None:
    paid = reply.extra.get("first_usage")
    return None if paid is None else UsageRecord(**paid._asdict())


def _has_answer(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and isinstance(data.get("answered"), bool)
        and isinstance(data.get("answer"), str)
        and isinstance(data.get("citations"), list)
        and all(
            isinstance(item, dict) and isinstance(item.get("passage"), int) and isinstance(item.get("quote"), str)
            for item in data["citations"]
        )
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    document_id: str
    chunk_id: str
    span: Span
    rank: int


class SentenceVectors:
    """Vectors of sentences that were compared with a question before. Safe to use from several threads."""

    def __init__(self) -> None:
        self._rows: dict[str, Vectors] = {}

    def of(self, texts: Sequence[str], embedder: Embedder) -> Vectors:
        """Shape `(n_texts, dimension)`, rows of unit length."""
        rows = self._rows
        missing = list(dict.fromkeys(text for text in texts if text not in rows))
        if missing:
            if len(rows) > SENTENCES_KEPT:
                rows = self._rows = {}
                missing = list(dict.fromkeys(texts))
            rows.update(zip(missing, embedder.embed(missing).vectors, strict=True))
        return np.stack([rows[text] for text in texts])


def extractive(
    question: str, retrieved: Sequence[RetrievedChunk], embedder: Embedder, known: SentenceVectors
) -> Answer:
    """The sentences of the delivered text nearest to the question, in reading order, each a citation of itself.

    Nearness is the cosine of sentence and question plus the share of the question's words in the sentence, halved.
    No text is written, so the answer is faithful by construction; whether it is complete is not claimed.
    """
    sentences = [s for hit in retrieved if hit.delivered_span is not None for s in _sentences(hit)]
    if not sentences:
        return Answer("", False, ())
    vectors = known.of([s.text for s in sentences], embedder)
    target = embedder.embed([question], kind="query").vectors[0]
    cosine = vectors @ target
    asked = set(words(question))
    shared = np.array([len(asked & set(words(s.text))) / max(1, len(asked)) for s in sentences])
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
        if len(words(text)) < 3:
            continue
        start = delivered.start + span.start + len(raw) - len(raw.lstrip())
        found.append(
            _Sentence(text, hit.chunk.document_id, hit.chunk.chunk_id, Span(start, start + len(text)), hit.rank)
        )
    return found
