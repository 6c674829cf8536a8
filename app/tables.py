"""Records as data frames."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.models import ChunkSet, Document, DocumentInfo, Node
from engine.records import Experiment, Question, QuestionSet
from engine.store import ExperimentSummary
from engine.tokens import TokenMap


def documents(infos: Sequence[DocumentInfo]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": info.name,
            "tokens": info.token_count,
            "sections": info.node_counts.get("section", 0),
            "articles": info.node_counts.get("article", 0),
            "tables": info.node_counts.get("table", 0),
            "structure": f"{info.structure.rule} ({info.structure.confidence})",
            "text kept": kept_in_words(info),
            "warnings": sum(notice.count for notice in info.warnings),
            "added": info.created_at,
        }
        for info in infos
    )


def kept_in_words(info: DocumentInfo) -> str:
    return f"{info.kept_characters:,} of {info.visible_characters:,} characters kept."


def tree(document: Document) -> pd.DataFrame:
    """One row per section, article and table, indented by depth, with its tokens."""
    tokens = TokenMap(document.text)
    rows: list[dict[str, object]] = []

    def add(node: Node, depth: int) -> None:
        if node.kind in ("section", "article", "table"):
            name = node.name or node.kind.value.capitalize()
            rows.append(
                {
                    "node": "\u2003" * depth + name,
                    "kind": node.kind.value,
                    "tokens": tokens.share(node.span.start, node.span.end),
                    "rule": node.rule or "",
                }
            )
            depth += 1
        for child in node.children:
            add(child, depth)

    add(document.tree, 0)
    return pd.DataFrame(rows, columns=["node", "kind", "tokens", "rule"])


def chunks(chunk_set: ChunkSet) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "chunk": chunk.chunk_index + 1,
            "tokens": chunk.token_count,
            "characters": chunk.character_count,
            "start": chunk.evidence_span.start,
            "end": chunk.evidence_span.end,
            "heading": " > ".join(chunk.heading_path),
            "flags": ", ".join(chunk.flags),
            "text": chunk.text[:200],
        }
        for chunk in chunk_set.chunks
    )


def questions(question_set: QuestionSet) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "question": question.question,
            "answer": question.answer or "",
            "evidence": _evidence_state(question),
            "tags": ", ".join(question.tags),
        }
        for question in question_set.questions
    )


def _evidence_state(question: Question) -> str:
    if not question.answerable:
        return "none needed"
    if not question.evidence:
        return "none given"
    return "found" if all(item.gold for item in question.evidence) else "not found"


def results(experiment: Experiment, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per strategy: the given metrics with n, chunks and time."""
    rows = []
    for result in experiment.results:
        values = {value.metric: value for value in result.metrics}
        row: dict[str, object] = {
            "strategy": result.spec.label,
            "status": result.error or result.status,
            "chunks": result.chunk_count,
        }
        row |= {name: values[name].value if name in values else None for name in metrics}
        row["n"] = values[metrics[0]].n if metrics and metrics[0] in values else 0
        row["index s"] = sum(result.seconds.get(stage, 0.0) for stage in ("chunk", "enrich", "embed", "upsert"))
        row["retrieve p50 ms"] = 1000 * result.seconds.get("retrieve_p50", 0.0)
        rows.append(row)
    return pd.DataFrame(rows)


def experiments(summaries: Sequence[ExperimentSummary]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": each.name,
            "date": each.created_at,
            "status": each.status,
            "documents": ", ".join(each.document_names),
            "strategies": ", ".join(each.spec_labels),
            "questions": each.question_count,
            "embeddings": each.embedding_model,
        }
        for each in summaries
    )
