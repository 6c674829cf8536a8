"""Small records to store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine import ids
from engine.models import Chunk, ChunkSet, Document, Node, NodeKind, SimilarityCurve, Span, StrategySpec, Structure
from engine.records import (
    DocumentRef,
    Experiment,
    MetricValue,
    Plan,
    Query,
    Question,
    QuestionResult,
    QuestionSet,
    RetrievedChunk,
    SpecResult,
)

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def document(name: str = "law.docx", text: str = "One. Two. Three.", minutes: int = 0) -> Document:
    """A document with one paragraph, created `minutes` after `START`."""
    data = name.encode() + text.encode()
    paragraph = Node(kind=NodeKind.PARAGRAPH, span=Span(0, len(text)))
    return Document(
        document_id=ids.document_id(data, "1"),
        name=name,
        media_type="text/plain",
        byte_size=len(data),
        sha256=f"{sum(data):064x}",
        parser_version="1",
        structure=Structure(rule="none", confidence="none"),
        visible_characters=len(text),
        kept_characters=len(text),
        token_count=6,
        created_at=START + timedelta(minutes=minutes),
        text=text,
        tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text)), children=(paragraph,)),
    )


def spec(name: str = "sentence", size: int = 1) -> StrategySpec:
    return StrategySpec(strategy_name=name, params={"size": size}, label=f"{name} {size}")


def chunk_set(of: Document, under: StrategySpec, *spans: Span) -> ChunkSet:
    chunks = tuple(
        Chunk(
            chunk_id=ids.chunk_id(of.document_id, under.spec_id, *span, span.slice(of.text)),
            document_id=of.document_id,
            document_name=of.name,
            strategy_name=under.strategy_name,
            spec_id=under.spec_id,
            chunk_index=place,
            total_chunks=len(spans),
            text=span.slice(of.text),
            span=span,
            token_count=2,
            character_count=span.length,
            word_count=1,
            content_hash=ids.content_hash(span.slice(of.text)),
            heading_path=("Law", "Article 1"),
            attributes={"page": 1},
        )
        for place, span in enumerate(spans)
    )
    return ChunkSet(
        document_id=of.document_id,
        spec=under,
        chunks=chunks,
        uncovered=(Span(10, 16),),
        curve=SimilarityCurve(positions=(5,), values=(0.25,), threshold=0.5),
        seconds={"chunk": 0.5},
    )


def question_set(name: str = "Deadlines", minutes: int = 0) -> QuestionSet:
    return QuestionSet(
        question_set_id=f"set-{name}".replace("\x00", ""),
        name=name,
        questions=(Question(question_id="q1", question="When?"), Question(question_id="q2", question="Who?")),
        created_at=START + timedelta(minutes=minutes),
    )


def query(query_id: str = "query-1", minutes: int = 0, request_id: str = "request") -> Query:
    of, under = document(), spec()
    found = chunk_set(of, under, Span(0, 4)).chunks[0]
    return Query(
        query_id=query_id,
        question="When?",
        spec=under,
        document_ids=(of.document_id,),
        answer="One.",
        retrieved=(RetrievedChunk(chunk=found, score=0.75, rank=1, delivered_text="One."),),
        top_k=5,
        embedding_model="wordllama",
        request_id=request_id,
        created_at=START + timedelta(minutes=minutes),
    )


def cell(question_id: str, under: StrategySpec, recall: float = 1.0) -> QuestionResult:
    return QuestionResult(
        question_id=question_id,
        spec_id=under.spec_id,
        status="scored",
        query=query(f"query-{question_id}-{under.spec_id}"),
        metrics={"recall": recall},
    )


def result(under: StrategySpec, recall: float = 1.0) -> SpecResult:
    return SpecResult(spec=under, chunk_count=3, metrics=(MetricValue(metric="recall", value=recall, n=2),))


def experiment(experiment_id: str = "exp-1", minutes: int = 0, specs: tuple[StrategySpec, ...] = ()) -> Experiment:
    of = document()
    reference = DocumentRef(
        document_id=of.document_id, name=of.name, sha256=of.sha256, parser_version="1", token_count=6
    )
    plan = Plan(
        name=f"Run {experiment_id}",
        document_ids=(of.document_id,),
        specs=specs or (spec("sentence"), spec("paragraph")),
        question_set_id="set-Deadlines",
    )
    return Experiment(
        experiment_id=experiment_id,
        plan=plan,
        created_at=START + timedelta(minutes=minutes),
        documents=(reference,),
        question_set_name="Deadlines",
        questions=question_set().questions,
        embedding_model="wordllama",
        llm_model=None,
        judge_model=None,
        settings={"top_k": 5},
        versions={"chunkscope": "0.1.0"},
        request_id="request",
    )
