"""Chat models of OpenAI or a compatible server."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from engine import tokens
from engine.errors import ModelCallFailed
from engine.providers import loop, totals
from engine.providers.base import NO_USAGE, ChatReply, ChatRequest, Probe, Usage
from engine.providers.json_answers import is_strict, last_valid
from engine.providers.openai import BadAnswer, CallFailed, Connection, token_count
from engine.providers.prices import Prices
from engine.providers.vectors import well_formed

_MOST_EVENTS = 20
"""Events of a streamed answer for each token asked for, beyond a thousand, above which the server has lost count."""
_MESSAGE_TOKENS = 4
"""Tokens a message costs besides its text, by OpenAI's counting guide."""
_PROBE = ChatRequest(({"role": "user", "content": "Answer with the word ok."},), max_tokens=16, purpose="probe")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Style:
    """How to ask this server: servers differ in what they accept, and say so with HTTP 400 or 422."""

    schema: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    length_name: Literal["max_completion_tokens", "max_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    stream_usage: bool = True

    def without(self, named: frozenset[str]) -> _Style | None:
        """The next way to try when the server's refusal speaks of `named`; None when it is not about how we asked."""
        if "schema" in named:
            weaker: dict[str, Literal["json_object", "prompt"]] = {
                "json_schema": "json_object",
                "json_object": "prompt",
            }
            return replace(self, schema=weaker[self.schema]) if self.schema in weaker else None
        if "stream_options" in named and self.stream_usage:
            return replace(self, stream_usage=False)
        if "max_completion_tokens" in named and self.length_name == "max_tokens":
            return replace(self, length_name="max_completion_tokens")
        if "temperature" in named and self.temperature:
            return replace(self, temperature=False)
        if "seed" in named and self.seed:
            return replace(self, seed=False)
        return None

    @property
    def dropped(self) -> tuple[str, ...]:
        """Parameters of a request that this model does not take, so that its own values hold."""
        return tuple(name for name in ("temperature", "seed") if not getattr(self, name))


class OpenAIChat:
    """A chat model behind the `/v1/chat/completions` protocol.

    Structured answers are asked for by JSON schema; a server that lacks it is asked for a JSON object, or told the schema in words,
    and what it accepts is remembered. Whatever it sends, the last object that follows the schema counts. Safe to call from several threads.
    """

    def __init__(self, model: str, connection: Connection, prices: Prices) -> None:
        self.model = model
        self._connection = connection
        self._prices = prices
        self._style = _Style(
            length_name="max_completion_tokens" if connection.endpoint.is_openai else "max_tokens",
        )

    @property
    def scope(self) -> str:
        """What decides the answer besides model and request: part of the cache key."""
        return self._connection.endpoint.base_url

    def complete(self, request: ChatRequest) -> ChatReply:
        """How the call ended. Never raises for a failed call."""
        return self.complete_many([request])[0]

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        """Replies in the order of the requests, run concurrently. Calls in flight when `cancelled()` turns true still end; the others end as `cancelled`."""
        replies: dict[int, ChatReply] = {}
        calls = [partial(self._complete, request) for request in requests]
        with closing(loop.as_finished(calls, self._connection.window, cancelled)) as ended:
            for place, reply in ended:
                replies[place] = reply
                if on_reply is not None:
                    on_reply(place, reply)
        return [replies[place] for place in range(len(requests))]

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        """Pieces of a prose answer as they arrive; the generator returns the whole reply. Leaving it early ends the call. Raises ModelCallFailed."""
        reply = yield from loop.emitted(partial(self._stream, request))
        return reply

    def probe(self) -> Probe:
        """One call with one short sentence: checks address, key and model."""
        try:
            reply = loop.run(self._complete(_PROBE, loop.Stop(), tries=1))
        except ModelCallFailed as error:
            return Probe(False, str(error))
        if reply.ok or (reply.status == "invalid_output" and reply.usage.output_tokens):
            cost = "unknown" if reply.usage.cost_usd is None else f"{reply.usage.cost_usd:.8f} USD"
            return Probe(True, f"{self.model} at {self._connection.endpoint.address} answers. The test cost {cost}.")
        return Probe(False, reply.detail)

    async def _complete(self, request: ChatRequest, stop: loop.Stop, tries: int | None = None) -> ChatReply:
        began = time.perf_counter()
        usage, attempts, told = NO_USAGE, 0, False
        style = self._style
        while True:
            try:
                called = await self._connection.call(
                    self.model, partial(self._ask, request, style), self._reserve(request), stop, tries=tries
                )
            except CallFailed as failure:
                attempts += failure.attempts
                usage = usage._replace(calls=usage.calls + failure.attempts)
                if other := _another_way(style, failure):
                    style = other
                    continue
                reply = ChatReply(failure.cause, detail=str(failure))
            else:
                attempts += called.attempts
                reply = called.value
                usage = usage.plus(reply.usage._replace(calls=called.attempts))
                if _ignored_schema(request, style, reply) and not told:
                    told, style = True, replace(style, schema="prompt")
                    continue
                if reply.ok:
                    self._style = style
            return replace(reply, usage=usage, attempts=attempts, seconds=time.perf_counter() - began)

    def _reserve(self, request: ChatRequest) -> int:
        """Tokens the call may take, prompt and answer; counted only where there is a limit per minute."""
        if self._connection.endpoint.tokens_per_minute is None:
            return 0
        return _prompt_tokens(request) + request.max_tokens

    def _parameters(self, request: ChatRequest, style: _Style) -> dict[str, Any]:
        messages = [
            {"role": message["role"], "content": well_formed(message["content"])} for message in request.messages
        ]
        parameters: dict[str, Any] = {"model": self.model, style.length_name: request.max_tokens}
        if style.temperature:
            parameters["temperature"] = request.temperature
        if style.seed and request.seed is not None:
            parameters["seed"] = request.seed
        if request.schema is not None and style.schema == "json_schema":
            parameters["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": request.schema_name,
                    "schema": request.schema,
                    "strict": is_strict(request.schema),
                },
            }
        elif request.schema is not None:
            if style.schema == "json_object":
                parameters["response_format"] = {"type": "json_object"}
            messages.append({"role": "user", "content": _schema_in_words(request.schema)})
        return {**parameters, "messages": messages}

    @property
    def connection(self) -> Connection:
        return self._connection

    def batch_body(self, request: ChatRequest) -> dict[str, Any]:
        """What a line of a batch asks for one request: the same as a direct call."""
        return self._parameters(request, self._style)

    def batch_reply(self, request: ChatRequest, response: object) -> ChatReply:
        """How a call of a batch ended, from the server's answer, priced at the batch price. Raises BadAnswer for one that is none."""
        return self._read(response, request, self._style, batch=True)

    async def _ask(self, request: ChatRequest, style: _Style) -> ChatReply:
        response = await self._connection.client.chat.completions.create(**self._parameters(request, style))
        return self._read(response, request, style)

    def _read(self, response: object, request: ChatRequest, style: _Style, batch: bool = False) -> ChatReply:
        choices: Any = getattr(response, "choices", None)
        if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
            raise BadAnswer
        message = choices[0].message
        text = well_formed(message.content) if isinstance(message.content, str) else ""
        usage = self._usage(getattr(response, "usage", None), request, text, batch)
        return self._reply(request, style, text, choices[0].finish_reason, getattr(message, "refusal", None), usage)

    def _reply(
        self,
        request: ChatRequest,
        style: _Style,
        text: str,
        finish_reason: str | None,
        refusal: str | None,
        usage: Usage,
    ) -> ChatReply:
        """What the answer is worth: ok, refused, or not usable."""
        extra: dict[str, Any] = {"finish_reason": finish_reason}
        if style.dropped:
            extra["dropped"] = list(style.dropped)
        if refusal or finish_reason == "content_filter":
            detail = f"{self.model} refused to answer. Ask differently, or use another model."
            return ChatReply("refused", text=text, detail=detail, usage=usage, extra=extra)
        text = _THOUGHTS.sub("", text)
        problem, data = "", None
        if request.schema is not None:
            data, problem = last_valid(text, request.schema)
        elif not text.strip():
            problem = "is empty"
        if not problem:
            return ChatReply("ok", text=text, data=data, usage=usage, extra=extra)
        remedy = "Try again, or use another model."
        if finish_reason == "length":
            remedy = f"It reached {request.max_tokens} tokens: raise MAX_TOKENS."
        return ChatReply(
            "invalid_output",
            text=text,
            detail=f"The answer of {self.model} {problem}. {remedy}",
            usage=usage,
            extra=extra,
        )

    def _usage(self, said: Any, request: ChatRequest, text: str, batch: bool = False) -> Usage:
        """The server's numbers where it gives them, else counted here and marked so."""
        sent = token_count(getattr(said, "prompt_tokens", None))
        written = token_count(getattr(said, "completion_tokens", None))
        if sent is not None and written is not None:
            cached = token_count(getattr(getattr(said, "prompt_tokens_details", None), "cached_tokens", None))
            usage = Usage(sent, written, min(cached or 0, sent), calls=1)
        else:
            usage = Usage(_prompt_tokens(request), tokens.count(text), calls=1, counted=True)
        return totals.spent(self.model, self._prices.priced(self.model, usage, batch))

    async def _stream(self, request: ChatRequest, emit: Callable[[str], None]) -> ChatReply:
        began = time.perf_counter()
        attempts, passed = 0, False
        style = self._style

        def pass_on(piece: str) -> None:
            nonlocal passed
            passed = True
            emit(piece)

        while True:
            try:
                called = await self._connection.call(
                    self.model,
                    partial(self._receive, request, style, pass_on),
                    self._reserve(request),
                    loop.Stop(),
                    begun=lambda: passed,
                    watch=False,
                )
            except CallFailed as failure:
                attempts += failure.attempts
                other = _another_way(style, failure)
                if passed or other is None:
                    raise
                style = other
                continue
            reply = called.value
            if not reply.ok:
                raise ModelCallFailed(reply.detail, "refused" if reply.status == "refused" else "invalid_output")
            self._style = style
            attempts += called.attempts
            usage = reply.usage._replace(calls=attempts)
            return replace(reply, usage=usage, attempts=attempts, seconds=time.perf_counter() - began)

    async def _receive(self, request: ChatRequest, style: _Style, emit: Callable[[str], None]) -> ChatReply:
        """One try at a streamed answer. Raises BadAnswer when the stream ends before the answer does."""
        parameters = self._parameters(request, style)
        if style.stream_usage:
            parameters["stream_options"] = {"include_usage": True}
        timeout = self._connection.endpoint.timeout
        pieces: list[str] = []
        refusal, finish_reason, said, events = "", None, None, 0
        async with asyncio.timeout(timeout) as gap:
            stream = await self._connection.client.chat.completions.create(stream=True, **parameters)
            if not hasattr(stream, "__aiter__"):
                raise BadAnswer
            async with stream:
                async for event in stream:
                    events += 1
                    gap.reschedule(asyncio.get_running_loop().time() + timeout)
                    said = getattr(event, "usage", None) or said
                    if events > 1000 + _MOST_EVENTS * request.max_tokens:
                        raise BadAnswer("wrote without end", "Use another server, or another model.")
                    for choice in getattr(event, "choices", None) or ():
                        delta = getattr(choice, "delta", None)
                        refusal += getattr(delta, "refusal", None) or ""
                        finish_reason = getattr(choice, "finish_reason", None) or finish_reason
                        piece = getattr(delta, "content", None)
                        if piece and isinstance(piece, str):
                            pieces.append(well_formed(piece))
                            emit(pieces[-1])
        if not events:
            raise BadAnswer
        text = "".join(pieces)
        if finish_reason is None:
            raise BadAnswer("broke off its answer", "Try again.", "unavailable")
        return self._reply(request, style, text, finish_reason, refusal, self._usage(said, request, text))


def _another_way(style: _Style, failure: CallFailed) -> _Style | None:
    """Another way to ask, where the server refused the way and not the request."""
    return style.without(failure.named) if failure.status_code in (400, 404, 422, 501) else None


def _ignored_schema(request: ChatRequest, style: _Style, reply: ChatReply) -> bool:
    """Whether the server took the schema and did not follow it: some ignore what they do not know."""
    return (
        request.schema is not None
        and style.schema != "prompt"
        and reply.status == "invalid_output"
        and reply.extra.get("finish_reason") != "length"
    )


def _schema_in_words(schema: Mapping[str, Any]) -> str:
    return (
        "Answer with one JSON object and nothing else: no explanation, no code fence. It must follow this JSON schema:\n"
        + json.dumps(schema, ensure_ascii=False)
    )


def _prompt_tokens(request: ChatRequest) -> int:
    schema = "" if request.schema is None else json.dumps(request.schema)
    texts = [message["content"] for message in request.messages]
    return sum(tokens.count(text) + _MESSAGE_TOKENS for text in texts) + tokens.count(schema)
