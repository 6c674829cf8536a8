"""The chunk overlay: the canonical text, tinted by chunk. Text reaches the page as text nodes only, never as HTML.

What is heavy is sent apart from what changes: the text once for all panes, each pane's cuts as integers; a pane is then told by ids which
of them to draw, and what is chosen. `overlay` does all of it for one pane.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from app.overlay.segments import segments, utf16_offset, utf16_offsets
from engine import ids
from engine.models import ChunkSet, Span
from engine.recent import Recent

_HERE = Path(__file__).parent

_pane = st.components.v2.component(
    "chunk_overlay",
    html='<div class="pane" role="listbox" tabindex="0"></div>\n<div class="facts" aria-live="polite"></div>\n',
    css=(_HERE / "overlay.css").read_text(encoding="utf-8"),
    js=(_HERE / "overlay.js").read_text(encoding="utf-8"),
)
_source = st.components.v2.component(
    "chunk_overlay_source",
    html="<div hidden></div>\n",
    js=(_HERE / "source.js").read_text(encoding="utf-8"),
)

WINDOW = 1_000_000
"""Characters drawn at once; a longer text is shown in windows of this size."""

_packed: Recent[tuple[str, ...], bytes] = Recent(24)


class Reveal(NamedTuple):
    """A place to scroll to. The same place asked for again needs another `turn`."""

    offset: int
    turn: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a pane draws, as the browser has it: the ids of a text and of the cuts in it."""

    text: str
    cuts: str


def send_text(text: str, document_id: str, *, key: str, window: Span) -> str:
    """Send a window of a text to the browser; returns its id. Draws nothing."""
    source_id = ids.digest("text", document_id, *map(str, window))
    part = text[window.start : window.end]
    payload = _packed.get_or_make((source_id,), lambda: _pack({"id": source_id}, part.encode("utf-8", "replace")))
    _source(key=f"{key}.text", data=payload)
    return source_id


def send_cuts(
    text: str,
    chunk_set: ChunkSet,
    *,
    key: str,
    window: Span,
    evidence: Sequence[Span] = (),
    matches: Sequence[Span] = (),
) -> str:
    """Send where a chunk set cuts the text and what is marked in it; returns the id. Draws nothing.

    `evidence` is underlined, `matches` of a search are outlined.
    """
    marks = repr((evidence, matches, tuple(window)))
    source_id = ids.digest("cuts", chunk_set.document_id, chunk_set.spec.spec_id, marks)
    payload = _packed.get_or_make((source_id,), lambda: _cuts(source_id, text, chunk_set, evidence, matches, window))
    _source(key=f"{key}.cuts", data=payload)
    return source_id


def pane(
    drawing: Drawing,
    *,
    key: str,
    label: str,
    on_choose: Callable[[], None],
    selected: int | None = None,
    group: str = "",
    height: int = 520,
    reveal: Reveal | None = None,
) -> None:
    """Draw a text that was sent, with the cuts that were sent. `on_choose` runs when the reader chose another chunk: see `chosen`.

    Panes of one `group` scroll together. The offset of `reveal` is one of `place_in_window`.
    """
    _pane(
        key=key,
        data={
            "text": drawing.text,
            "cuts": drawing.cuts,
            "selected": selected,
            "label": label,
            "group": group,
            "height": height,
            "reveal": reveal,
        },
        default={"chosen": selected},
        on_chosen_change=on_choose,
        height=height,
    )


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
    height: int = 520,
    reveal: Reveal | None = None,
    window: Span | None = None,
) -> None:
    """Send and draw one text, or a window of it, with its chunks. The offset of `reveal` is one of the text."""
    shown = window or Span(0, len(text))
    with st.container(gap=None):
        text_id = send_text(text, chunk_set.document_id, key=key, window=shown)
        cuts_id = send_cuts(text, chunk_set, key=key, window=shown, evidence=evidence, matches=matches)
        pane(
            Drawing(text_id, cuts_id),
            key=key,
            label=label,
            on_choose=on_choose,
            selected=selected,
            height=height,
            reveal=place_in_window(text, reveal, shown),
        )


def place_in_window(text: str, reveal: Reveal | None, window: Span) -> Reveal | None:
    """An offset of the text as a place in the window as the browser counts it; None when it is outside."""
    if reveal is None or not window.start <= reveal.offset < window.end:
        return None
    return Reveal(utf16_offset(text[window.start : window.end], reveal.offset - window.start), reveal.turn)


def chosen(key: str, chunk_count: int) -> int | None:
    """Index of the chunk the reader chose in the overlay of that key; None for none."""
    state: Any = st.session_state.get(key)
    index = None if state is None else state.get("chosen")
    return int(index) if index is not None and 0 <= int(index) < chunk_count else None


def _pack(header: dict[str, Any], payload: bytes) -> bytes:
    """Length of the header (4 bytes, little-endian), header as JSON, payload."""
    head = json.dumps(header).encode()
    return len(head).to_bytes(4, "little") + head + payload


def _cuts(
    source_id: str,
    text: str,
    chunk_set: ChunkSet,
    evidence: Sequence[Span],
    matches: Sequence[Span],
    window: Span,
) -> bytes:
    """Per segment: length, first and last chunk, look; then per chunk: tokens, characters, overlaps, start, end, heading. int32."""
    places = [chunk.evidence_span for chunk in chunk_set.chunks]
    pieces = segments(text, places, evidence, matches, window)
    part = text[window.start : window.end]
    edges = np.array([window.start, *(piece.end for piece in pieces)], dtype=np.int64) - window.start
    lengths = np.diff(utf16_offsets(part, edges)).tolist()
    headings: dict[tuple[str, ...], int] = {}
    rows = [[length, *piece[2:]] for length, piece in zip(lengths, pieces, strict=True)]
    facts = [
        [
            chunk.token_count,
            chunk.character_count,
            left,
            right,
            chunk.evidence_span.start,
            chunk.evidence_span.end,
            headings.setdefault(chunk.heading_path, len(headings)),
        ]
        for chunk, (left, right) in zip(chunk_set.chunks, _overlaps(places), strict=True)
    ]
    numbers = [*itertools.chain(*rows), *itertools.chain(*facts)]
    header = {
        "id": source_id,
        "segments": len(rows),
        "chunks": len(facts),
        "headings": [" > ".join(path) for path in headings],
    }
    return _pack(header, np.array(numbers, dtype="<i4").tobytes())


def _overlaps(places: Sequence[Span]) -> list[tuple[int, int]]:
    """Characters each chunk shares with the one before and the one after."""
    shared = [0, *(a.overlap(b) for a, b in itertools.pairwise(places)), 0]
    return list(itertools.pairwise(shared)) if places else []
