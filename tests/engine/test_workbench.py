"""The Workbench end to end, with real parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine import Workbench
from engine.errors import BadDocument, BadParameter, BadQuestionSet, BadRequest, DataFolderLocked, NotFound
from engine.records import Experiment

LAW = """# Fees

## Article 1

The annual fee is 300 euros. It is due on 1 May.

## Article 2

A late fee of 45 euros is charged after 30 days.

# Fines

## Article 3

The supervisor may impose a fine of up to 9000 euros on an institution that reports late.
"""
QUESTIONS = [
    {"question": "How high is the annual fee?", "answer": "300 euros", "evidence": ["The annual fee is 300 euros."]},
    {
        "question": "Which fine may be imposed for late reports?",
        "answer": "9000 euros",
        "evidence": ["a fine of up to 9000 euros"],
    },
    {"question": "Who appoints the auditor?", "answer": None, "answerable": False},
]
FOUNDATION = ("fixed_size", "recursive", "sentence", "paragraph", "markdown_structure", "parent_child", "semantic")


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


def questions() -> bytes:
    return json.dumps(QUESTIONS).encode()


def run(workbench: Workbench, names: tuple[str, ...] = FOUNDATION) -> Experiment:
    workbench.add_document(LAW.encode(), "law.md")
    question_set = workbench.add_question_set(questions(), "questions.json")
    return workbench.benchmark(workbench.plan(question_set.question_set_id, [workbench.spec(name) for name in names]))


def test_a_document_is_stored_once_and_reopened_by_another_process() -> None:
    with Workbench.open() as workbench:
        first = workbench.add_document(LAW.encode(), "law.md")
        again = workbench.add_document(LAW.encode(), "copy.md")
    assert (first.existed, again.existed) == (False, True)
    assert first.document.document_id == again.document.document_id
    with Workbench.open() as workbench:
        assert [d.name for d in workbench.documents()] == ["law.md"]
        assert workbench.document(first.document.document_id).text == LAW
        assert workbench.original(first.document.document_id) == LAW.encode()


def test_seven_strategies_answer_every_question_and_are_scored(workbench: Workbench) -> None:
    experiment = run(workbench)
    assert experiment.status == "finished"
    assert [result.spec.strategy_name for result in experiment.results] == list(FOUNDATION)
    assert all(result.status == "ok" for result in experiment.results)
    assert len(experiment.cells) == 7 * 3
    for result in experiment.results:
        recall = next(value for value in result.metrics if value.metric == "recall@1000tok")
        assert (recall.value, recall.n, recall.unscored) == (1.0, 2, {"not_applicable": 1})
    assert workbench.experiment(experiment.experiment_id) == experiment
    assert [each.experiment_id for each in workbench.experiments()] == [experiment.experiment_id]


def test_the_same_benchmark_twice_gives_the_same_numbers(workbench: Workbench) -> None:
    first, second = run(workbench), run(workbench)
    assert [result.metrics for result in first.results] == [result.metrics for result in second.results]


def test_one_strategy_that_lacks_its_model_leaves_the_others(workbench: Workbench) -> None:
    experiment = run(workbench, ("recursive", "contextual_retrieval"))
    by_name = {result.spec.strategy_name: result for result in experiment.results}
    assert by_name["recursive"].status == "ok"
    assert by_name["contextual_retrieval"].status == "failed"
    assert "needs a chat model" in (by_name["contextual_retrieval"].error or "")
    assert {cell.spec_id for cell in experiment.cells} == {by_name["recursive"].spec.spec_id}


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        ("机构应当按季度提交报告。年费为三百欧元。", "年费是多少?", "年费为三百欧元。"),
        (
            "報告書は四半期ごとに提出する。年会費は三百ユーロである。",
            "年会費はいくらですか。",
            "年会費は三百ユーロである。",
        ),
    ],
)
def test_an_extractive_answer_needs_no_spaces_between_words(
    workbench: Workbench, text: str, question: str, expected: str
) -> None:
    document_id = workbench.add_document(text.encode(), "unspaced.txt").document.document_id
    (query,) = workbench.ask(question, [workbench.spec("sentence")], [document_id])
    assert query.answered
    assert expected in query.answer


def test_an_answer_is_extractive_and_cites_the_text(workbench: Workbench) -> None:
    document = workbench.add_document(LAW.encode(), "law.md").document
    (query,) = workbench.ask("How high is the annual fee?", [workbench.spec("sentence")])
    assert query.answer_kind == "extractive"
    assert "300 euros" in query.answer
    text = workbench.document(document.document_id).text
    assert query.citations
    assert all(c.span is not None and c.span.slice(text) == c.quote for c in query.citations)
    assert workbench.query(query.query_id) == query


def test_a_failing_strategy_leaves_the_other_columns_of_ask(workbench: Workbench) -> None:
    workbench.add_document(LAW.encode(), "law.md")
    good, bad = workbench.ask("How high is the fee?", [workbench.spec("recursive"), workbench.spec("propositions")])
    assert good.status == "ok"
    assert bad.status == "failed"
    assert "needs a chat model" in (bad.error or "")


def test_deleting_a_document_names_and_removes_what_depends_on_it(workbench: Workbench) -> None:
    experiment = run(workbench, ("recursive", "sentence"))
    (document,) = workbench.documents()
    deletion = workbench.deletion(document.document_id)
    assert deletion.collections == ("recursive_collection", "sentence_collection")
    assert deletion.experiments == 1
    workbench.delete_document(document.document_id)
    assert workbench.documents() == []
    assert all(collection.points == 0 for collection in workbench.collections())
    assert workbench.experiment(experiment.experiment_id).documents[0].name == "law.md"
    with pytest.raises(NotFound):
        workbench.original(document.document_id)


def test_a_document_of_an_older_reader_is_read_again_and_says_what_it_outdates(workbench: Workbench) -> None:
    current = workbench.add_document(LAW.encode(), "law.md").document
    old = workbench.document(current.document_id).model_copy(
        update={"document_id": "0" * 32, "parser_version": "markdown-0", "text": LAW.replace("300", "200")}
    )
    workbench.delete_document(current.document_id)
    workbench._store.add_document(old)
    workbench._folder.add_original(LAW.encode())
    rows = [
        {"question": "How high is the annual fee?", "evidence": ["The annual fee is 200 euros."]},
        {"question": "How high is the late fee?", "evidence": ["A late fee of 45 euros is charged"]},
    ]
    question_set = workbench.add_question_set(json.dumps(rows).encode(), "questions.json")
    assert [info.document_id for info in workbench.outdated_documents()] == [old.document_id]

    result = workbench.reread(old.document_id)
    assert result.document.document_id == current.document_id
    assert [info.document_id for info in workbench.documents()] == [current.document_id]
    assert workbench.outdated_documents() == []
    assert [change.message for change in result.changes] == ["was found before and is not found now"]
    lost, kept = workbench.question_set(question_set.question_set_id).questions
    assert lost.gold == ()
    assert [gold.document_id for gold in kept.gold] == [current.document_id]
    assert workbench.reread(current.document_id).changes == ()


def test_the_semantic_strategy_has_the_defaults_of_its_settings(workbench: Workbench) -> None:
    assert workbench.spec("semantic").label == "semantic 0.3/3/512"
    assert workbench.spec("semantic", {"threshold": 0.6}).params["threshold"] == 0.6


def test_settings_are_the_defaults_of_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHUNK_SIZE", "256")
    monkeypatch.setenv("CHUNK_OVERLAP", "16")
    with Workbench.open() as workbench:
        assert workbench.spec("recursive").label == "recursive 256/16"
        assert workbench.spec("recursive", {"size": 128}).label == "recursive 128/16"


def test_a_second_process_on_the_same_data_folder_is_refused_in_words(workbench: Workbench) -> None:
    with pytest.raises(DataFolderLocked, match="is in use by another Chunkscope"):
        Workbench.open()


@pytest.mark.parametrize(
    ("data", "name", "error"),
    [
        (b"", "empty.docx", BadDocument),
        (b"%PDF-1.7 x", "law.docx", BadDocument),
        (b"PK\x03\x04broken", "law.docx", BadDocument),
    ],
)
def test_a_bad_document_is_refused_and_nothing_is_stored(
    workbench: Workbench, data: bytes, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        workbench.add_document(data, name)
    assert workbench.documents() == []


@pytest.mark.parametrize("data", [b"", b"[]", b'[{"q": 1}]', b"not json"])
def test_a_bad_question_set_is_refused_and_nothing_is_stored(workbench: Workbench, data: bytes) -> None:
    workbench.add_document(LAW.encode(), "law.md")
    with pytest.raises(BadQuestionSet):
        workbench.add_question_set(data, "questions.json")
    assert workbench.question_sets() == []


def test_bad_requests_are_refused_before_any_work(workbench: Workbench) -> None:
    with pytest.raises(BadRequest, match="The question is empty"):
        workbench.ask("  ", [workbench.spec("recursive")])
    with pytest.raises(BadRequest, match="There are no documents yet"):
        workbench.ask("What?", [workbench.spec("recursive")])
    with pytest.raises(BadParameter, match="overlap"):
        workbench.spec("recursive", {"size": 10, "overlap": 10})
    with pytest.raises(BadParameter, match="There is no strategy"):
        workbench.spec("magic")


def test_half_surrogate_pairs_are_replaced_in_what_people_write_and_refused_in_ids(workbench: Workbench) -> None:
    workbench.add_document(b"# Fees\n\nThe fee is 5 euros.\n", "fees.md")
    rows = b'[{"question": "How high is the fee?", "evidence": ["The fee is 5 euros."]}]'
    questions = workbench.add_question_set(rows, "questions.json")
    spec = workbench.spec("sentence")
    (query,) = workbench.ask("How high is the fee \udcff?", [spec])
    assert workbench.query(query.query_id).question == "How high is the fee ??"
    experiment = workbench.benchmark(workbench.plan(questions.question_set_id, [spec], name="fees \ud800"))
    assert experiment.name == "fees ?"
    noted = workbench.annotate(experiment.experiment_id, name="b \ud800", note="\ud800", tags=["\udfff"])
    assert (noted.name, noted.note, noted.tags) == ("b ?", "?", ("?",))
    assert [each.experiment_id for each in workbench.experiments(tag="\ud800")] == [experiment.experiment_id]
    with pytest.raises(BadRequest, match="broken character"):
        workbench.query("\ud800")


def test_history_says_what_a_finished_benchmark_proposes(workbench: Workbench) -> None:
    experiment = workbench.benchmark(workbench.sample_plan(workbench.load_samples()))
    verdict = experiment.statistics.verdict if experiment.statistics is not None else None
    assert verdict is not None
    assert verdict.kind == "tie"
    assert verdict.proposal is not None
    (summary,) = workbench.experiments()
    first = experiment.statistics.recommendation.split(". ")[0] if experiment.statistics is not None else ""
    assert (
        summary.headline
        == f"{first}. Take {verdict.proposal}, the cheapest of {len(verdict.groups[0].labels)} that tie."
    )
