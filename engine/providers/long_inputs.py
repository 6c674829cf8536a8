"""Texts longer than an embedding model reads: found before anything is sent, and cut into parts where that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from engine import tokens
from engine.errors import ModelCallFailed


def over_limit(texts: Sequence[str], limit: int | None, count: Callable[[str], int] = tokens.count) -> tuple[int, ...]:
    """Places of the texts with more than `limit` tokens by `count`. cl100k_base is exact for OpenAI's models and an estimate for others."""
    if limit is None:
        return ()
    # A token is at least one byte, so a text of few bytes needs no counting.
    return tuple(
        place
        for place, text in enumerate(texts)
        if len(text) * 4 > limit and len(text.encode("utf-8", "replace")) > limit and count(text) > limit
    )


def refusal(model: str, limit: int, long: Sequence[str], of: int, count: Callable[[str], int]) -> ModelCallFailed:
    """The error for long texts where they are not to be split."""
    return ModelCallFailed(
        f"{len(long)} of {of} texts are longer than the {limit} tokens that {model} reads (the longest has {max(map(count, long))}). "
        "Nothing was embedded. Choose a smaller chunk size, or set LONG_INPUT=split to embed them in parts.",
        "refused",
    )


def split(
    text: str, limit: int, ends: NDArray[np.int64] | None = None, count: Callable[[str], int] = tokens.count
) -> list[str]:
    """Parts of about equal length that each hold at most `limit` tokens and together are the text. No code point is cut.

    `ends`: code point offset where each token ends, shape `(n_tokens,)`; default: the cl100k_base tokens.
    """
    ends = tokens.TokenMap(text).ends if ends is None else ends
    pieces = ceil(ends.size / limit)
    while True:
        cuts = [int(ends[ends.size * part // pieces - 1]) for part in range(1, pieces)]
        parts = [text[start:end] for start, end in pairwise([0, *cuts, len(text)]) if end > start]
        # A part counted on its own can hold a few tokens more than its share of the whole.
        if all(count(part) <= limit for part in parts) or pieces >= ends.size:
            return parts
        pieces += 1
