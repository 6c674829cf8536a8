"""What a benchmark would call and cost, from the real chunker, prompts and caches. Nothing is called, nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from engine import indexing, tokens
from engine.answer import answer_request, closed_book_request, generated
from engine.asking import Asker, Limits
from engine.bench.estimate import (
    NOTHING,
    ClosedBookEstimate,
    DryRun,
    Range,
    SpecEstimate,
    StageEstimate,
    StageName,
    exactly,
)
from engine.bench.estimate_notes import notes
from engine.bench.plan import answer_seeds, answer_with, judged_by
from engine.bench.tally import Calls, Tally, total_usd
from engine.errors import ModelCallFailed, NeedsModel
from engine.index.base import ChunkIndex
from engine.judge import calibration
from engine.judge.judge import JUDGE_CALLS, JUDGE_TOKENS, judge_request
from engine.models import ChunkSet, Span, StrategySpec
from engine.providers.base import ChatModel, ChatRequest, Models
from engine.providers.estimate import embedding_calls, request_tokens, uncached
from engine.providers.prices import Prices
from engine.records import Plan, Question, RetrievedChunk
from engine.retrieve import Words
from engine.settings import BUNDLED, Settings
from engine.store import Store
from engine.strategies import registry
from engine.strategies.base import Need
from engine.strategies.source import Source

__all__ = ["DryRun", "DryRunner", "Range"]

INDEX_STAGES: tuple[StageName, ...] = ("context", "embedding")

ANSWER_TOKENS = (15.0, 60.0)
"""Tokens of an answer with its quotes, low and expected; MAX_TOKENS is the high end. The low end says that nothing answers it."""
ANSWER_SHARE = 0.5
"""Share of them that is the answer itself, which a judge reads."""
VERDICT_TOKENS = (10.0, 60.0)
"""Tokens of the verdicts on an answer's claims, low and expected."""
RELEVANCE_TOKENS = 12.0
"""Tokens of the relevance of one passage."""
PROPOSITION_SHARES = (0.5, 1.2, 3.0)
"""Tokens of a paragraph's statements as shares of the paragraph: low, expected, high."""
CONTEXT_SHARES = (0.2, 0.5, 1.0)
"""Tokens of a written context as shares of the longest one allowed: low, expected, high."""


@dataclass
class _Prepared:
    """What one spec looks like before it is run."""

    spec: StrategySpec
    chunk_sets: list[ChunkSet | None] = field(default_factory=list)
    """Per document; None where cutting would call a model."""
    ready: bool = False
    problem: str | None = None
    passage: Range = NOTHING
    """Tokens delivered for one hit."""
    index_cost: float | None = 0.0
    """At the high end."""

    @property
    def known(self) -> list[ChunkSet]:
        return [each for each in self.chunk_sets if each is not None]


class _Frames(NamedTuple):
    answer: int
    judge: int


class DryRunner:
    """Estimates benchmarks against one set of models, caches and index.

    `chunk`: cuts a document without storing anything; it is only called where no model has to be asked.
    """

    def __init__(
        self,
        store: Store,
        index: ChunkIndex,
        models: Models,
        source: Callable[[str], Source],
        chunk: Callable[[str, StrategySpec], ChunkSet],
        settings: Settings,
        prices: Prices,
    ) -> None:
        self.store = store
        self.index = index
        self.models = models
        self.source = source
        self.chunk = chunk
        self.settings = settings
        self.prices = prices

    def estimate(self, plan: Plan, questions: Sequence[Question]) -> DryRun:
        """Calls, tokens and dollars of a plan. Makes no call. Raises NotFound for a document that is gone."""
        return _Estimate(self, plan, questions).result()


class _Estimate:
    def __init__(self, runner: DryRunner, plan: Plan, questions: Sequence[Question]) -> None:
        self._runner = runner
        self._models = runner.models
        self._plan = plan
        self._questions = questions
        self._limits = Limits.of(runner.settings)
        self._tally = Tally(plan, runner.models, runner.prices)
        self._seen_texts: set[str] = set()
        self._known_frames: dict[str, _Frames] = {}

    def result(self) -> DryRun:
        sources = [self._runner.source(document_id) for document_id in self._plan.document_ids]
        prepared = [self._prepare(spec, sources) for spec in self._plan.specs]
        working = [each for each in prepared if each.problem is None]
        if working and self._plan.retriever != "lexical":
            self._embed_questions()
        for each in working:
            self._ask(each)
        closed_book = self._ask_closed_book()
        self._calibrate()
        stages = self._tally.estimates()
        return DryRun(
            estimated_calls=round(sum(stage.calls.expected for stage in stages)),
            estimated_cost_usd=self._tally.cost("expected"),
            high_cost_usd=self._tally.cost("high"),
            overnight_cost_usd=self._tally.overnight_cost(),
            high_ask_usd=self._high_ask(stages),
            questions=len(self._questions),
            cells=len(self._questions) * len(self._plan.specs) * len(answer_seeds(self._plan, self._models)),
            stages=stages,
            specs=tuple(
                SpecEstimate(
                    spec=each.spec,
                    chunks=sum(len(found.chunks) for found in each.known)
                    if each.problem is None and len(each.known) == len(sources)
                    else None,
                    indexed=each.ready,
                    problem=each.problem,
                    index_cost_usd=each.index_cost,
                )
                for each in prepared
            ),
            closed_book=closed_book,
            notes=notes(
                self._plan,
                self._models,
                self._runner.prices,
                self._tally,
                {each.spec.label: each.problem for each in prepared if each.problem is not None},
                embeds_here=self._is_bundled or self._is_local,
            ),
        )

    # Indexing

    def _prepare(self, spec: StrategySpec, sources: Sequence[Source]) -> _Prepared:
        prepared, before = _Prepared(spec), self._tally.cost("high", INDEX_STAGES)
        strategy = registry.strategy(spec.strategy_name)
        try:
            strategy.check_models(self._models)
            model = indexing.vector_model(spec, self._models)
            if self._models.embedder is None and self._plan.retriever != "lexical":
                raise NeedsModel("Searching needs an embedder and none is configured. Set EMBEDDING_MODEL.")
        except NeedsModel as error:
            prepared.problem = error.message
            return prepared
        ids = [source.document.document_id for source in sources]
        stored = self._runner.store.ready_documents(ids, spec.spec_id, model)
        prepared.ready = len(stored) == len(set(ids))
        for source in sources:
            found, requests = self._chunks(source, spec)
            prepared.chunk_sets.append(found)
            if source.document.document_id not in stored:
                self._index(source, spec, found, requests)
        prepared.passage = self._passage(prepared, sources)
        after = self._tally.cost("high", INDEX_STAGES)
        prepared.index_cost = None if before is None or after is None else after - before
        return prepared

    @staticmethod
    def _high_ask(stages: Sequence[StageEstimate]) -> float | None:
        """What one question costs at the high end. Every answer that is not in the cache is one call."""
        asking = [stage for stage in stages if stage.stage in ("answers", "judge")]
        calls = max(stage.calls.expected for stage in asking)
        total = total_usd(None if stage.cost_usd is None else stage.cost_usd.high for stage in asking)
        return None if total is None else total / max(1.0, calls)

    def _chunks(self, source: Source, spec: StrategySpec) -> tuple[ChunkSet | None, Sequence[ChatRequest]]:
        """The chunks of one document where they can be had without a call, and the calls that are missing."""
        document_id = source.document.document_id
        made_with = indexing.chunked_with(spec, self._models)
        strategy = registry.strategy(spec.strategy_name)
        if strategy.needs:
            known = self._runner.store.chunk_set(document_id, spec, made_with)
            if known is not None:
                return known, ()
        requests: Sequence[ChatRequest] = ()
        if Need.CHAT in strategy.needs:
            asked = strategy.requests(source, strategy.parse(spec.params))
            requests = uncached(self._models.chat, asked)
            self._tally["context"].cached += len(asked) - len(requests)
        calls_embedder = Need.EMBEDDER in strategy.needs and self._models.embedder is not None and not self._is_bundled
        if requests or calls_embedder or Need.TOKEN_EMBEDDER in strategy.needs:
            return None, requests
        return self._runner.chunk(document_id, spec), ()

    def _index(
        self, source: Source, spec: StrategySpec, found: ChunkSet | None, requests: Sequence[ChatRequest]
    ) -> None:
        written = self._contexts(requests)
        if self._plan.retriever == "lexical" or Need.TOKEN_EMBEDDER in registry.strategy(spec.strategy_name).needs:
            return
        if found is not None:
            self._embed([chunk.embed_text for chunk in found.chunks])
            return
        size = source.document.token_count
        overlap = spec.params.get("overlap", 0) / max(1, spec.params.get("size", 1))
        if requests and requests[0].purpose == "propositions":
            texts, amount = written.times(1 / 25), written
        elif requests:
            texts, amount = exactly(len(requests)), exactly(size * (1 + overlap)).plus(written)
        else:
            # A strategy that compares sentences embeds them before it knows its chunks.
            sentences = len(source.sentences)
            texts = Range(low=sentences, expected=sentences * 1.2, high=sentences * 2)
            amount = Range(low=size, expected=size * 2, high=size * (2 + overlap))
        self._embed_unknown(texts, amount)

    def _contexts(self, requests: Sequence[ChatRequest]) -> Range:
        """Counts the calls that write contexts; returns the tokens they write."""
        total = NOTHING
        for asked in requests:
            size = request_tokens(asked)
            if asked.purpose == "propositions":
                passage = tokens.count(asked.messages[-1]["content"])
                written = Range(
                    low=passage * PROPOSITION_SHARES[0],
                    expected=passage * PROPOSITION_SHARES[1],
                    high=min(asked.max_tokens, passage * PROPOSITION_SHARES[2]),
                )
            else:
                low, expected, high = (asked.max_tokens * share for share in CONTEXT_SHARES)
                written = Range(low=low, expected=expected, high=high)
            self._tally["context"].add(exactly(1), exactly(size), written)
            total = total.plus(written)
        return total

    def _embed(self, texts: Sequence[str], kind: Literal["passage", "query"] = "passage") -> None:
        """Counts the calls that embed texts which no cache and no earlier text of this run has."""
        if self._is_bundled or self._is_local:
            return
        new = [text for text in dict.fromkeys(texts) if text not in self._seen_texts]
        self._seen_texts.update(new)
        uncached = getattr(self._models.embedder, "uncached", None)
        missing = list(new) if uncached is None else uncached(new, kind)
        if not missing:
            return
        amount = sum(tokens.count(text) for text in missing)
        self._tally["embedding"].add(exactly(self._batches(len(missing), amount)), exactly(amount))

    def _embed_unknown(self, texts: Range, amount: Range) -> None:
        if self._is_bundled or self._is_local:
            return
        calls = Range(
            low=self._batches(texts.low, amount.low),
            expected=self._batches(texts.expected, amount.expected),
            high=self._batches(texts.high, amount.high),
        )
        self._tally["embedding"].add(calls, amount)

    def _batches(self, texts: float, amount: float) -> int:
        return embedding_calls(texts, amount, self._runner.settings)

    @property
    def _is_bundled(self) -> bool:
        return self._models.embedder is not None and self._models.embedder.model == BUNDLED

    @property
    def _is_local(self) -> bool:
        return self._models.embedder is not None and self._models.embedder.model.startswith("local:")

    def _embed_questions(self) -> None:
        self._embed([question.question for question in self._questions], "query")

    def _passage(self, prepared: _Prepared, sources: Sequence[Source]) -> Range:
        """Tokens of the text delivered for one hit."""
        sizes: list[int] = []
        for source, found in zip(sources, prepared.chunk_sets, strict=True):
            if found is None:
                continue
            parents = {chunk.parent_span for chunk in found.chunks if chunk.parent_span is not None}
            sizes.extend(source.tokens.count(*span) for span in parents)
            sizes.extend(chunk.token_count for chunk in found.chunks if chunk.parent_span is None)
        if sizes:
            low, high = np.percentile(sizes, [5, 95])
            return Range(low=float(low), expected=float(np.mean(sizes)), high=float(high))
        size = float(prepared.spec.params.get("size") or 256)
        return Range(low=size / 4, expected=size * 0.8, high=size)

    # Asking

    def _ask(self, prepared: _Prepared) -> None:
        chat = answer_with(self._plan, self._models)
        if not self._plan.answers:
            return
        if chat is None:
            self._extract(prepared)
            return
        judge = self._models.judge if self._plan.judge else None
        if prepared.ready and len(prepared.known) == len(prepared.chunk_sets) and self._questions_are_free:
            self._ask_exactly(prepared, chat, judge)
        else:
            for question in self._questions:
                for _ in answer_seeds(self._plan, self._models):
                    self._ask_unknown(prepared, question, judge)

    def _ask_exactly(self, prepared: _Prepared, chat: ChatModel, judge: ChatModel | None) -> None:
        """Searches, so that the very requests are known, and the cache says which were answered before."""
        chunks = [chunk for found in prepared.known for chunk in found.chunks]
        by_id = {chunk.chunk_id: chunk for chunk in chunks}
        plan, runner = self._plan, self._runner
        words = None if plan.retriever == "vector" else Words(chunks)
        asker = Asker(self._models, runner.index, lambda _: by_id, runner.source, self._limits)
        for question in self._questions:
            found = asker.search(question.question, prepared.spec, plan.document_ids, plan.top_k, plan.retriever, words)
            given = [hit for hit in found[: plan.top_k] if hit.delivered_span is not None]
            if not given:
                continue
            asked = answer_request(question.question, given, self._limits.max_tokens, self._limits.temperature)
            for seed in answer_seeds(plan, self._models):
                self._one_answer(question, given, replace(asked, seed=seed), chat, judge)

    def _one_answer(
        self,
        question: Question,
        given: Sequence[RetrievedChunk],
        asked: ChatRequest,
        chat: ChatModel,
        judge: ChatModel | None,
    ) -> None:
        size = request_tokens(asked)
        passages = exactly(size - self._frames(question).answer)
        if uncached(chat, [asked]):
            self._tally["answers"].add(exactly(1), exactly(size), self._answer_tokens)
            if judge is not None:
                self._judge_unknown(question, passages, len(given))
            return
        self._tally["answers"].cached += 1
        if judge is None:
            return
        try:
            document = self._runner.source
            answer = generated(chat.complete(asked), chat.model, given, lambda each: document(each).document)
        except ModelCallFailed:
            return
        verdict = judge_request(question.question, question.answer, answer.text, given, asked.seed)
        if uncached(judge, [verdict]):
            self._judge_unknown(question, passages, len(given), exactly(tokens.count(answer.text)))
        else:
            self._tally["judge"].cached += 1

    def _ask_closed_book(self) -> ClosedBookEstimate | None:
        """The questions of the closed-book baseline, whose prompts are known whole."""
        chat = self._models.chat
        if not self._plan.closed_book or chat is None:
            return None
        judge = self._models.judge if self._plan.judge else None
        seeds = answer_seeds(self._plan, self._models)
        own = Tally(self._plan, self._models, self._runner.prices)
        for question in self._questions:
            asked = closed_book_request(question.question, self._limits.max_tokens, self._limits.temperature)
            for seed in seeds:
                if uncached(chat, [replace(asked, seed=seed)]):
                    own["answers"].add(exactly(1), exactly(request_tokens(asked)), self._answer_tokens)
                else:
                    own["answers"].cached += 1
                if judge is not None:
                    self._judge_unknown(question, exactly(0), 0, stage=own["judge"])
        self._tally.include(own)
        return ClosedBookEstimate(
            answers=len(self._questions) * len(seeds),
            calls=own["answers"].calls.plus(own["judge"].calls),
            cost_usd=own.cost("expected"),
        )

    def _ask_unknown(self, prepared: _Prepared, question: Question, judge: ChatModel | None) -> None:
        cap, k = self._limits.context_tokens, self._plan.top_k
        passages = Range(
            low=min(cap, k * prepared.passage.low),
            expected=min(cap, k * prepared.passage.expected),
            high=min(cap, k * prepared.passage.high),
        )
        self._tally["answers"].add(
            exactly(1), passages.plus(exactly(self._frames(question).answer)), self._answer_tokens
        )
        if judge is not None:
            self._judge_unknown(question, passages, k)

    def _judge_unknown(
        self, question: Question, passages: Range, count: int, answer: Range | None = None, stage: Calls | None = None
    ) -> None:
        """One verdict on an answer from `count` passages with so many tokens."""
        said = answer or self._answer_tokens.times(ANSWER_SHARE)
        frame = exactly(self._frames(question).judge)
        once = passages.plus(said).plus(frame)
        (stage or self._tally["judge"]).add(
            Range(low=JUDGE_CALLS, expected=JUDGE_CALLS, high=JUDGE_CALLS + 1),
            Range(low=once.low, expected=once.expected, high=2 * once.high + JUDGE_TOKENS),
            _verdict_tokens(count),
        )

    def _calibrate(self) -> None:
        """The judge is scored on cases of known verdict before its scores count; those calls are known to the word."""
        judge = judged_by(self._plan, self._models)
        if judge is None:
            return
        calls = calibration.requests()
        missing = uncached(judge, calls)
        for call in missing:
            size = request_tokens(call)
            self._tally["calibration"].add(
                Range(low=JUDGE_CALLS, expected=JUDGE_CALLS, high=JUDGE_CALLS + 1),
                Range(low=size, expected=size, high=2 * size + JUDGE_TOKENS),
                _verdict_tokens(1),
            )
        self._tally["calibration"].cached += len(calls) - len(missing)

    def _extract(self, prepared: _Prepared) -> None:
        """Extractive answers compare sentences of the found text with the question."""
        if self._is_bundled or self._is_local or self._models.embedder is None:
            return
        k, n = self._plan.top_k, len(self._questions)
        found = prepared.passage.times(k * n)
        size = sum(self._runner.source(each).document.token_count for each in self._plan.document_ids)
        amount = Range(low=0.0, expected=min(size, found.expected), high=min(size, found.high))
        self._tally["embedding"].add(Range(low=0.0, expected=n, high=n), amount)

    def _frames(self, question: Question) -> _Frames:
        """Tokens of the prompts of a question without answer and passages; counted once."""
        if question.question_id not in self._known_frames:
            empty = _empty_hits(self._plan.top_k)
            self._known_frames[question.question_id] = _Frames(
                request_tokens(answer_request(question.question, empty, 1, 0.0)),
                request_tokens(judge_request(question.question, question.answer, "", empty)),
            )
        return self._known_frames[question.question_id]

    @property
    def _answer_tokens(self) -> Range:
        low, expected = ANSWER_TOKENS
        high = float(self._limits.max_tokens)
        return Range(low=min(low, high), expected=min(expected, high), high=high)

    @cached_property
    def _questions_are_free(self) -> bool:
        """Whether searching for the questions calls no model."""
        if self._plan.retriever == "lexical" or self._is_bundled:
            return True
        uncached: Any = getattr(self._models.embedder, "uncached", None)
        return uncached is not None and not uncached([q.question for q in self._questions], "query")


def _verdict_tokens(passages: int) -> Range:
    """Tokens of a judge's reply; at the high end it is asked for twice and as long as it may be."""
    low, expected = (each + RELEVANCE_TOKENS * passages for each in VERDICT_TOKENS)
    return Range(low=low, expected=expected, high=2 * JUDGE_TOKENS)


def _empty_hits(count: int) -> list[RetrievedChunk]:
    """Hits that deliver nothing: what a prompt is made of around its passages."""
    return [
        RetrievedChunk.model_construct(rank=rank, delivered_span=Span(0, 0), delivered_text="")
        for rank in range(1, count + 1)
    ]
