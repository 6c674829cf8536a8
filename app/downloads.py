"""The report and the data of an experiment as downloads, made when they are asked for."""

from __future__ import annotations

import functools

import streamlit as st

from engine import Workbench
from engine.report import FORMATS

TITLES = {
    "html": "Report",
    "json": "Whole record (JSON)",
    "csv": "Answers (CSV)",
    "parquet": "Answers (Parquet)",
    "strategies.csv": "Strategies (CSV)",
    "strategies.parquet": "Strategies (Parquet)",
}


def buttons(workbench: Workbench, experiment_id: str, name: str, key: str) -> None:
    with st.container(horizontal=True):
        for kind in FORMATS:
            st.download_button(
                TITLES[kind],
                functools.partial(_data, workbench, experiment_id, kind),
                f"{name}.{kind}",
                on_click="ignore",
                key=f"{key}.{kind}",
                icon=":material/download:",
                type="primary" if kind == "html" else "secondary",
            )
    st.caption("The report is one HTML file that opens offline. The others hold the numbers and the whole record.")


def _data(workbench: Workbench, experiment_id: str, kind: str) -> bytes:
    return workbench.export(experiment_id, kind).data
