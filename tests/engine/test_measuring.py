"""Measuring through the Workbench: names and order change no number, and what is behind the numbers can be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Workbench
from engine.errors import BadRequest, NeedsModel
from engine.records import Experiment
from tests.engine.test_workbench import LAW, QUESTIONS
from tests.fake_openai.server import FakeOpenAI

NAMES = ("sentence", "recursive", "fixed_size")


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


def measured(workbench: Workbench, names: tuple[str, ...], rows: list[dict[str, Any]], document: str) -> Experiment:
    workbench.add_document(LAW.encode(), document)
    question_set = workbench.add_question_set(json.dumps(rows).encode(), f"{document}.json")
    specs = [workbench.spec(name) for name in names]
    baseline = workbench.spec("recursive").spec_id
    return workbench.benchmark(workbench.plan(question_set, specs, retriever="hybrid", baseline=baseline))


def numbers(experiment: Experiment) -> object:
    """Everything measured and concluded, keyed by what it is about."""
    asked = {question.question_id: question.question for question in experiment.questions}
    assert experiment.statistics is not None
    assert experiment.statistics.verdict is not None
    return (
        {(cell.spec_id, asked[cell.question_id]): cell.metrics for cell in experiment.cells},
        {(r.spec.spec_id, v.metric): (v.value, v.n, v.unscored) for r in experiment.results for v in r.metrics},
        {(each.spec_id, each.metric): each for each in experiment.statistics.comparisons},
        experiment.statistics.verdict.groups,
        {lead.over: lead for lead in experiment.statistics.verdict.leads},
    )


def test_names_and_order_of_documents_strategies_and_questions_change_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for folder, names, rows, document in (
        ("one", NAMES, QUESTIONS, "law.md"),
        ("two", NAMES[::-1], QUESTIONS[::-1], "another name.md"),
    ):
        monkeypatch.setenv("DATA_DIR", str(tmp_path / folder))
        with Workbench.open() as workbench:
            seen.append(numbers(measured(workbench, names, rows, document)))
    assert seen[0] == seen[1]


def test_a_search_by_words_that_finds_nothing_scores_zero_for_what_was_delivered(workbench: Workbench) -> None:
    workbench.add_document(LAW.encode(), "law.md")
    rows = [QUESTIONS[0], {"question": "Wieviel kostet es?", "evidence": "The annual fee is 300 euros."}]
    question_set = workbench.add_question_set(json.dumps(rows).encode(), "questions.json")
    plan = workbench.plan(question_set, [workbench.spec("sentence")], retriever="lexical")
    values = {value.metric: value for value in workbench.benchmark(plan).results[0].metrics}
    delivered = values["delivered.recall@1000tok"]
    assert (delivered.value, delivered.n, delivered.unscored) == (0.5, 2, {})


def test_orphans_are_the_chunks_no_question_reached(workbench: Workbench) -> None:
    workbench.add_document(LAW.encode(), "law.md")
    question_set = workbench.add_question_set(json.dumps(QUESTIONS[:1]).encode(), "questions.json")
    spec = workbench.spec("sentence", {"sentences": 1, "overlap": 0})
    experiment = workbench.benchmark(workbench.plan(question_set, [spec], top_k=2))
    (document_id,) = experiment.plan.document_ids
    chunks = workbench.chunk(document_id, spec).chunks
    reached = {hit.chunk.chunk_id for cell in experiment.cells if cell.query for hit in cell.query.retrieved}
    orphans = workbench.orphans(experiment.experiment_id, spec.spec_id)
    assert len(reached) == 2
    assert [chunk.chunk_id for chunk in orphans] == [c.chunk_id for c in chunks if c.chunk_id not in reached]
    with pytest.raises(BadRequest, match="not part"):
        workbench.orphans(experiment.experiment_id, "another")
    workbench.delete_document(document_id)
    assert workbench.orphans(experiment.experiment_id, spec.spec_id) == ()


def test_a_question_set_is_held_against_the_chunks_of_the_strategies(workbench: Workbench) -> None:
    workbench.add_document(LAW.encode(), "law.md")
    set_id = workbench.add_question_set(json.dumps(QUESTIONS).encode(), "questions.json").question_set_id
    usual = {finding.kind for finding in workbench.check_question_set(set_id)}
    assert "document_shorter_than_chunk" in usual
    assert "evidence_longer_than_any_chunk" not in usual
    tiny = workbench.spec("fixed_size", {"size": 5, "overlap": 0})
    small = {finding.kind for finding in workbench.check_question_set(set_id, [tiny])}
    assert "evidence_longer_than_any_chunk" in small
    assert "document_shorter_than_chunk" not in small


def test_a_model_drafts_questions_once_and_they_wait_for_a_review(
    fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_openai.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    monkeypatch.setenv("EMBEDDING_MODEL", "wordllama")
    article = " ".join(f"The fund pays claim number {n} within {n + 10} days after it was filed." for n in range(12))
    text = "".join(f"# Rules\n\n## Article {n}\n\n{article.replace('claim', f'claim {n}')}\n\n" for n in (1, 2))
    with Workbench.open() as workbench:
        document_id = workbench.add_document(text.encode(), "rules.md").document.document_id
        made = workbench.draft_with_model([document_id], 2)
        question = made.question_set.questions[0]
        assert (question.origin, question.reviewed) == ("drafted", False)
        assert all(gold.document_id == document_id for gold in question.gold)
        assert made.question_set.name == "Drafted by gpt-4o-mini from rules.md"
        assert workbench.question_set(made.question_set.question_set_id) == made.question_set
        calls = fake_openai.calls("chat")
        assert workbench.draft_with_model([document_id], 2).question_set.questions == made.question_set.questions
        assert fake_openai.calls("chat") == calls
        short = workbench.add_document(b"Short.", "short.md").document.document_id
        with pytest.raises(BadRequest, match="no usable question"):
            workbench.draft_with_model([short], 2)


def test_drafting_with_a_model_needs_one(workbench: Workbench) -> None:
    document_id = workbench.add_document(LAW.encode(), "law.md").document.document_id
    with pytest.raises(NeedsModel):
        workbench.draft_with_model([document_id])
