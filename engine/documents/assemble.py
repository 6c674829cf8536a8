"""From the bytes of one file to a Document: type, reader, counts. Runs in the worker process."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from engine import ids
from engine.documents.base import Parsed
from engine.documents.names import display_name, shown
from engine.documents.readers import reader
from engine.documents.sniff import sniff
from engine.documents.tree import node_counts
from engine.errors import BadDocument
from engine.models import Document, Node
from engine.settings import Settings

MAX_DEPTH = 60
"""Deepest nesting of a tree. Real documents stay below 15; JSON and recursion set the limit."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def assemble(data: bytes, name: str, settings: Settings) -> Document:
    """Reads a file in this process. Tokens are not counted yet: the vocabulary is large, and the app holds it already.

    Raises BadDocument in words; anything else is a bug of a reader.
    """
    kind = sniff(data, name)
    chosen = reader(kind)
    parsed = chosen.read(data, name, settings)
    _check(parsed, name)
    return Document(
        document_id=ids.document_id(data, chosen.version),
        name=display_name(name),
        media_type=chosen.media_type,
        byte_size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        parser_version=chosen.version,
        structure=parsed.structure,
        visible_characters=parsed.visible_characters,
        kept_characters=parsed.kept_characters,
        token_count=0,
        node_counts=node_counts(parsed.tree),
        warnings=parsed.warnings,
        metadata=parsed.metadata,
        created_at=datetime.now(UTC),
        text=parsed.text,
        tree=parsed.tree,
    )


def _check(parsed: Parsed, name: str) -> None:
    """Raises BadDocument for a tree deeper than `MAX_DEPTH`, ValueError for text that cannot be stored."""
    if _UNSTORABLE.search(parsed.text):
        raise ValueError("a reader returned text with NUL or lone surrogates")
    level: list[Node] = [parsed.tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children]
    if level:
        raise BadDocument(
            f"{shown(name)} nests its content more than {MAX_DEPTH} levels deep. Nothing was stored. "
            "Save it with a flatter structure and upload that copy."
        )
