"""Overnight runs: the same scores for half the price, and nothing paid twice whatever happens in the night."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import Workbench
from engine.bench.jobs import JobRunner
from engine.errors import BadRequest
from engine.records import Experiment, Plan
from engine.settings import load_settings
from engine.store import open_store
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fixture import fake_openai

__all__ = ["fake_openai"]

WORK = """
from engine import Workbench
from tests.engine.bench.killing import wait
from tests.engine.bench.test_overnight import plan

with Workbench.open() as workbench:
    wait(workbench, workbench.submit(plan(workbench)).job_id)
"""

_DIRECT: list[Experiment] = []


def plan(workbench: Workbench, **options: object) -> Plan:
    workbench.add_document(killing.LAW.encode(), "law.md")
    questions = workbench.add_question_set(killing.QUESTIONS, "questions.json")
    specs = [workbench.spec("sentence", {"sentences": 1, "overlap": 0}), workbench.spec("parent_child")]
    return workbench.plan(questions.question_set_id, specs, judge=True, **{"batch": True, **options})


@pytest.fixture
def variables(fake_openai: FakeOpenAI, tmp_path: Path) -> Iterator[dict[str, str]]:
    values = {**killing.variables(fake_openai, tmp_path / "overnight"), "BATCH_POLL_SECONDS": "0.01"}
    with killing.environment(values):
        yield values


def run(**options: object) -> Experiment:
    with Workbench.open() as workbench:
        return workbench.benchmark(plan(workbench, **options))


@pytest.fixture
def undisturbed(fake_openai: FakeOpenAI, tmp_path: Path) -> Experiment:
    """The same benchmark with direct calls; made once, for it is the same every time."""
    if not _DIRECT:
        with killing.environment(killing.variables(fake_openai, tmp_path / "direct")):
            _DIRECT.append(run(batch=False))
        fake_openai.reset()
    return _DIRECT[0]


def billed(experiment: Experiment) -> float:
    """Dollars of answers and verdicts as the experiment records them."""
    assert experiment.calibration is not None
    costs = [experiment.calibration.usage.cost_usd]
    costs += [
        usage.cost_usd for cell in experiment.cells for purpose, usage in cell.usage.items() if purpose != "embedding"
    ]
    return sum(cost for cost in costs if cost is not None)


def test_an_overnight_run_scores_the_same_for_half_the_price(
    fake_openai: FakeOpenAI, undisturbed: Experiment, variables: dict[str, str]
) -> None:
    overnight = run()
    assert killing.outcome(overnight) == killing.outcome(undisturbed)
    assert billed(undisturbed) > 0
    assert billed(overnight) == pytest.approx(billed(undisturbed) / 2)
    assert fake_openai.calls("chat") == 0
    assert fake_openai.batches is not None
    assert sum(fake_openai.batches.sizes()) == fake_openai.calls("batched")
    assert killing.paid_twice(fake_openai) == 0
    assert all("generate" not in cell.seconds for cell in overnight.cells)
    assert fake_openai.batches.files == {}


def test_the_dry_run_names_the_price_of_the_night(fake_openai: FakeOpenAI, variables: dict[str, str]) -> None:
    with Workbench.open() as workbench:
        by_day, by_night = (workbench.dry_run(plan(workbench, batch=batch)) for batch in (False, True))
    answers = [run.stage("answers").cost_usd for run in (by_day, by_night)]
    assert answers[0] is not None
    assert answers[1] is not None
    assert by_day.estimated_cost_usd is not None
    assert answers[1].expected == pytest.approx(answers[0].expected / 2)
    assert by_night.estimated_cost_usd == pytest.approx(by_day.overnight_cost_usd)
    assert by_night.overnight_cost_usd == by_night.estimated_cost_usd
    assert by_day.stage("embedding").cost_usd == by_night.stage("embedding").cost_usd
    assert any("50%" in note for note in by_night.notes)


def test_a_process_killed_while_it_waits_takes_up_the_same_batch(
    fake_openai: FakeOpenAI, undisturbed: Experiment, variables: dict[str, str]
) -> None:
    batches = fake_openai.batches
    assert batches is not None
    batches.held = True
    process = subprocess.Popen([sys.executable, "-c", WORK], env={**os.environ, **variables})
    deadline = time.monotonic() + killing.PATIENCE
    while not (batches.count() and batches.state(0) == "in_progress"):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    sent = batches.count()
    batches.held = False
    with Workbench.open() as workbench:
        (summary,) = workbench.experiments()
        killing.wait(workbench, summary.experiment_id)
        resumed = workbench.experiment(summary.experiment_id)
    assert sent == 1
    assert killing.outcome(resumed) == killing.outcome(undisturbed)
    assert killing.paid_twice(fake_openai) == 0
    assert billed(resumed) == pytest.approx(billed(undisturbed) / 2)


def test_a_batch_whose_creation_was_not_heard_of_is_found_again(
    fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    with Workbench.open() as workbench:
        with monkeypatch.context() as patched:
            # As if the process had ended between the creation of a batch and the note of its id.
            patched.setattr(type(workbench._store), "set_batch", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                workbench.benchmark(plan(workbench))
        (summary,) = workbench.experiments()
        workbench._store.finish_experiment(summary.experiment_id, "cancelled")
        killing.wait(workbench, workbench.resume(summary.experiment_id).job_id)
        assert workbench.experiment(summary.experiment_id).status == "finished"
    assert killing.paid_twice(fake_openai) == 0


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["row_failed", "row_expired", "row_garbage", "row_missing"])
def test_a_call_that_came_back_without_an_answer_is_asked_in_one_more_batch(
    fake_openai: FakeOpenAI, undisturbed: Experiment, variables: dict[str, str], kind: str
) -> None:
    fake_openai.fault(kind, "batch_row", times=3)
    fake_openai.fault("shuffled", "batch")
    overnight = run()
    assert killing.outcome(overnight) == killing.outcome(undisturbed)
    assert fake_openai.calls("chat") == 0


def test_a_call_that_fails_twice_is_a_cell_with_its_cause_and_never_asked_at_full_price(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    # The calls of two passes: the first batches hold answers and calibration, all of which expire.
    fake_openai.fault("row_expired", "batch_row")
    overnight = run()
    assert {cell.status for cell in overnight.cells} == {"timeout"}
    assert {cell.error for cell in overnight.cells} == {
        "A call to gpt-4o-mini in an overnight batch was not answered within 24 hours. Resume to ask it again."
    }
    assert fake_openai.calls("chat") == 0
    assert fake_openai.batches is not None
    assert fake_openai.batches.count() == 2

    fake_openai.reset()
    with Workbench.open() as workbench:
        killing.wait(workbench, workbench.resume(overnight.experiment_id).job_id)
        assert {cell.status for cell in workbench.experiment(overnight.experiment_id).cells} == {"scored"}
    assert fake_openai.calls("chat") == 0


def test_a_batch_that_is_refused_stops_the_run_which_resumes(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    fake_openai.fault("batch_failed", "batch", times=1)
    with Workbench.open() as workbench:
        job = workbench.submit(plan(workbench))
        killing.wait(workbench, job.job_id)
        failed = workbench.job(job.job_id)
        assert failed.state == "failed"
        assert failed.error is not None
        assert "token_limit_exceeded" in failed.error
        assert "Nothing of it is billed" in failed.error
        killing.wait(workbench, workbench.resume(job.job_id).job_id)
        assert workbench.experiment(job.job_id).status == "finished"
    assert killing.paid_twice(fake_openai) == 0


def test_a_server_without_batches_is_named_and_nothing_is_sent_at_full_price(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    fake_openai.batches = None
    with Workbench.open() as workbench:
        job = workbench.submit(plan(workbench))
        killing.wait(workbench, job.job_id)
        error = workbench.job(job.job_id).error
    assert error is not None
    assert error.startswith("gpt-4o-mini takes no batches here. Nothing was sent")
    assert fake_openai.calls("chat") == 0


def test_a_cancelled_run_takes_its_batch_back_and_keeps_what_was_answered(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    batches = fake_openai.batches
    assert batches is not None
    batches.held = True
    with Workbench.open() as workbench:
        job = workbench.submit(plan(workbench))
        deadline = time.monotonic() + killing.PATIENCE
        while not (batches.count() and batches.state(0) == "in_progress") and time.monotonic() < deadline:
            time.sleep(0.01)
        workbench.cancel(job.job_id)
        killing.wait(workbench, job.job_id)
        assert batches.state(0) == "cancelled"
        assert workbench.experiment(job.job_id).status == "cancelled"
        batches.held = False
        killing.wait(workbench, workbench.resume(job.job_id).job_id)
        assert workbench.experiment(job.job_id).status == "finished"
    assert killing.paid_twice(fake_openai) == 0


@pytest.mark.parametrize("how", ["cancel", "delete", "cancel and delete", "delete while it waits in the queue"])
def test_a_run_that_is_cancelled_or_deleted_leaves_no_file_at_the_provider(
    fake_openai: FakeOpenAI, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    batches = fake_openai.batches
    assert batches is not None
    batches.held = True
    with Workbench.open() as workbench:
        job = workbench.submit(plan(workbench))
        deadline = time.monotonic() + killing.PATIENCE
        while not (batches.count() and batches.state(0) == "in_progress"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert batches.files
        if "queue" not in how:
            if how.startswith("cancel"):
                workbench.cancel(job.job_id)
                killing.wait(workbench, job.job_id)
            if how.endswith("delete"):
                workbench.delete_experiment(job.job_id)
                killing.wait(workbench, job.job_id)
    if "queue" in how:
        with monkeypatch.context() as idle:
            idle.setattr(JobRunner, "start", lambda _: None)
            with Workbench.open() as workbench:
                assert workbench.job(job.job_id).state == "queued"
                workbench.delete_experiment(job.job_id)
                assert workbench.job(job.job_id).state == "cancelled"
    assert batches.state(0) == "cancelled"
    assert batches.files == {}


def in_progress(workbench: Workbench, fake_openai: FakeOpenAI) -> str:
    """An overnight run whose first batch the provider works on and takes long to cancel. Returns the id of its job."""
    batches = fake_openai.batches
    assert batches is not None
    batches.held = batches.slow_to_cancel = True
    job = workbench.submit(plan(workbench))
    until(lambda: bool(batches.count()) and batches.state(0) == "in_progress")
    return job.job_id


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + killing.PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("who", ["the same process", "the next process"])
def test_a_batch_that_is_long_in_being_cancelled_is_cleared_later_and_its_answers_are_kept(
    fake_openai: FakeOpenAI, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setattr("engine.bench.overnight.PATIENCE_SECONDS", 0.0)
    batches = fake_openai.batches
    assert batches is not None
    with Workbench.open() as workbench:
        job_id = in_progress(workbench, fake_openai)
        workbench.cancel(job_id)
        killing.wait(workbench, job_id)
        assert batches.state(0) == "cancelling"
        if who == "the same process":
            batches.slow_to_cancel = batches.held = False
            until(lambda: not workbench._store.leftover_batches())
    batches.slow_to_cancel = batches.held = False
    with Workbench.open() as workbench:
        until(lambda: not workbench._store.leftover_batches())
        assert batches.state(0) == "cancelled"
        assert batches.files == {}
        answered = fake_openai.calls("batched")
        assert answered > 0
        killing.wait(workbench, workbench.resume(job_id).job_id)
        assert workbench.experiment(job_id).status == "finished"
    assert killing.paid_twice(fake_openai) == 0
    assert batches.files == {}


def test_a_batch_of_a_deleted_run_that_is_long_in_being_cancelled_is_cleared_by_the_next_process(
    fake_openai: FakeOpenAI, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.bench.overnight.PATIENCE_SECONDS", 0.0)
    batches = fake_openai.batches
    assert batches is not None
    with Workbench.open() as workbench:
        job_id = in_progress(workbench, fake_openai)
        workbench.delete_experiment(job_id)
        killing.wait(workbench, job_id)
        assert batches.state(0) == "cancelling"
    batches.slow_to_cancel = False
    with Workbench.open() as workbench:
        until(lambda: not workbench._store.batches(job_id))
        assert batches.state(0) == "cancelled"
        assert batches.files == {}
        assert workbench._store.leftover_batches() == []


def test_a_batch_of_a_run_that_is_deleted_and_killed_at_once_is_cancelled_by_the_next_process(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    batches = fake_openai.batches
    assert batches is not None
    batches.held = True
    process = subprocess.Popen([sys.executable, "-c", WORK], env={**os.environ, **variables})
    until(lambda: bool(batches.count()) and batches.state(0) == "in_progress")
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = open_store(load_settings())
    (summary,) = store.experiments()
    store.delete_experiment(summary.experiment_id)
    store.close()
    with Workbench.open() as workbench:
        until(lambda: not workbench._store.batches(summary.experiment_id))
    assert batches.state(0) == "cancelled"
    assert batches.files == {}


def test_a_batch_that_might_cost_more_than_is_left_is_not_sent(
    fake_openai: FakeOpenAI, variables: dict[str, str]
) -> None:
    overnight = run(budget_usd=0.0001)
    assert overnight.status == "cancelled"
    assert overnight.error is not None
    assert "budget" in overnight.error
    assert fake_openai.batches is not None
    assert fake_openai.batches.count() == 0


def test_batches_stay_within_the_limits_of_the_server(
    fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.setattr("engine.providers.openai_batch.MOST_CALLS", 5)
    assert run().status == "finished"
    assert fake_openai.batches is not None
    assert max(fake_openai.batches.sizes()) == 5


def test_an_overnight_run_needs_a_chat_model() -> None:
    with Workbench.open() as workbench, pytest.raises(BadRequest, match="Nothing was started"):
        workbench.submit(plan(workbench))


def test_files_that_could_not_be_deleted_are_deleted_later(
    fake_openai: FakeOpenAI, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = fake_openai.batches
    assert batches is not None
    with monkeypatch.context() as out_of_reach:
        out_of_reach.setattr("engine.providers.openai_batch.BatchChat.clear", lambda *_: False)
        experiment_id = run().experiment_id
    assert batches.files
    with Workbench.open() as workbench:
        until(lambda: not workbench._store.leftover_batches())
        assert batches.files == {}
        assert {batch.state for batch in workbench._store.batches(experiment_id)} == {"read"}
