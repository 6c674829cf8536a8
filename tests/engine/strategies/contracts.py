"""What every strategy promises for every input, as one checker that names each broken promise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from engine import ids, tokens
from engine.models import Chunk, ChunkSet, Span
from engine.strategies.base import uncovered


def broken(chunk_set: ChunkSet, text: str, limit: int | None = None, unit: str = "tokens") -> list[str]:
    """The promises the chunks of `text` break, in words; empty when all are kept."""
    chunks = chunk_set.chunks
    if not text:
        return ["an empty text has chunks"] if chunks else []
    if text.isspace() and (len(chunks) != 1 or "blank" not in chunks[0].flags):
        return ["a blank text is not one chunk flagged blank"]
    problems = [problem for chunk in chunks for problem in _of_chunk(chunk, text, limit, unit)]
    verbatim = [chunk.span for chunk in chunks if chunk.span is not None]
    if any(left.start >= right.start for left, right in pairwise(verbatim)):
        problems.append("spans are not strictly ordered by start")
    gaps = uncovered(text, (chunk.evidence_span for chunk in chunks))
    if verbatim and gaps:
        problems.append(f"characters in no chunk: {gaps}")
    if gaps != chunk_set.uncovered:
        problems.append("what is not covered is not told")
    if [chunk.chunk_index for chunk in chunks] != list(range(len(chunks))):
        problems.append("indexes do not count from 0")
    if any(chunk.total_chunks != len(chunks) for chunk in chunks):
        problems.append("the total is wrong")
    if len({chunk.chunk_id for chunk in chunks}) != len(chunks):
        problems.append("two chunks have one id")
    return problems


def _of_chunk(chunk: Chunk, text: str, limit: int | None, unit: str) -> list[str]:
    problems = []
    where = f"chunk {chunk.chunk_index}"
    span = chunk.evidence_span
    if not (0 <= span.start < span.end <= len(text)):
        return [f"{where}: the span {span} is not inside the text"]
    if chunk.span is not None and chunk.text != text[span.start : span.end]:
        problems.append(f"{where}: the text is not what stands at its span")
    if chunk.text.isspace() and not text.isspace():
        problems.append(f"{where}: blank in a text that is not")
    if "\ufffd" in chunk.text and "\ufffd" not in text:
        problems.append(f"{where}: U+FFFD appeared")
    exact = len(tokens.encoding().encode_ordinary(chunk.text))
    if chunk.token_count != exact:
        problems.append(f"{where}: {chunk.token_count} tokens told, {exact} counted")
    if (chunk.character_count, chunk.word_count) != (len(chunk.text), len(chunk.text.split())):
        problems.append(f"{where}: characters or words are not those of its text")
    if chunk.content_hash != ids.content_hash(chunk.text):
        problems.append(f"{where}: the hash is not that of its text")
    length = exact if unit == "tokens" else len(chunk.text)
    alone = "over_limit" in chunk.flags and len(chunk.text) == 1
    if limit is not None and length > limit and not alone and "blank" not in chunk.flags:
        problems.append(f"{where}: {length} {unit}, the limit is {limit}")
    if "over_limit" in chunk.flags and limit is not None and length <= limit:
        problems.append(f"{where}: flagged over the limit and is not")
    if chunk.parent_span is not None and not _holds(chunk.parent_span, span):
        problems.append(f"{where}: the parent does not hold it")
    return problems


def _holds(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


LIMITS = ("size", "max_tokens", "child_tokens")
"""Parameters that bound the length of a chunk."""


def limit_of(params: dict[str, Any]) -> int | None:
    """The limit among a strategy's parameters; None where it has none."""
    return next((int(params[name]) for name in LIMITS if name in params), None)
