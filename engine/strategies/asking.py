"""How strategies ask a chat model: document text marked as data, all calls at once, and all of them or none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import ids
from engine.errors import CallCause, ModelCallFailed
from engine.prompts import prompt
from engine.providers.base import ChatModel, ChatReply, ChatRequest


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


def ask_all(chat: ChatModel, requests: Sequence[ChatRequest], who: str) -> Answers:
    """All replies, or ModelCallFailed with the cause of the first failure. Calls not yet begun when one fails are not made."""
    began = time.perf_counter()
    failures: list[ChatReply] = []

    def note(_place: int, reply: ChatReply) -> None:
        if not _usable(reply):
            failures.append(reply)

    replies = chat.complete_many(requests, cancelled=lambda: bool(failures), on_reply=note)
    unusable = [reply for reply in replies if not _usable(reply)]
    if unusable:
        # A failure stops the calls behind it, which then end as cancelled: the first one to fail is the reason.
        first = failures[0] if failures else unusable[0]
        cause: CallCause = "invalid_output" if first.status == "ok" else first.status
        detail = first.detail or "The answer was empty."
        raise ModelCallFailed(
            f"{who} asked {chat.model} {len(requests)} times and a call failed ({cause}). {detail} "
            "No chunk of this strategy was kept. Run it again: finished calls are answered from the cache.",
            cause,
        )
    return Answers(replies, time.perf_counter() - began)


def _usable(reply: ChatReply) -> bool:
    return reply.ok and (reply.data is not None or bool(reply.text.strip()))
