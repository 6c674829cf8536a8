"""Identifiers. Everything that is derived from content has an id derived from that content, so it is the same in every run."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

ID_LENGTH = 32
"""Hex characters kept of a sha256 (128 bits)."""


def digest(*parts: str | bytes) -> str:
    """Sha256 over length-prefixed parts, as `ID_LENGTH` hex characters. Length prefixes keep ("ab", "c") apart from ("a", "bc")."""
    return digests()(*parts)


def digests(*first: str | bytes) -> Callable[..., str]:
    """`digest` with its first parts given once: `digests(a)(b)` equals `digest(a, b)`, for many digests that begin alike."""
    begun = hashlib.sha256(b"".join(map(_prefixed, first)))

    def rest(*parts: str | bytes) -> str:
        state = begun.copy()
        for part in parts:
            state.update(_prefixed(part))
        return state.hexdigest()[:ID_LENGTH]

    return rest


def _prefixed(part: str | bytes) -> bytes:
    data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
    return len(data).to_bytes(8, "big") + data


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space: equal values give equal strings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def document_id(data: bytes, parser_version: str) -> str:
    return digest(hashlib.sha256(data).digest(), parser_version)


def spec_id(strategy_name: str, params: dict[str, Any]) -> str:
    return digest("spec", strategy_name, canonical_json(params))[:16]


def chunk_ids(document: str, spec: str) -> Callable[[int, int, str], str]:
    """Ids of the chunks of one document under one spec, from start, end and the content hash of the text."""
    begun = hashlib.sha256(b"".join(map(_prefixed, ("chunk", document, spec))))

    def chunk_id(start: int, end: int, text_hash: str) -> str:
        # What `digest` does, without its calls: a large document has 100,000 chunks.
        place, data = b"%d:%d" % (start, end), text_hash.encode()
        state = begun.copy()
        state.update(len(place).to_bytes(8, "big") + place + len(data).to_bytes(8, "big") + data)
        return state.hexdigest()[:ID_LENGTH]

    return chunk_id


def chunk_id(document: str, spec: str, start: int, end: int, text: str) -> str:
    return chunk_ids(document, spec)(start, end, content_hash(text))


def parent_id(document: str, start: int, end: int) -> str:
    return digest("parent", document, f"{start}:{end}")


def point_id(chunk: str) -> str:
    """The UUID under which the index stores a chunk."""
    return str(uuid.UUID(hex=chunk))


content_hash: Callable[[str], str] = digests("text")
"""Hash of a text, the same wherever the text stands."""


def new_id() -> str:
    """A random id for records that are events (experiments, queries, requests), not content."""
    return uuid.uuid4().hex
