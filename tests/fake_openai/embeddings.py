"""Embeddings made of words: texts that share words point in similar directions. The same in every run and on every machine."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
OTHER_DIMENSION = 256
_WORD = re.compile(r"\w+")
_DIRECTIONS = 8
"""Coordinates a word adds to."""


def dimension_of(model: str, asked: int | None) -> int:
    return asked or DIMENSIONS.get(model, OTHER_DIMENSION)


@lru_cache(maxsize=50_000)
def _directions(word: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Coordinates a word adds to, and how much. Short words weigh less; words that begin alike count as one."""
    digest = hashlib.sha512(word[:6].encode("utf-8", "replace")).digest()
    weight = 1.0 if len(word) > 3 else 0.25
    places = tuple(int.from_bytes(digest[4 * n : 4 * n + 4], "little") for n in range(_DIRECTIONS))
    return places, tuple(weight if digest[32 + n] % 2 else -weight for n in range(_DIRECTIONS))


def embed(text: str, dimension: int) -> NDArray[np.float32]:
    """A unit vector, shape `(dimension,)`."""
    found = [_directions(word) for word in _WORD.findall(text.casefold())]
    places = np.fromiter((place for word in found for place in word[0]), dtype=np.int64)
    amounts = np.fromiter((amount for word in found for amount in word[1]), dtype=np.float64)
    vector = np.bincount(places % dimension, weights=amounts, minlength=dimension)
    if not vector.any():
        vector[0] = 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@lru_cache(maxsize=5_000)
def _in_base64(text: str, dimension: int) -> str:
    return base64.b64encode(embed(text, dimension).astype("<f4").tobytes()).decode()


def encoded(text: str, dimension: int, encoding_format: str | None) -> Any:
    """The vector of a text as it is sent: little-endian float32 in base64, or a list of numbers."""
    if encoding_format == "base64":
        return _in_base64(text, dimension)
    return [round(float(value), 7) for value in embed(text, dimension)]
