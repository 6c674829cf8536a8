"""Records as data frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from app.families import Family
from app.text import counted
from app.theme import titled
from engine.bench.dry_run import DryRun, Range
from engine.metrics import chunk_quality
from engine.metrics.base import Metric
from engine.metrics.boundaries import agreement as share_of_common
from engine.metrics.boundaries import boundaries
from engine.models import ChunkSet, Document, DocumentInfo, Node, Span
from engine.questions import Finding, orphaned
from engine.records import Question, QuestionSet
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
            "structure": structure_in_words(info),
            "text kept": f"{info.kept_characters / info.visible_characters:.2%}" if info.visible_characters else "",
            "warnings": "; ".join(notice.message for notice in info.warnings) or "none",
            "added": info.created_at,
        }
        for info in infos
    )


def structure_in_words(info: DocumentInfo) -> str:
    """The rule that found the structure and how sure it is, or that there was none to find."""
    found = info.structure
    return "none" if found.confidence == "none" else f"{found.rule} ({found.confidence})"


def kept_in_words(info: DocumentInfo) -> str:
    return f"{info.kept_characters:,} of {info.visible_characters:,} characters kept."


def tree(document: Document, tokens: TokenMap) -> pd.DataFrame:
    """One row per section, article and table, indented by depth, with its tokens and where it stands."""
    rows: list[dict[str, object]] = []

    def add(node: Node, depth: int) -> None:
        if node.kind in ("section", "article", "table"):
            name = node.name or node.kind.value.capitalize()
            rows.append(
                {
                    "part": "\u2003" * depth + name,
                    "kind": node.kind.value,
                    "tokens": tokens.share(node.span.start, node.span.end),
                    "found by": node.rule or "",
                    "start": node.span.start,
                }
            )
            depth += 1
        for child in node.children:
            add(child, depth)

    add(document.tree, 0)
    return pd.DataFrame(rows, columns=["part", "kind", "tokens", "found by", "start"])


def original(info: DocumentInfo) -> pd.DataFrame:
    """What was uploaded, and what the file says of itself."""
    facts = {
        "name": info.name,
        "type": info.media_type,
        "size": f"{info.byte_size:,} bytes",
        "sha256": info.sha256,
        "read by": info.parser_version,
        "added": f"{info.created_at:%Y-%m-%d %H:%M}",
    }
    facts |= {str(name): _fact(value) for name, value in info.metadata.items() if value not in (None, "", [], {})}
    return pd.DataFrame({"property": list(facts), "value": list(facts.values())})


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_fact(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_fact(each) for each in value)
    return str(value)


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


def families(document: Document, found: Sequence[Family], tokens: TokenMap) -> pd.DataFrame:
    """One row per parent, followed by its children, indented. Offsets are characters of the canonical text."""
    rows: list[dict[str, object]] = []
    for number, family in enumerate(found, start=1):
        name = f": {family.name}" if family.name else ""
        rows.append(
            {
                "part": f"Parent {number}{name} ({counted(len(family.children), 'chunk')})",
                "tokens": tokens.share(family.span.start, family.span.end),
                "characters": family.span.length,
                "start": family.span.start,
                "end": family.span.end,
                "text": _beginning(family.span.slice(document.text)),
            }
        )
        rows += [
            {
                "part": f"\u2003Chunk {child.chunk_index + 1}",
                "tokens": child.token_count,
                "characters": child.character_count,
                "start": child.evidence_span.start,
                "end": child.evidence_span.end,
                "text": _beginning(child.text),
            }
            for child in family.children
        ]
    return pd.DataFrame(rows, columns=["part", "tokens", "characters", "start", "end", "text"])


def _beginning(text: str) -> str:
    return " ".join(text[:200].split())


def summaries(chunk_set: ChunkSet) -> pd.DataFrame:
    return pd.DataFrame(
        {"chunk": chunk.chunk_index + 1, "summary": chunk.summary or "", "keywords": ", ".join(chunk.keywords)}
        for chunk in chunk_set.chunks
    )


def evidence_in_words(question_set: QuestionSet, stored: Collection[str]) -> str:
    """How much of the evidence was found. `stored`: ids of the documents there are."""
    quotes = [item for question in question_set.questions for item in question.evidence]
    gone = sum(orphaned(item, stored) for item in quotes)
    found = sum(bool(item.gold) for item in quotes) - gone
    unanswerable = sum(not question.answerable for question in question_set.questions)
    words = [f"{found} of {counted(len(quotes), 'quote')} found in the documents."]
    if gone:
        words.append(
            f"{counted(gone, 'quote')} stood in a document that was deleted or read again: upload it, then look for the evidence again."
        )
    if unanswerable:
        words.append(f"{counted(unanswerable, 'question')} without an answer in them.")
    return " ".join(words)


def evidence_state(question: Question, stored: Collection[str]) -> str:
    """What became of the quotes of one question, and what to do where one does not count."""
    if not question.evidence:
        return "no evidence"
    total = len(question.evidence)
    gone = sum(orphaned(item, stored) for item in question.evidence)
    lost = sum(not item.gold for item in question.evidence)
    of_all = f" ({{}} of {counted(total, 'quote')})" if total > 1 else ""
    parts = []
    if gone:
        parts.append(
            f"document deleted or read again{of_all.format(gone)}: upload it, then look for the evidence again"
        )
    if lost:
        parts.append(f"not found{of_all.format(lost)}: correct the quote, or upload its document")
    return "; ".join(parts) or "found"


def findings(question_set: QuestionSet, found: Sequence[Finding]) -> pd.DataFrame:
    """What a check found, by severity, with the question and, for a quote that was not found, the nearest text."""
    by_id = {question.question_id: question for question in question_set.questions}
    order = {"error": 0, "warning": 1, "note": 2}
    rows = []
    for finding in sorted(found, key=lambda each: order[each.severity]):
        question = by_id.get(finding.question_id or "")
        nearest = [item.nearest for item in question.evidence if item.nearest] if question else []
        rows.append(
            {
                "severity": finding.severity,
                "question": question.question if question else "the whole set",
                "finding": finding.message,
                "nearest text": nearest[0] if nearest and finding.kind == "evidence_not_found" else "",
            }
        )
    return pd.DataFrame(rows, columns=["severity", "question", "finding", "nearest text"])


def edited_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of an edited table without the empty cells; lists stay lists."""
    return [
        {str(name): _cell(value) for name, value in row.items() if _cell(value) is not None}
        for row in frame.to_dict("records")
    ]


def _cell(value: Any) -> Any:
    if isinstance(value, str | bool):
        return value
    if hasattr(value, "__iter__"):
        return [str(each) for each in value if str(each).strip()]
    return None if value is None or value != value else value


def experiments(summaries: Sequence[ExperimentSummary]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": each.name,
            "marks": " ".join(filter(None, ("pinned" * each.pinned, "baseline" * each.baseline))),
            "date": each.created_at,
            "status": each.status,
            "finding": each.headline,
            "strategies": ", ".join(each.spec_labels),
            "questions": each.question_count,
            "documents": ", ".join(each.document_names),
            "embeddings": each.embedding_model,
            "answers": each.llm_model or "extractive",
            "judge": each.judge_model or "none",
            "tags": ", ".join(each.tags),
            "note": each.note,
        }
        for each in summaries
    )


def quality(chunk_sets: Sequence[ChunkSet], values: Sequence[Mapping[str, float]]) -> pd.DataFrame:
    """One row per measure: its value per spec, flagged where it is past its rule of thumb, and what it means."""
    labels = titled([each.spec for each in chunk_sets])
    rows = []
    for metric in chunk_quality.METRICS:
        if not any(metric.name in each for each in values):
            continue
        row = {"measure": metric.title}
        for label, each in zip(labels, values, strict=True):
            row[label] = _measured(metric, each.get(metric.name))
        row["rule of thumb"] = _rule_of_thumb(metric)
        row["meaning"] = metric.definition
        rows.append(row)
    return pd.DataFrame(rows)


def _measured(metric: Metric, value: float | None) -> str:
    if value is None:
        return "not applicable"
    shown = f"{value:.1%}" if metric.unit == "share" else f"{value:,.0f}"
    return f"{shown} ⚑" if chunk_quality.deserves_a_look(metric.name, value) else shown


def _rule_of_thumb(metric: Metric) -> str:
    threshold = chunk_quality.THRESHOLDS.get(metric.name)
    if threshold is None:
        return ""
    amount = f"{threshold:.0%}" if metric.unit == "share" else f"{threshold:,.0f}"
    return f"at most {amount}" if metric.direction == "lower" else f"at least {amount}"


def agreement(chunk_sets: Sequence[ChunkSet]) -> pd.DataFrame:
    """Share of common boundaries for each pair of specs."""
    labels = titled([each.spec for each in chunk_sets])
    cuts = [boundaries(each.chunks) for each in chunk_sets]
    shares = [[f"{share_of_common(one, other):.0%}" for other in cuts] for one in cuts]
    return pd.DataFrame(shares, index=pd.Index(labels), columns=labels)


def passages(document: Document, spans: Sequence[Span]) -> pd.DataFrame:
    return pd.DataFrame(
        {"start": span.start, "characters": span.length, "text": " ".join(span.slice(document.text)[:300].split())}
        for span in spans
    )


def estimated_stages(dry_run: DryRun) -> pd.DataFrame:
    """What a benchmark would call and cost, per stage."""
    return pd.DataFrame(
        {
            "stage": each.stage,
            "model": each.model or "none",
            "calls": _range(each.calls),
            "dollars": "unknown" if each.cost_usd is None else _range(each.cost_usd, ".4f"),
            "from the cache": each.cached_calls,
            "tokens in": _range(each.input_tokens),
            "tokens out": _range(each.output_tokens),
        }
        for each in dry_run.stages
    )


def _range(amount: Range, form: str = ",.0f") -> str:
    ends = [format(value, form) for value in (amount.low, amount.expected, amount.high)]
    return ends[1] if len(set(ends)) == 1 else f"{ends[1]} ({ends[0]} to {ends[2]})"


def estimated_specs(dry_run: DryRun) -> pd.DataFrame:
    """What each strategy of a benchmark would need."""
    return pd.DataFrame(
        {
            "strategy": each.spec.label,
            "chunks": "only the run can tell" if each.chunks is None else f"{each.chunks:,}",
            "index": "ready" if each.indexed else "to be made",
            "problem": each.problem or "",
        }
        for each in dry_run.specs
    )
