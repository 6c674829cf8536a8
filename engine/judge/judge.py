"""One answer judged: one call, one retry with a changed prompt when its reply is not usable, verdicts checked, scores derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.judge.scores import FINE, MEASURES, derive
from engine.models import Document
from engine.prompts import prompt
from engine.providers.base import CallStatus, ChatModel, ChatReply, ChatRequest
from engine.quotes import DeliveredText
from engine.records import CellStatus, Claim, Judgement, RetrievedChunk, UsageRecord
from engine.strategies.asking import request

JUDGE_CALLS = 1
"""Calls a judgement takes when its reply is usable; one more when it is not."""
JUDGE_TOKENS = 2048
"""Longest reply of a judge."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["claims", "relevance", "similarity"],
    "properties": {
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["claim", "verdict", "quote"],
                "properties": {
                    "claim": {"type": "string"},
                    "verdict": {"type": "string", "enum": ["supported", "contradicted", "not_found"]},
                    "quote": {"type": "string"},
                },
            },
        },
        "relevance": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["passage", "score"],
                "properties": {
                    "passage": {"type": "integer"},
                    "score": {"type": "integer", "minimum": 0, "maximum": FINE},
                },
            },
        },
        "similarity": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": FINE}, {"type": "null"}]},
    },
}


def judge_request(
    question: str, expected: str | None, answer: str, retrieved: Sequence[RetrievedChunk], seed: int | None = None
) -> ChatRequest:
    """The call that judges one answer. `seed` sets repeats of the same judgement apart, in the cache too."""
    data = {"Question": question}
    if expected:
        data["Expected answer"] = expected
    data["Answer to check"] = answer
    data |= {f"Passage {hit.rank}": hit.delivered_text for hit in retrieved if hit.delivered_span is not None}
    made = request("judge", data, max_tokens=JUDGE_TOKENS, purpose="judge", schema=SCHEMA, schema_name="judgement")
    return replace(made, seed=seed)


def judge(
    model: ChatModel,
    question: str,
    expected: str | None,
    answer: str,
    retrieved: Sequence[RetrievedChunk],
    document: Callable[[str], Document],
    seed: int | None = None,
) -> Judgement:
    """Judge one answer. Never raises for a failed call: the status of every measure says how it ended."""
    asked = judge_request(question, expected, answer, retrieved, seed)
    ranks = {hit.rank for hit in retrieved if hit.delivered_span is not None}
    reply = model.complete(asked)
    problem = _problem(reply, ranks, expected)
    usage, seconds, calls = reply.usage, reply.seconds, 1
    if problem is not None and reply.status in ("ok", "invalid_output"):
        again = prompt("judge_retry").fill(reason=problem)
        reply = model.complete(replace(asked, messages=(*asked.messages, {"role": "user", "content": again})))
        problem = _problem(reply, ranks, expected)
        usage, seconds, calls = usage.plus(reply.usage), seconds + reply.seconds, 2
    judgement = Judgement(
        status=dict.fromkeys(MEASURES, _CELL_STATUS[reply.status]),
        detail=problem or "",
        judge_model=model.model,
        prompt_version=prompt("judge").version,
        calls=calls,
        raw=reply.text,
        seconds=seconds,
        usage=UsageRecord(**usage._asdict()),
    )
    if problem is not None:
        return judgement
    delivered = DeliveredText(retrieved, document)
    claims = tuple(_checked(item, delivered) for item in reply.data["claims"])
    relevance = {item["passage"]: item["score"] for item in reply.data["relevance"]}
    similarity = reply.data["similarity"] if expected else None
    scores = derive(claims, relevance, similarity)
    return judgement.model_copy(
        update={
            "status": dict(scores.status),
            "context_relevance": scores.context_relevance,
            "answer_similarity": scores.answer_similarity,
            "faithfulness": scores.faithfulness,
            "hallucination": scores.hallucination,
            "claims": claims,
            "relevance": relevance,
        }
    )


_CELL_STATUS: Mapping[CallStatus, CellStatus] = {
    "ok": "invalid_output",
    "invalid_output": "invalid_output",
    "refused": "refused",
    "timeout": "timeout",
    "rate_limited": "rate_limited",
    "auth": "unavailable",
    "unavailable": "unavailable",
    "cancelled": "skipped",
}
"""What a cell records for a call without a usable reply."""


def _problem(reply: ChatReply, ranks: set[int], expected: str | None) -> str | None:
    """Why a reply cannot be scored, in words; None when it can. A reply out of its range is not bent into it."""
    if not reply.ok:
        return reply.detail or f"The judge's call ended as {reply.status}."
    data = reply.data
    if not isinstance(data, dict) or not all(isinstance(data.get(name), list) for name in ("claims", "relevance")):
        return "The reply has no lists named claims and relevance."
    for item in data["claims"]:
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("claim"), str)
            or not isinstance(item.get("quote"), str)
        ):
            return "A claim lacks its text or its quote."
        if item.get("verdict") not in ("supported", "contradicted", "not_found"):
            return "A verdict is none of supported, contradicted, not_found."
    passages = []
    for item in data["relevance"]:
        passage = item.get("passage") if isinstance(item, dict) else None
        if type(passage) is not int or passage not in ranks or not _is_score(item.get("score")):
            return f"A relevance is not a whole number from 0 to {FINE} for one of the passages."
        passages.append(passage)
    if sorted(passages) != sorted(ranks):
        return "The relevance of every passage must be given once."
    if expected and not _is_score(data.get("similarity")):
        return f"The similarity is not a whole number from 0 to {FINE}."
    return None


def _is_score(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= FINE


def _checked(item: Mapping[str, str], delivered: DeliveredText) -> Claim:
    """A claim whose quote was looked up. `supported` or `contradicted` without words that stand in the text counts as not found."""
    said: Any = item["verdict"]
    found = delivered.find(item["quote"]) if said != "not_found" else None
    return Claim(
        text=item["claim"],
        verdict=said if found is not None else "not_found",
        quote=item["quote"],
        document_id=found.document_id if found else None,
        span=found.span if found else None,
        said=said,
    )
