"""cl100k_base tokens with no network: the vocabulary is read from an installed package and checked by its hash."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import threading
from base64 import b64decode
from functools import cache, cached_property

import numpy as np
import tiktoken
from numpy.typing import NDArray

VOCABULARY_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""Hash of OpenAI's published cl100k_base rank file; tiktoken checks its download against the same value."""

_SPECIAL_TOKENS = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}
_PATTERN = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
_lock = threading.Lock()


def _bundled_ranks() -> dict[bytes, int] | None:
    try:
        packed = importlib.resources.files("bpe_openai").joinpath("data/cl100k_base.tiktoken.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        return None
    raw = gzip.decompress(packed)
    if hashlib.sha256(raw).hexdigest() != VOCABULARY_SHA256:
        return None
    return {b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}


@cache
def _build() -> tiktoken.Encoding:
    ranks = _bundled_ranks()
    if ranks is None:
        return tiktoken.get_encoding("cl100k_base")
    return tiktoken.Encoding(
        name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS
    )


def encoding() -> tiktoken.Encoding:
    """The cl100k_base encoding. Falls back to tiktoken's own download only when no installed package carries the vocabulary."""
    with _lock:
        return _build()


def count(text: str) -> int:
    """Tokens of `text` on its own. Special-token strings such as `<|endoftext|>` are ordinary text."""
    return len(encoding().encode_ordinary(text))


@cache
def _token_lengths() -> NDArray[np.int32]:
    """Bytes of every token id."""
    enc = encoding()
    lengths = np.zeros(enc.n_vocab, dtype=np.int32)
    for token in range(enc.n_vocab):
        try:
            lengths[token] = len(enc.decode_single_token_bytes(token))
        except KeyError:
            continue
    return lengths


class TokenMap:
    """One encode of a text, and from it the token share of any span.

    `ends[i]` is the code point offset at which token i ends, rounded down to a whole character: shape `(n_tokens,)`, int64, non-decreasing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        tokens = encoding().encode_to_numpy(text, disallowed_special=())
        byte_ends = np.cumsum(_token_lengths()[tokens], dtype=np.int64)
        self.ends: NDArray[np.int64] = byte_ends if text.isascii() else self._characters_at(byte_ends)

    def _characters_at(self, byte_ends: NDArray[np.int64]) -> NDArray[np.int64]:
        data = np.frombuffer(self.text.encode("utf-8"), dtype=np.uint8)
        starts = np.flatnonzero((data & 0xC0) != 0x80)
        whole = np.searchsorted(starts, byte_ends, side="right") - 1
        complete = np.append(starts, data.size)
        on_boundary = np.isin(byte_ends, complete)
        return np.where(on_boundary, np.searchsorted(complete, byte_ends), whole)

    @property
    def n_tokens(self) -> int:
        return int(self.ends.size)

    @cached_property
    def _prefix(self) -> NDArray[np.int32]:
        """Tokens that end at or before each code point offset: shape `(len(text) + 1,)`."""
        counts = np.bincount(self.ends, minlength=len(self.text) + 1)
        return np.cumsum(counts, dtype=np.int32)

    def share(self, start: int, end: int) -> int:
        """Tokens of the whole-text encode that end inside `(start, end]`: the count of the span up to a few tokens at its edges."""
        return int(self._prefix[end] - self._prefix[start])

    def count(self, start: int, end: int) -> int:
        """Tokens of the span on its own, exactly."""
        return count(self.text[start:end])
