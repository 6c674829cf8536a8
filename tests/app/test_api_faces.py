"""The same benchmark by page, command line, REST API and Workbench is the same record."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import runtime
from app.api import create_api
from engine import Workbench
from engine.cli import main
from engine.settings import load_settings
from tests.app.test_api import without_ids_and_times
from tests.conftest import ROOT

LAW = "# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n\n## Article 2\n\nA late fee of 45 euros is due.\n"
QUESTIONS = json.dumps(
    [
        {"question": "How high is the annual fee?", "answer": "300", "evidence": ["The annual fee is 300 euros."]},
        {"question": "What is due late?", "answer": "45", "evidence": ["A late fee of 45 euros is due."]},
    ]
)
STRATEGIES = ("recursive", "sentence")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "law.md").write_text(LAW, encoding="utf-8")
    (tmp_path / "questions.json").write_text(QUESTIONS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Empties the data folder, which keeps its path: the settings in the record name it."""

    def empty() -> None:
        runtime.close()
        shutil.rmtree(tmp_path / "data", ignore_errors=True)

    yield empty
    runtime.close()


def by_workbench(files: Path) -> Any:
    with Workbench.open() as workbench:
        document = workbench.add_document(LAW.encode(), "law.md").document.document_id
        questions = workbench.add_question_set(QUESTIONS.encode(), "questions.json", [document])
        specs = [workbench.spec(name) for name in STRATEGIES]
        return workbench.benchmark(workbench.plan(questions, specs, [document])).model_dump(mode="json")


def by_command_line(files: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    chosen = [argument for name in STRATEGIES for argument in ("--strategy", name)]
    assert main(["benchmark", "questions.json", "--documents", "law.md", *chosen, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def by_api(files: Path) -> Any:
    settings = load_settings()
    client = TestClient(create_api(settings, lambda: runtime.workbench(settings)), base_url="http://127.0.0.1")
    client.post("/documents", files={"file": ("law.md", LAW.encode())})
    questions = client.post("/question-sets/file", files={"file": ("questions.json", QUESTIONS.encode())}).json()
    body = {"question_set_id": questions["question_set_id"], "specs": list(STRATEGIES)}
    return client.post("/benchmarks", json=body).json()


def by_page(files: Path) -> Any:
    workbench = runtime.workbench()
    workbench.add_document(LAW.encode(), "law.md")
    workbench.add_question_set(QUESTIONS.encode(), "questions.json")
    page = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
    page.session_state["benchmark.strategies"] = list(STRATEGIES)
    page.run()
    page.switch_page("../pages/benchmark.py").run()
    page.button(key="benchmark.dry").click().run()
    page.button(key="benchmark.run").click().run()
    assert not page.exception
    experiment_id = page.query_params["experiment"]
    until = time.monotonic() + 120
    while workbench.job(experiment_id).state in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.05)
    return workbench.experiment(experiment_id).model_dump(mode="json")


def test_the_same_benchmark_is_the_same_record(
    files: Path, fresh: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = without_ids_and_times(by_workbench(files))
    assert expected["status"] == "finished"
    assert [len(cell["query"]["retrieved"]) for cell in expected["cells"]] == [1, 1, 1, 1]
    fresh()
    assert without_ids_and_times(by_command_line(files, capsys)) == expected
    fresh()
    assert without_ids_and_times(by_api(files)) == expected
    fresh()
    assert without_ids_and_times(by_page(files)) == expected
