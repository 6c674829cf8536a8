"""One question against one spec: search, deliver, answer, as a Query record. A failure is a record that says why."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from engine import answer as answers
from engine import ids, indexing, retrieve
from engine.errors import NeedsModel, UserError
from engine.index.base import ChunkIndex
from engine.models import Document, StrategySpec
from engine.prompts import prompt
from engine.providers.base import Embedder, Models
from engine.providers.meter import Meter, metered
from engine.records import Query, RetrievedChunk, UsageRecord
from engine.settings import Settings
from engine.strategies.source import Source

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and the longer ranking behind it that metrics at token budgets need."""

    query: Query
    ranked: tuple[RetrievedChunk, ...]


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
    ) -> Asked:
        """The record of one question under one spec; the answer rests on the best `top_k` of `depth` ranked hits.

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
            vector = indexing.query_vector(question, spec, models)
            hits = retrieve.vector_hits(self._index, spec, vector, max(top_k, depth or 0), document_ids)
            ranked = retrieve.deliver(hits, self._chunks, self._document, self._limits.context_tokens)
            searched = time.perf_counter()
            given = ranked[:top_k]
            update: dict[str, object] = {"retrieved": given}
            if answer:
                found = self._answer(question, given, models, embedder)
                update |= {
                    "answer": found.text,
                    "answer_kind": "extractive" if found.model is None else "generated",
                    "answered": found.answered,
                    "citations": found.citations,
                    "model": found.model,
                    "prompt_version": found.prompt_version,
                }
            ended = time.perf_counter()
            update["seconds"] = {"retrieve": searched - began, "generate": ended - searched, "total": ended - began}
            update["usage"] = UsageRecord(**meter.total._asdict())
            return Asked(query.model_copy(update=update), ranked)
        except UserError as error:
            reason = error.message
        except Exception:
            logger.exception("question failed under %s (request %s)", spec.label, request_id)
            reason = f"This is a bug in Chunkscope. Details are in the log under {request_id}."
        return Asked(query.model_copy(update={"status": "failed", "error": reason}), ())

    def _answer(
        self, question: str, given: Sequence[RetrievedChunk], models: Models, embedder: Embedder
    ) -> answers.Answer:
        if models.chat is None:
            return answers.extractive(question, given, embedder, self._sentences)
        if not any(hit.delivered_span is not None for hit in given):
            return answers.Answer("", False, (), models.chat.model, prompt("answer").version)
        asked = answers.answer_request(question, given, self._limits.max_tokens, self._limits.temperature)
        return answers.generated(models.chat.complete(asked), models.chat.model, given, self._document)

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
