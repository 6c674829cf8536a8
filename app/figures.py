"""Charts on a page. Building a chart costs more than everything else on a rerun, so each is built once per content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import altair as alt
import streamlit as st

from engine.recent import Recent

Chart = alt.Chart | alt.LayerChart
_specs: Recent[tuple[str, ...], str] = Recent(256)
VALIDATE = False
"""Whether charts are held against the schema of Vega-Lite, which takes longer than building them. Tests do."""

# Frames are bounded by the functions that make them.
alt.data_transformers.disable_max_rows()
alt.utils.schemapi.disable_debug_mode()


def draw(identity: tuple[str, ...], make: Callable[[], Chart], *, alt_text: str, **options: Any) -> None:
    """Draw a chart. `identity`: what its content depends on; the same identity is the same chart. `options`: those of `st.vega_lite_chart`."""
    spec = _specs.get_or_make(identity, lambda: json.dumps(make().to_dict(validate=VALIDATE)))
    st.vega_lite_chart(json.loads(spec), alt=alt_text, **options)
