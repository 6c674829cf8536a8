"""Which executor the settings choose, what a worker is told, and what is said where work cannot be carried out elsewhere."""

from __future__ import annotations

import importlib.util
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine import Workbench, errors
from engine.answer import SentenceVectors
from engine.asking import Limits
from engine.bench.open_spec import Indexes, Parts
from engine.errors import BadSetting, ModelCallFailed, UserError, WorkersUnavailable
from engine.executor import LocalExecutor, open_executor, worker
from engine.executor.base import AskDone, AskTask, Failure, IndexTask, Unit
from engine.executor.dask import DaskExecutor
from engine.providers import build_models
from engine.providers.bundled import BundledEmbedder
from engine.settings import Settings, load_settings
from engine.store import Store
from tests.clusters import free_port
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI

SERVERS = {"database_url": "postgresql+psycopg://127.0.0.1/none", "qdrant_url": "http://127.0.0.1:1"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(f"sqlite:///{tmp_path / 'chunkscope.db'}")
    store.close()
    return store


def test_without_a_scheduler_work_stays_in_the_process(store: Store) -> None:
    executor = open_executor(load_settings(), store)
    assert isinstance(executor, LocalExecutor)
    assert executor.health() is None


class Meeting:
    """An open spec whose question waits for another one to be asked at the same time."""

    def __init__(self, patience: float) -> None:
        self.together = threading.Barrier(2, timeout=patience)

    def ask(self, *_: object) -> tuple[None, Exception | None]:
        try:
            self.together.wait()
        except threading.BrokenBarrierError as alone:
            return None, alone
        return None, None


@pytest.mark.parametrize(("turns", "patience", "meet"), [(1, 0.2, False), (2, 60, True), (None, 60, True)])
def test_as_many_units_as_there_are_turns_are_worked_on_at_once(turns: int | None, patience: float, meet: bool) -> None:
    executor = LocalExecutor(turns)
    opened: Any = Meeting(patience)
    no_question: Any = None
    unit = Unit(no_question, 0, None)
    with ThreadPoolExecutor(2) as askers:
        asked = list(askers.map(lambda _: list(executor.ask(opened, [unit], lambda: False)), range(2)))
    assert [each.error is None for (each,) in asked] == [meet] * 2


def test_units_take_turns_only_where_no_model_is_waited_for(store: Store) -> None:
    settings = load_settings()
    bundled = build_models(settings, store.vector_cache, store.reply_cache)
    served = build_models(load_settings(openai_api_key="key"), store.vector_cache, store.reply_cache)
    local, waiting = open_executor(settings, store, bundled), open_executor(settings, store, served)
    assert isinstance(local, LocalExecutor)
    assert isinstance(waiting, LocalExecutor)
    assert (local.turns, waiting.turns) == (os.cpu_count(), None)


@pytest.mark.parametrize("missing", list(SERVERS))
def test_a_scheduler_without_shared_stores_is_refused(missing: str) -> None:
    given = {name: value for name, value in SERVERS.items() if name != missing}
    with pytest.raises(BadSetting, match="Set QDRANT_URL and DATABASE_URL to servers"):
        open_executor(load_settings(dask_scheduler_address="tcp://127.0.0.1:8786", **given), store=None)  # type: ignore[arg-type]


def test_the_app_does_not_open_with_a_scheduler_and_embedded_stores() -> None:
    with pytest.raises(BadSetting, match="DASK_SCHEDULER_ADDRESS"):
        Workbench.open(load_settings(dask_scheduler_address="tcp://127.0.0.1:8786"))
    with Workbench.open() as workbench:
        assert "workers" not in workbench.health()


def scheduler_at(address: str) -> Settings:
    return load_settings(dask_scheduler_address=address, **SERVERS)


def test_a_missing_library_is_said_in_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadSetting, match=r"pip install -r requirements-scale\.txt"):
        open_executor(scheduler_at("tcp://127.0.0.1:8786"), store)


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="requirements-scale is not installed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_scheduler_that_does_not_answer_is_said_in_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.executor import dask

    monkeypatch.setattr(dask, "CONNECT_SECONDS", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    executor = open_executor(scheduler_at(address), store)
    with pytest.raises(WorkersUnavailable, match="cannot be reached"):
        executor.health()
    executor.close()


def test_neither_keys_nor_addresses_are_sent() -> None:
    settings = load_settings(
        openai_api_key="sk-sesame", openai_base_url="http://models/v1", qdrant_api_key="sesame", **SERVERS
    )
    told = worker.sent(settings)
    assert (told["embedding_model"], told["llm_model"]) == ("text-embedding-3-small", "gpt-4o-mini")
    assert "sesame" not in repr(told)
    assert "://" not in repr(told)


def test_a_worker_without_servers_says_so() -> None:
    done = worker.index(worker.sent(load_settings()), IndexTask("e", "s", "d"))
    assert done.failure is not None
    assert done.failure.kind == "BadSetting"
    assert "without QDRANT_URL or DATABASE_URL" in done.failure.message


def test_a_worker_with_other_models_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = worker.sent(load_settings(openai_base_url="http://models/v1", **SERVERS))
    for name, value in SERVERS.items():
        monkeypatch.setenv(name.upper(), value)
    (done,) = worker.ask(told, AskTask("e", "s", 1, (("q", 0, None),)))
    assert done.failure is not None
    assert "other models than the app" in done.failure.message
    assert not done.stored


@pytest.mark.parametrize(
    "kind",
    [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, UserError)],
    ids=lambda kind: kind.__name__,
)
def test_an_error_is_the_same_after_its_way_between_processes(kind: type[UserError]) -> None:
    error = ModelCallFailed("late", "timeout") if kind is ModelCallFailed else kind("late")
    back = Failure.of(error, "late").error()
    assert type(back) is kind
    assert str(back) == "late"
    assert getattr(back, "cause", None) == getattr(error, "cause", None)


def test_a_bug_stays_a_bug_between_processes() -> None:
    failure = Failure.of(KeyError("secret text"), "This is a bug in Chunkscope.")
    assert (failure.kind, failure.message) == ("", "This is a bug in Chunkscope.")
    assert not isinstance(failure.error(), UserError)


def test_a_question_that_two_workers_are_given_at_once_is_paid_once(fake_openai: FakeOpenAI, tmp_path: Path) -> None:
    with killing.environment(killing.variables(fake_openai, tmp_path)), Workbench.open() as workbench:
        experiment = workbench.benchmark(killing.plan(workbench))
        cell = experiment.cells[0]
        workbench._store.delete_cells(experiment.experiment_id, [(cell.spec_id, cell.question_id, cell.repeat)])
        workbench.prune_caches(0)
        chunk_count = experiment.results[0].chunk_count
        task = AskTask(experiment.experiment_id, cell.spec_id, chunk_count, ((cell.question_id, cell.repeat, None),))
        # Models of their own: those of one process would share a call.
        one, two = (
            worker.Work(
                workbench._store,
                workbench._index,
                build_models(workbench.settings, workbench._store.vector_cache, workbench._store.reply_cache),
                Limits.of(workbench.settings),
            )
            for _ in range(2)
        )
        fake_openai.reset()
        both = threading.Barrier(2)

        def script(body: dict[str, Any]) -> None:
            # Would let two equal calls meet; a call alone goes on after a moment.
            with suppress(threading.BrokenBarrierError):
                both.wait(1.0)

        fake_openai.script = script
        with ThreadPoolExecutor(2) as pool:
            done = [future.result() for future in [pool.submit(work.ask, task) for work in (one, two)]]
        assert done == [[AskDone(cell.question_id, cell.repeat, stored=True, failure=None)]] * 2
        again = workbench.cell(experiment.experiment_id, cell.spec_id, cell.question_id, cell.repeat)
    assert again is not None
    assert killing.paid_twice(fake_openai) == 0
    assert fake_openai.calls("chat") == 2


def test_an_app_whose_questions_are_asked_elsewhere_keeps_no_chunks(fake_openai: FakeOpenAI, tmp_path: Path) -> None:
    with killing.environment(killing.variables(fake_openai, tmp_path)), Workbench.open() as workbench:
        experiment = workbench.benchmark(killing.plan(workbench))
        parts = Parts(
            experiment,
            workbench.models,
            workbench._index,
            workbench._store,
            workbench._source,
            Limits.of(workbench.settings),
            SentenceVectors(),
            BundledEmbedder(),
        )
        first = experiment.results[0]
        kept = {}
        for keeps in (LocalExecutor.asks_here, DaskExecutor.asks_here):
            indexes = Indexes(parts, first.spec, {}, keeps=keeps)
            assert indexes.add(experiment.documents[0]) == (0.0, None)
            result = indexes.result()
            assert (result.chunk_count, result.quality) == (first.chunk_count, first.quality)
            kept[keeps] = len(indexes.open(result)._by_id)
        assert kept == {True: first.chunk_count, False: 0}
