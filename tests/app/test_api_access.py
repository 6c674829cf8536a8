"""Who may call the API, how often, and what is written down about it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette

from app import __main__ as server
from app import logs, runtime
from app.api import create_api, health, problems
from app.api.metrics import Latencies
from app.api.middleware import Limits
from engine import Workbench, keys
from engine.cli import main as command
from engine.errors import BadSetting
from engine.settings import Settings, load_settings

KEY = "cs_key-of-ann"
ANN = f"ann:{keys.fingerprint(KEY)}"


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with Workbench.open() as workbench:
        yield workbench


def client_of(workbench: Workbench, settings: Settings, host: str = "127.0.0.1") -> TestClient:
    return TestClient(create_api(settings, lambda: workbench), base_url=f"http://{host}")


# Keys


def test_a_key_is_made_shown_once_and_stored_as_a_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["api-key", "ann"]) == 0
    printed = capsys.readouterr()
    key = next(line for line in printed.err.splitlines() if line.startswith("cs_"))
    name, _, value = printed.out.strip().partition("=")
    assert name == "API_KEYS"
    assert key not in printed.out
    assert keys.owner(keys.parse(value), key) == "ann"
    assert keys.owner(keys.parse(value), key + "x") is None
    assert command(["api-key", "two words"]) == 1


@pytest.mark.parametrize("written", ["ann", "ann:123", f"{ANN},{ANN}", "ann:" + "z" * 64, f"a b:{'0' * 64}"])
def test_wrong_keys_in_the_settings_are_refused_without_repeating_them(written: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load_settings(api_keys=written)
    assert caught.value.message.startswith("API_KEYS is (hidden).")
    assert written.split(":")[-1] not in caught.value.message.removeprefix("API_KEYS")


def test_with_keys_every_request_needs_one(bench: Workbench) -> None:
    settings = load_settings(api_keys=f"bob:{'0' * 64},{ANN}")
    client = client_of(bench, settings, "chunks.example.org")
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer"},
    ):
        answer = client.get("/strategies", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["type"] == "urn:chunkscope:no-key"
    assert client.get("/strategies", headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    assert client.get("/openapi.json", headers={"Authorization": f"Bearer {KEY}"}).json()["security"] == [{"key": []}]


def test_the_key_owns_the_jobs_it_starts(bench: Workbench) -> None:
    bench.add_document(b"The fee is 300 euros.", "law.md")
    client = client_of(bench, load_settings(api_keys=ANN))
    body = {"question": {"question": "fee?", "evidence": ["The fee is 300 euros."]}, "specs": ["recursive"]}
    headers = {"Authorization": f"Bearer {KEY}"}
    experiment = client.post("/benchmarks", json=body, headers=headers).json()
    assert bench.job(experiment["experiment_id"]).owner == "ann"
    assert keys.fingerprint(KEY) not in json.dumps(experiment)
    assert experiment["settings"]["api_keys"] is False


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_a_public_address_needs_keys(host: str, local: bool) -> None:
    settings = load_settings(host=host)
    assert settings.is_local is local
    server.check_address(load_settings(host=host, api_keys=ANN))
    if local:
        server.check_address(settings)
    else:
        with pytest.raises(BadSetting, match="python -m engine api-key NAME"):
            server.check_address(settings)


def test_the_app_does_not_start_on_a_public_address_without_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        assert server.main([]) == 1
    finally:
        root.handlers[:], _ = before
        root.setLevel(before[1])
    assert "HOST is 0.0.0.0" in capsys.readouterr().err


# Web pages of others


def test_without_keys_only_programs_of_this_machine_come_in(bench: Workbench) -> None:
    client = client_of(bench, bench.settings)
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert client.get("/strategies", headers=headers).status_code == 403
    for headers in ({"Host": "localhost:8501"}, {"Host": "[::1]:8501"}, {"Origin": "http://127.0.0.1"}):
        assert client.get("/strategies", headers=headers).status_code == 200


def test_cors_is_off_unless_an_origin_is_named(bench: Workbench) -> None:
    asked = {"Origin": "https://tools.example.org", "Access-Control-Request-Method": "GET"}
    assert (
        "access-control-allow-origin"
        not in client_of(bench, bench.settings).options("/strategies", headers=asked).headers
    )
    allowed = client_of(bench, load_settings(api_cors_origins="https://tools.example.org/"))
    assert allowed.options("/strategies", headers=asked).headers["access-control-allow-origin"] == asked["Origin"]
    answer = allowed.get("/strategies", headers={"Origin": asked["Origin"]})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, asked["Origin"])
    assert allowed.get("/strategies", headers={"Origin": "https://evil.example"}).status_code == 403


# Limits


def test_limits_refill_evenly_and_say_when_to_come_back() -> None:
    now = 0.0
    limits = Limits(per_minute=2, at_once=5, clock=lambda: now)
    for _ in range(2):
        limits.enter("ann")
    with pytest.raises(problems.TooMany) as caught:
        limits.enter("ann")
    assert caught.value.seconds == 30
    limits.enter("bob")
    now = 30.0
    limits.enter("ann")
    with pytest.raises(problems.TooMany):
        limits.enter("ann")


def test_limits_count_requests_at_once() -> None:
    limits = Limits(per_minute=100, at_once=1, clock=lambda: 0.0)
    limits.enter("ann")
    with pytest.raises(problems.TooMany, match="1 requests running"):
        limits.enter("ann")
    limits.leave("ann")
    limits.enter("ann")


def test_a_key_that_asks_too_often_is_told_when_to_come_back(bench: Workbench) -> None:
    client = client_of(bench, load_settings(api_keys=ANN, api_requests_per_minute=1))
    headers = {"Authorization": f"Bearer {KEY}"}
    assert client.get("/jobs", headers=headers).status_code == 200
    answer = client.get("/jobs", headers=headers)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) in (59, 60)


# Health and numbers


@pytest.fixture
def served(bench: Workbench) -> TestClient:
    return TestClient(Starlette(routes=health.routes(bench.settings, lambda: bench)), base_url="http://127.0.0.1")


def test_live_and_ready(served: TestClient) -> None:
    assert served.get("/live").json() == {"live": True}
    ready = served.get("/ready").json()
    assert ready["ready"] is True
    assert ready["database"].startswith("SQLite answers")


def test_metrics_count_jobs_and_requests(served: TestClient, bench: Workbench) -> None:
    api = client_of(bench, bench.settings)
    api.get("/jobs")
    lines = served.get("/metrics").text.splitlines()
    assert 'chunkscope_jobs{state="queued"} 0' in lines
    assert "chunkscope_queue_oldest_seconds 0" in lines
    (count,) = [
        line
        for line in lines
        if line.startswith('chunkscope_http_request_seconds_count{method="GET",route="/jobs",status="200"}')
    ]
    assert int(count.rsplit(" ", 1)[1]) >= 1
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {
        f"chunkscope_model_{each}_total" for each in ("calls", "input_tokens", "output_tokens", "cost_usd")
    } <= names


def test_metrics_need_a_key_where_the_api_does(bench: Workbench) -> None:
    settings = load_settings(api_keys=ANN)
    client = TestClient(Starlette(routes=health.routes(settings, lambda: bench)), base_url="http://127.0.0.1")
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    assert client.get("/ready").status_code == 200


def test_a_histogram_counts_every_request_in_all_buckets_above_it() -> None:
    latencies = Latencies()
    for seconds in (0.004, 0.3, 1000.0):
        latencies.note("GET", "/x", 200, seconds)
    labels = 'method="GET",route="/x",status="200"'
    lines = list(latencies.lines())
    for bound, count in (("0.005", 1), ("0.25", 1), ("0.5", 2), ("300.0", 2), ("+Inf", 3)):
        assert f'chunkscope_http_request_seconds_bucket{{{labels},le="{bound}"}} {count}' in lines
    assert f"chunkscope_http_request_seconds_count{{{labels}}} 3" in lines


# Logs


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is logged while a test runs, as the app logs it; afterwards everything is as it was."""
    loggers = [
        logging.getLogger(name)
        for name in (None, "app", "engine", "pages", "uvicorn", "uvicorn.error", "uvicorn.access")
    ]
    before = [(each, each.level, each.handlers[:], each.propagate) for each in loggers]
    stream = io.StringIO()
    logs.configure("INFO", stream)
    yield stream
    for each, level, handlers, propagate in before:
        each.setLevel(level)
        each.handlers[:] = handlers
        each.propagate = propagate


def test_requests_are_logged_as_json_without_question_text_or_key(bench: Workbench, log: io.StringIO) -> None:
    document = bench.add_document(b"The secret fee is 300 euros.", "law.md").document.document_id
    client = client_of(bench, load_settings(api_keys=ANN))
    headers = {"Authorization": f"Bearer {KEY}", "X-Request-ID": "logged-1"}
    client.post("/queries", json={"question": "How high is the secret fee?", "strategy": "recursive"}, headers=headers)
    client.get(f"/documents/{document}/chunks", params={"spec": "recursive"}, headers=headers)
    client.get("/secret-address", headers=headers)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    ours = [line for line in lines if line["logger"] == "app.api"]
    assert [line["message"] for line in ours] == [
        "POST /queries 201",
        "GET /documents/{document_id}/chunks 200",
        "GET unknown 404",
    ]
    assert {(line["request_id"], line["key"], line["level"]) for line in ours} == {("logged-1", "ann", "INFO")}
    assert all(line["seconds"] >= 0 for line in ours)
    assert "secret" not in log.getvalue()
    assert KEY not in log.getvalue()


def test_lines_of_other_threads_belong_to_the_request(
    bench: Workbench, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add_document(b"The fee is 300 euros.", "law.md")

    def broken(*_: object) -> None:
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr("engine.retrieve.vector_hits", broken)
    body = {"question": "fee?", "strategy": "recursive"}
    answer = client_of(bench, bench.settings).post("/queries", json=body, headers={"X-Request-ID": "bug-2"})
    assert answer.json()["status"] == "failed"
    assert answer.json()["error"] == "This is a bug in Chunkscope. Details are in the log under bug-2."
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (line,) = [line for line in lines if line["level"] == "ERROR"]
    assert line["request_id"] == "bug-2"
    assert line["error"].startswith("RuntimeError at app/test_api_access.py:")


def test_an_error_is_logged_by_its_place_and_never_by_what_it_says(log: io.StringIO) -> None:
    try:
        try:
            raise ValueError("text of a document")
        except ValueError as error:
            raise RuntimeError("more text") from error
    except RuntimeError:
        logging.getLogger("app").exception("it failed")
    line = json.loads(log.getvalue())
    assert line["error"].startswith("ValueError at app/test_api_access.py:")
    assert "RuntimeError at" in line["error"]
    assert "text" not in line["error"]


def test_lines_for_a_terminal_are_plain() -> None:
    record = logging.makeLogRecord({"levelname": "INFO", "name": "app", "msg": "done", "seconds": 1.5})
    line = logs.PlainFormatter(False).format(record)
    assert line.endswith("INFO app done seconds=1.5")


def test_libraries_are_heard_from_warnings_on(log: io.StringIO) -> None:
    logging.getLogger("httpx").info("the whole request")
    logging.getLogger("uvicorn.access").info("GET /?question=secret")
    assert log.getvalue() == ""


# The app itself


def test_api_alone_serves_what_the_app_serves() -> None:
    settings = load_settings()
    try:
        with TestClient(server.build_api(settings), base_url="http://127.0.0.1") as client:
            assert client.get("/ready").json()["ready"] is True
            made = client.post("/api/v1/documents", files={"file": ("law.md", b"# Fees")}).json()
            chunks = client.get(f"/api/v1/documents/{made['added'][0]['document']['document_id']}/chunks")
            assert chunks.json()["total"] == 1
            assert client.get("/api/v1/openapi.json").json()["servers"] == [{"url": "/api/v1"}]
    finally:
        runtime.close()
