"""The chunk overlay: the canonical text, tinted by chunk. Text reaches the page as text nodes only, never as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from app.overlay.segments import segments
from engine import ids
from engine.models import ChunkSet, Span

_HERE = Path(__file__).parent

_component = st.components.v2.component(
    "chunk_overlay",
    html='<div class="pane" role="listbox" tabindex="0"></div>\n',
    css=(_HERE / "overlay.css").read_text(encoding="utf-8"),
    js=(_HERE / "overlay.js").read_text(encoding="utf-8"),
)


def overlay(
    text: str,
    chunk_set: ChunkSet,
    *,
    key: str,
    label: str,
    selected: int | None = None,
    evidence: Sequence[Span] = (),
    matches: Sequence[Span] = (),
    group: str = "",
    height: int = 520,
) -> int | None:
    """Draw the text with its chunks; returns the index of the chunk the reader chose, if any.

    `evidence` is underlined, `matches` of a search are outlined. Panes of one `group` scroll together.
    """
    pieces = segments(text, [chunk.evidence_span for chunk in chunk_set.chunks], evidence, matches)
    notes = [
        _note(chunk.chunk_index, chunk.token_count, chunk.character_count, chunk.heading_path)
        for chunk in chunk_set.chunks
    ]
    signature = ids.digest(chunk_set.document_id, chunk_set.spec.spec_id, repr(evidence), repr(matches))
    result: Any = _component(
        key=key,
        data={
            "signature": signature,
            "segments": pieces,
            "notes": notes,
            "selected": selected,
            "label": label,
            "group": group,
            "height": height,
        },
        default={"chosen": selected},
        on_chosen_change=lambda: None,
        height=height,
    )
    chosen = result.chosen
    return int(chosen) if chosen is not None and 0 <= int(chosen) < len(chunk_set.chunks) else None


def _note(index: int, tokens: int, characters: int, path: Sequence[str]) -> str:
    place = " > ".join(path)
    return f"Chunk {index + 1}: {tokens} tokens, {characters} characters" + (f"\n{place}" if place else "")
