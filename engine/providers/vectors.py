"""Arithmetic that every embedder shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.providers.base import Vectors


def unit_rows(matrix: NDArray[np.floating]) -> Vectors:
    """Rows scaled to unit length, shape kept, float32.

    A row of zeros (a text in which the model sees no token, such as the empty string) has no direction. It becomes the first
    unit vector `(1, 0, ..., 0)`: still of unit length, the same for every such text, and close to nothing real.
    """
    rows = np.asarray(matrix, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    empty = lengths[:, 0] == 0.0
    lengths[empty] = 1.0
    unit: Vectors = (rows / lengths).astype(np.float32)
    unit[empty, 0] = 1.0
    return unit


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced, because encoders and JSON know only whole code points. Length is kept."""
    return text.encode("utf-8", "replace").decode("utf-8")
