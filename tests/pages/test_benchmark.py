"""Benchmark and History: from the form to what may be concluded, and to a comparison."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import result_charts, results
from engine import Workbench
from engine.bench import closed_book
from engine.records import Experiment, SpecResult
from engine.report.html import write_html
from engine.report.tables import strategy_rows
from tests.pages.conftest import Open, words

LAW = "".join(
    f"## Article {number}\n\nThe fee of class {number} is {100 * number} euros. It is due in month {number}.\n\n"
    for number in range(1, 13)
)
QUESTIONS = [
    {
        "question": f"How high is the fee of class {number}?",
        "evidence": [f"The fee of class {number} is {100 * number} euros."],
    }
    for number in range(1, 13)
]


@pytest.fixture(scope="module")
def experiment(workbench: Workbench) -> Experiment:
    workbench.add_document(LAW.encode(), "law.md")
    question_set = workbench.add_question_set(json.dumps(QUESTIONS).encode(), "fees.json")
    specs = [
        workbench.spec("fixed_size"),
        workbench.spec("sentence", {"sentences": 1, "overlap": 0}),
        workbench.spec("contextual_retrieval"),
    ]
    return workbench.benchmark(workbench.plan(question_set.question_set_id, specs, name="First"))


def wait_for(app: AppTest, workbench: Workbench, experiment_id: str) -> None:
    """Let the queued run end in this process."""
    from time import monotonic, sleep

    end = monotonic() + 120
    while workbench.job(experiment_id).state in ("queued", "running"):
        assert monotonic() < end
        sleep(0.1)
    app.run()


def test_without_questions_it_leads_to_upload(open_page: Open) -> None:
    assert "Nothing to measure yet" in words(open_page("benchmark"))


def test_history_without_experiments_says_so(open_page: Open) -> None:
    assert "No experiments yet" in words(open_page("history"))


def test_the_dry_run_comes_first_and_belongs_to_its_plan(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", {"benchmark.strategies": ["recursive", "sentence"]})
    assert app.button(key="benchmark.run").disabled
    app.button(key="benchmark.dry").click().run()
    assert not app.button(key="benchmark.run").disabled
    assert "24 answers to 12 questions under 2 strategies" in words(app)
    assert "no cost" in words(app)
    app.number_input(key="benchmark.top_k").set_value(3).run()
    assert app.button(key="benchmark.run").disabled
    assert "has changed since this dry run" in words(app)


def test_a_grid_makes_one_run_per_combination(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", {"benchmark.strategies": ["recursive"]})
    app.multiselect(key="benchmark.recursive.size").set_value(["128", "512"]).run()
    app.multiselect(key="benchmark.recursive.overlap").set_value(["0", "64"]).run()
    assert "3 runs" in words(app)
    assert "25" in next(caption.value for caption in app.caption if caption.value.startswith("Left out"))


def test_a_run_from_the_form_to_its_results(open_page: Open, experiment: Experiment, workbench: Workbench) -> None:
    app = open_page("benchmark", {"benchmark.strategies": ["fixed_size", "sentence"]})
    app.text_input(key="benchmark.name").set_value("From the form").run()
    app.button(key="benchmark.dry").click().run()
    app.button(key="benchmark.run").click().run()
    assert not app.exception
    run_id = app.query_params["experiment"]
    wait_for(app, workbench, run_id)
    assert not app.exception
    assert workbench.experiment(run_id).status == "finished"
    assert "From the form" in words(app)
    assert "What may be concluded" in words(app)


def test_results_in_their_order_with_the_failed_strategy_said(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", experiment=experiment.experiment_id)
    assert [each.value for each in app.subheader] == [
        "First",
        "Strategies by metric",
        "Difference to the baseline",
        "Quality against cost",
        "Recall as more text is read",
        "Where the time goes",
        "Question by question",
        "How the scores are spread",
        "Can these numbers be trusted?",
    ]
    assert len(app.error) == 1
    assert "contextual" in app.error[0].value
    assert experiment.statistics is not None
    assert experiment.statistics.recommendation in [each.value for each in app.text]
    wide = app.dataframe[0].value
    assert list(wide["strategy"]) == ["fixed_size 512/50 (baseline)", "sentence 1/0", "contextual_retrieval 512/50/500"]


def test_what_is_finished_so_far_has_the_means_of_the_whole(experiment: Experiment) -> None:
    partial = results.so_far(experiment.model_copy(update={"results": (), "statistics": None}))
    whole = results.heat(experiment, ["mrr"]).set_index("spec_id")["value"].dropna()
    assert results.heat(partial, ["mrr"]).set_index("spec_id")["value"].dropna().to_dict() == whole.to_dict()
    assert results.finished_counts(partial)[experiment.specs[0].spec_id] == 12


def test_every_scored_question_is_in_one_bin_of_the_spread(experiment: Experiment) -> None:
    frame = results.spread(experiment, "mrr")
    scored = frame.groupby("strategy")["questions"].sum()
    assert scored["fixed_size 512/50"] == scored["sentence 1/0"] == 12
    assert scored["contextual_retrieval 512/50/500"] == 0
    assert set(frame[frame["strategy"] == "contextual_retrieval 512/50/500"]["shown"]) == {"–"}
    assert results.spread(experiment, "judge.faithfulness").empty


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (0.3994, ".399"), (0.9999, "1.000"), (3.744, "3.74"), (10.0, "10.0"), (None, "–")],
)
def test_numbers_in_cells_are_short(value: float | None, text: str) -> None:
    assert results.shown("mrr", value) == text


def test_labels_of_close_points_do_not_share_a_place() -> None:
    frame = pd.DataFrame(
        {
            "strategy": ["recursive 512/50", "paragraph 512", "fixed_size 512/50", "sentence 5/1"],
            "cost": [2062.0, 2389.0, 2484.0, 543.0],
            "quality": [0.424, 0.435, 0.399, 0.702],
            "low": [0.32, 0.33, 0.29, 0.58],
            "high": [0.53, 0.55, 0.51, 0.81],
        }
    )
    corners = result_charts.label_corners(frame, log=False)
    assert corners[3] == 0
    assert corners[1] != corners[2]


def test_a_label_stands_on_the_side_of_a_point_where_no_bar_strikes_it() -> None:
    frame = pd.DataFrame(
        {
            "strategy": ["semantic 0.3/3/512", "sentence 5/1", "fixed_size 512/50"],
            "cost": [513.0, 543.0, 2484.0],
            "quality": [0.662, 0.702, 0.399],
            "low": [0.55, 0.58, 0.29],
            "high": [0.76, 0.81, 0.51],
        }
    )
    sides = [result_charts.CORNERS[corner][0] for corner in result_charts.label_corners(frame, log=False)]
    assert sides[:2] == [-1, 1]


def test_names_at_the_ends_of_curves_stay_on_the_scale_and_apart() -> None:
    ends = [0.4, 0.9, 1.0, 1.0, 1.0]
    names = [f"sentence {number}/0" for number in range(5)]
    frame = pd.DataFrame(
        {"strategy": names * 2, "name": ["sentence"] * 10, "tokens": [500] * 5 + [4000] * 5, "recall": [0.0] * 5 + ends}
    )
    drawn = result_charts.budget_plot(frame, "recall").to_dict()
    places = sorted(row["place"] for rows in drawn["datasets"].values() for row in rows if "place" in row)
    assert places == pytest.approx([0.4, 0.835, 0.89, 0.945, 1.0])


@pytest.mark.parametrize(("seconds", "unit", "drawn"), [(0.004, "milliseconds", 4.0), (4.0, "seconds", 4.0)])
def test_short_times_are_drawn_in_milliseconds(seconds: float, unit: str, drawn: float) -> None:
    row = {"strategy": "sentence 5/1", "phase": "one question, median", "stage": "retrieve", "seconds": seconds}
    chart = result_charts.latency_plot(pd.DataFrame([row]), "one question, median").to_dict()
    assert chart["encoding"]["x"]["title"] == unit
    assert [each["time"] for rows in chart["datasets"].values() for each in rows] == [drawn]


def test_questions_that_take_no_part_are_counted_with_the_reason(experiment: Experiment) -> None:
    assert results.left_out(experiment) == ""
    first = experiment.questions[0]
    lost = [first.model_copy(update={"question_id": f"lost{number}", "evidence": ()}) for number in range(3)]
    without = [lost[0].model_copy(update={"question_id": "without", "answerable": False})]
    for more, reasons in (
        (lost, "3 of 15 questions take no part: 3 without evidence that was found."),
        ([first], "1 of 13 questions take no part: 1 without a score under some strategy."),
        (
            [*without, *lost, first],
            "5 of 17 questions take no part: 1 marked as unanswerable, "
            "3 without evidence that was found, 1 without a score under some strategy.",
        ),
    ):
        asked = experiment.model_copy(update={"questions": (*experiment.questions, *more)})
        assert results.left_out(asked) == reasons


def test_recall_is_drawn_over_what_the_conclusion_rests_on(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", experiment=experiment.experiment_id)
    assert "delivered recall" in words(app)
    assert app.toggle(key="benchmark.delivered").value is True


def test_a_clicked_cell_changes_the_metric_compared(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", {"benchmark.metric.next": "mrr"}, experiment=experiment.experiment_id)
    assert app.selectbox(key="benchmark.metric").value == "mrr"


def test_a_question_opens_with_every_answer(open_page: Open, experiment: Experiment) -> None:
    table = f"benchmark.questions.{experiment.experiment_id}.delivered.recall@1000tok"
    selection = {"selection": {"rows": [2], "columns": [], "cells": []}}
    app = open_page("benchmark", {table: selection, "benchmark.only": False}, experiment=experiment.experiment_id)
    assert "The question" in words(app)
    assert words(app).count("extractive, no LLM") >= 2


def test_a_link_to_nothing_says_so(open_page: Open, experiment: Experiment) -> None:
    app = open_page("benchmark", experiment="0" * 32)
    assert len(app.error) == 1
    assert "Something went wrong" not in app.error[0].value


def test_history_finds_compares_and_deletes(open_page: Open, experiment: Experiment, workbench: Workbench) -> None:
    again = workbench.rerun(experiment.experiment_id).job_id
    app = open_page("history")
    wait_for(app, workbench, again)
    assert "First" in list(app.dataframe[0].value["name"])
    selection = {"selection": {"rows": [0, 1], "columns": [], "cells": []}}
    app.session_state["history.find"] = "First"
    app.session_state["history.table"] = selection
    app.run()
    assert not app.exception
    assert "12 common questions." in words(app)
    assert "Nothing: every metric of every common strategy is the same." in words(app)
    app.session_state["history.table"] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    app.run()
    chosen = app.dataframe[0].value["name"][0]
    experiment_id = workbench.experiments(str(chosen))[0].experiment_id
    app.text_input(key=f"history.{experiment_id}.name").set_value("Renamed")
    app.checkbox(key=f"history.{experiment_id}.baseline").set_value(True)
    next(button for button in app.button if button.label == "Save").click().run()
    assert not app.error
    assert (workbench.experiment_summary(experiment_id).name, workbench.experiment_summary(experiment_id).baseline) == (
        "Renamed",
        True,
    )
    app.session_state["history.find"] = "Renamed"
    app.session_state["history.table"] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    app.run()
    app.button(key="history.delete").click().run()
    assert "its answers and results are removed" in words(app)
    before = len(workbench.experiments())
    app.button(key="history.delete.confirm").click().run()
    assert len(workbench.experiments()) == before - 1


def test_a_search_without_result_says_so(open_page: Open, experiment: Experiment) -> None:
    app = open_page("history", {"history.find": "zebra"})
    assert "No experiment fits this search." in words(app)


def test_the_closed_book_stands_beside_the_strategies_and_is_compared_with_none(experiment: Experiment) -> None:
    beside = SpecResult(spec=closed_book.SPEC, status="ok")
    both = experiment.model_copy(update={"results": (*experiment.results, beside)})
    label = "closed book (no documents)"
    assert results.labels(both)[closed_book.SPEC.spec_id] == label
    assert set(results.heat(both, ["mrr"]).query("strategy == @label")["shown"]) == {"–"}
    assert label in set(results.thresholds(both)["strategy"])
    assert label not in set(results.wins(both, "mrr")["strategy"])
    assert [row["strategy"] for row in strategy_rows(both)][-1] == label
    written = io.BytesIO()
    write_html(both, lambda spec_id, question_id: None, written)
    page = written.getvalue().decode()
    assert label in page


def test_the_closed_book_waits_for_a_chat_model(open_page: Open, experiment: Experiment) -> None:
    assert open_page("benchmark").toggle(key="benchmark.closed_book").disabled


def test_a_night_waits_for_a_chat_model(open_page: Open, experiment: Experiment) -> None:
    assert open_page("benchmark").toggle(key="benchmark.batch").disabled


@pytest.mark.parametrize(("evidence", "blamed"), [(True, False), (False, True)])
def test_missing_evidence_is_named_as_the_reason_only_where_it_is_missing(
    open_page: Open, workbench: Workbench, experiment: Experiment, evidence: bool, blamed: bool
) -> None:
    store, bare = workbench._store, f"bare-{evidence}"
    questions = experiment.questions
    if not evidence:
        questions = tuple(question.model_copy(update={"evidence": ()}) for question in questions)
    begun = {"experiment_id": bare, "status": "running", "finished_at": None, "statistics": None}
    store.create_experiment(experiment.model_copy(update={**begun, "questions": questions, "results": (), "cells": ()}))
    store.add_results(bare, [result.model_copy(update={"metrics": ()}) for result in experiment.results[:2]])
    store.finish_experiment(bare, "cancelled")
    try:
        said = words(open_page("benchmark", experiment=bare))
        assert "No question was scored on any metric." in said
        assert ("no evidence that was found" in said) is blamed
    finally:
        workbench.delete_experiment(bare)


def test_a_run_whose_job_is_gone_is_told_in_words(
    open_page: Open, workbench: Workbench, experiment: Experiment
) -> None:
    store, lost = workbench._store, "lost-job"
    begun = {"experiment_id": lost, "status": "running", "finished_at": None, "statistics": None}
    store.create_experiment(experiment.model_copy(update={**begun, "results": (), "cells": ()}))
    try:
        app = open_page("benchmark", experiment=lost)
        assert len(app.error) == 1
        assert "lost-job" in app.error[0].value.replace("\\", "")
    finally:
        store.finish_experiment(lost, "failed", "Gone.")
        workbench.delete_experiment(lost)


def test_a_run_that_broke_off_says_what_its_conclusion_rests_on(
    open_page: Open, workbench: Workbench, experiment: Experiment
) -> None:
    store, broken = workbench._store, "broken-off"
    begun = {"experiment_id": broken, "status": "running", "finished_at": None, "statistics": None}
    store.create_experiment(experiment.model_copy(update={**begun, "results": (), "cells": ()}))
    store.add_results(broken, experiment.results[:2])
    first = experiment.specs[0].spec_id
    kept = [cell for cell in experiment.cells if cell.spec_id == first]
    kept += [cell for cell in experiment.cells if cell.spec_id == experiment.specs[1].spec_id][:5]
    store.add_cells(broken, kept)
    store.finish_experiment(broken, "failed", "The index is gone.")
    try:
        app = open_page("benchmark", experiment=broken)
        said = "Partial, resting on 5 of 12 questions, as only 17 of 36 answers are there: Too few questions"
        assert any(each.value.startswith(said) for each in app.text)
        assert "17 of 36 answers are kept" in words(app).replace("\\", "")
    finally:
        workbench.delete_experiment(broken)
