"""Users of the REST API, named by a trusted proxy: only where a setting says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from app import runtime
from app.api import create_api
from engine.settings import load_settings
from tests.app.test_api_faces import LAW, QUESTIONS

Open = Callable[..., TestClient]
ANN, BEN = {"X-Forwarded-User": "ann"}, {"X-Forwarded-User": "ben"}


@pytest.fixture
def opened() -> Iterator[Open]:
    def with_settings(**values: object) -> TestClient:
        settings = load_settings(**values)
        return TestClient(create_api(settings, lambda: runtime.workbench(settings)), base_url="http://127.0.0.1")

    yield with_settings
    runtime.close()


def names(client: TestClient, user: dict[str, str]) -> list[str]:
    return [item["name"] for item in client.get("/documents", headers=user).json()["items"]]


def test_a_header_that_no_setting_trusts_means_nothing(opened: Open) -> None:
    client = opened()
    client.post("/documents", files={"file": ("law.md", LAW.encode())}, headers=ANN)
    assert names(client, BEN) == ["law.md"]


def test_the_proxy_names_the_user(opened: Open) -> None:
    client = opened(api_user_header="X-Forwarded-User")
    client.post("/documents", files={"file": ("law.md", LAW.encode())}, headers=ANN)
    questions = client.post("/question-sets/file", files={"file": ("q.json", QUESTIONS.encode())}, headers=ANN).json()
    body = {"question_set_id": questions["question_set_id"], "specs": ["sentence"]}
    experiment = client.post("/benchmarks", json=body, headers=ANN).json()["experiment_id"]
    assert names(client, ANN) == ["law.md"]
    assert names(client, BEN) == []
    assert client.get(f"/benchmarks/{experiment}", headers=BEN).status_code == 404
    shared = {"kind": "experiment", "id": experiment}
    assert client.post("/sharing", json=shared, headers=BEN).status_code == 404
    assert client.post("/sharing", json=shared, headers=ANN).json() == {**shared, "shared": True}
    assert client.get(f"/benchmarks/{experiment}", headers=BEN).status_code == 200
    refused = client.post(f"/benchmarks/{experiment}/cancel", headers=BEN)
    assert refused.status_code == 403
    assert "only its owner may change it" in refused.json()["detail"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_name_beyond_ascii_is_the_one_that_pages_know(opened: Open, encoding: str) -> None:
    client = opened(api_user_header="X-Forwarded-User")
    workbench = runtime.workbench(load_settings())
    workbench.acting_as("voilà").add_document(LAW.encode(), "law.md")
    sent = client.get("/documents", headers={b"X-Forwarded-User": "voilà".encode(encoding)})
    assert [item["name"] for item in sent.json()["items"]] == ["law.md"]


def test_a_request_past_the_proxy_is_refused(opened: Open) -> None:
    client = opened(api_user_header="X-Forwarded-User")
    assert client.get("/documents").status_code == 403
    both = [("X-Forwarded-User", "ann"), ("X-Forwarded-User", "ben")]
    assert client.get("/documents", headers=both).status_code == 403
