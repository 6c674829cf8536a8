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
def _directions(stem: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    digest = np.frombuffer(hashlib.sha512(stem.encode("utf-8", "replace")).digest(), dtype="<u4")
    return digest[:_DIRECTIONS].astype(np.int64), np.where(digest[_DIRECTIONS:] % 2 == 0, 1.0, -1.0)


def embed(text: str, dimension: int) -> NDArray[np.float32]:
    """A unit vector, shape `(dimension,)`. Short words weigh less; words that begin alike count as one."""
    vector = np.zeros(dimension)
    for word in _WORD.findall(text.casefold()):
        places, signs = _directions(word[:6])
        np.add.at(vector, places % dimension, signs * (1.0 if len(word) > 3 else 0.25))
    if not vector.any():
        vector[0] = 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def encoded(vector: NDArray[np.float32], encoding_format: str | None) -> Any:
    if encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return [round(float(value), 7) for value in vector]
