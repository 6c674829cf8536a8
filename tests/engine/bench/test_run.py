"""Runs that are disturbed: what is finished is kept, the reason is one sentence, and another run does only the rest."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event as database_event

from engine import Workbench
from engine.bench import open_spec
from engine.bench.run import Event, Runner
from engine.bench.summary import total
from engine.errors import (
    BadRequest,
    Busy,
    IndexUnavailable,
    ModelCallFailed,
    NotFound,
    StoreUnavailable,
)
from engine.index import open_index
from engine.providers import build_models
from engine.records import Experiment, Plan
from engine.settings import load_settings
from engine.store import DataFolder, Store
from tests.engine.bench.killing import LAW, QUESTIONS, calls, environment, outcome, paid_twice, plan, variables, wait
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fixture import fake_openai

__all__ = ["fake_openai"]

NUMBER = 6
"""Questions of `killing.QUESTIONS`."""


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


@pytest.fixture
def served(fake_openai: FakeOpenAI, tmp_path: Path) -> Iterator[Workbench]:
    """A Workbench whose models are on the fake server and are not asked again when a call fails."""
    with (
        environment({**variables(fake_openai, tmp_path / "served"), "MAX_RETRIES": "0"}),
        Workbench.open() as opened,
    ):
        yield opened


def local_plan(workbench: Workbench, *names: str, **options: object) -> Plan:
    workbench.add_document(LAW.encode(), "law.md")
    questions = workbench.add_question_set(QUESTIONS, "questions.json")
    specs = [workbench.spec(name) for name in names or ("sentence", "paragraph")]
    return workbench.plan(questions.question_set_id, specs, **options)


def ended(workbench: Workbench, experiment_id: str) -> Experiment:
    wait(workbench, experiment_id)
    return workbench.experiment(experiment_id)


def long_plan(workbench: Workbench) -> Plan:
    """Enough cells that many are still to be asked when the first is finished."""
    return plan(workbench).model_copy(update={"repeats": 6})


def clean(tmp_path: Path, server: FakeOpenAI) -> Experiment:
    """The long benchmark undisturbed."""
    with environment(variables(server, tmp_path / "clean")), Workbench.open() as workbench:
        return workbench.benchmark(long_plan(workbench))


def test_a_server_that_goes_down_stops_the_run_in_words_and_only_the_rest_is_paid_for_later(
    served: Workbench, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    def shut(event: Event) -> None:
        if event.stage == "ask":
            fake_openai.fault("server_error")

    with pytest.raises(ModelCallFailed):
        served.benchmark(long_plan(served), shut)
    (summary,) = served.experiments()
    assert summary.status == "failed"
    assert summary.error
    kept = served.experiment(summary.experiment_id)
    assert any(cell.status == "scored" for cell in kept.cells)

    fake_openai.faults.clear()
    answered_before = fake_openai.counters.answered.copy()
    served.resume(summary.experiment_id)
    resumed = ended(served, summary.experiment_id)
    assert resumed.status == "finished"
    assert resumed.error is None
    answered_after = fake_openai.counters.answered.copy()
    fake_openai.reset()
    undisturbed = clean(tmp_path, fake_openai)
    assert outcome(resumed) == outcome(undisturbed)
    # Together the two parts were answered as often as one undisturbed run.
    assert answered_before["chat"] < answered_after["chat"] == fake_openai.counters.answered["chat"]


def test_a_question_whose_call_fails_is_a_row_and_is_tried_again_alone(
    served: Workbench, fake_openai: FakeOpenAI
) -> None:
    fake_openai.fault("refusal", "chat", times=1)
    experiment = served.benchmark(
        plan(served).model_copy(update={"specs": (served.spec("sentence"),), "baseline": None, "judge": False})
    )
    failed = [cell for cell in experiment.cells if cell.status != "scored"]
    assert [cell.status for cell in failed] == ["refused"]
    assert failed[0].error
    recall = next(each for each in experiment.results[0].metrics if each.metric == "recall@1000tok")
    assert (recall.n, recall.unscored) == (NUMBER - 1, {"refused": 1})

    before = calls(fake_openai)
    served.retry_failed(experiment.experiment_id)
    again = ended(served, experiment.experiment_id)
    assert calls(fake_openai) == before + 1
    assert {cell.status for cell in again.cells} == {"scored"}


def test_a_judge_that_fails_leaves_the_answer_and_says_why(served: Workbench, fake_openai: FakeOpenAI) -> None:
    one = plan(served).model_copy(update={"specs": (served.spec("sentence"),), "baseline": None})
    # The answers come first from the cache of a run without a judge.
    served.benchmark(one.model_copy(update={"judge": False}))
    served.calibrate_judge()
    fake_openai.fault("refusal", "chat", times=1)
    experiment = served.benchmark(one)
    unjudged = [cell for cell in experiment.cells if cell.unscored.get("judge.faithfulness") == "refused"]
    assert len(unjudged) == 1
    assert unjudged[0].status == "scored"
    assert "recall@1000tok" in unjudged[0].metrics
    faithfulness = next(each for each in experiment.results[0].metrics if each.metric == "judge.faithfulness")
    assert faithfulness.unscored["refused"] == 1
    served.retry_failed(experiment.experiment_id)
    again = ended(served, experiment.experiment_id)
    assert not any(cell.unscored.get("judge.faithfulness") == "refused" for cell in again.cells)
    lost = total(unjudged[0].usage).cost_usd
    assert lost
    assert again.retried_usd == pytest.approx(lost)
    costs = [total(cell.usage).cost_usd or 0.0 for cell in again.cells]
    costs += [total(each.index_usage).cost_usd or 0.0 for each in again.results]
    costs += [again.calibration.usage.cost_usd or 0.0 if again.calibration else 0.0]
    spent = served.job(experiment.experiment_id).progress["spent_usd"]
    assert spent == pytest.approx(sum(costs) + lost)


def test_an_index_folder_that_is_removed_stops_the_run_in_words_and_is_made_again(tmp_path: Path) -> None:
    with Workbench.open() as workbench:
        chosen = local_plan(workbench, "sentence", "paragraph")

        def remove(event: Event) -> None:
            if event.stage == "ask":
                shutil.rmtree(tmp_path / "data" / "index", ignore_errors=True)

        with pytest.raises(IndexUnavailable):
            workbench.benchmark(chosen, remove)
        (summary,) = workbench.experiments()
        assert summary.status == "failed"
        assert summary.error
    with Workbench.open() as workbench:
        workbench.resume(summary.experiment_id)
        resumed = ended(workbench, summary.experiment_id)
        assert resumed.status == "finished"
        assert outcome(resumed) == outcome(workbench.benchmark(chosen))


def opened_by_hand(**store_options: float) -> Workbench:
    """A Workbench whose store is impatient."""
    settings = load_settings()
    folder = DataFolder(settings.data_dir)
    store = Store(settings.resolved_database_url, **store_options)
    models = build_models(settings, store.vector_cache, store.reply_cache)
    return Workbench(settings, folder, store, open_index(settings), models)


def test_a_full_disk_stops_the_run_in_words_and_nothing_stored_is_lost(workbench: Workbench) -> None:
    chosen = local_plan(workbench, "sentence", "paragraph")
    full = False
    engine = workbench._store._engine

    def checked_out(dbapi: object, *_: object) -> None:
        pages = dbapi.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
        dbapi.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")  # type: ignore[attr-defined]

    database_event.listen(engine, "checkout", checked_out)

    def fill(event: Event) -> None:
        nonlocal full
        full = full or event.stage == "ask"

    with pytest.raises(StoreUnavailable, match="is full"):
        workbench.benchmark(chosen, fill)
    full = False
    (summary,) = workbench.experiments()
    assert any(cell.status == "scored" for cell in workbench.experiment(summary.experiment_id).cells)
    workbench.resume(summary.experiment_id)
    resumed = ended(workbench, summary.experiment_id)
    assert resumed.status == "finished"
    assert outcome(resumed) == outcome(workbench.benchmark(chosen))


def test_a_database_that_stays_locked_stops_the_run_in_words() -> None:
    with opened_by_hand(busy_seconds=0.05) as workbench:
        chosen = local_plan(workbench, "sentence")
        other = Store(workbench.settings.resolved_database_url)
        held = other.write()

        def lock(event: Event) -> None:
            if event.stage == "index":
                held.__enter__()

        with pytest.raises(StoreUnavailable, match="Another process is writing"):
            workbench.benchmark(chosen, lock)
        held.__exit__(None, None, None)
        other.close()
        (summary,) = workbench.experiments()
        workbench.resume(summary.experiment_id)
        assert ended(workbench, summary.experiment_id).status == "finished"


def test_a_bug_in_one_question_is_a_row_with_the_request_id(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = local_plan(workbench, "sentence")
    real = open_spec.score_question

    def broken(question, *arguments, **options):  # type: ignore[no-untyped-def]
        if question.question == "How high is the fee of class 3?":
            raise ZeroDivisionError("a bug")
        return real(question, *arguments, **options)

    monkeypatch.setattr(open_spec, "score_question", broken)
    experiment = workbench.benchmark(chosen, request_id="request-7")
    assert experiment.status == "finished"
    failed = [cell for cell in experiment.cells if cell.status == "failed"]
    assert [cell.error for cell in failed] == ["This is a bug in Chunkscope. Details are in the log under request-7."]
    assert len(experiment.cells) == NUMBER
    assert "ZeroDivisionError" in caplog.text


def test_a_document_that_is_gone_is_said_and_its_questions_are_skipped(workbench: Workbench) -> None:
    other = workbench.add_document(b"# Holidays\n\nThe office is closed on 1 May.\n", "holidays.md").document
    chosen = local_plan(workbench, "sentence")
    rows = json.loads(QUESTIONS)
    rows.append({"question": "When is the office closed?", "evidence": ["The office is closed on 1 May."]})
    questions = workbench.add_question_set(json.dumps(rows).encode(), "more.json")
    chosen = chosen.model_copy(update={"question_set_id": questions.question_set_id})
    assert len(chosen.document_ids) == 2
    experiment = workbench._freeze(chosen, None)
    workbench._store.create_experiment(experiment)
    workbench.delete_document(other.document_id)
    workbench.resume(experiment.experiment_id)
    found = ended(workbench, experiment.experiment_id)
    (result,) = found.results
    assert result.status == "ok"
    assert list(result.document_errors) == [other.document_id]
    skipped = [cell for cell in found.cells if cell.status == "skipped"]
    assert [cell.error for cell in skipped] == [
        "Its evidence lies in holidays.md, which could not be used under this strategy."
    ]
    assert sum(cell.status == "scored" for cell in found.cells) == NUMBER


def test_cancelling_keeps_what_is_finished_and_the_rest_is_done_later(workbench: Workbench) -> None:
    chosen = local_plan(workbench)
    experiment = workbench._freeze(chosen, None)
    workbench._store.create_experiment(experiment)
    seen: list[Event] = []
    ending = workbench._runner().run(experiment, seen.append, lambda: any(event.stage == "ask" for event in seen))
    assert ending == "cancelled"
    stopped = workbench.experiment(experiment.experiment_id)
    assert stopped.status == "cancelled"
    assert 0 < len(stopped.cells) < 2 * NUMBER
    assert stopped.statistics is not None
    partial = f"questions, as only {len(stopped.cells)} of {2 * NUMBER} answers are there: "
    assert partial in stopped.statistics.recommendation
    workbench.resume(experiment.experiment_id)
    resumed = ended(workbench, experiment.experiment_id)
    assert resumed.statistics is not None
    assert resumed.statistics.recommendation.startswith("Too few questions")
    assert [cell for cell in resumed.cells if cell in stopped.cells] == list(stopped.cells)
    assert outcome(resumed) == outcome(workbench.benchmark(chosen))


def test_a_budget_stops_the_run_before_it_costs_more_and_a_larger_one_goes_on(
    served: Workbench, fake_openai: FakeOpenAI
) -> None:
    chosen = plan(served)
    expected = served.dry_run(chosen)
    assert expected.estimated_cost_usd
    budget = expected.estimated_cost_usd / 2
    limited = served.benchmark(chosen.model_copy(update={"budget_usd": budget}))
    spent = sum(result.usage.cost_usd or 0.0 for result in limited.results)
    assert limited.status == "cancelled"
    assert "stopped at its budget" in (limited.error or "")
    assert spent <= budget
    served.resume(limited.experiment_id, budget_usd=10.0)
    finished = ended(served, limited.experiment_id)
    assert finished.status == "finished"
    assert paid_twice(fake_openai) == 0
    assert {cell.status for cell in finished.cells} == {"scored"}


def test_repeats_ask_a_model_again_and_are_averaged(served: Workbench, fake_openai: FakeOpenAI) -> None:
    chosen = plan(served).model_copy(
        update={"specs": (served.spec("sentence"),), "baseline": None, "judge": False, "repeats": 3, "seed": 5}
    )
    experiment = served.benchmark(chosen)
    assert [cell.repeat for cell in experiment.cells] == [0, 1, 2] * NUMBER
    assert fake_openai.calls("chat") == 3 * NUMBER
    seeds = {body.get("seed") for body in fake_openai.counters.requests if "messages" in body}
    assert seeds == {None, 6, 7}
    recall = next(each for each in experiment.results[0].metrics if each.metric == "recall@1000tok")
    assert recall.n == NUMBER


def test_repeats_without_a_model_ask_once(workbench: Workbench) -> None:
    experiment = workbench.benchmark(local_plan(workbench, "sentence", repeats=3))
    assert len(experiment.cells) == NUMBER


def test_a_search_by_words_needs_no_vectors_and_finds_the_exact_class(workbench: Workbench) -> None:
    experiment = workbench.benchmark(local_plan(workbench, "sentence", retriever="lexical"))
    assert workbench.collections() == []
    assert experiment.results[0].index_bytes is None
    mrr = next(each for each in experiment.results[0].metrics if each.metric == "mrr")
    assert mrr.value is not None
    assert mrr.value > 0.5
    scores = [hit.score for hit in experiment.cells[0].query.retrieved]  # type: ignore[union-attr]
    assert scores == sorted(scores, reverse=True)


def test_a_hybrid_search_fuses_both_rankings(workbench: Workbench) -> None:
    experiment = workbench.benchmark(local_plan(workbench, "sentence", retriever="hybrid"))
    (first, *_) = experiment.cells[0].query.retrieved  # type: ignore[union-attr]
    # The best place in both rankings is worth 1/61 twice.
    assert 1 / 61 < first.score <= 2 / 61


def test_a_queue_that_is_full_refuses_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_LIMIT", "2")
    monkeypatch.setenv("QUEUE_LIMIT_PER_USER", "1")
    with Workbench.open() as workbench:
        chosen = local_plan(workbench, "sentence")
        # Workers that never start leave the jobs in the queue.
        monkeypatch.setattr(workbench._jobs, "start", lambda: None)
        workbench.submit(chosen, owner="anna")
        with pytest.raises(Busy, match="of your benchmarks"):
            workbench.submit(chosen, owner="anna")
        workbench.submit(chosen, owner="bert")
        with pytest.raises(Busy, match="QUEUE_LIMIT"):
            workbench.submit(chosen, owner="carla")
        assert len(workbench.experiments()) == 2


def test_as_many_benchmarks_run_at_once_as_the_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARKS_AT_ONCE", "3")
    together = threading.Barrier(3, timeout=60)

    def meet(_runner: Runner, *_: object) -> str:
        together.wait()
        return "cancelled"

    monkeypatch.setattr(Runner, "run", meet)
    with Workbench.open() as workbench:
        chosen = local_plan(workbench, "sentence")
        jobs = [workbench.submit(chosen) for _ in range(3)]
        # With fewer threads the barrier breaks, and the jobs fail.
        for job in jobs:
            wait(workbench, job.job_id)
        assert [workbench.job(job.job_id).state for job in jobs] == ["cancelled"] * 3


def test_an_experiment_is_run_again_with_its_frozen_questions(workbench: Workbench) -> None:
    first = workbench.benchmark(local_plan(workbench, "sentence"))
    workbench.delete_question_set(first.plan.question_set_id)
    job = workbench.rerun(first.experiment_id)
    again = ended(workbench, job.job_id)
    assert again.repeats_experiment == first.experiment_id
    assert again.questions == first.questions
    assert outcome(again) == outcome(first)
    changed = workbench.rerun(first.experiment_id, {"name": "With more hits", "top_k": 2})
    assert ended(workbench, changed.job_id).plan.top_k == 2
    with pytest.raises(BadRequest, match="cannot be changed"):
        workbench.rerun(first.experiment_id, {"size": 3})
    workbench.delete_document(first.documents[0].document_id)
    with pytest.raises(NotFound):
        workbench.rerun(first.experiment_id)


def test_progress_of_a_job_tells_stages_time_and_money(workbench: Workbench) -> None:
    job = workbench.submit(local_plan(workbench, "sentence", "contextual_retrieval"))
    experiment = ended(workbench, job.job_id)
    progress = workbench.job(job.job_id).progress
    label = experiment.results[0].spec.label
    assert progress["stages"][label] == {
        "index": {"done": 1, "total": 1},
        "ask": {"done": NUMBER, "total": NUMBER},
    }
    # The strategy that failed is asked nothing.
    assert (progress["done"], progress["total"], progress["spent_usd"]) == (NUMBER, NUMBER, 0.0)
    assert progress["error_count"] == 1
    assert "needs a chat model" in progress["errors"][experiment.results[1].spec.label]
    assert progress["seconds"] > 0


def test_a_run_of_a_dead_process_that_nobody_continues_is_said_to_have_ended(workbench: Workbench) -> None:
    experiment = workbench._freeze(local_plan(workbench, "sentence"), None)
    workbench._store.create_experiment(experiment)
    workbench.close()
    with Workbench.open() as again:
        (summary,) = again.experiments()
        assert (summary.status, summary.error) == (
            "cancelled",
            "The process that ran it ended. What is finished is kept; resume it to do the rest.",
        )
        again.resume(summary.experiment_id)
        assert ended(again, summary.experiment_id).status == "finished"


def test_the_record_holds_what_is_needed_to_trust_it(workbench: Workbench) -> None:
    experiment = workbench.benchmark(local_plan(workbench, "sentence", "paragraph"))
    assert experiment.prompts["answer"] == "1"
    assert experiment.estimated_cost_usd == 0.0
    result = experiment.results[0]
    for stage in ("parse", "chunk", "embed", "upsert", "retrieve", "generate"):
        assert result.seconds[f"{stage}_p50"] <= result.seconds[f"{stage}_p95"], stage
    assert result.index_bytes == result.chunk_count * 256 * 4
    assert result.quality["coverage"] == 1.0
    assert experiment.statistics is not None
    assert experiment.statistics.baseline == result.spec.spec_id
    assert experiment.statistics.verdict is not None
    assert experiment.statistics.verdict.kind == "too_few_questions"
    assert experiment.statistics.recommendation.startswith("Too few questions")
    compared = {each.spec_id for each in experiment.statistics.comparisons}
    assert compared == {experiment.results[1].spec.spec_id}
    evidence = experiment.cells[0].evidence
    assert len(evidence) == 1
    assert evidence[0].whole
