"""The chunk overlay: the canonical text, tinted by chunk. Text reaches the page as text nodes only, never as HTML."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from app.overlay.segments import Segment, segments, utf16_offset
from app.text import counted
from engine import ids
from engine.models import ChunkSet, Span
from engine.recent import Recent

_HERE = Path(__file__).parent

_component = st.components.v2.component(
    "chunk_overlay",
    html='<div class="pane" role="listbox" tabindex="0"></div>\n',
    css=(_HERE / "overlay.css").read_text(encoding="utf-8"),
    js=(_HERE / "overlay.js").read_text(encoding="utf-8"),
)

WINDOW = 1_000_000
"""Characters drawn at once; a longer text is shown in windows of this size."""

_drawn: Recent[str, tuple[list[Segment], list[str]]] = Recent(16)


class Reveal(NamedTuple):
    """A place to scroll to. The same place asked for again needs another `turn`."""

    offset: int
    turn: int


def overlay(
    text: str,
    chunk_set: ChunkSet,
    *,
    key: str,
    label: str,
    on_choose: Callable[[], None],
    selected: int | None = None,
    evidence: Sequence[Span] = (),
    matches: Sequence[Span] = (),
    group: str = "",
    height: int = 520,
    reveal: Reveal | None = None,
    window: Span | None = None,
) -> None:
    """Draw the text, or a window of it, with its chunks. `on_choose` runs when the reader chose another one: see `chosen`.

    `evidence` is underlined, `matches` of a search are outlined. Panes of one `group` scroll together.
    """
    shown = window or Span(0, len(text))
    signature = ids.digest(chunk_set.document_id, chunk_set.spec.spec_id, repr((evidence, matches, tuple(shown))))
    pieces, notes = _drawn.get_or_make(signature, lambda: _draw(text, chunk_set, evidence, matches, shown))
    _component(
        key=key,
        data={
            "signature": signature,
            "segments": pieces,
            "notes": notes,
            "selected": selected,
            "label": label,
            "group": group,
            "height": height,
            "reveal": None
            if reveal is None
            else [utf16_offset(text, reveal.offset) - utf16_offset(text, shown.start), reveal.turn],
        },
        default={"chosen": selected},
        on_chosen_change=on_choose,
        height=height,
    )


def chosen(key: str, chunk_count: int) -> int | None:
    """Index of the chunk the reader chose in the overlay of that key; None for none."""
    state: Any = st.session_state.get(key)
    index = None if state is None else state.get("chosen")
    return int(index) if index is not None and 0 <= int(index) < chunk_count else None


def _draw(
    text: str, chunk_set: ChunkSet, evidence: Sequence[Span], matches: Sequence[Span], window: Span
) -> tuple[list[Segment], list[str]]:
    places = [chunk.evidence_span for chunk in chunk_set.chunks]
    overlaps = _overlaps(places)
    notes = []
    for chunk, (left, right) in zip(chunk_set.chunks, overlaps, strict=True):
        note = f"Chunk {chunk.chunk_index + 1}: {counted(chunk.token_count, 'token')}, {counted(chunk.character_count, 'character')}"
        if left or right:
            note += f"\nOverlap: {left} characters with the chunk before, {right} with the next"
        if chunk.heading_path:
            note += "\n" + " > ".join(chunk.heading_path)
        notes.append(note)
    return segments(text, places, evidence, matches, window), notes


def _overlaps(places: Sequence[Span]) -> list[tuple[int, int]]:
    """Characters each chunk shares with the one before and the one after."""
    shared = [0, *(a.overlap(b) for a, b in itertools.pairwise(places)), 0]
    return list(itertools.pairwise(shared)) if places else []
