"""Charts on a page. Building and checking a chart costs more than everything else on a rerun, so each is built once per content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import altair as alt
import streamlit as st

from engine.recent import Recent

Chart = alt.Chart | alt.LayerChart
_specs: Recent[tuple[str, ...], str] = Recent(128)

# Frames are bounded by the functions that make them.
alt.data_transformers.disable_max_rows()


def draw(identity: tuple[str, ...], make: Callable[[], Chart], *, alt_text: str, **options: Any) -> None:
    """Draw a chart. `identity`: what its content depends on; the same identity is the same chart. `options`: those of `st.vega_lite_chart`."""
    spec = _specs.get_or_make(identity, lambda: json.dumps(make().to_dict()))
    st.vega_lite_chart(json.loads(spec), alt=alt_text, **options)
