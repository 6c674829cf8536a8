"""The curl examples of README and docs/API.md, as they stand there, against a running app; and a client that hangs up."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from app import runtime
from engine.settings import Settings
from tests.conftest import ROOT
from tests.serving import served


def _examples() -> list[tuple[str, str]]:
    """(name, shell block) of every block that calls curl, in the order a reader meets them."""
    found = []
    for page in ("README.md", "docs/API.md"):
        blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        found += [(f"{page} {place}", block) for place, block in enumerate(blocks) if "curl" in block]
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(Settings(data_dir=tmp_path_factory.mktemp("data"))) as address:
        yield address


def test_there_are_examples() -> None:
    assert [name.split()[0] for name, _ in _examples()] == ["README.md"] * 3 + ["docs/API.md"] * 4


@pytest.mark.parametrize(("name", "block"), _examples(), ids=[name for name, _ in _examples()])
def test_examples_work_as_written(address: str, name: str, block: str) -> None:
    if "/documents" not in block:
        example = next(each for _, each in _examples() if "regulation.docx" in each)
        assert _run(example, address)["added"]
    answer = _run(block, address)
    if "draft" in block:
        assert len(answer["questions"]) == 5
        assert not any(each["reviewed"] for each in answer["questions"])
    elif "question-sets" in block:
        assert len(answer["questions"]) == 90
    elif "queries" in block:
        assert answer["spec"]["label"] == "recursive 256/32"
        assert len(answer["retrieved"]) == 5
    elif "dry_run" in block:
        assert answer["cells"] == 3
    elif "respond-async" in block:
        _wait_for(answer["job_id"])
        assert runtime.workbench().experiment(answer["job_id"]).status == "finished"
    else:
        assert answer["added"][0]["document"]["token_count"] > 1000


def _run(block: str, address: str) -> dict:  # type: ignore[type-arg]
    script = block.replace("http://127.0.0.1:8501", address)
    done = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    answer: dict = json.loads(done.stdout)  # type: ignore[type-arg]
    return answer


def _wait_for(job_id: str) -> None:
    until = time.monotonic() + 120
    while runtime.workbench().job(job_id).state in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_benchmark_goes_on_when_its_client_hangs_up(address: str) -> None:
    """The client sends a request that waits for its result, and closes the connection without reading one."""
    workbench = runtime.workbench()
    document = workbench.add_document(b"The fee is 300 euros.", "law.md").document.document_id
    question = {"question": "How high is the fee?", "evidence": ["The fee is 300 euros."]}
    asked = {"question": question, "specs": ["recursive"], "document_ids": [document], "name": "Gone"}
    body = json.dumps(asked).encode()
    server = urlsplit(address)
    head = (
        f"POST /api/v1/benchmarks HTTP/1.1\r\nHost: {server.netloc}\r\nX-Request-ID: gone\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    until = time.monotonic() + 120
    with socket.create_connection(("127.0.0.1", server.port or 0)) as connection:
        connection.sendall(head.encode() + body)
        while not workbench.experiments("Gone"):
            assert time.monotonic() < until
            time.sleep(0.01)
    # The experiment is on record before its job.
    while workbench.experiments("Gone")[0].status in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.05)
    (summary,) = workbench.experiments("Gone")
    experiment = workbench.experiment(summary.experiment_id)
    assert (experiment.status, experiment.request_id, len(experiment.cells)) == ("finished", "gone", 1)
