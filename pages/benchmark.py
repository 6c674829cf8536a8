"""Benchmark: strategies measured on a question set."""

from __future__ import annotations

import streamlit as st

from app import charts, state, tables
from app.states import bench, empty, guard

METRICS = ("recall@1000tok", "precision@1000tok", "iou@1000tok", "recall@5", "tokens@5", "mrr")

workbench = bench()

st.title("Benchmark")
st.write("Measure the strategies on questions whose evidence is known.")

sets = workbench.question_sets()
if not sets or not workbench.documents():
    empty(
        "Nothing to measure yet",
        "A benchmark needs a document and a question set. Load the samples on the Upload page to try it.",
    )
    st.page_link("../pages/upload.py", label="Go to Upload", icon=":material/upload_file:")
    st.stop()

strategies = {strategy.name: strategy for strategy in workbench.strategies()}
usable = [name for name, strategy in strategies.items() if not strategy.needs or workbench.models.chat is not None]
with st.form("benchmark.form"):
    names = {each.question_set_id: f"{each.name} ({each.question_count} questions)" for each in sets}
    question_set = st.selectbox("Question set", list(names), format_func=lambda each: names[each], key="benchmark.set")
    chosen = st.pills(
        "Strategies",
        list(strategies),
        selection_mode="multi",
        default=usable,
        format_func=lambda name: strategies[name].title,
        key="benchmark.strategies",
    )
    started = st.form_submit_button("Run benchmark", type="primary", icon=":material/play_arrow:")

if started and question_set:
    with guard():
        job = workbench.submit(workbench.plan(question_set, [workbench.spec(name) for name in chosen or []]))
        state.choose_experiment(job.job_id)

experiment_id = state.chosen_experiment()
if experiment_id is None:
    st.stop()


@st.fragment(run_every=1.0)
def progress(job_id: str) -> None:
    job = workbench.job(job_id)
    if job.state not in ("queued", "running"):
        st.rerun()
    st.caption(f"Benchmark {job.state}.")
    for label, stages in job.progress.get("stages", {}).items():
        asked = stages.get("ask", {"done": 0, "total": 1})
        st.progress(asked["done"] / max(1, asked["total"]), text=f"{label}: {asked['done']} answers")
    for label, reason in job.progress.get("errors", {}).items():
        st.error(f"{label}: {reason}", icon=":material/error:")
    if st.button("Cancel", key="benchmark.cancel", icon=":material/stop:"):
        workbench.cancel(job_id)


with guard():
    experiment = workbench.experiment(experiment_id)
    if experiment.status == "running":
        progress(experiment_id)
        st.stop()
    st.subheader("Results")
    st.caption(
        f"{len(experiment.questions)} questions, {len(experiment.documents)} documents, embeddings {experiment.embedding_model}."
    )
    st.dataframe(tables.results(experiment, METRICS), hide_index=True, alt="Metrics per strategy")
    metric = st.selectbox("Metric", METRICS, key="benchmark.metric")
    st.altair_chart(charts.metric_bars(experiment, metric), key="benchmark.chart", alt=f"{metric} per strategy")
