import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.cutting import HERE, Cutter
from engine.cutting.worker import KEPT_CHARACTERS, Sources, _comes
from engine.documents import read_document
from engine.errors import BadDocument, BadParameter
from engine.models import ChunkSet, Span, StrategySpec
from engine.providers.base import Models
from engine.providers.bundled import BundledEmbedder
from engine.settings import Settings
from engine.strategies import registry
from engine.strategies.source import Source

ROOT = Path(__file__).parents[3]
ALONE = [strategy.name for strategy in registry.STRATEGIES if not strategy.needs]
TEXTS = {
    "mixed.md": "# Überschrift\n\nEin Satz. Noch einer!\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n第一条 本规定自发布之日起施行。第二条 另有规定的除外。\n\n😀 e\u0301 \u202eabc\n",
    "module.py": "import os\n\n\ndef first(a):\n    return a\n\n\nclass Second:\n    def third(self):\n        return os.sep\n",
}


def source(name: str, text: str) -> Source:
    return Source(read_document(text.encode(), name, Settings(_env_file=None)))


@pytest.fixture(scope="module")
def sources(samples: Path) -> dict[str, Source]:
    found = {
        name: Source(read_document((samples / name).read_bytes(), name, Settings(_env_file=None)))
        for name in ("regulation.docx", "manual.md")
    }
    return found | {name: source(name, text) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def beside() -> Iterator[Cutter]:
    """Cuts in processes from the first character on."""
    cutter = Cutter(2, here_first=0)
    yield cutter
    cutter.close()


def without_times(chunks: ChunkSet) -> ChunkSet:
    return chunks.model_copy(update={"seconds": {}})


def scripted(tmp_path: Path, action: str, *, once: bool) -> Cutter:
    """Workers that take one request and then run `action`; with `once` only the first of them does, and those after it are real ones."""
    marker = tmp_path / "was-here"
    program = f"""
import os, sys
from pathlib import Path
from engine.cutting import worker
from engine.processes import begin, receive, send
marker = Path({str(marker)!r})
if {once} and marker.exists():
    worker.main()
else:
    marker.touch()
    src, out = begin()
    receive(src); receive(src)
    {action}
"""
    return Cutter(1, here_first=0, command=(sys.executable, "-c", program))


@pytest.mark.parametrize("name", ALONE)
def test_chunks_and_measures_are_the_same_wherever_they_are_made(
    name: str, sources: dict[str, Source], beside: Cutter
) -> None:
    for source in sources.values():
        spec = registry.spec(name)
        here = HERE.cut(source, spec, Models())
        there = beside.cut(source, spec, Models())
        assert without_times(there) == without_times(here)
        assert [type(chunk.heading_path) for chunk in there.chunks] == [tuple] * len(here.chunks)
        assert there.model_dump_json(exclude={"seconds"}) == here.model_dump_json(exclude={"seconds"})
        assert beside.measure(here, source) == HERE.measure(here, source)
        # How long it took to cut is what it took there, without the way.
        assert set(there.seconds) == {"chunk"}
    assert beside.process_ids()


@pytest.mark.parametrize(("text", "count"), [("", 0), (" \n\n ", 1)])
def test_nothing_and_white_space_are_cut_there_as_here(
    text: str, count: int, sources: dict[str, Source], beside: Cutter
) -> None:
    # No reader makes a document of nothing, a caller of the engine can.
    document = sources["manual.md"].document
    root = document.tree.model_copy(update={"children": (), "span": Span(0, len(text))})
    empty = Source(document.model_copy(update={"text": text, "tree": root}))
    spec = registry.spec("recursive")
    there = beside.cut(empty, spec, Models())
    assert without_times(there) == without_times(HERE.cut(empty, spec, Models()))
    assert len(there.chunks) == count
    assert beside.measure(there, empty) == HERE.measure(there, empty)


def test_a_document_goes_there_once_and_threads_share_the_processes(sources: dict[str, Source]) -> None:
    cutter = Cutter(2, here_first=0)
    regulation = sources["regulation.docx"]
    specs = [registry.spec("recursive", {"size": size}) for size in range(200, 212)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda spec: cutter.cut(regulation, spec, Models()), specs))
    assert [without_times(each) for each in found] == [
        without_times(HERE.cut(regulation, spec, Models())) for spec in specs
    ]
    assert 1 <= len(cutter.process_ids()) <= 2
    assert cutter._pool is not None
    assert [len(worker.documents) for worker in cutter._pool._idle] == [1] * len(cutter.process_ids())
    cutter.close()
    assert cutter.process_ids() == ()


def test_little_is_cut_here_and_much_is_cut_beside(sources: dict[str, Source]) -> None:
    manual = sources["manual.md"]
    cutter = Cutter(1, here_first=2 * len(manual.text))
    spec = registry.spec("recursive")
    for _ in range(2):
        cutter.cut(manual, spec, Models())
        assert cutter.process_ids() == ()
    cutter.cut(manual, spec, Models())
    assert len(cutter.process_ids()) == 1
    cutter.close()


def test_what_asks_a_model_is_cut_here(sources: dict[str, Source]) -> None:
    cutter = Cutter(1, here_first=0)
    models = Models(embedder=BundledEmbedder())
    chunks = cutter.cut(sources["manual.md"], registry.spec("semantic"), models)
    assert chunks.chunks
    assert cutter.process_ids() == ()


def test_no_process_is_started_with_none_allowed(sources: dict[str, Source]) -> None:
    cutter = Cutter(0, here_first=0)
    assert cutter.cut(sources["manual.md"], registry.spec("recursive"), Models()).chunks
    assert cutter.process_ids() == ()
    cutter.close()


def test_a_process_killed_while_it_waits_is_replaced(sources: dict[str, Source]) -> None:
    cutter = Cutter(1, here_first=0)
    manual, spec = sources["manual.md"], registry.spec("sentence")
    cutter.cut(manual, spec, Models())
    (first,) = cutter.process_ids()
    os.kill(first, signal.SIGKILL)
    assert cutter.cut(manual, spec, Models()).chunks
    assert cutter.process_ids() != (first,)
    cutter.close()


ENDINGS = [
    "os._exit(3)",
    "os.kill(os.getpid(), 9)",
    "out.write(b'no frame at all'); out.flush()",
    "send(out, b'done')",
    "send(out, b'whatever')",
    "send(out, b'unknown')",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_ends_over_a_document_is_replaced_and_the_document_is_cut(
    ending: str, tmp_path: Path, sources: dict[str, Source], caplog: pytest.LogCaptureFixture
) -> None:
    manual, spec = sources["manual.md"], registry.spec("paragraph")
    cutter = scripted(tmp_path, ending, once=True)
    with caplog.at_level(logging.ERROR):
        chunks = cutter.cut(manual, spec, Models())
    assert without_times(chunks) == without_times(HERE.cut(manual, spec, Models()))
    assert len(cutter.process_ids()) == 1
    assert "a process ended" in caplog.text
    assert manual.text[:40] not in caplog.text
    cutter.close()


def test_a_document_that_ends_every_process_fails_alone(
    tmp_path: Path, sources: dict[str, Source], caplog: pytest.LogCaptureFixture
) -> None:
    cutter = scripted(tmp_path, "os._exit(9)", once=False)
    manual = sources["manual.md"]
    with (
        caplog.at_level(logging.CRITICAL),
        pytest.raises(BadDocument, match=r"^manual.md ended the process that was to cut it, 2 times. What is finished"),
    ):
        cutter.cut(manual, registry.spec("recursive"), Models())
    chunks = HERE.cut(manual, registry.spec("recursive"), Models())
    with caplog.at_level(logging.CRITICAL), pytest.raises(BadDocument, match="that was to measure it"):
        cutter.measure(chunks, manual)
    assert cutter.process_ids() == ()
    cutter.close()


def test_what_a_process_cannot_do_is_done_here(tmp_path: Path, sources: dict[str, Source]) -> None:
    cutter = scripted(tmp_path, "send(out, b'failed'); receive(src)", once=False)
    manual, spec = sources["manual.md"], registry.spec("recursive")
    assert without_times(cutter.cut(manual, spec, Models())) == without_times(HERE.cut(manual, spec, Models()))
    assert len(cutter.process_ids()) == 1
    cutter.close()


def test_what_does_not_fit_into_a_frame_is_done_here(
    monkeypatch: pytest.MonkeyPatch, sources: dict[str, Source]
) -> None:
    manual, spec = sources["manual.md"], registry.spec("recursive")
    here = HERE.cut(manual, spec, Models())
    program = "from engine.cutting import worker\nworker.MAX_FRAME = 1000\nworker.main()"
    cutter = Cutter(1, here_first=0, command=(sys.executable, "-c", program))
    assert without_times(cutter.cut(manual, spec, Models())) == without_times(here)
    (first,) = cutter.process_ids()
    assert cutter.measure(here, manual) == HERE.measure(here, manual)
    monkeypatch.setattr("engine.processes.MAX_FRAME", 1000)
    assert cutter.measure(here, manual) == HERE.measure(here, manual)
    assert cutter.process_ids() == (first,)
    cutter.close()


def test_an_error_of_a_strategy_is_the_same_as_here(sources: dict[str, Source], beside: Cutter) -> None:
    bad = StrategySpec(strategy_name="recursive", params={"size": 0}, label="recursive 0")
    with pytest.raises(BadParameter, match="size = 0"):
        beside.cut(sources["manual.md"], bad, Models())
    assert beside.cut(sources["manual.md"], registry.spec("recursive"), Models()).chunks


@pytest.mark.parametrize("command", [(sys.executable, "-c", "pass"), ("/nowhere/python",)])
def test_without_a_process_that_starts_everything_is_done_here(
    command: tuple[str, ...], sources: dict[str, Source], caplog: pytest.LogCaptureFixture
) -> None:
    cutter = Cutter(1, here_first=0, command=command)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert cutter.cut(sources["manual.md"], registry.spec("recursive"), Models()).chunks
    assert [record.getMessage() for record in caplog.records] == [
        "no process for cutting could be started; documents are cut in the app for now"
    ]


def test_after_closing_everything_is_done_here(sources: dict[str, Source]) -> None:
    cutter = Cutter(1, here_first=0)
    cutter.cut(sources["manual.md"], registry.spec("recursive"), Models())
    (process,) = cutter.process_ids()
    cutter.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert cutter.cut(sources["manual.md"], registry.spec("recursive"), Models()).chunks


def test_closing_while_a_process_works_loses_nothing(tmp_path: Path, sources: dict[str, Source]) -> None:
    at_work = tmp_path / "at-work"
    cutter = scripted(tmp_path, f"Path({str(at_work)!r}).touch(); receive(src)", once=False)
    manual, spec = sources["manual.md"], registry.spec("recursive")
    with ThreadPoolExecutor(1) as threads:
        cutting = threads.submit(cutter.cut, manual, spec, Models())
        waiting = threading.Event()
        while not at_work.exists():
            waiting.wait(0.01)
        cutter.close()
        assert cutting.result().chunks


def test_a_process_keeps_as_many_documents_as_it_may(sources: dict[str, Source]) -> None:
    kept = Sources()
    manual = sources["manual.md"]
    large = Source(manual.document.model_copy(update={"text": "a" * KEPT_CHARACTERS}))
    kept.keep("first", manual)
    kept.keep("second", sources["module.py"])
    assert kept.get("first") is manual
    kept.keep("third", large)
    assert kept.get("third") is large
    assert kept.get("second") is None
    assert kept.get("first") is None


def test_a_document_that_a_process_let_go_of_goes_there_again(sources: dict[str, Source]) -> None:
    cutter = Cutter(1, here_first=0)
    spec = registry.spec("fixed_size")
    half = sources["manual.md"].document.model_copy(update={"text": "word " * (KEPT_CHARACTERS // 9)})
    twice = [Source(half), Source(half)]
    expected = without_times(HERE.cut(twice[0], spec, Models()))
    for each in (*twice, *twice):
        assert without_times(cutter.cut(each, spec, Models())) == expected
    assert len(cutter.process_ids()) == 1
    cutter.close()


def test_a_worker_waits_for_a_request_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cutting.worker.IDLE_SECONDS", 0.0)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as requests:
        assert not _comes(requests)
        os.write(writing, b"x")
        assert _comes(requests)
        requests.read(1)
        os.close(writing)
        # The end of the pipe comes too, and is read as the end.
        assert _comes(requests)
        assert requests.read(1) == b""


def test_a_worker_outlives_its_app_by_nothing(samples: Path) -> None:
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom engine.cutting import Cutter\nfrom engine.documents import read_document\n"
        "from engine.providers.base import Models\nfrom engine.settings import Settings\nfrom engine.strategies import registry\n"
        "from engine.strategies.source import Source\n"
        f"data = Path({str(samples / 'manual.md')!r}).read_bytes()\n"
        "source = Source(read_document(data, 'manual.md', Settings(_env_file=None)))\n"
        "cutter = Cutter(1, here_first=0)\ncutter.cut(source, registry.spec('recursive'), Models())\n"
        "print(*cutter.process_ids(), flush=True)\nos._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    ended = threading.Event()
    try:
        while True:
            os.kill(int(done.stdout), 0)
            ended.wait(0.01)
    except ProcessLookupError:
        pass
