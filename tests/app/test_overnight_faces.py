"""An overnight run by page, command line and REST API: the same price in the dry run, the same record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import runtime
from app.api import create_api
from engine.cli import main
from engine.records import Experiment
from engine.settings import load_settings
from tests.app.test_api_faces import LAW, QUESTIONS
from tests.conftest import ROOT
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI


@pytest.fixture
def client(fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    for name, value in killing.variables(fake_openai, tmp_path / "data").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BATCH_POLL_SECONDS", "0.01")
    settings = load_settings()
    with TestClient(create_api(settings, lambda: runtime.workbench(settings)), base_url="http://127.0.0.1") as client:
        client.post("/documents", files={"file": ("law.md", LAW.encode())})
        client.post("/question-sets/file", files={"file": ("questions.json", QUESTIONS.encode())})
        yield client
    runtime.close()


def test_every_face_names_the_price_of_the_night_and_can_choose_it(
    client: TestClient, fake_openai: FakeOpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = client.get("/question-sets").json()["items"][0]["question_set_id"]
    body = {"question_set_id": questions, "specs": ["recursive"], "judge": True}
    by_day = client.post("/benchmarks?dry_run=true", json=body).json()
    by_night = client.post("/benchmarks?dry_run=true", json={**body, "batch": True}).json()
    assert by_night["estimated_cost_usd"] == by_day["overnight_cost_usd"] < by_day["estimated_cost_usd"]

    page = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
    page.session_state["benchmark.strategies"] = ["recursive"]
    page.session_state["benchmark.judge"] = True
    page.run()
    page.switch_page("../pages/benchmark.py").run()
    page.button(key="benchmark.dry").click().run()
    assert any("Overnight about" in each.value for each in page.markdown)
    page.toggle(key="benchmark.batch").set_value(True).run()
    page.button(key="benchmark.dry").click().run()
    assert not page.exception
    assert any("batch endpoint" in each.value for each in page.caption)

    record = Experiment.model_validate(client.post("/benchmarks", json={**body, "batch": True}).json())
    assert record.status == "finished"
    assert record.plan.batch
    assert fake_openai.calls("chat") == 0
    assert fake_openai.calls("batched") > 0
    runtime.close()
    capsys.readouterr()
    assert main(["benchmark", questions, "--strategy", "recursive", "--judge", "--batch", "--json"]) == 0
    again = Experiment.model_validate(json.loads(capsys.readouterr().out))
    assert again.plan.batch
    assert [each.metrics for each in again.results] == [each.metrics for each in record.results]
    assert fake_openai.calls("chat") == 0
