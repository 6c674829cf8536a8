"""Chunks as files: JSON Lines, CSV, and the code that makes them again."""

from __future__ import annotations

import csv
import io
import pprint

from engine.models import ChunkSet

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def jsonl(chunk_set: ChunkSet) -> bytes:
    """One chunk per line with every field that has a value."""
    lines = [chunk.model_dump_json(exclude_none=True) for chunk in chunk_set.chunks]
    return "".join(f"{line}\n" for line in lines).encode()


def table(chunk_set: ChunkSet) -> bytes:
    """One chunk per row. A text that a spreadsheet would run as a formula gets an apostrophe in front."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(["chunk_id", "chunk_index", "start", "end", "token_count", "heading_path", "flags", "text"])
    for chunk in chunk_set.chunks:
        span = chunk.evidence_span
        writer.writerow(
            [
                chunk.chunk_id,
                chunk.chunk_index,
                span.start,
                span.end,
                chunk.token_count,
                cell(" > ".join(chunk.heading_path)),
                " ".join(chunk.flags),
                cell(chunk.text),
            ]
        )
    return buffer.getvalue().encode("utf-8-sig")


def cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def code(chunk_set: ChunkSet) -> str:
    """A Python program that cuts the same document the same way."""
    params = pprint.pformat(chunk_set.spec.params, width=100, sort_dicts=False)
    return "\n".join(
        [
            "from engine import Workbench",
            "",
            "with Workbench.open() as workbench:",
            f"    spec = workbench.spec({chunk_set.spec.strategy_name!r}, {params})",
            f"    for chunk in workbench.chunk({chunk_set.document_id!r}, spec).chunks:",
            "        print(chunk.chunk_index, chunk.token_count, chunk.text[:60])",
            "",
        ]
    )
