"""What every model looks like to the engine: embedders, token embedders, chat models, and the record of one call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.errors import CallCause

Vectors = NDArray[np.float32]
TextKind = Literal["passage", "query"]
CallStatus = Literal["ok"] | CallCause


class Usage(NamedTuple):
    """Tokens of one or many calls. `counted` means we counted them because the server did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """Part of `input_tokens` the provider billed at its cached-input price."""
    calls: int = 0
    """Calls that reached the provider; answers from our cache are not calls."""
    counted: bool = False
    cost_usd: float | None = 0.0
    """None: the price is unknown."""

    def plus(self, other: Usage) -> Usage:
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.calls + other.calls,
            self.counted or other.counted,
            cost,
        )


NO_USAGE = Usage()


class Embedded(NamedTuple):
    """Vectors and what they cost. `vectors`: shape `(n_texts, dimension)`, float32, rows of unit length."""

    vectors: Vectors
    usage: Usage
    split: tuple[int, ...] = ()
    """Places of the texts that are longer than the model reads and were embedded in parts (LONG_INPUT=split)."""


class EmbeddedBatch(NamedTuple):
    """One finished part of a longer embedding, from embedders that offer `embed_batches(texts, kind, cancelled)`; those also offer `long_texts(texts, kind)`, the places of `Embedded.split`."""

    positions: tuple[int, ...]
    """Places in the texts that were asked for; row i of `vectors` belongs to `positions[i]`."""
    vectors: Vectors
    usage: Usage


class TokenVectors(NamedTuple):
    """Vectors of the tokens of one text.

    `vectors`: shape `(n_tokens, dimension)`, float32; `offsets`: shape `(n_tokens, 2)`, code points of the text, special tokens left out.
    """

    vectors: Vectors
    offsets: NDArray[np.int64]


class Probe(NamedTuple):
    """Result of one cheap call that checks key, model and dimension."""

    ok: bool
    message: str
    """In words: what works, or what is wrong and what to do."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Safe to call from several threads. Raises ModelCallFailed."""

    @property
    def model(self) -> str:
        """Name that identifies the vectors: collections and caches are bound to it."""

    @property
    def dimension(self) -> int: ...

    @property
    def max_input_tokens(self) -> int | None:
        """Longest input the model reads; None when it has no limit."""

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        """Vectors in the order of `texts`. An empty sequence gives shape `(0, dimension)`."""

    def probe(self) -> Probe: ...


@runtime_checkable
class TokenEmbedder(Protocol):
    """An encoder that gives a vector per token, for late chunking. Raises ModelCallFailed."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def context_tokens(self) -> int:
        """Tokens the encoder reads at once."""

    def token_offsets(self, text: str) -> NDArray[np.int64]:
        """Where the encoder's tokens stand, without encoding: shape `(n_tokens, 2)`, code points, special tokens left out."""

    def embed_tokens(self, text: str) -> TokenVectors:
        """Vectors of all tokens of a text that fits the context."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a chat model. Everything that can change the answer is in here, and the cache key is made of all of it."""

    messages: tuple[Mapping[str, str], ...]
    """`{"role": "system" | "user" | "assistant", "content": text}`."""
    schema: Mapping[str, Any] | None = None
    """JSON schema the answer must follow; None for prose."""
    schema_name: str = "answer"
    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int | None = None
    purpose: str = "answer"
    """What the call is for (context, propositions, answer, judge): shown in the cost table, not part of the cache key."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """How a chat call ended. Never raised for a failed call: the caller decides what a failure means."""

    status: CallStatus
    text: str = ""
    data: Any = None
    """The parsed object when a schema was asked for and the answer follows it."""
    detail: str = ""
    """In words, when the status is not ok. Holds no key and no document text."""
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    """Wall time of the call, waiting and retries included; 0.0 from the cache."""
    from_cache: bool = False
    attempts: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@runtime_checkable
class ChatModel(Protocol):
    """A chat model. Safe to call from several threads; calls in flight are bounded by the provider."""

    @property
    def model(self) -> str: ...

    def complete(self, request: ChatRequest) -> ChatReply: ...

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        """Replies in the order of the requests, run concurrently. Calls not yet begun when `cancelled()` turns true end as `cancelled`.

        `on_reply(place, reply)` is called in the calling thread as each call ends, in the order in which they end.
        """

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        """Pieces of a prose answer as they arrive; the generator returns the whole reply with its usage. Raises ModelCallFailed when it breaks off."""

    def probe(self) -> Probe: ...


@dataclass(frozen=True, slots=True)
class Models:
    """The models in use. None: not configured, and what needs it says so."""

    embedder: Embedder | None = None
    chat: ChatModel | None = None
    judge: ChatModel | None = None
    token_embedder: TokenEmbedder | None = None
