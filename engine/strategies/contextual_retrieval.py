"""Contextual retrieval: fixed windows, each embedded behind one or two sentences that say where it stands and what it is about.

The idea is Anthropic's "Introducing Contextual Retrieval" (September 2024); here the model sees the text around the window, not
the whole document, so that the cost of a call does not grow with the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from engine.providers.base import ChatRequest, Models
from engine.strategies.asking import ask_all, flags_for, request, signature, title_of
from engine.strategies.base import Cut, Need, Piece, SizedParams, Strategy
from engine.strategies.fixed_size import FixedSize, FixedSizeParams
from engine.strategies.source import Source

_PROMPT = "context_window"
_CONTEXT_TOKENS = 150
"""Longest prefix, in tokens of the model's answer."""


class ContextualRetrievalParams(SizedParams):
    size: int = Field(512, ge=1, le=100_000, description="Tokens of a window, without its prefix. Never exceeded.")
    overlap: int = Field(
        50, ge=0, le=25_000, description="Tokens that a window repeats of the one before; at most 25 % of size."
    )
    surroundings: int = Field(
        500, ge=0, le=20_000, description="Characters before and after a window that the model sees."
    )

    @property
    def short(self) -> str:
        return f"{self.size}/{self.overlap}/{self.surroundings}"


class ContextualRetrieval(Strategy[ContextualRetrievalParams]):
    name = "contextual_retrieval"
    title = "Contextual retrieval"
    rule = "Fixed windows; a chat model writes one or two sentences from the text around each, and both are embedded together."
    best_for = (
        "Text whose passages say little alone (reports, minutes, correspondence), with questions that name the whole."
    )
    avoid_when = "There is no chat model, the documents may not leave the house, or windows are understood as they are."
    cost = "One chat call per window, kept for the next run; embeddings of slightly longer texts."
    needs = frozenset({Need.CHAT})
    prompts = (_PROMPT,)
    params_type = ContextualRetrievalParams

    def _cut(self, source: Source, params: ContextualRetrievalParams, models: Models) -> Cut:
        assert models.chat is not None
        windows = _windows(source, params)
        answers = ask_all(models.chat, _requests(source, windows, params.surroundings), self.name)
        made = []
        for window, reply in zip(windows, answers.replies, strict=True):
            context = reply.text.strip()
            enriched = f"{context}\n\n{source.text[window.start : window.end]}"
            flags = (*window.flags, *flags_for(enriched, models.embedder))
            made.append(
                replace(window, context=context, embedding_text=enriched, flags=flags, attributes=signature(_PROMPT))
            )
        return Cut(made, seconds={"enrich": answers.seconds})

    def requests(self, source: Source, params: ContextualRetrievalParams) -> Sequence[ChatRequest]:
        if not source.text.strip():
            return ()
        return _requests(source, _windows(source, params), params.surroundings)


def _windows(source: Source, params: ContextualRetrievalParams) -> Sequence[Piece]:
    """The windows of `fixed_size`, without blank ones: nobody is asked about white space."""
    fixed = FixedSizeParams(size=params.size, overlap=params.overlap, unit="tokens")
    windows = FixedSize()._cut(source, fixed, Models()).pieces
    return [window for window in windows if not source.text[window.start : window.end].isspace()]


def _requests(source: Source, windows: Sequence[Piece], surroundings: int) -> list[ChatRequest]:
    text = source.text
    return [
        request(
            _PROMPT,
            {
                "Document": title_of(source.document),
                "Before": text[max(0, window.start - surroundings) : window.start],
                "Passage": text[window.start : window.end],
                "After": text[window.end : window.end + surroundings],
            },
            max_tokens=_CONTEXT_TOKENS,
            purpose="context",
        )
        for window in windows
    ]
