"""The records of measuring: questions and their evidence, queries, experiments. Stored as JSON; the schema is the documentation."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from engine.models import Chunk, Record, Span, StrategySpec

CellStatus = Literal[
    "scored",
    "refused",
    "invalid_output",
    "timeout",
    "rate_limited",
    "unavailable",
    "not_applicable",
    "skipped",
    "failed",
]
"""How one measurement of one question ended. Only `scored` cells enter a mean; failed is not zero."""


class Gold(Record):
    """A passage that answers a question: document + span + hash of the text, so that it survives re-chunking."""

    document_id: str
    span: Span
    text_hash: str
    """`ids.content_hash` of the span's text when it was resolved."""
    unit: str | None = None
    """The article, or section, the span begins in, where the document has them: questions of one unit are not independent."""


class Evidence(Record):
    """One quote of a question and where it was found."""

    quote: str
    document: str | None = None
    """Name or id of the document the author meant, where given."""
    offsets: Span | None = None
    """Where the author said the quote stands; checked against the document, never trusted."""
    gold: tuple[Gold, ...] = ()
    """The places that count. Several with `every_copy` on the question; otherwise at most one."""
    candidates: tuple[Gold, ...] = ()
    """All places where the quote stands, when it stands in several."""
    method: Literal["offsets", "exact", "normalised", "aligned", "not_found"] = "not_found"
    score: float = 0.0
    """Share of the quote's characters that match: 1.0 for exact; the alignment score otherwise, 0 to 1."""
    nearest: str | None = None
    """The most similar text when nothing was good enough. A hint for a person, never used as gold."""


class Question(Record):
    question_id: str
    question: str
    answer: str | None = None
    """The expected answer."""
    evidence: tuple[Evidence, ...] = ()
    answerable: bool = True
    """False: the documents do not answer it, and saying so is right."""
    every_copy: bool = False
    """Whether every copy of a repeated quote counts as evidence."""
    tags: tuple[str, ...] = ()
    origin: Literal["given", "drafted"] = "given"
    reviewed: bool = True
    """False until a person accepts a drafted question."""

    @property
    def gold(self) -> tuple[Gold, ...]:
        return tuple(g for e in self.evidence for g in e.gold)


class QuestionSet(Record):
    question_set_id: str
    name: str
    questions: tuple[Question, ...]
    created_at: datetime


class RetrievedChunk(Record):
    """One search hit, with the text that was delivered for it."""

    chunk: Chunk
    score: float
    rank: int
    """1 is best."""
    delivered_span: Span | None = None
    """What the model was given for this hit: the parent, or a window of it; None when a better hit already delivered it."""
    delivered_text: str = ""
    note: str | None = None
    """In words, where the delivered text was shortened."""


class UsageRecord(Record):
    """Tokens and dollars of something. `cost_usd` None means the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    calls: int = 0
    counted: bool = False
    cost_usd: float | None = 0.0


class Citation(Record):
    """A quote in an answer and where it stands in the canonical text."""

    quote: str
    chunk_id: str | None
    document_id: str | None
    span: Span | None
    """None: the quote is not in the delivered text, and the page marks it so."""


class Claim(Record):
    """One statement of an answer and what the delivered text says of it."""

    text: str
    verdict: Literal["supported", "contradicted", "not_found"]
    """As derived: what the judge said, but `not_found` where its quote does not stand in the delivered text."""
    quote: str = ""
    """The words the judge rests on."""
    document_id: str | None = None
    span: Span | None = None
    """Where the quote stands in the canonical text."""
    said: Literal["supported", "contradicted", "not_found"]
    """The judge's own verdict, before its quote was checked."""


class Judgement(Record):
    """What a judge model said of one answer, and the scores derived from it. Scores are None where their status is not `scored`."""

    status: dict[str, CellStatus]
    """Per measure: context_relevance, answer_similarity, faithfulness, hallucination."""
    context_relevance: float | None = None
    """1 to 10: mean relevance of the delivered passages to the question."""
    answer_similarity: float | None = None
    """1 to 10: agreement with the expected answer."""
    faithfulness: float | None = None
    """1 to 10: share of the answer's claims that the delivered text supports."""
    hallucination: bool | None = None
    """Whether a claim is contradicted by the delivered text or not found in it."""
    claims: tuple[Claim, ...] = ()
    relevance: dict[int, int] = Field(default_factory=dict)
    """0 to 5 per delivered passage, by rank."""
    detail: str = ""
    """Why there is no score, in words."""
    judge_model: str = ""
    prompt_version: str = ""
    calls: int = 0
    """Calls this judgement took, retries with a changed prompt included."""
    raw: str = ""
    """The judge's last reply as it came."""
    seconds: float = 0.0
    usage: UsageRecord = UsageRecord()


class Query(Record):
    """One question against one strategy spec."""

    query_id: str
    question: str
    spec: StrategySpec
    document_ids: tuple[str, ...]
    status: Literal["ok", "failed"] = "ok"
    error: str | None = None
    """Why it failed, in words."""
    answer: str = ""
    answer_kind: Literal["extractive", "generated", "none"] = "none"
    """`extractive`: sentences of the retrieved text, no model involved."""
    answered: bool = False
    """False: "the documents do not answer this"."""
    citations: tuple[Citation, ...] = ()
    retrieved: tuple[RetrievedChunk, ...] = ()
    top_k: int
    model: str | None = None
    """The chat model that wrote the answer; None for extractive answers."""
    embedding_model: str
    prompt_version: str | None = None
    judgement: Judgement | None = None
    rating: int | None = None
    """A person's rating, 1 to 10."""
    rated_faithful: bool | None = None
    """Whether a person found everything in the answer supported by the delivered text."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Latency breakdown of this query: retrieve, generate, total."""
    usage: UsageRecord = UsageRecord()
    first_usage: UsageRecord | None = None
    """What the answer cost when it was first written, where this query took it from the cache."""
    request_id: str
    created_at: datetime


class MetricValue(Record):
    """One metric of one strategy over the questions of an experiment."""

    metric: str
    """Registry name, such as `recall@1000tok`."""
    value: float | None
    """Mean over scored questions; None when none was scored."""
    n: int
    """Questions scored."""
    unscored: dict[str, int] = Field(default_factory=dict)
    """Questions that could not be scored, by cause."""


class EvidencePlace(Record):
    """Where one quote of a question lies among the chunks of a spec."""

    document_id: str
    chunks: tuple[int, ...]
    """Numbers (from 1) of the chunks that hold it whole or, where none does, of all that hold a part of it."""
    whole: bool
    retrieved: tuple[int, ...] = ()
    """Those of them that are among the first `top_k` hits."""


class QuestionResult(Record):
    """One question under one spec: what was retrieved and how it scored."""

    question_id: str
    spec_id: str
    status: CellStatus
    error: str | None = None
    query: Query | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    repeat: int = 0
    """Which repeat of the question this is, from 0."""
    unscored: dict[str, CellStatus] = Field(default_factory=dict)
    """Metrics a judge gave no value of, and why."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Latency of this question: retrieve, generate, judge, total."""
    usage: dict[str, UsageRecord] = Field(default_factory=dict)
    """Tokens and dollars by purpose: embedding, answer, judge."""
    evidence: tuple[EvidencePlace, ...] = ()
    """Where its evidence lies, one entry per quote that was found in the documents."""


class SpecResult(Record):
    """One strategy spec in an experiment."""

    spec: StrategySpec
    status: Literal["ok", "failed"] = "ok"
    error: str | None = None
    chunk_count: int = 0
    metrics: tuple[MetricValue, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    """Latency breakdown: parse, chunk, enrich, embed, upsert summed over the documents; retrieve, generate, judge summed over the
    questions; and of each the median and 95th percentile per document or question, as `chunk_p50`, `chunk_p95`, ..."""
    usage: UsageRecord = UsageRecord()
    """Everything this spec spent."""
    usage_by_purpose: dict[str, UsageRecord] = Field(default_factory=dict)
    """The same by purpose: embedding, context, propositions, answer, judge."""
    index_usage: dict[str, UsageRecord] = Field(default_factory=dict)
    """What indexing spent, by purpose; the questions' embeddings are counted with the first spec of the plan."""
    index_bytes: int | None = None
    """Bytes of the vectors that are searched, 4 per dimension; None when the search uses no vectors."""
    quality: dict[str, float] = Field(default_factory=dict)
    """Measures of the cut that need no questions: counts summed over the documents, the rest averaged over them by chunks."""
    document_errors: dict[str, str] = Field(default_factory=dict)
    """Documents that could not be used under this spec, and why. Questions whose evidence lies in one are skipped."""


Kind = Literal["winner", "tie", "no_clear_difference", "too_few_questions", "nothing_to_compare"]
"""`winner`: one is clearly ahead; `tie`: several lead together; the others say why nobody is named."""


class Group(Record):
    """Strategies that the questions cannot tell apart from the best of them."""

    labels: tuple[str, ...]
    best_mean: float


class Lead(Record):
    """How far the best strategy is ahead of another."""

    over: str
    difference: float
    low: float | None
    high: float | None
    """95 % BCa interval; None where it is not defined."""
    p: float
    """Holm-adjusted over all pairs of strategies."""


class Verdict(Record):
    """What may be concluded from a benchmark on one metric."""

    kind: Kind
    metric: str
    n: int
    """Questions that every strategy has scored: only those count."""
    clusters: int
    """Independent groups of questions among them."""
    groups: tuple[Group, ...] = ()
    """Best first. A strategy in a later group is clearly behind the best of each earlier one."""
    leads: tuple[Lead, ...] = ()
    """The best against every other, nearest first."""
    detectable: float | None = None
    """Smallest difference between the two best that would be found with 80 % power."""
    needed: int | None = None
    """Questions that would settle the difference seen between the two best; None when there is none to settle."""
    proposal: str | None = None
    """The label to take: the winner, or the cheapest of the leading group; None when nothing speaks for one."""
    proposal_reason: str = ""
    left_out: tuple[str, ...] = ()
    """Labels of the strategies that have no score on this metric; they take no part."""

    @property
    def choice_among_equals(self) -> str:
        """Which of those that tie to take, and why, in short; empty where one is clearly ahead or nothing speaks for one."""
        if self.proposal is None or self.kind == "winner":
            return ""
        return f"Take {self.proposal}, the {self.proposal_reason.partition(', by ')[0]}."


class Comparison(Record):
    """One strategy against the baseline on one metric, over the questions both have scored. None: not defined for so few numbers."""

    spec_id: str
    metric: str
    n: int
    clusters: int
    """Independent groups those questions form."""
    mean: float | None
    baseline_mean: float | None
    difference: float | None
    low: float | None
    high: float | None
    """95 % BCa interval."""
    p: float | None
    """Two-sided sign-flip p."""
    p_holm: float | None
    """Adjusted over the strategies compared with the baseline."""
    effect: float | None
    """Difference in standard deviations of the paired differences."""
    detectable: float | None
    """Smallest true difference that would be found with 80 % power."""
    needed: int | None
    """Questions that would be needed to find the difference seen with 80 % power."""


class Statistics(Record):
    """What a finished benchmark says: everything against the baseline, and a verdict that claims no more than the intervals do."""

    baseline: str
    """Spec id the others were compared with."""
    comparisons: tuple[Comparison, ...] = ()
    verdict: Verdict | None = None
    """On the first metric, in the order of preference, that was measured; None when there was none."""
    recommendation: str = ""
    """The verdict as a paragraph."""


class CalibrationSummary(Record):
    """How a judge did on the calibration cases, whose right verdicts are known."""

    judge_model: str
    cases: int
    scored: int
    """Cases it gave a usable verdict on."""
    correct: int
    wrong: tuple[str, ...] = ()
    """What the cases test that it got wrong."""
    unscored: dict[str, int] = Field(default_factory=dict)
    """Cases without a verdict, by cause."""
    resists_injection: bool | None = None
    """Whether hostile text changed no verdict; None when a hostile case got none."""
    usage: UsageRecord = UsageRecord()
    created_at: datetime

    @property
    def accuracy(self) -> float | None:
        """Share of right verdicts among the cases that got one; None when none did."""
        return self.correct / self.scored if self.scored else None

    @property
    def in_words(self) -> str:
        """One sentence, as it is printed beside the judge's scores."""
        text = f"{self.judge_model} was right on {self.correct} of {self.scored} cases whose verdict is known"
        if self.wrong:
            text += f", and wrong on: {', '.join(dict.fromkeys(self.wrong))}"
        if self.unscored:
            text += "; no verdict on " + ", ".join(
                f"{count} ({cause.replace('_', ' ')})" for cause, count in self.unscored.items()
            )
        hostile = {None: "was not tested", True: "changed no verdict", False: "changed a verdict"}
        return f"{text}. Hostile text {hostile[self.resists_injection]}."


class DocumentRef(Record):
    """A document as an experiment remembers it: readable after the document is deleted."""

    document_id: str
    name: str
    sha256: str
    parser_version: str
    token_count: int


class Plan(Record):
    """What a benchmark is to do: documents x strategy specs x questions."""

    name: str
    document_ids: tuple[str, ...]
    specs: tuple[StrategySpec, ...]
    question_set_id: str
    top_k: int = 5
    retriever: Literal["vector", "lexical", "hybrid"] = "vector"
    """`lexical` is BM25; `hybrid` fuses both rankings by reciprocal rank."""
    answers: bool = True
    """Whether each question is answered, or only searched."""
    judge: bool = False
    """Whether a judge model scores the answers."""
    closed_book: bool = False
    """Whether the chat model also answers every question from memory, without documents, as a baseline of the answers."""
    repeats: int = 1
    """How often each question is answered and judged, to see the spread of a model."""
    seed: int = 0
    budget_usd: float | None = None
    """The run stops before it would cost more; what is finished is kept."""
    baseline: str | None = None
    """Spec id the others are compared with; the first spec when None."""
    batch: bool = False
    """Whether answers and verdicts go through the provider's batch endpoint: within a day, at the batch price."""


class Experiment(Record):
    """Everything needed to trust and to repeat a benchmark."""

    experiment_id: str
    plan: Plan
    status: Literal["running", "finished", "cancelled", "failed"] = "running"
    error: str | None = None
    """Why it stopped early, in words."""
    created_at: datetime
    finished_at: datetime | None = None
    documents: tuple[DocumentRef, ...]
    question_set_name: str
    questions: tuple[Question, ...]
    """The questions as they were, with their resolved evidence."""
    embedding_model: str
    llm_model: str | None
    judge_model: str | None
    settings: dict[str, Any]
    """Snapshot without secrets."""
    versions: dict[str, str]
    """Chunkscope, Python and library versions."""
    request_id: str
    estimated_cost_usd: float | None = None
    """From the dry run; None when a price is unknown."""
    retried_usd: float | None = 0.0
    """Dollars of answers and verdicts that failed and were tried again, so that no cell holds them any more; None when a price is unknown."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Version of each prompt."""
    repeats_experiment: str | None = None
    """The experiment whose frozen questions this one asks again."""
    results: tuple[SpecResult, ...] = ()
    cells: tuple[QuestionResult, ...] = ()
    statistics: Statistics | None = None
    """None until the run has ended."""
    calibration: CalibrationSummary | None = None
    """The judge on cases whose verdict is known, scored by the run itself; None where no answer is judged."""
    judge_warning: str | None = None
    """Why the judge may favour the answers it scores: it wrote them, or a model of its family did."""

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def specs(self) -> tuple[StrategySpec, ...]:
        return self.plan.specs
