import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.documents.pool import ReaderFailed, WorkerPool
from engine.errors import BadDocument, Busy
from engine.settings import Settings
from tests.engine.documents.files import PdfPage, pdf

ROOT = Path(__file__).parents[3]


def settings(**values: float) -> Settings:
    return Settings(_env_file=None, **values)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(size=2)
    yield made
    made.close()


def scripted(action: str) -> WorkerPool:
    """A pool whose workers say they are ready, take one request and then run `action`."""
    program = f"import os, sys, time, json\nfrom engine.processes import send, receive\nout, src = sys.stdout.buffer, sys.stdin.buffer\nsend(out, b'ready')\nreceive(src); receive(src)\n{action}"
    return WorkerPool(size=1, command=(sys.executable, "-c", program))


def test_one_worker_reads_one_file_after_the_other(pool: WorkerPool) -> None:
    assert pool.read(b"# A", "a.md", settings()).tree.children[0].title == "A"
    (first,) = pool.process_ids()
    assert pool.read(b"text", "a.txt", settings()).text == "text"
    assert pool.process_ids() == (first,)


def test_a_refusal_keeps_the_worker(pool: WorkerPool) -> None:
    with pytest.raises(BadDocument, match="is an image"):
        pool.read(b"\x89PNG....", "a.png", settings())
    (first,) = pool.process_ids()
    assert pool.read(b"text", "a.txt", settings()).text == "text"
    assert pool.process_ids() == (first,)


def test_threads_share_the_workers(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(lambda n: pool.read(f"text {n}".encode(), f"{n}.txt", settings()), range(12)))
    assert [document.text for document in results] == [f"text {n}" for n in range(12)]
    assert 1 <= len(pool.process_ids()) <= 2


def test_a_file_that_takes_too_long_is_stopped_and_the_next_one_is_read(pool: WorkerPool) -> None:
    slow = pdf([PdfPage().lines(72, 700, *(f"Line {n} of the page" for n in range(40))) for _ in range(150)])
    with pytest.raises(BadDocument, match=r"^slow.pdf took longer than 0.05 seconds to read. Nothing was stored."):
        pool.read(slow, "slow.pdf", settings(parse_timeout=0.05))
    assert pool.process_ids() == ()
    assert pool.read(b"text", "a.txt", settings()).text == "text"


def test_a_worker_that_hangs_for_ever_is_killed() -> None:
    pool = scripted("time.sleep(1000)")
    with pytest.raises(BadDocument, match=r"took longer than 0\.1 seconds"):
        pool.read(b"x", "a.txt", settings(parse_timeout=0.1))
    assert pool.process_ids() == ()


@pytest.mark.skipif(sys.platform != "linux", reason="the memory limit is kept by Linux only")
def test_a_file_that_needs_too_much_memory_is_refused_and_the_next_one_is_read(pool: WorkerPool) -> None:
    many = b"a\n\n" * 300_000
    with pytest.raises(BadDocument, match=r"^many.txt needs more than 128 MB of memory to read. Nothing was stored."):
        pool.read(many, "many.txt", settings(parse_memory_mb=128, max_paragraphs=10_000_000))
    assert pool.process_ids() == ()
    assert pool.read(b"text", "a.txt", settings(parse_memory_mb=128)).text == "text"


@pytest.mark.parametrize(
    "action",
    [
        "os._exit(3)",
        "os.kill(os.getpid(), 9)",
        "out.write(b'rubbish that is no frame at all'); out.flush()",
        "send(out, b'no json')",
        "send(out, b'[]')",
        "send(out, json.dumps({'outcome': 'document', 'last': False}).encode()); send(out, b'{}')",
        "send(out, json.dumps({'outcome': 'document'}).encode())",
    ],
)
def test_a_worker_that_dies_or_lies_costs_one_file(action: str, caplog: pytest.LogCaptureFixture) -> None:
    pool = scripted(action)
    with (
        caplog.at_level(logging.CRITICAL),
        pytest.raises(ReaderFailed, match=r"^a.txt ended the process that was reading it. Nothing was stored"),
    ):
        pool.read(b"x", "a.txt", settings())
    assert pool.process_ids() == ()


def test_a_bug_of_a_reader_is_logged_without_the_text(caplog: pytest.LogCaptureFixture) -> None:
    pool = scripted(
        "send(out, json.dumps({'outcome': 'bug', 'error': 'KeyError', 'frames': 'File x, line 1', 'last': False}).encode()); receive(src)"
    )
    with caplog.at_level(logging.ERROR), pytest.raises(ReaderFailed, match=r"\(KeyError\). Nothing was stored."):
        pool.read(b"the secret", "a.txt", settings())
    assert "KeyError" in caplog.text
    assert "secret" not in caplog.text
    pool.close()


def test_a_worker_that_does_not_start_is_said_in_words() -> None:
    pool = WorkerPool(size=1, command=(sys.executable, "-c", "pass"))
    with pytest.raises(Busy, match="did not start"):
        pool.read(b"x", "a.txt", settings())


def test_workers_see_neither_keys_nor_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@host/db")
    pool = scripted(
        "send(out, json.dumps({'outcome': 'refused', 'message': ' '.join(os.environ), 'last': True}).encode())"
    )
    with pytest.raises(BadDocument) as caught:
        pool.read(b"x", "a.txt", settings())
    names = caught.value.message.split()
    assert "PYTHONPATH" in names
    assert not {"OPENAI_API_KEY", "DATABASE_URL"} & set(names)


def test_closing_ends_the_processes_and_reading_goes_on_after_it(pool: WorkerPool) -> None:
    pool.read(b"x", "a.txt", settings())
    (process,) = pool.process_ids()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert pool.read(b"y", "a.txt", settings()).text == "y"


def test_a_worker_that_was_killed_while_idle_is_replaced(pool: WorkerPool) -> None:
    pool.read(b"x", "a.txt", settings())
    (process,) = pool.process_ids()
    os.kill(process, 9)
    ended = threading.Event()
    while pool.process_ids():
        ended.wait(0.01)
    assert pool.read(b"y", "a.txt", settings()).text == "y"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_plain_script_without_a_main_guard_can_read_and_ends() -> None:
    done = run(
        "from engine.documents import read_document\nfrom engine.settings import Settings\n"
        "print(read_document(b'# Title', 'a.md', Settings(_env_file=None)).tree.children[0].title)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Title\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_starts_its_own_worker() -> None:
    done = run(
        "import os\nfrom engine.documents import read_document\nfrom engine.documents.pool import pool\n"
        "from engine.settings import Settings\n"
        "def read(text): return read_document(text.encode(), 'a.txt', Settings(_env_file=None)).text\n"
        "read('first')\nparents = set(pool().process_ids())\nchild = os.fork()\n"
        "if child == 0:\n    ok = read('child') == 'child' and not parents & set(pool().process_ids())\n    pool().close()\n    os._exit(0 if ok else 1)\n"
        "print(read('parent'), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert done.stdout == "parent 0\n"
