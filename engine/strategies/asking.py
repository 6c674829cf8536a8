"""How strategies ask a chat model: document text marked as data, all calls at once, and all of them or none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import ids, tokens
from engine.errors import CallCause, ModelCallFailed
from engine.models import Document
from engine.prompts import prompt
from engine.providers.base import ChatModel, ChatReply, ChatRequest, Embedder

OVER_EMBEDDER_LIMIT = "over_embedder_limit"
"""Flag of a chunk whose embedded text is longer than the embedder reads."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Replies in the order of their requests, every one usable."""

    replies: Sequence[ChatReply]
    seconds: float
    """Wall time of all calls together."""


def request(
    prompt_name: str,
    data: Mapping[str, str],
    *,
    max_tokens: int,
    purpose: str,
    schema: Mapping[str, Any] | None = None,
    schema_name: str = "answer",
) -> ChatRequest:
    """A request with the prompt as system message and `data` (label to text) as user message, each text between the marks of a tag.

    The tag is drawn from the data itself: nobody can write it into a document in advance, and equal data still gives an equal
    request, so that the cache answers it.
    """
    tag = "data-" + ids.digest("tag", *data.values())[:16]
    marked = "\n\n".join(f"{label}:\n<{tag}>\n{text}\n</{tag}>" for label, text in data.items())
    return ChatRequest(
        messages=(
            {"role": "system", "content": prompt(prompt_name).fill(tag=tag)},
            {"role": "user", "content": marked},
        ),
        schema=schema,
        schema_name=schema_name,
        max_tokens=max_tokens,
        purpose=purpose,
    )


def signature(prompt_name: str) -> dict[str, str]:
    """Attribute of a chunk that a model helped to make: which prompt, in which version."""
    return {"prompt": f"{prompt_name}/{prompt(prompt_name).version}"}


def ask_all(
    chat: ChatModel, requests: Sequence[ChatRequest], who: str, kept: str = "No chunk of this strategy was kept."
) -> Answers:
    """All replies, or ModelCallFailed with the cause of the first failure. Calls not yet begun when one fails are not made.

    `kept`: what the failure leaves behind, in words.
    """
    began = time.perf_counter()
    failures: list[ChatReply] = []

    def note(place: int, reply: ChatReply) -> None:
        if not _usable(requests[place], reply):
            failures.append(reply)

    replies = chat.complete_many(requests, cancelled=lambda: bool(failures), on_reply=note)
    unusable = [reply for asked, reply in zip(requests, replies, strict=True) if not _usable(asked, reply)]
    if unusable:
        # A failure stops the calls behind it, which then end as cancelled: the first one to fail is the reason.
        first = failures[0] if failures else unusable[0]
        cause: CallCause = "invalid_output" if first.status == "ok" else first.status
        detail = first.detail or "The answer was empty."
        raise ModelCallFailed(
            f"{who} asked {chat.model} {len(requests)} times and a call failed ({cause}). {detail} "
            f"{kept} Run it again: finished calls are answered from the cache.",
            cause,
        )
    return Answers(replies, time.perf_counter() - began)


def _usable(asked: ChatRequest, reply: ChatReply) -> bool:
    return reply.ok and (bool(reply.text.strip()) if asked.schema is None else reply.data is not None)


def title_of(document: Document) -> str:
    """The title a document gives itself, else the file's name."""
    title = document.metadata.get("title")
    return title.strip() if isinstance(title, str) and title.strip() else document.name


def flags_for(text: str, embedder: Embedder | None) -> tuple[str, ...]:
    """Says when a text is longer than the embedder reads, by cl100k_base tokens."""
    limit = None if embedder is None else embedder.max_input_tokens
    return (OVER_EMBEDDER_LIMIT,) if limit is not None and tokens.count(text) > limit else ()
