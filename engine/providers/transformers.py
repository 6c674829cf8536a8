"""Local models through sentence-transformers: embeddings, and token vectors for late chunking. An extra: requirements-local.txt.

torch and sentence-transformers are imported with the first use of a model, not with this module.
"""

from __future__ import annotations

import importlib.util
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine import ids
from engine.errors import ModelCallFailed, NeedsModel
from engine.providers.base import NO_USAGE, Embedded, Probe, TextKind, TokenVectors, Vectors
from engine.providers.guide import known, prefixes
from engine.providers.long_inputs import over_limit, refusal, split
from engine.providers.vectors import unit_rows, well_formed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LOCAL = "local:"
"""Prefix of EMBEDDING_MODEL for these models."""
_INSTALL = "pip install -r requirements-local.txt"
_BATCH = 32
_loading = threading.Lock()


def check_installed() -> None:
    """Raises NeedsModel with the install line when the extra is missing. Imports nothing."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("sentence_transformers") is None:
        raise NeedsModel(f"Local models need torch and sentence-transformers. Install them with: {_INSTALL}")


def weights_path(name: str) -> str:
    """What to load for a name: the model folder inside an installed package of that name, or else the name itself (a folder or a hub name)."""
    module = name.replace("-", "_")
    package = importlib.util.find_spec(module) if module.isidentifier() else None
    if package is not None and package.origin is not None:
        for marker in sorted(Path(package.origin).parent.rglob("modules.json")):
            return str(marker.parent)
    return name


def _fingerprint(path: str) -> str:
    """Changes when the files of a model folder change; empty for a hub name."""
    files = sorted(file for file in Path(path).rglob("*") if file.is_file()) if Path(path).is_dir() else []
    stats = [(str(file.relative_to(path)), file.stat()) for file in files]
    return ids.digest(*(f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats)) if stats else ""


class TransformerModel:
    """A sentence-transformers model as `Embedder` and `TokenEmbedder`.

    Models trained with prefixes (e5, bge, nomic) get them: one for questions, one for passages. A text longer than the model reads is
    reported, or with `long_input="split"` embedded in parts whose vectors are averaged by their tokens. The model works on one call at
    a time and may be used from several threads. Raises ModelCallFailed when the model cannot be loaded or fails.
    """

    def __init__(self, model: str, long_input: str = "fail") -> None:
        """`model`: `local:NAME`, NAME being a hub name, a folder, or an installed package that carries weights. Loads nothing. Raises NeedsModel."""
        check_installed()
        self.model = model
        self._path = weights_path(model.removeprefix(LOCAL))
        self._long_input = long_input
        self._working = threading.Lock()
        self._loaded: Any = None

    @property
    def dimension(self) -> int:
        entry = known(self.model)
        if entry is not None:
            return entry.dimension
        return int(self._encoder.get_embedding_dimension())

    @property
    def max_input_tokens(self) -> int:
        """Tokens the model reads, its own special tokens and the longer prefix left out."""
        prefix = max((self._count(prefix) for prefix in self._prefixes), default=0)
        return self._room - prefix

    @property
    def context_tokens(self) -> int:
        return self._room - self._count(self._prefixes[1])

    @property
    def scope(self) -> str:
        """What decides the vectors besides model, dimension, kind and text: part of the cache key."""
        return "|".join((LOCAL, _fingerprint(self._path), self._long_input, *prefixes(self.model)))

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        """Vectors in the order of `texts`: shape `(n_texts, dimension)`, float32, rows of unit length. The empty string gets the first unit vector."""
        prepared = [well_formed(text) for text in texts]
        limit = self.max_input_tokens
        long = self.long_texts(texts, kind)
        if long and self._long_input != "split":
            raise refusal(self.model, limit, [prepared[place] for place in long], len(texts), self._count)
        prefix = self._prefixes[0] if kind == "query" else self._prefixes[1]
        split_places = set(long)
        parts: list[str] = []
        owners: list[int] = []
        weights: list[int] = []
        for place, text in enumerate(prepared):
            pieces = (
                split(text, limit, self.token_offsets(text)[:, 1], self._count) if place in split_places else [text]
            )
            for piece in pieces if text else []:
                parts.append(prefix + piece)
                owners.append(place)
                weights.append(self._count(piece) if len(pieces) > 1 else 1)
        sums = np.zeros((len(texts), self.dimension), dtype=np.float64)
        if parts:
            rows = self._encode(parts).astype(np.float64)
            np.add.at(sums, owners, rows * np.array(weights, dtype=np.float64)[:, None])
        return Embedded(unit_rows(sums), NO_USAGE, long)

    def long_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> tuple[int, ...]:
        """Places of the texts that are longer than the model reads."""
        return over_limit([well_formed(text) for text in texts], self.max_input_tokens, self._count)

    def token_offsets(self, text: str) -> NDArray[np.int64]:
        """Where the tokens stand: shape `(n_tokens, 2)`, code points, special tokens left out. Any length."""
        encoded = self._tokenizer.encode(well_formed(text), add_special_tokens=False)
        return np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)

    def embed_tokens(self, text: str) -> TokenVectors:
        """A vector for every token of the text, each computed in sight of all others. Raises ModelCallFailed when the text exceeds `context_tokens`."""
        import torch

        prefix = self._prefixes[1]
        encoded = self._tokenizer.encode(prefix + well_formed(text), add_special_tokens=True)
        if len(encoded.ids) > self._window:
            raise ModelCallFailed(
                f"A passage of {self._count(text)} tokens is longer than the {self.context_tokens} that {self.model} reads at once. "
                "Nothing was embedded. Use a model with a longer context.",
                "refused",
            )
        with self._working, torch.inference_mode():
            device = self._encoder.device
            features = {
                "input_ids": torch.tensor([encoded.ids], device=device),
                "attention_mask": torch.ones((1, len(encoded.ids)), dtype=torch.long, device=device),
            }
            hidden = self._encoder[0](features)["token_embeddings"][0]
            vectors = hidden.float().cpu().numpy()
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2) - len(prefix)
        own = (np.array(encoded.special_tokens_mask) == 0) & (offsets[:, 1] > 0)
        return TokenVectors(np.ascontiguousarray(vectors[own], dtype=np.float32), np.maximum(offsets[own], 0))

    def probe(self) -> Probe:
        try:
            vectors = self.embed(["probe"]).vectors
        except (ModelCallFailed, NeedsModel) as error:
            return Probe(False, str(error))
        return Probe(True, f"{self.model} works in this process: {vectors.shape[1]} dimensions, no cost.")

    @property
    def _encoder(self) -> Any:
        with _loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        with warnings.catch_warnings():
            # What these libraries warn about while loading is for their developers.
            warnings.simplefilter("ignore")
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()
            try:
                encoder = SentenceTransformer(self._path)
            except (OSError, ValueError, RuntimeError) as error:
                raise ModelCallFailed(
                    f"The model {self.model} could not be loaded ({type(error).__name__}). Check its name; a model that is not on this "
                    "machine is fetched from the model hub, which needs a network connection.",
                    "unavailable",
                ) from error
        # Prefixes are put before the texts here, so that they are counted.
        encoder.default_prompt_name = None
        return encoder

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """A copy that never cuts and never pads, and so may be used from several threads."""
        from tokenizers import Tokenizer

        copy = Tokenizer.from_str(self._encoder.tokenizer.backend_tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy

    @cached_property
    def _prefixes(self) -> tuple[str, str]:
        """(query prefix, passage prefix): of the guide or the family, or else what the model's own files name."""
        query, passage = prefixes(self.model)
        if query or passage:
            return query, passage
        own = self._encoder.prompts or {}
        return own.get("query") or "", own.get("document") or own.get("passage") or ""

    @property
    def _window(self) -> int:
        """Tokens the model reads at once, special tokens included."""
        return int(self._encoder.max_seq_length)

    @cached_property
    def _room(self) -> int:
        special = len(self._tokenizer.encode("", add_special_tokens=True).ids)
        return self._window - special

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _encode(self, parts: list[str]) -> Vectors:
        with self._working:
            try:
                rows = self._encoder.encode(
                    parts, batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
                )
            except RuntimeError as error:
                raise ModelCallFailed(
                    f"{self.model} failed while embedding ({type(error).__name__}). Nothing of this call was kept. "
                    "Use a smaller model if memory is short.",
                    "unavailable",
                ) from error
        vectors: Vectors = rows
        return vectors
