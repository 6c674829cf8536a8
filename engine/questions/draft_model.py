"""Questions drafted by a chat model from sampled articles: quotes verified, near-duplicates removed, some over two articles, some unanswerable.

The plan is drawn with a seed before the first call, so a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from rapidfuzz import fuzz

from engine import ids, tokens
from engine.models import Document, Node, NodeKind, Record, Span
from engine.providers.base import NO_USAGE, ChatModel, ChatReply, ChatRequest, Usage
from engine.questions.normalise import Normalised
from engine.questions.parse import question_id
from engine.questions.resolve import resolve_evidence
from engine.records import Evidence, Question
from engine.strategies.asking import request

Task = Literal["single", "multi", "unanswerable"]

MULTI_SHARE = 0.2
UNANSWERABLE_SHARE = 0.1
"""Shares of the planned questions that need two articles, and that the document does not answer."""
UNIT_TOKENS = (40, 1500)
"""Fewest and most tokens of an article to ask about."""
SAME_QUESTION = 90.0
"""Word-set similarity, in percent, from which two questions count as one."""
_BATCH = 16

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "answer": {"type": "string"},
        "quotes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["question", "answer", "quotes"],
    "additionalProperties": False,
}
_UNANSWERABLE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Item:
    """One planned question."""

    item_id: str
    """The same for the same documents, count and seed: the key under which a finished item is remembered."""
    task: Task
    document: Document
    units: tuple[Span, ...]
    """The articles, or stretches of paragraphs, it is to be about."""


class Outcome(Record):
    """How one planned question ended."""

    item_id: str
    question: Question | None
    reason: str
    """`kept`, or why there is no question: a call cause, `quote_not_found`, `passage_not_quoted`, `near_duplicate`, `empty`."""


class Drafted(Record):
    """All outcomes of a drafting run, in the order of its plan."""

    outcomes: tuple[Outcome, ...]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None: the price is unknown."""

    @property
    def questions(self) -> tuple[Question, ...]:
        return tuple(outcome.question for outcome in self.outcomes if outcome.question is not None)

    @property
    def rejected(self) -> dict[str, int]:
        """Planned questions that gave none, by cause."""
        return dict(Counter(outcome.reason for outcome in self.outcomes if outcome.question is None))


def plan(documents: Sequence[Document], count: int, seed: int = 0) -> tuple[Item, ...]:
    """What will be asked for: up to `count` items over articles drawn without repetition, document by document in turn. No call is made."""
    rng = random.Random(seed)
    pools = []
    for document in sorted(documents, key=lambda document: document.document_id):
        units = list(_units(document))
        rng.shuffle(units)
        if units:
            pools.append((document, units))
    tasks: list[Task] = [_task(number, count) for number in range(count)]
    rng.shuffle(tasks)
    items: list[Item] = []
    for number, task in enumerate(tasks):
        pools = [(document, units) for document, units in pools if units]
        if not pools:
            break
        document, units = pools[number % len(pools)]
        chosen = [units.pop()]
        if task == "multi" and units:
            chosen.append(units.pop())
        kind: Task = "single" if task == "multi" and len(chosen) == 1 else task
        spans = tuple(sorted(chosen))
        key = ids.digest("draft", str(seed), kind, document.document_id, *(f"{s.start}:{s.end}" for s in spans))
        items.append(Item(key[:16], kind, document, spans))
    return tuple(items)


def draft_requests(documents: Sequence[Document], count: int, seed: int = 0) -> list[ChatRequest]:
    """The model calls of `draft_with_model` with the same documents, count and seed."""
    return [_request(item) for item in plan(documents, count, seed)]


def draft_with_model(
    documents: Sequence[Document],
    chat: ChatModel,
    count: int,
    seed: int = 0,
    done: Mapping[str, Outcome] | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Drafted:
    """Drafts up to `count` questions, marked drafted and not reviewed.

    `done`: outcomes of an earlier, interrupted run with the same documents, count and seed; their calls are not made again.
    `on_outcome` is called with every new outcome as it is known: store it to be able to go on. A call that fails costs its own item
    only; such an item, or one cut off by `cancelled`, is asked again by the next run.
    """
    items = plan(documents, count, seed)
    outcomes: dict[str, Outcome] = {
        item.item_id: done[item.item_id]
        for item in items
        if done and item.item_id in done and _final(done[item.item_id])
    }
    kept = [outcome.question.question for outcome in outcomes.values() if outcome.question is not None]
    usage = NO_USAGE
    waiting = [item for item in items if item.item_id not in outcomes]
    for first in range(0, len(waiting), _BATCH):
        if cancelled():
            break
        batch = waiting[first : first + _BATCH]
        replies = chat.complete_many([_request(item) for item in batch], cancelled)
        for item, reply in zip(batch, replies, strict=True):
            usage = usage.plus(reply.usage)
            outcome = _judge(item, reply, kept)
            if outcome.question is not None:
                kept.append(outcome.question.question)
            outcomes[item.item_id] = outcome
            on_outcome(outcome)
    return _drafted(items, outcomes, usage)


def _drafted(items: Sequence[Item], outcomes: Mapping[str, Outcome], usage: Usage) -> Drafted:
    return Drafted(
        outcomes=tuple(outcomes[item.item_id] for item in items if item.item_id in outcomes),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def _final(outcome: Outcome) -> bool:
    """Whether asking again would give nothing new: the call itself succeeded."""
    return outcome.question is not None or outcome.reason in _JUDGED


_JUDGED = frozenset({"quote_not_found", "passage_not_quoted", "near_duplicate", "empty"})


def _task(number: int, count: int) -> Task:
    multi, unanswerable = round(MULTI_SHARE * count), round(UNANSWERABLE_SHARE * count)
    if number < multi:
        return "multi"
    return "unanswerable" if number < multi + unanswerable else "single"


def _units(document: Document) -> Iterator[Span]:
    """Articles of the document, or else its innermost sections, or else stretches of paragraphs, of a size one can ask about."""
    fewest, most = UNIT_TOKENS
    articles = [node for node in document.tree.walk() if node.kind is NodeKind.ARTICLE]
    sections = [node for node in document.tree.walk() if node.kind is NodeKind.SECTION and not _has_section(node)]
    spans = [node.span for node in articles or sections] or list(_stretches(document.text))
    for span in spans:
        if fewest <= tokens.count(span.slice(document.text)) <= most:
            yield span


def _has_section(node: Node) -> bool:
    return any(child.kind in (NodeKind.SECTION, NodeKind.ARTICLE) for child in node.children)


def _stretches(text: str) -> Iterator[Span]:
    """About 2,000 characters each, cut at blank lines."""
    ends = [place + 2 for place in range(len(text) - 1) if text.startswith("\n\n", place)] + [len(text)]
    start = 0
    for _, group in groupby(ends, key=lambda end: end // 2000):
        end = max(group)
        if text[start:end].strip():
            yield Span(start, end)
        start = end


def _request(item: Item) -> ChatRequest:
    data = {"Document": item.document.name}
    if item.task == "unanswerable":
        data["Headings"] = "\n".join(node.name for node in item.document.tree.walk() if node.name)[:4000]
    for number, span in enumerate(item.units, start=1):
        data[f"Passage {number}"] = span.slice(item.document.text)
    unanswerable = item.task == "unanswerable"
    return request(
        "draft_unanswerable" if unanswerable else "draft_question",
        data,
        max_tokens=600,
        purpose="draft questions",
        schema=_UNANSWERABLE_SCHEMA if unanswerable else _SCHEMA,
        schema_name="question",
    )


def _judge(item: Item, reply: ChatReply, kept: Sequence[str]) -> Outcome:
    """The question of a reply, if it keeps what was asked for."""
    data = reply.data
    if not reply.ok or not isinstance(data, dict):
        return _none(item, reply.status if not reply.ok else "invalid_output")
    text = str(data.get("question", "")).strip()
    answer = str(data.get("answer", "")).strip()
    if not text or (item.task != "unanswerable" and not answer):
        return _none(item, "empty")
    if any(fuzz.token_set_ratio(text.casefold(), other.casefold()) >= SAME_QUESTION for other in kept):
        return _none(item, "near_duplicate")
    evidence: tuple[Evidence, ...] = ()
    if item.task != "unanswerable":
        quotes = [str(quote).strip() for quote in data.get("quotes", ()) if str(quote).strip()]
        found = [_located(quote, item) for quote in dict.fromkeys(quotes)]
        if not found or any(one is None for one in found):
            return _none(item, "quote_not_found")
        evidence = tuple(one for one in found if one is not None)
        if not all(any(g.span.overlap(unit) for e in evidence for g in e.gold) for unit in item.units):
            return _none(item, "passage_not_quoted")
    question = Question(
        question_id="",
        question=text,
        answer=answer or None,
        evidence=evidence,
        answerable=item.task != "unanswerable",
        tags=("drafted", item.task),
        origin="drafted",
        reviewed=False,
    )
    question = question.model_copy(update={"question_id": question_id(question)})
    return Outcome(item_id=item.item_id, question=question, reason="kept")


def _located(quote: str, item: Item) -> Evidence | None:
    """The quote inside the passages it was to be copied from, exactly or normalised; None when it is not there."""
    resolved = resolve_evidence(Evidence(quote=quote, document=item.document.document_id), item.document)
    if resolved.method not in ("exact", "normalised") or not Normalised(quote).text.strip():
        return None
    places = resolved.candidates or resolved.gold
    inside = next(
        (gold for gold in places if any(u.start <= gold.span.start and gold.span.end <= u.end for u in item.units)),
        None,
    )
    return None if inside is None else resolved.model_copy(update={"gold": (inside,), "document": item.document.name})


def _none(item: Item, reason: str) -> Outcome:
    return Outcome(item_id=item.item_id, question=None, reason=reason)
