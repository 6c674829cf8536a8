"""Benchmark: strategies measured on a question set, from the set-up to what may be concluded."""

from __future__ import annotations

import functools

import streamlit as st

from app import answers, benchmark, downloads, figures, jobs, result_charts, results, sharing, state, tables
from app.states import bench, empty, guard, heading, stale
from app.text import counted, plain
from app.trust import beside_scores, calibration_of, judge_panel
from engine import Workbench
from engine.bench.conclude import answers_there
from engine.bench.summary import JUDGE
from engine.metrics.base import DELIVERED
from engine.records import Experiment, Query

workbench = bench()

heading(
    "Benchmark",
    "Measure the strategies on questions whose evidence is known.",
    [
        "Choose strategies and a question set, look at the dry run, then start; the run goes on when you leave the page.",
        "Results begin with one sentence that claims no more than the intervals do.",
        "Click a cell of the heat map, or a question, to see what stands behind a number.",
    ],
)

sets, documents = workbench.question_sets(), workbench.documents()
experiment_id = state.linked(state.EXPERIMENT)
state.publish(state.EXPERIMENT)
if (not sets or not documents) and experiment_id is None:
    empty(
        "Nothing to measure yet",
        "A benchmark needs a document and a question set. On the Upload page one click loads the sample, another runs it.",
    )
    st.page_link("../pages/upload.py", label="Go to Upload", icon=":material/upload_file:")
    st.stop()


def set_up() -> None:
    plan = benchmark.plan_form(workbench, sets, documents)
    if plan is None:
        return
    look, run = st.columns([1, 4])
    dry, start = (
        look.button("Dry run", icon=":material/calculate:", key="benchmark.dry", width="stretch"),
        run.empty(),
    )
    if dry:
        with st.spinner("Cutting the documents and counting, nothing is called"):
            whole = workbench.dry_run(plan)
            benchmark.keep_dry_run(plan, whole, benchmark.options_apart(workbench, plan, whole))
    estimate, fresh = benchmark.shown_dry_run(plan)
    if start.button(
        "Run benchmark",
        type="primary",
        icon=":material/play_arrow:",
        key="benchmark.run",
        disabled=not fresh,
        help=None if fresh else "Look at the dry run first.",
    ):
        job = workbench.submit(plan)
        state.choose(state.EXPERIMENT, job.job_id)
        st.session_state["benchmark.open"] = False
        st.rerun()
    if estimate is None:
        st.caption("The dry run cuts the documents and counts calls, tokens and dollars. Nothing is called or stored.")
        return
    if not fresh:
        stale("The set-up has changed since this dry run. Make it again to start.")
    st.markdown(plain(benchmark.in_words(estimate)))
    for note in (*benchmark.options_in_words(), *estimate.notes):
        st.caption(plain(note))
    st.dataframe(tables.estimated_specs(estimate), hide_index=True, alt="What each strategy would need")
    if estimate.estimated_calls:
        st.dataframe(tables.estimated_stages(estimate), hide_index=True, alt="Calls, tokens and dollars per stage")


if sets and documents:
    with st.expander("Set up a benchmark", expanded=experiment_id is None, icon=":material/tune:"), guard():
        set_up()
if experiment_id is None:
    st.caption("Results of the benchmark appear here. Earlier ones are on the History page.")
    st.stop()


def watch(workbench: Workbench, job_id: str) -> None:
    """The live run: progress per strategy, first errors, cost so far, and a way to stop."""
    fixed = not sharing.may_change(workbench, "experiment", job_id)

    @st.fragment(run_every=1.0)
    @guard()
    def running() -> None:
        job = workbench.job(job_id)
        if job.state not in jobs.RUNNING:
            st.rerun()
        st.subheader("Waiting for its turn" if job.state == "queued" else "Running")
        st.progress(jobs.asked(job).share, text=plain(jobs.in_words(job)))
        table = jobs.progress_table(job)
        if len(table):
            st.dataframe(
                table,
                hide_index=True,
                alt="Progress per strategy",
                column_config={
                    "answered": st.column_config.ProgressColumn("answered", format="percent", min_value=0, max_value=1)
                },
            )
        if jobs.waits_for_a_batch(job):
            st.caption(
                "The provider takes up to a day for each stage, answers and then verdicts; it is asked every "
                f"{workbench.settings.batch_poll_seconds:g} s. You may leave this page, and a stopped app goes on where it was."
            )
        for label, reason in job.progress.get("errors", {}).items():
            st.error(plain(f"{label}: {reason}"), icon=":material/error:")
        if job.cancel_requested:
            st.caption("Stopping after the answers in flight.")
        elif st.button("Cancel", key="benchmark.cancel", icon=":material/stop:", disabled=fixed):
            workbench.cancel(job_id)
            st.rerun(scope="fragment")

    @st.fragment(run_every=4.0)
    @guard()
    def partial() -> None:
        experiment = results.partial(workbench, job_id)
        metrics = results.headline_metrics(experiment)
        if not metrics:
            return
        counts = results.finished_counts(experiment)
        st.subheader("Partial: what is finished so far")
        st.caption(
            "Means over the finished questions, which differ between strategies: nothing can be concluded yet. "
            + plain(
                ", ".join(
                    f"{label}: {counts.get(spec_id, 0)} of {len(experiment.questions)}"
                    for spec_id, label in results.labels(experiment).items()
                )
            )
        )
        frame = results.heat(experiment, metrics)
        figures.draw(
            ("partial", job_id, str(len(experiment.cells))),
            lambda: result_charts.heat_map(frame),
            alt_text="Partial heat map of strategies by metric, over the questions finished so far",
            key="benchmark.partial",
        )
        with st.expander("As a table"):
            st.dataframe(results.wide(experiment, metrics), hide_index=True, alt="Partial mean per strategy and metric")

    running()
    with guard():
        partial()


def outcome(experiment: Experiment) -> None:
    """Partial and failed runs: what happened, what was kept, what to do."""
    fixed = not sharing.may_change(workbench, "experiment", experiment.experiment_id)
    if experiment.status in ("cancelled", "failed"):
        done, whole = answers_there(experiment)
        reason = f" {experiment.error}" if experiment.error else ""
        st.warning(
            plain(f"This run is {experiment.status}: {done} of {whole} answers are kept.{reason}"),
            icon=":material/pause_circle:",
        )
        if st.button("Resume", key="benchmark.resume", icon=":material/play_arrow:", disabled=fixed):
            workbench.resume(experiment.experiment_id)
            st.rerun()
    failed = [result for result in experiment.results if result.status == "failed"]
    for result in failed:
        st.error(plain(f"{result.spec.label} failed: {result.error}"), icon=":material/error:")
    retry = failed and experiment.status == "finished"
    if retry and st.button("Try the failed again", key="benchmark.retry", icon=":material/replay:", disabled=fixed):
        workbench.retry_failed(experiment.experiment_id)
        st.rerun()


def conclusion(experiment: Experiment) -> None:
    found = results.statistics(experiment)
    with st.container(border=True):
        st.markdown("**What may be concluded**")
        if found.verdict is not None and found.verdict.choice_among_equals:
            st.markdown(f":material/arrow_forward: **{plain(found.verdict.choice_among_equals)}**")
        st.text(found.recommendation or "Nothing can be concluded yet.")
        left_out = results.left_out(experiment)
        if left_out:
            st.caption(plain(left_out))


def heat(experiment: Experiment) -> None:
    metrics = results.headline_metrics(experiment)
    if not metrics:
        lost = not any(question.gold for question in experiment.questions)
        reason = " The questions have no evidence that was found in the documents." if lost else ""
        st.info(f"No question was scored on any metric.{reason}")
        return
    st.subheader("Strategies by metric")
    st.caption("Darker is better within a column. Click a cell to compare on that metric and look into that strategy.")
    figures.draw(
        ("heat", *results.identity(experiment)),
        lambda: result_charts.heat_map(results.heat(experiment, metrics)),
        alt_text="Heat map of strategies by metric with the mean in every cell",
        on_select=pick_cell,
        key="benchmark.heat",
    )
    with st.expander("As a table, with the definition of every metric"):
        st.dataframe(
            results.wide(experiment, metrics),
            hide_index=True,
            alt="Mean of every metric per strategy",
            column_config={
                results.title(metric): st.column_config.NumberColumn(help=results.explained(metric), format="%.3f")
                for metric in metrics
            },
        )
        for metric in metrics:
            st.markdown(f"**{plain(results.title(metric))}**: {plain(results.explained(metric))}")
    if any(metric.startswith(JUDGE) for metric in metrics):
        beside_scores(workbench, experiment, "benchmark.calibrate.heat")


def pick_cell() -> None:
    cells = st.session_state["benchmark.heat"]["selection"].get("cell") or []
    if cells:
        st.session_state["benchmark.metric.next"] = cells[0]["metric"]
        st.session_state["benchmark.drill"] = cells[0]["spec_id"]


def compare(experiment: Experiment, metric: str) -> None:
    st.subheader("Difference to the baseline")
    frame = results.forest(experiment, metric)
    if frame.empty:
        st.caption("There is nothing to compare: one strategy, or no question that two of them have scored.")
        return
    figures.draw(
        ("forest", *results.identity(experiment), metric),
        lambda: result_charts.forest_plot(frame, results.title(metric)),
        alt_text=f"Paired difference in {results.title(metric)} to the baseline with 95 % intervals",
    )
    st.caption(
        f"▲ ▼ where the interval excludes 0 and the p adjusted for {counted(len(frame), 'comparison')} is at most 5 %; "
        "● where these questions cannot tell."
    )
    with st.expander("As a table"):
        st.dataframe(frame.drop(columns="name"), hide_index=True, alt="Differences, intervals and adjusted p")


def trade_off(experiment: Experiment, metric: str) -> None:
    criteria = results.cost_criteria(experiment)
    if not criteria:
        return
    st.subheader("Quality against cost")
    criterion = st.selectbox("Cost", criteria, key="benchmark.criterion", persist_state="session")
    frame = results.pareto(experiment, metric, criterion)
    figures.draw(
        ("pareto", *results.identity(experiment), metric, criterion),
        lambda: result_charts.pareto_plot(frame, results.title(metric), criterion),
        alt_text=f"{results.title(metric)} against {criterion}",
    )
    best = ", ".join(frame[frame["frontier"] == "yes"]["strategy"])
    st.caption(f"Nothing is both better and cheaper than: {plain(best)}. Bars are 95 % intervals of the mean.")
    with st.expander("As a table"):
        st.dataframe(frame.drop(columns="name"), hide_index=True, alt="Quality, interval and cost per strategy")


def budget(experiment: Experiment) -> None:
    st.subheader("Recall as more text is read")
    delivered = st.toggle(
        "Count what the model is given, not what is searched",
        # Like the metric the conclusion rests on, until the reader chooses.
        value=(results.primary_metric(experiment) or "").startswith(DELIVERED),
        key="benchmark.delivered",
        persist_state="session",
        help="Strategies with parents search small chunks and deliver larger ones.",
    )
    frame = results.budget_curve(experiment, delivered)
    if frame.empty:
        st.caption("Recall at token budgets was not measured: no question has evidence that was found.")
        return
    figures.draw(
        ("budget", *results.identity(experiment), str(delivered)),
        lambda: result_charts.budget_plot(frame, "delivered recall" if delivered else "recall"),
        alt_text="Recall at 500, 1,000, 2,000 and 4,000 tokens per strategy",
    )
    with st.expander("As a table"):
        st.dataframe(frame.drop(columns="name"), hide_index=True, alt="Recall per strategy and token budget")


def latency(experiment: Experiment) -> None:
    frame = results.latency(experiment)
    if frame.empty:
        return
    st.subheader("Where the time goes")
    for phase in ("indexing, whole corpus", "one question, median"):
        if (frame["phase"] == phase).any():
            st.markdown(f"**{phase.capitalize()}**")
            figures.draw(
                ("latency", *results.identity(experiment), phase),
                functools.partial(result_charts.latency_plot, frame, phase),
                alt_text=f"Seconds per stage, {phase}",
            )
    st.caption("Indexing that was there already took no time and is not shown.")
    with st.expander("As a table"):
        st.dataframe(frame, hide_index=True, alt="Seconds per strategy and stage, with the 95th percentile")


def questions(experiment: Experiment, metric: str) -> None:
    st.subheader("Question by question")
    least_column, only_column = st.columns([1, 3], vertical_alignment="bottom")
    least = least_column.number_input(
        "Smallest difference", 0.0, 1000.0, 0.05, 0.05, key="benchmark.least", persist_state="session"
    )
    only = only_column.toggle("Only questions that differ", True, key="benchmark.only", persist_state="session")
    frame = results.per_question(experiment, metric, least, only)
    if frame.empty:
        st.caption("On no question does a strategy differ from the baseline by that much.")
        return
    st.caption(f"{counted(len(frame), 'question')}, the largest regression first. Choose one to see the answers.")
    picked = st.dataframe(
        frame.drop(columns="question_id"),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"benchmark.questions.{experiment.experiment_id}.{metric}",
        placeholder="–",
        alt="Scores of the baseline and differences per question",
        column_config={"question": st.column_config.TextColumn("question", width="medium")},
    )
    with st.expander("Wins, ties and losses"):
        st.dataframe(
            results.wins(experiment, metric), hide_index=True, alt="Wins, ties and losses against the baseline"
        )
    rows = [row for row in picked.selection.rows if row < len(frame)]
    if rows:
        drill(experiment, str(frame.iloc[rows[0]]["question_id"]))


def spread(experiment: Experiment, metric: str) -> None:
    st.subheader("How the scores are spread")
    frame = results.spread(experiment, metric)
    if frame.empty:
        st.caption("No question was scored.")
        return
    st.caption("Share of a strategy's questions by score: one mean can stand for a pile at both ends or for a middle.")
    figures.draw(
        ("spread", *results.identity(experiment), metric),
        lambda: result_charts.spread_plot(frame, results.title(metric)),
        alt_text=f"Share of questions by {results.title(metric)}, per strategy",
    )
    with st.expander("As a table"):
        st.dataframe(
            frame.pivot(index="strategy", columns="scores", values="questions")[list(dict.fromkeys(frame["scores"]))],
            alt="Questions by score, per strategy",
        )


def drill(experiment: Experiment, question_id: str) -> None:
    """One question: what every strategy found and answered, and where it stands."""
    question = next(each for each in experiment.questions if each.question_id == question_id)
    st.markdown("**The question**")
    st.text(question.question)
    if question.answer:
        st.caption("Expected answer")
        st.text(question.answer)
    named = results.labels(experiment)
    wanted = st.multiselect(
        "Strategies",
        list(named),
        default=_drilled(experiment),
        format_func=lambda spec_id: named[spec_id],
        max_selections=4,
        key=f"benchmark.drilled.{experiment.experiment_id}",
    )
    queries: list[Query] = []
    calibration = experiment.calibration
    if calibration is None and experiment.judge_model is not None:
        calibration = calibration_of(workbench, experiment.judge_model)
    for column, spec_id in zip(st.columns(max(1, len(wanted))), wanted, strict=False):
        cell = workbench.cell(experiment.experiment_id, spec_id, question_id)
        with column:
            st.markdown(f"**{plain(named[spec_id])}**")
            if cell is None or cell.query is None:
                st.caption("Not answered." if cell is None or not cell.error else plain(cell.error))
                continue
            queries.append(cell.query)
            answers.answer(cell.query)
            answers.judged(cell.query, calibration)
            answers.hits(cell.query)
    gold = [gold.span for gold in question.gold]
    answers.evidence_pane(workbench, queries, gold)


def _drilled(experiment: Experiment) -> list[str]:
    """Baseline and the strategy of the clicked cell, or the first other one."""
    base = results.statistics(experiment).baseline
    ids = [spec.spec_id for spec in experiment.specs]
    clicked = st.session_state.get("benchmark.drill")
    other = clicked if clicked in ids and clicked != base else next((each for each in ids if each != base), None)
    return [base] if other is None else [base, other]


def trust(experiment: Experiment) -> None:
    st.subheader("Can these numbers be trusted?")
    metrics = results.headline_metrics(experiment)
    st.caption("Failed is not zero: what could not be scored is counted by cause and enters no mean.")
    st.dataframe(results.scored(experiment, metrics), hide_index=True, height=240, alt="Questions scored per metric")
    st.markdown("**Rules of thumb**")
    st.caption(
        "Common expectations of a cut and a search, to look at more closely where they fail; they decide nothing."
    )
    st.dataframe(results.thresholds(experiment), hide_index=True, alt="Five rules of thumb per strategy")
    judge_panel(workbench, experiment)
    with st.expander("Settings, versions and inputs"):
        st.dataframe(results.facts(experiment), hide_index=True, alt="What is needed to repeat this experiment")


def metric_picker(experiment: Experiment) -> str | None:
    options = results.scorable_metrics(experiment)
    if not options:
        return None
    clicked = st.session_state.pop("benchmark.metric.next", None)
    if clicked in options:
        st.session_state["benchmark.metric"] = clicked
    elif st.session_state.get("benchmark.metric") not in options:
        st.session_state["benchmark.metric"] = options[0]
    metric = st.selectbox(
        "Compare on",
        options,
        format_func=results.title,
        key="benchmark.metric",
        persist_state="session",
        help="Recall at an equal number of tokens is the fair first choice; at a fixed number of chunks large chunks win.",
    )
    st.caption(plain(results.explained(metric)))
    if metric.startswith(JUDGE):
        beside_scores(workbench, experiment, "benchmark.calibrate.metric")
    return metric


with guard():
    experiment = results.load(workbench, experiment_id)
    if experiment.status == "running":
        watch(workbench, experiment_id)
        st.stop()
    st.subheader(plain(experiment.name))
    st.caption(
        plain(
            f"{counted(len(experiment.questions), 'question')}, {counted(len(experiment.documents), 'document')}, "
            f"embeddings {experiment.embedding_model}, answers {experiment.llm_model or 'extractive, no LLM'}."
        )
    )
    outcome(experiment)
    if not experiment.results:
        st.stop()
    conclusion(experiment)
    downloads.buttons(workbench, experiment_id, experiment.name, "benchmark.export")
    heat(experiment)
    metric = metric_picker(experiment)
    if metric is None:
        st.stop()
    for part in (compare, trade_off):
        with guard():
            part(experiment, metric)
    for piece in (budget, latency):
        with guard():
            piece(experiment)
    with guard():
        questions(experiment, metric)
    with guard():
        spread(experiment, metric)
    with guard():
        trust(experiment)
