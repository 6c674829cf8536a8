"""History: stored experiments."""

from __future__ import annotations

import streamlit as st

from app import state, tables
from app.states import bench, empty

workbench = bench()

st.title("History")
st.write("Every benchmark is kept with its inputs, settings and results.")

summaries = workbench.experiments()
if not summaries:
    empty("No experiments yet", "Run a benchmark on the Benchmark page; it appears here.")
    st.page_link("../pages/benchmark.py", label="Go to Benchmark", icon=":material/leaderboard:")
    st.stop()

picked = st.dataframe(
    tables.experiments(summaries),
    hide_index=True,
    on_select="rerun",
    selection_mode="single-row",
    key="history.table",
    alt="Stored experiments",
)
rows = picked.selection.rows
if rows and st.button("Open", type="primary", icon=":material/open_in_new:", key="history.open"):
    state.choose_experiment(summaries[rows[0]].experiment_id)
    st.switch_page("../pages/benchmark.py")
