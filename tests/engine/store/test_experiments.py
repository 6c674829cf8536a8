from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text

from engine.errors import NotFound
from engine.store import ExperimentSummary, Store
from engine.store import experiments as experiments_module
from engine.store.migrations import CHANGES, migrate
from engine.store.schema import experiments
from tests.engine.store.examples import START, cell, experiment, result, spec

SENTENCE, PARAGRAPH = spec("sentence"), spec("paragraph")


def test_an_experiment_grows_and_comes_back_whole(store: Store) -> None:
    store.create_experiment(experiment())
    assert store.experiment("exp-1") == experiment()
    cells = [cell(question, each) for each in (SENTENCE, PARAGRAPH) for question in ("q1", "q2")]
    for each in reversed(cells):
        store.add_cells("exp-1", [each])
    store.add_results("exp-1", [result(PARAGRAPH), result(SENTENCE)])
    store.finish_experiment("exp-1", "cancelled", "Stopped by you.", finished_at=START)
    assert store.experiment("exp-1") == experiment().model_copy(
        update={
            "status": "cancelled",
            "error": "Stopped by you.",
            "finished_at": START,
            "results": (result(SENTENCE), result(PARAGRAPH)),
            "cells": tuple(cells),
        }
    )


def test_an_experiment_that_is_whole_already_is_stored_as_it_is(store: Store) -> None:
    whole = experiment().model_copy(
        update={"results": (result(SENTENCE),), "cells": (cell("q1", SENTENCE),), "status": "finished"}
    )
    store.create_experiment(whole)
    assert store.experiment("exp-1") == whole


def test_cells_come_without_their_queries_where_those_are_not_asked_for(store: Store) -> None:
    store.create_experiment(experiment())
    store.add_cells("exp-1", [cell("q1", SENTENCE)])
    light = store.experiment("exp-1", queries=False).cells
    assert [(each.metrics, each.query) for each in light] == [({"recall": 1.0}, None)]
    assert store.cell("exp-1", SENTENCE.spec_id, "q1") == cell("q1", SENTENCE)
    assert store.cell("exp-1", SENTENCE.spec_id, "q2") is None


def test_a_cell_that_is_measured_again_replaces_the_first(store: Store) -> None:
    store.create_experiment(experiment())
    failed = cell("q1", SENTENCE).model_copy(update={"status": "failed", "error": "No answer.", "query": None})
    store.add_cells("exp-1", [failed, cell("q2", SENTENCE)])
    assert store.finished_cells("exp-1") == {
        (SENTENCE.spec_id, "q1", 0): "failed",
        (SENTENCE.spec_id, "q2", 0): "scored",
    }
    store.add_cells("exp-1", [cell("q1", SENTENCE, recall=0.5)])
    store.add_results("exp-1", [result(SENTENCE, 0.1)])
    store.add_results("exp-1", [result(SENTENCE, 0.75)])
    assert store.cell("exp-1", SENTENCE.spec_id, "q1") == cell("q1", SENTENCE, recall=0.5)
    assert store.spec_results("exp-1") == [result(SENTENCE, 0.75)]


def test_no_results_to_add_is_no_error(store: Store) -> None:
    store.create_experiment(experiment())
    store.add_cells("exp-1", [])
    store.add_results("exp-1", [])
    assert store.experiment("exp-1") == experiment()


def test_summaries_are_newest_first(store: Store) -> None:
    for name, minutes in (("b", 2), ("c", 3), ("a", 1)):
        store.create_experiment(experiment(name, minutes))
    store.finish_experiment("b")
    assert [each.experiment_id for each in store.experiments()] == ["c", "b", "a"]
    assert [each.experiment_id for each in store.experiments("running")] == ["c", "a"]
    summary = store.experiment_summary("b")
    assert summary.status == "finished"
    assert summary.finished_at is not None
    assert summary.document_names == ("law.docx",)
    assert summary.spec_labels == ("sentence 1", "paragraph 1")
    assert (summary.question_set_name, summary.question_count) == ("Deadlines", 2)


def test_a_run_that_is_taken_up_again_is_running(store: Store) -> None:
    store.create_experiment(experiment())
    store.finish_experiment("exp-1", "failed", "The disk was full.")
    store.finish_experiment("exp-1", "running")
    found = store.experiment("exp-1")
    assert (found.status, found.error, found.finished_at) == ("running", None, None)


def test_people_write_on_an_experiment(store: Store) -> None:
    store.create_experiment(experiment())
    store.annotate_experiment("exp-1", name="Baseline", tags=["law", "2026", "law"], pinned=True)
    store.annotate_experiment("exp-1", note="Chosen on 3 May.")
    summary = store.experiment_summary("exp-1")
    assert (summary.name, summary.note) == ("Baseline", "Chosen on 3 May.")
    assert (summary.tags, summary.pinned) == (("2026", "law"), True)
    assert store.experiment("exp-1").plan.name == "Baseline"
    store.annotate_experiment("exp-1", note="", tags=[], pinned=False)
    summary = store.experiment_summary("exp-1")
    assert (summary.name, summary.note, summary.tags, summary.pinned) == ("Baseline", "", (), False)


def test_deleting_takes_everything_of_one_experiment(store: Store) -> None:
    for name in ("exp-1", "exp-2"):
        store.create_experiment(experiment(name))
        store.add_cells(name, [cell("q1", SENTENCE)])
        store.add_results(name, [result(SENTENCE)])
    store.delete_experiment("exp-1")
    assert [each.experiment_id for each in store.experiments()] == ["exp-2"]
    assert store.finished_cells("exp-1") == {}
    assert store.spec_results("exp-1") == []
    assert len(store.experiment("exp-2").cells) == 1


def test_an_unknown_experiment_is_not_found(store: Store) -> None:
    calls = (
        lambda: store.experiment("x"),
        lambda: store.experiment_summary("x"),
        lambda: store.delete_experiment("x"),
        lambda: store.finish_experiment("x"),
        lambda: store.annotate_experiment("x", pinned=True),
        lambda: store.add_cells("x", [cell("q1", SENTENCE)]),
        lambda: store.add_results("x", [result(SENTENCE)]),
    )
    for call in calls:
        with pytest.raises(NotFound, match="no experiment x"):
            call()


def test_lists_are_filtered_by_status_tag_and_pin(store: Store) -> None:
    odd = 'a "quoted" \u00a7 \\u0000 tag'
    for number, tags in enumerate((["draft"], ["draft", odd], ["half \x00 NUL"])):
        each = experiment().model_copy(update={"experiment_id": f"exp-{number}"})
        store.create_experiment(each)
        store.annotate_experiment(each.experiment_id, tags=tags, pinned=number == 1)

    def found(**filters: Any) -> set[str]:
        return {each.experiment_id for each in store.experiments(**filters)}

    assert found() == {"exp-0", "exp-1", "exp-2"}
    assert found(tag="draft") == {"exp-0", "exp-1"}
    assert found(tag=odd) == {"exp-1"}
    assert found(tag="half  NUL") == found(tag="half \x00 NUL") == {"exp-2"}
    assert found(tag="half \ud800 pair") == set()
    assert found(tag="dra") == set()
    assert found(tag="draft", pinned=False) == {"exp-0"}
    assert found(tag="draft", status="no such status") == set()


NAMES = (
    "Fees",
    "STRASSE 12",
    "Stra\u00dfe",
    "\u00dcbersicht",
    "\u0130stanbul",
    "100% sure",
    "a_b",
    "a\\b/c",
    'it\'s "so"',
    "\u6cd5\u5f8b",
)
SEARCHES = (
    "",
    "  ",
    "fees",
    "FEES number-7",
    "strasse",
    "stra\u00dfe",
    "\u00fcBER",
    "i\u0307stan",
    "100%",
    "%",
    "_",
    "a_b",
    "a\\b",
    "/c",
    "it's",
    '"so"',
    "\u6cd5",
    "audit odd",
    "audit even",
    "LAW.docx sentence",
    "exp-19 odd",
    "m gpt",
    "nothing of it",
    "fees\u00a0odd",
)


def test_the_search_finds_the_same_on_every_database_as_reading_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        named = {"experiment_id": f"exp-{number}", "llm_model": "GPT-x" if number % 3 else None}
        made = experiment().model_copy(update=named)
        store.create_experiment(made)
        name = f"{NAMES[number % len(NAMES)]} number-{number}"
        tags = ["odd"] if number % 2 else ["even", NAMES[-number % len(NAMES)]]
        store.annotate_experiment(made.experiment_id, name=name, note="Kept for the AUDIT", tags=tags)
    everything = store.experiments()
    assert len(everything) == 200
    read: list[object] = []
    summary_of = experiments_module._summary_of
    monkeypatch.setattr(experiments_module, "_summary_of", lambda row: (read.append(row), summary_of(row))[1])
    found = {wanted: [each.experiment_id for each in store.experiments(text=wanted)] for wanted in SEARCHES}
    assert len(read) == sum(map(len, found.values())), "only what is found is read"
    for wanted in SEARCHES:
        assert found[wanted] == [each.experiment_id for each in everything if _has(each, wanted)], wanted
    assert [len(found[wanted]) for wanted in ("", "strasse", "100%", "_", "audit odd", "exp-19 odd")] == [
        200,
        60,
        20,
        40,
        100,
        6,
    ]
    assert len(found["%"]) == len(found["100%"])


def _has(summary: ExperimentSummary, text: str) -> bool:
    held = (
        summary.name,
        summary.note,
        summary.question_set_name,
        summary.embedding_model,
        summary.llm_model or "",
        summary.experiment_id,
        *summary.tags,
        *summary.document_names,
        *summary.spec_labels,
    )
    return all(word in " ".join(held).casefold() for word in text.casefold().split())


def test_a_search_may_be_of_any_length_and_hold_any_character(store: Store) -> None:
    store.create_experiment(experiment())
    store.annotate_experiment("exp-1", note=" ".join(f"word{n}" for n in range(3000)) + " half \ud800 and NUL \x00 end")
    assert len(store.experiments(text=" ".join(f"word{n}" for n in range(3000)))) == 1
    assert store.experiments(text="x" * 200_000) == []
    assert len(store.experiments(text="half \ud800 NUL \x00")) == 1
    store.annotate_experiment("exp-1", note="Re\u0301sume\u0301")
    assert len(store.experiments(text="R\u00c9SUM\u00c9")) == 1
    assert store.experiments(text="word7") == []


def test_experiments_of_an_earlier_database_are_found(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate(connection, [change for change in CHANGES if change.__name__ < "m0008"])
        summary = {
            "question_set_name": "Questions",
            "embedding_model": "m",
            "llm_model": None,
            "document_names": ["Stra\u00dfe.docx", "e\u0301t\u00e9.docx"],
            "spec_labels": ["sentence 1"],
        }
        values = {"summary": json.dumps(summary), "header": b"", "tags": '["T\u00e4g"]'}
        connection.execute(
            text(
                "INSERT INTO experiments (experiment_id, name, status, created_at, note, tags, pinned, summary, header, headline, baseline) "
                "VALUES ('e', 'Named', 'finished', 1, 'Note', :tags, FALSE, :summary, :header, '', FALSE)"
            ),
            values,
        )
    engine.dispose()
    store = Store(url)
    with store.read() as connection:
        held = connection.execute(text("SELECT search FROM experiments")).scalar()
    assert held == "named note questions m  e t\u00e4g strasse.docx \u00e9t\u00e9.docx sentence 1"
    store.close()


def test_tags_are_found_by_their_index_on_postgres(store: Store) -> None:
    with store.read() as connection:
        if connection.dialect.name != "postgresql":
            return
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        wanted = select(experiments.c.experiment_id).where(store.json_has(experiments.c.tags, "draft"))
        compiled = wanted.compile(connection)
        parameters = {name: json.dumps(value) for name, value in compiled.params.items()}
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {compiled}", parameters).scalars())
    assert "experiments_by_tag" in plan
