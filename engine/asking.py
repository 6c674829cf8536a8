"""One question against one spec: search, deliver, answer, as a Query record. A failure is a record that says why."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from engine import answer as answers
from engine import ids, indexing, retrieve
from engine.errors import ModelCallFailed, NeedsModel, UserError
from engine.index.base import ChunkIndex
from engine.models import Document, StrategySpec
from engine.prompts import prompt
from engine.providers.base import ChatModel, ChatReply, ChatRequest, Embedder, Models, Usage
from engine.providers.meter import Meter, metered
from engine.records import CellStatus, Query, RetrievedChunk, UsageRecord
from engine.settings import Settings
from engine.strategies.source import Source

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and the longer ranking behind it that metrics at token budgets need."""

    query: Query
    ranked: tuple[RetrievedChunk, ...]
    status: CellStatus = "scored"
    """How a failed query failed."""
    error: Exception | None = None
    """What ended a failed query."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """Tokens and dollars by purpose."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings say about answers."""

    context_tokens: int
    """Most tokens of retrieved text per answer."""
    max_tokens: int
    """Longest answer."""
    temperature: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(settings.context_tokens, settings.max_tokens, settings.temperature)


class Asker:
    """Asks questions of indexed specs. Safe to use from several threads.

    `chunks`: chunks by their ids. `source`: the document of an id, as strategies read it.
    """

    def __init__(
        self,
        models: Models,
        index: ChunkIndex,
        chunks: retrieve.ChunkLookup,
        source: Callable[[str], Source],
        limits: Limits,
        sentences: answers.SentenceVectors | None = None,
    ) -> None:
        self._models = models
        self._index = index
        self._chunks = chunks
        self._sentences = sentences or answers.SentenceVectors()
        self._source = source
        self._limits = limits

    def ask(
        self,
        question: str,
        spec: StrategySpec,
        document_ids: Sequence[str],
        top_k: int,
        request_id: str,
        *,
        depth: int | None = None,
        answer: bool = True,
        retriever: retrieve.RetrieverName = "vector",
        words: retrieve.Words | None = None,
        seed: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Asked:
        """The record of one question under one spec; the answer rests on the best `top_k` of `depth` ranked hits.

        `words`: the chunks of the spec, needed by `lexical` and `hybrid`. `seed`: sets repeated answers apart, in the cache too.
        `on_text` is called with the answer so far while a model writes it.
        Never raises for a failed search or model call: the record says `failed` and why. Raises NeedsModel without an embedder.
        """
        meter = Meter()
        models = metered(self._models, meter)
        embedder = models.embedder
        if embedder is None:
            raise NeedsModel("Searching needs an embedder and none is configured. Set EMBEDDING_MODEL.")
        query = self._begun(question, spec, document_ids, top_k, request_id, indexing.vector_model(spec, models))
        began = time.perf_counter()
        try:
            ranked = self._search(models, question, spec, document_ids, max(top_k, depth or 0), retriever, words)
            searched = time.perf_counter()
            given = ranked[:top_k]
            update: dict[str, object] = {"retrieved": given}
            if answer:
                found = self._answer(question, given, models, embedder, seed, on_text)
                update |= {
                    "answer": found.text,
                    "answer_kind": "extractive" if found.model is None else "generated",
                    "answered": found.answered,
                    "citations": found.citations,
                    "model": found.model,
                    "prompt_version": found.prompt_version,
                    "first_usage": found.first_usage,
                }
            ended = time.perf_counter()
            update["seconds"] = {"retrieve": searched - began, "generate": ended - searched, "total": ended - began}
            update["usage"] = UsageRecord(**meter.total._asdict())
            return Asked(query.model_copy(update=update), ranked, usage=meter.by_purpose)
        except Exception as error:
            reason = in_words(error, f"a question under {spec.label}", request_id)
            failed = {"status": "failed", "error": reason, "usage": UsageRecord(**meter.total._asdict())}
            return Asked(query.model_copy(update=failed), (), status_of(error), error, meter.by_purpose)

    def search(
        self,
        question: str,
        spec: StrategySpec,
        document_ids: Sequence[str],
        depth: int,
        retriever: retrieve.RetrieverName = "vector",
        words: retrieve.Words | None = None,
    ) -> tuple[RetrievedChunk, ...]:
        """The best `depth` hits with what is delivered for each. Raises NeedsModel, ModelCallFailed, IndexUnavailable."""
        return self._search(self._models, question, spec, document_ids, depth, retriever, words)

    def _search(
        self,
        models: Models,
        question: str,
        spec: StrategySpec,
        document_ids: Sequence[str],
        depth: int,
        retriever: retrieve.RetrieverName,
        words: retrieve.Words | None,
    ) -> tuple[RetrievedChunk, ...]:
        wide = depth if retriever != "hybrid" else max(depth, retrieve.FUSED_AT_LEAST)
        by_words = words.hits(question, wide) if words is not None and retriever != "vector" else []
        hits = by_words
        if retriever != "lexical":
            vector = indexing.query_vector(question, spec, models)
            hits = retrieve.vector_hits(self._index, spec, vector, wide, document_ids)
        if retriever == "hybrid":
            hits = retrieve.fused(hits, by_words, depth)
        return retrieve.deliver(hits, self._chunks, self._document, self._limits.context_tokens)

    def _answer(
        self,
        question: str,
        given: Sequence[RetrievedChunk],
        models: Models,
        embedder: Embedder,
        seed: int | None,
        on_text: Callable[[str], None] | None,
    ) -> answers.Answer:
        if models.chat is None:
            return answers.extractive(question, given, embedder, self._sentences)
        if not any(hit.delivered_span is not None for hit in given):
            return answers.Answer("", False, (), models.chat.model, prompt("answer").version)
        asked = replace(
            answers.answer_request(question, given, self._limits.max_tokens, self._limits.temperature), seed=seed
        )
        reply = models.chat.complete(asked) if on_text is None else _streamed(models.chat, asked, on_text)
        return answers.generated(reply, models.chat.model, given, self._document)

    def failed(
        self,
        question: str,
        spec: StrategySpec,
        document_ids: Sequence[str],
        top_k: int,
        request_id: str,
        error: UserError,
    ) -> Query:
        """The record of a question that could not even be asked, because its spec could not be indexed."""
        model = indexing.vector_model(spec, self._models)
        query = self._begun(question, spec, document_ids, top_k, request_id, model)
        return query.model_copy(update={"status": "failed", "error": error.message})

    @staticmethod
    def _begun(
        question: str, spec: StrategySpec, document_ids: Sequence[str], top_k: int, request_id: str, model: str
    ) -> Query:
        return Query(
            query_id=ids.new_id(),
            question=question,
            spec=spec,
            document_ids=tuple(document_ids),
            top_k=top_k,
            embedding_model=model,
            request_id=request_id,
            created_at=datetime.now(UTC),
        )

    def _document(self, document_id: str) -> Document:
        return self._source(document_id).document


def in_words(error: Exception, what: str, request_id: str) -> str:
    """One sentence for a reader; a bug is logged under the request id."""
    if isinstance(error, UserError):
        return error.message
    logger.error("%s failed (request %s)", what, request_id, exc_info=error)
    return f"This is a bug in Chunkscope. Details are in the log under {request_id}."


def status_of(error: Exception) -> CellStatus:
    """What a cell records for an error that left it without a result."""
    if not isinstance(error, ModelCallFailed):
        return "failed"
    if error.cause == "auth":
        return "unavailable"
    return "skipped" if error.cause == "cancelled" else error.cause


def _streamed(chat: ChatModel, request: ChatRequest, on_text: Callable[[str], None]) -> ChatReply:
    """The reply, with `on_text` told the answer in it so far as it is written. Raises ModelCallFailed when it breaks off."""
    pieces = chat.stream(request)
    written = ""
    while True:
        try:
            written += next(pieces)
        except StopIteration as end:
            reply: ChatReply = end.value
            return reply
        on_text(answers.partial_answer(written))
