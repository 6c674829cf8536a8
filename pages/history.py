"""History: stored experiments, opened, compared, run again, exported."""

from __future__ import annotations

import streamlit as st

from app import comparisons, downloads, results, sharing, state, tables
from app.states import bench, empty, guard, heading
from app.text import counted, plain
from engine.bench.history import MOST
from engine.store import ExperimentSummary

workbench = bench()

heading(
    "History",
    "Every benchmark is kept with its inputs, settings and results.",
    [
        "Choose one experiment to open, rename, run again, export or delete it.",
        "Choose two to four to compare them: only what differs is shown, and regressions come first.",
        "Experiments stay readable when their documents are deleted.",
    ],
)

if not workbench.experiments():
    empty("No experiments yet", "Run a benchmark on the Benchmark page; it appears here.")
    st.page_link("../pages/benchmark.py", label="Go to Benchmark", icon=":material/leaderboard:")
    st.stop()

# The switch stands on the left: the table's own buttons appear above its right end and would cover it.
pinned_column, search_column = st.columns([1, 4], vertical_alignment="bottom")
wanted = search_column.text_input(
    "Find", key="history.find", persist_state="session", placeholder="name, document, strategy, model or tag"
)
pinned = pinned_column.toggle("Pinned only", key="history.pinned", persist_state="session")
shown = sorted(workbench.experiments(wanted, pinned=True if pinned else None), key=lambda each: not each.pinned)
if not shown:
    st.info("No experiment fits this search.")
    st.stop()
picked = st.dataframe(
    tables.experiments(shown),
    hide_index=True,
    on_select="rerun",
    selection_mode="multi-row",
    key="history.table",
    alt="Stored experiments",
    column_config={
        "date": st.column_config.DatetimeColumn("date", format="YYYY-MM-DD HH:mm"),
        "finding": st.column_config.TextColumn("finding", width="large"),
    },
)
chosen = [shown[row] for row in picked.selection.rows if row < len(shown)]


def delete(experiment_id: str) -> None:
    with guard():
        workbench.delete_experiment(experiment_id)
        if st.session_state.get(state.EXPERIMENT) == experiment_id:
            state.choose(state.EXPERIMENT, None)


@st.dialog("Delete this experiment?")
@guard()
def confirm_deletion(summary: ExperimentSummary) -> None:
    st.text(f"{summary.name}: its answers and results are removed. Documents, questions and the index stay.")
    if st.button(
        "Delete", type="primary", key="history.delete.confirm", on_click=delete, args=(summary.experiment_id,)
    ):
        st.rerun()


def annotations(summary: ExperimentSummary) -> None:
    """Name, note, tags and marks of an experiment."""
    key = f"history.{summary.experiment_id}"
    fixed = not sharing.may_change(workbench, "experiment", summary.experiment_id)
    with st.form(f"{key}.form"):
        left, right = st.columns(2)
        name = left.text_input("Name", summary.name, key=f"{key}.name")
        tags = right.text_input("Tags, separated by commas", ", ".join(summary.tags), key=f"{key}.tags")
        note = st.text_area("Note", summary.note, height=80, key=f"{key}.note")
        with st.container(horizontal=True):
            pin = st.checkbox("Pinned", summary.pinned, key=f"{key}.pinned")
            baseline = st.checkbox(
                "Baseline", summary.baseline, key=f"{key}.baseline", help="Others are compared with it."
            )
        if st.form_submit_button("Save", icon=":material/save:", disabled=fixed):
            given = [tag.strip() for tag in tags.split(",") if tag.strip()]
            workbench.annotate(summary.experiment_id, name=name, note=note, tags=given, pinned=pin)
            workbench.mark_baseline(summary.experiment_id, baseline)
            st.rerun()


def one(summary: ExperimentSummary) -> None:
    if summary.headline:
        st.text(summary.headline)
    fixed = not sharing.may_change(workbench, "experiment", summary.experiment_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Open", type="primary", icon=":material/open_in_new:", key="history.open"):
            state.choose(state.EXPERIMENT, summary.experiment_id)
            st.switch_page("../pages/benchmark.py", query_params={state.EXPERIMENT: summary.experiment_id})
        if st.button(
            "Run again", icon=":material/replay:", key="history.rerun", help="With the same questions as then."
        ):
            job = workbench.rerun(summary.experiment_id)
            state.choose(state.EXPERIMENT, job.job_id)
            st.switch_page("../pages/benchmark.py", query_params={state.EXPERIMENT: job.job_id})
        if summary.status in ("cancelled", "failed") and st.button(
            "Resume", icon=":material/play_arrow:", key="history.resume", disabled=fixed
        ):
            workbench.resume(summary.experiment_id)
            st.rerun()
        if st.button("Delete", icon=":material/delete:", key="history.delete", disabled=fixed):
            confirm_deletion(summary)
        sharing.switch(workbench, "experiment", summary.experiment_id)
    if summary.error:
        st.text(summary.error)
    if summary.status != "running":
        downloads.buttons(workbench, summary.experiment_id, summary.name, "history.export")
    with st.expander("Name, note, tags and marks", icon=":material/edit:"):
        annotations(summary)


def several(chosen: list[ExperimentSummary]) -> None:
    oldest_first = sorted(chosen, key=lambda each: (not each.baseline, each.created_at))
    names = {each.experiment_id: f"{each.name}, {each.created_at:%Y-%m-%d %H:%M}" for each in oldest_first}
    st.subheader("Comparison")
    first = st.selectbox(
        "Compared with", list(names), format_func=lambda each: names[each], key="history.first", help="The baseline."
    )
    comparison = comparisons.compare(workbench, sorted(oldest_first, key=lambda each: each.experiment_id != first))
    st.text(f"{counted(comparison.common_questions, 'common question')}.")
    for note in comparison.notes:
        st.caption(plain(note))
    st.markdown("**What differs in the inputs**")
    if comparison.settings:
        st.dataframe(comparisons.settings(comparison), hide_index=True, alt="Settings that differ")
    else:
        st.caption("Nothing: same documents, questions, strategies, models and versions.")
    st.markdown("**What differs in the results**")
    only = st.toggle("Only what changed", True, key="history.changed", persist_state="session")
    changed = comparisons.metrics(comparison, only)
    if changed.empty:
        st.caption("Nothing: every metric of every common strategy is the same.")
    else:
        st.dataframe(changed, hide_index=True, alt="Metric changes with intervals and adjusted p")
    if comparison.metric is None:
        return
    st.markdown(f"**Question by question, {plain(results.title(comparison.metric))}, regressions first**")
    moved = comparisons.questions(comparison, only)
    if moved.empty:
        st.caption("Nothing: every common question scores the same.")
    else:
        st.dataframe(moved, hide_index=True, placeholder="–", alt="Differences per question")


with guard():
    if not chosen:
        st.caption("Choose a row to open it; choose two or more to compare them.")
    elif len(chosen) == 1:
        one(chosen[0])
    elif len(chosen) > MOST:
        st.info(f"At most {MOST} experiments can be compared.")
    else:
        several(chosen)
