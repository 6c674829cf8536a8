"""What model calls that are known word for word would cost, before one of them is made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine import tokens
from engine.ids import canonical_json
from engine.models import Record
from engine.providers.base import ChatModel, ChatRequest, Embedder
from engine.providers.prices import Prices
from engine.settings import Settings

MESSAGE_TOKENS = 4
"""Tokens a chat model adds around each message."""


class CallsEstimate(Record):
    """Calls that are still to be made, and the most they can cost."""

    model: str
    calls: int
    cached_calls: int
    """Calls whose replies are in the cache: they cost nothing."""
    input_tokens: int
    most_output_tokens: int
    """Where every reply is as long as it may be."""
    most_cost_usd: float | None
    """USD at that length. None: the price of the model is unknown."""


def estimate(chat: ChatModel, requests: Sequence[ChatRequest], prices: Prices) -> CallsEstimate:
    """Makes no call."""
    waiting = uncached(chat, requests)
    read = sum(map(request_tokens, waiting))
    written = sum(each.max_tokens for each in waiting)
    return CallsEstimate(
        model=chat.model,
        calls=len(waiting),
        cached_calls=len(requests) - len(waiting),
        input_tokens=read,
        most_output_tokens=written,
        most_cost_usd=prices.cost(chat.model, read, written) if waiting else 0.0,
    )


def embedding_estimate(embedder: Embedder, texts: Sequence[str], prices: Prices, settings: Settings) -> CallsEstimate:
    """What embedding the texts would call. Those in the cache are not asked for; `cached_calls` does not count them. Makes no call."""
    look_up = getattr(embedder, "uncached", None)
    waiting = list(dict.fromkeys(texts)) if look_up is None else look_up(texts)
    read = sum(map(tokens.count, waiting))
    return CallsEstimate(
        model=embedder.model,
        calls=embedding_calls(len(waiting), read, settings) if waiting else 0,
        cached_calls=0,
        input_tokens=read,
        most_output_tokens=0,
        most_cost_usd=prices.cost(embedder.model, read) if waiting else 0.0,
    )


def embedding_calls(texts: float, amount: float, settings: Settings) -> int:
    """Requests in which so many texts of so many tokens in all are embedded."""
    from engine.providers.openai_embedder import OPENAI_LIMITS, SERVER_LIMITS

    limits = SERVER_LIMITS if settings.embedding_base_url or settings.openai_base_url else OPENAI_LIMITS
    return max(1, math.ceil(texts / limits.texts), math.ceil(amount / limits.tokens))


def uncached(chat: ChatModel | None, requests: Sequence[ChatRequest]) -> list[ChatRequest]:
    """The requests that are not in the model's cache; all of them where it has none."""
    look_up = getattr(chat, "uncached", None)
    if look_up is None:
        return list(requests)
    found: list[ChatRequest] = look_up(requests)
    return found


def request_tokens(request: ChatRequest) -> int:
    """Tokens of the messages and of the schema, which providers count as well."""
    schema = 0 if request.schema is None else tokens.count(canonical_json(dict(request.schema)))
    return schema + sum(tokens.count(message["content"]) + MESSAGE_TOKENS for message in request.messages)
