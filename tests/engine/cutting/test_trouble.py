"""Processes that hang, lie, end at a bad moment or do not start: nothing is lost, and nothing waits for ever."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.cutting import HERE, Cutter, cutter
from engine.documents import read_document
from engine.documents.pool import WorkerPool
from engine.errors import Busy
from engine.models import Span, StrategySpec
from engine.processes import Process
from engine.providers.base import Models
from engine.settings import Settings
from engine.strategies import registry
from engine.strategies.source import Source
from engine.workbench import Workbench
from tests.engine.cutting.test_cutter import scripted, without_times

SPEC = registry.spec("recursive")
HANGS = "os.kill(os.getpid(), 19)"
posix = pytest.mark.skipif(os.name != "posix", reason="this system cannot stop a process")


@pytest.fixture(scope="module")
def manual(samples: Path) -> Source:
    return Source(read_document((samples / "manual.md").read_bytes(), "manual.md", Settings(_env_file=None)))


def is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not true():
        pause.wait(0.01)


@posix
@pytest.mark.parametrize("task", ["cut", "measure"])
def test_a_process_that_hangs_is_ended_and_the_app_does_its_work(
    task: str, tmp_path: Path, manual: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cutter, "LONGEST", 0.2)
    hanging = scripted(tmp_path, HANGS, once=False)
    here = HERE.cut(manual, SPEC, Models())
    with caplog.at_level(logging.ERROR):
        if task == "cut":
            assert without_times(hanging.cut(manual, SPEC, Models())) == without_times(here)
        else:
            assert hanging.measure(here, manual) == HERE.measure(here, manual)
    assert [record.getMessage() for record in caplog.records] == [
        f"a process took too long to {task} a document and was ended; the app does it"
    ]
    assert hanging.process_ids() == ()
    hanging.close()


@posix
def test_a_process_that_hangs_does_not_keep_the_workbench_from_closing(tmp_path: Path) -> None:
    workbench = Workbench.open()
    questions = workbench.load_samples()
    at_work = tmp_path / "at-work"
    workbench._cutter = scripted(tmp_path, f"Path({str(at_work)!r}).touch(); {HANGS}", once=False)
    job = workbench.submit(workbench.plan(questions, [SPEC]))
    wait_until(at_work.exists)
    closing = threading.Thread(target=workbench.close, daemon=True)
    closing.start()
    closing.join(cutter.LONGEST / 2)
    assert not closing.is_alive()
    with Workbench.open() as again:
        wait_until(lambda: again.job(job.job_id).state == "finished")
        assert not again.experiment(job.job_id).results[0].document_errors


def test_a_process_that_starts_while_the_pool_is_closed_ends_with_its_request(tmp_path: Path, manual: Source) -> None:
    starting, go_on = tmp_path / "starting", tmp_path / "go-on"
    program = (
        f"import os, time\nfrom pathlib import Path\nPath({str(starting)!r}).write_text(str(os.getpid()))\n"
        f"while not Path({str(go_on)!r}).exists(): time.sleep(0.01)\nfrom engine.cutting import worker\nworker.main()"
    )
    beside = Cutter(1, here_first=0, command=(sys.executable, "-c", program))
    with ThreadPoolExecutor(1) as threads:
        cutting = threads.submit(beside.cut, manual, SPEC, Models())
        wait_until(lambda: starting.exists() and starting.read_text() != "")
        beside.close()
        go_on.touch()
        assert cutting.result().chunks
    assert not is_there(int(starting.read_text()))


def test_whoever_waits_for_a_process_while_all_are_ended_starts_none(
    tmp_path: Path, manual: Source, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = tmp_path / "at-work"
    program = (
        "import os\nfrom pathlib import Path\nfrom engine.processes import begin, receive\nsrc, out = begin()\n"
        f"path = Path({str(at_work)!r})\nfirst = not path.exists()\nwith path.open('a') as file:\n    print(os.getpid(), file=file)\n"
        "receive(src)\nreceive(src)\nif first: receive(src)"
    )
    beside = Cutter(1, here_first=0, command=(sys.executable, "-c", program))
    pool = beside._pool
    assert pool is not None
    waiting: list[str] = []
    take = pool.process

    def process(*suits: Any) -> Any:
        waiting.append("")
        return take(*suits)

    monkeypatch.setattr(pool, "process", process)
    with ThreadPoolExecutor(2) as threads:
        cutting = [threads.submit(beside.cut, manual, SPEC, Models()) for _ in range(2)]
        wait_until(lambda: len(waiting) == 2 and at_work.exists() and at_work.read_text() != "")
        beside.close()
        assert all(each.result().chunks for each in cutting)
    assert len(at_work.read_text().split()) == 1
    assert pool.process_ids() == ()
    assert not caplog.records


def test_a_process_that_another_thread_has_stopped_counts_as_ended() -> None:
    program = "import sys\nfrom engine.processes import begin, receive\nsrc, out = begin()\nreceive(src)"
    process = Process((sys.executable, "-c", program))
    process.stop()
    with pytest.raises(OSError):
        process.send(b"x")
    assert process.receive() is None


def test_a_process_that_waited_for_long_is_replaced_before_it_ends_itself(
    manual: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cutter.NOT_ASKED_AGAIN < cutter.IDLE_SECONDS
    beside = Cutter(1, here_first=0)
    beside.cut(manual, SPEC, Models())
    (first,) = beside.process_ids()
    monkeypatch.setattr(cutter, "NOT_ASKED_AGAIN", 0.0)
    beside.cut(manual, SPEC, Models())
    (second,) = beside.process_ids()
    assert second != first
    assert not is_there(first)
    beside.close()


@pytest.mark.parametrize("reply", ["b'{}'", "b'[1'", "b'\\xff'", "b''"])
def test_a_process_that_lies_is_not_believed(
    reply: str, tmp_path: Path, manual: Source, caplog: pytest.LogCaptureFixture
) -> None:
    lying = scripted(tmp_path, f"send(out, b'done'); send(out, {reply}); receive(src)", once=False)
    here = HERE.cut(manual, SPEC, Models())
    assert without_times(lying.cut(manual, SPEC, Models())) == without_times(here)
    assert not caplog.records
    lying.close()


def test_measures_that_are_none_are_made_here(tmp_path: Path, manual: Source) -> None:
    lying = scripted(tmp_path, "send(out, b'done'); send(out, b'[]'); receive(src)", once=False)
    here = HERE.cut(manual, SPEC, Models())
    assert lying.measure(here, manual) == HERE.measure(here, manual)
    lying.close()


def test_half_a_character_cannot_be_sent_and_is_cut_here(manual: Source) -> None:
    beside = Cutter(1, here_first=0)
    spec = StrategySpec(strategy_name="recursive", params=SPEC.params, label="\ud800")
    assert without_times(beside.cut(manual, spec, Models())) == without_times(HERE.cut(manual, spec, Models()))
    half = Source(manual.document.model_copy(update={"text": "\udcff" + manual.text[1:]}))
    assert without_times(beside.cut(half, SPEC, Models())) == without_times(HERE.cut(half, SPEC, Models()))
    beside.close()


def test_a_document_that_a_process_cannot_read_is_cut_here(manual: Source) -> None:
    # No reader nests that deep: its own reply would be refused the same way.
    node = manual.document.tree.model_copy(update={"children": (), "span": Span(0, len(manual.text))})
    for _ in range(120):
        node = node.model_copy(update={"children": (node,)})
    deep = Source(manual.document.model_copy(update={"tree": node}))
    beside = Cutter(1, here_first=0)
    assert without_times(beside.cut(deep, SPEC, Models())) == without_times(HERE.cut(deep, SPEC, Models()))
    beside.close()


def test_one_that_ended_and_one_that_does_not_start_are_no_fault_of_the_document(
    tmp_path: Path, manual: Source
) -> None:
    marker = tmp_path / "was-here"
    program = (
        f"import os\nfrom pathlib import Path\nfrom engine.processes import begin, receive\nmarker = Path({str(marker)!r})\n"
        "if not marker.exists():\n    marker.touch()\n    src, out = begin()\n    receive(src)"
    )
    ending = Cutter(1, here_first=0, command=(sys.executable, "-c", program))
    assert without_times(ending.cut(manual, SPEC, Models())) == without_times(HERE.cut(manual, SPEC, Models()))
    assert ending.process_ids() == ()


def test_where_no_process_starts_another_try_is_made_later(
    tmp_path: Path, manual: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutter, "HERE_FIRST", len(manual.text))
    marker = tmp_path / "was-here"
    program = (
        f"from pathlib import Path\nfrom engine.cutting import worker\nmarker = Path({str(marker)!r})\n"
        "if marker.exists():\n    worker.main()\nelse:\n    marker.touch()"
    )
    beside = Cutter(1, here_first=0, command=(sys.executable, "-c", program))
    started = []
    for _ in range(3):
        assert beside.cut(manual, SPEC, Models()).chunks
        started.append(len(beside.process_ids()))
    assert started == [0, 0, 1]
    beside.close()


def test_without_a_thread_to_wait_with_nothing_is_started(manual: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    beside, reading = Cutter(1, here_first=0), WorkerPool(size=1)
    assert reading.read(b"x", "a.txt", Settings(_env_file=None)).text == "x"
    monkeypatch.setattr(threading.Timer, "start", refuse)
    assert beside.cut(manual, SPEC, Models()).chunks
    assert beside.process_ids() == ()
    with pytest.raises(Busy, match="did not start"):
        reading.read(b"x", "a.txt", Settings(_env_file=None))
    assert reading.process_ids() == ()


def test_nothing_is_made_ready_to_be_sent_where_all_is_done_here(
    manual: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = HERE.cut(manual, SPEC, Models())

    def refuse(*_: object, **__: object) -> str:
        raise AssertionError("it was written as JSON")

    monkeypatch.setattr(type(chunks), "model_dump_json", refuse)
    assert HERE.measure(chunks, manual)["chunks"] == len(chunks.chunks)
