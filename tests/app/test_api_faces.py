"""The same work by page, command line, REST API and Workbench is the same record."""

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

from app import money, runtime
from app.api import create_api
from engine import Workbench
from engine.cli import main
from engine.settings import load_settings
from tests.app.test_api import without_ids_and_times
from tests.conftest import ROOT
from tests.fake_openai import FakeOpenAI

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


# What a chat model writes, and which copy of a quote counts

SENTENCE = "The authority may shorten the period on request of the person concerned."
ACT = "# Fees act\n\n" + "".join(
    f"## Article {number}\n\nWhoever runs a plant of class {number} pays {100 * number} euros a year. {SENTENCE} "
    f"Payments for class {number} are due on the first day of the month that follows the decision.\n\n"
    for number in range(1, 5)
)
SPEC = "markdown_structure"


@pytest.fixture
def with_model(fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> FakeOpenAI:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_openai.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("LLM_MODEL", "gpt-4o-mini")
    monkeypatch.setenv("EMBEDDING_MODEL", "wordllama")
    return fake_openai


@pytest.fixture
def client(fresh: Callable[[], None]) -> TestClient:
    settings = load_settings()
    return TestClient(create_api(settings, lambda: runtime.workbench(settings)), base_url="http://127.0.0.1")


def waited_for(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    """The result of work in the background."""
    begun = client.post(path, json=body, headers={"Prefer": "respond-async"})
    assert begun.status_code == 202
    job = f"/jobs/{begun.json()['job_id']}"
    until = time.monotonic() + 120
    while client.get(job).json()["state"] in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.02)
    return client.get(f"{job}/result").json()


def open_page(name: str, **query: str) -> AppTest:
    page = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    if name != "upload":
        for key, value in query.items():
            page.query_params[key] = value
        page.switch_page(f"../pages/{name}.py").run()
    return page


def test_summaries_are_the_same_on_every_face(
    with_model: FakeOpenAI, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    act = runtime.workbench().add_document(ACT.encode(), "act.md").document.document_id
    spec = runtime.workbench().spec(SPEC)
    cost = runtime.workbench().enrich_estimate(act, spec)
    assert cost is not None
    assert cost.calls == 4
    estimated = client.post(f"/documents/{act}/enrich", params={"dry_run": "true"}, json={"spec": SPEC})
    assert estimated.json() == cost.model_dump(mode="json")
    page = open_page("chunk_inspector", document=act, strategies=SPEC)
    page.segmented_control(key="inspector.section").set_value("Summaries").run()
    assert money.calls_in_short(cost) in [each.value for each in page.text]
    runtime.close()
    assert main(["enrich", "act.md", "--strategy", SPEC, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == cost.model_dump(mode="json")
    assert with_model.calls("chat") == 0
    assert main(["enrich", "act.md", "--strategy", SPEC, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert with_model.calls("chat") == 4
    assert all(each["summary"] for each in written)
    # Every further face takes the model's words from the cache.
    body = {"spec": SPEC}
    assert client.post(f"/documents/{act}/enrich", json=body).json()["items"] == written
    assert waited_for(client, f"/documents/{act}/enrich", body)["items"] == written
    assert client.get(f"/documents/{act}/chunks", params=body).json()["items"] == written
    assert [each.model_dump(mode="json") for each in runtime.workbench().enrich(act, spec).chunks] == written
    page = open_page("chunk_inspector", document=act, strategies=SPEC)
    page.segmented_control(key="inspector.section").set_value("Summaries").run()
    assert page.dataframe[-1].value["summary"].tolist() == [each["summary"] for each in written]
    assert with_model.calls("chat") == 4


def test_drafts_of_a_model_are_the_same_on_every_face(
    with_model: FakeOpenAI, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    act = runtime.workbench().add_document(ACT.encode(), "act.md").document.document_id
    cost = runtime.workbench().draft_estimate([act])
    assert cost is not None
    asked = {"document_ids": [act], "with_model": True}
    estimated = client.post("/question-sets/draft", params={"dry_run": "true"}, json=asked)
    assert (estimated.status_code, estimated.json()) == (200, cost.model_dump(mode="json"))
    runtime.close()
    assert main(["questions", "draft", "act.md", "--with-model", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == cost.model_dump(mode="json")
    assert with_model.calls("chat") == 0
    assert main(["questions", "draft", "act.md", "--with-model", "--json"]) == 0
    drafted = without_ids_and_times(json.loads(capsys.readouterr().out))
    assert drafted["questions"]
    answer = client.post("/question-sets/draft", json=asked)
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(answer.json()["question_set_id"])
    assert without_ids_and_times(answer.json()) == drafted
    assert without_ids_and_times(waited_for(client, "/question-sets/draft", asked)) == drafted
    made = runtime.workbench().draft_with_model([act]).question_set
    assert without_ids_and_times(made.model_dump(mode="json")) == drafted
    page = open_page("upload", document=act)
    page.button(key="upload.draft_with_model").click().run()
    assert page.selectbox(key="upload.set").value == made.question_set_id
    assert with_model.calls("chat") == cost.calls


def test_a_copy_is_chosen_alike_on_every_face(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    workbench = runtime.workbench()
    act = workbench.add_document(ACT.encode(), "act.md").document.document_id
    row = {"question": "Who may shorten the period?", "evidence": [SENTENCE]}
    added = workbench.add_question_set(json.dumps([row]).encode(), "copies.json")
    set_id, question_id = added.question_set_id, added.questions[0].question_id
    places = [place for place in range(len(ACT)) if ACT.startswith(SENTENCE, place)]

    def starts(questions: Any) -> list[int]:
        return [gold["span"][0] for gold in questions[0]["evidence"][0]["gold"]]

    path, chosen = f"/question-sets/{set_id}/copy", {"question_id": question_id, "evidence": 0}
    assert starts(client.post(path, json={**chosen, "place": 2}).json()["questions"]) == [places[2]]
    page = open_page("upload", document=act)
    radio = f"upload.copy.{set_id}.{question_id}.0"
    assert page.radio(key=radio).value == 2
    page.radio(key=radio).set_value(3).run()
    assert starts(client.get(f"/question-sets/{set_id}").json()["questions"]) == [places[3]]
    assert client.post(path, json={**chosen, "place": 9}).status_code == 400
    assert client.post(path, json=chosen).status_code == 422
    every = client.post(path, json={**chosen, "place": None}).json()
    assert starts(every["questions"]) == places
    runtime.close()
    assert main(["questions", "choose", "copies.json"]) == 0
    shown = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(each[0], each[2], each[3], each[6]) for each in shown] == [
        (question_id, str(number), "counts", str(place)) for number, place in enumerate(places, start=1)
    ]
    assert main(["questions", "choose", "copies.json", question_id, "--place", "2", "--json"]) == 0
    assert starts(json.loads(capsys.readouterr().out)["questions"]) == [places[1]]
    assert main(["questions", "choose", "copies.json", question_id, "--every-copy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == every
    for wrong in ([question_id], ["--place", "1"], [question_id, "--place", "0"], [question_id, "--place", "9"]):
        assert main(["questions", "choose", "copies.json", *wrong]) == 1
        assert "Nothing was changed" in capsys.readouterr().err
    assert starts(json.loads(client.get(f"/question-sets/{set_id}").text)["questions"]) == places
