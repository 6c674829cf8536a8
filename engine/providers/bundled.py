"""The embeddings that ship with Chunkscope: WordLlama's static token vectors, averaged over a text. No key, no network.

Weights and tokenizer are read straight from the installed `wordllama` package, which is not imported: importing it
reconfigures the root logger, and its own loader looks for the tokenizer in a folder that does not exist.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engine.errors import NeedsModel
from engine.providers.base import NO_USAGE, Embedded, Probe, TextKind, Vectors
from engine.providers.vectors import unit_rows, well_formed
from engine.settings import BUNDLED

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DIMENSION = 256
_BATCH = 1024
"""Texts tokenized at once: bounds memory, and no text's vector depends on its neighbours."""
_SLICE = 4096
"""Token vectors of one text gathered at once: bounds memory for a text of any length."""
_lock = threading.Lock()


class _Weights(NamedTuple):
    tokenizer: Tokenizer
    vectors: Vectors
    """One row per token: shape `(32000, 256)`, float32."""


_loaded: list[_Weights] = []


def _weights() -> _Weights:
    """Loaded once per process, on first use (about 0.3 s). Raises NeedsModel when the package is incomplete."""
    with _lock:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> _Weights:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("wordllama")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()
    tokenizer = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    if not (tokenizer.is_file() and weights.is_file()):
        raise NeedsModel(
            "The bundled embeddings are not installed. Install the requirements again with: pip install -r requirements.txt"
        )
    vectors = load_file(weights)["embedding.weight"].astype(np.float32)
    read = Tokenizer.from_file(str(tokenizer))
    # It would remember each short text whole, 10,000 in each of its threads at 5 kB, for a text that does not come again.
    read.model._resize_cache(0)
    return _Weights(read, vectors)


class BundledEmbedder:
    """WordLlama `l2_supercat`, 256 dimensions, English. The mean of a text's token vectors, scaled to unit length.

    Deterministic, and independent of the other texts in a call. Text of any length is read in full. A text without tokens
    (the empty string) gets the first unit vector. Queries and passages are embedded alike. Safe to call from several threads.
    """

    model = BUNDLED
    dimension = DIMENSION
    max_input_tokens = None

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        """Vectors in the order of `texts`: shape `(n_texts, 256)`, float32, rows of unit length. Costs nothing. Raises NeedsModel."""
        parts = [self._sums(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        sums = np.concatenate(parts) if parts else np.zeros((0, DIMENSION), dtype=np.float32)
        return Embedded(unit_rows(sums), NO_USAGE)

    def probe(self) -> Probe:
        try:
            self.embed(["probe"])
        except NeedsModel as error:
            return Probe(False, str(error))
        return Probe(
            True, f"Bundled embeddings (WordLlama, {DIMENSION} dimensions) work. They need no key and no network."
        )

    @staticmethod
    def _sums(texts: Sequence[str]) -> Vectors:
        """The sum of each text's token vectors; its direction is that of the mean."""
        weights = _weights()
        encoded = weights.tokenizer.encode_batch_fast([well_formed(text) for text in texts], add_special_tokens=False)
        sums = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for total, encoding in zip(sums, encoded, strict=True):
            tokens = encoding.ids
            for start in range(0, len(tokens), _SLICE):
                total += weights.vectors.take(tokens[start : start + _SLICE], axis=0).sum(axis=0)
        return sums
