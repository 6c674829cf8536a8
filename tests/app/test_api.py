"""The REST API over a real Workbench: what it answers, in which form, and that it decides nothing of its own."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api import JSON_BYTES, create_api, jobs
from engine import Workbench
from engine.bench.jobs import JobRunner
from engine.ids import digest
from engine.models import ChunkSet, DocumentInfo
from engine.records import Experiment, Query
from engine.settings import Settings, load_settings

LAW = b"# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n\n## Article 2\n\nA late fee of 45 euros is due.\n"
FEE = {"question": "How high is the annual fee?", "answer": "300", "evidence": ["The annual fee is 300 euros."]}


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with Workbench.open() as workbench:
        yield workbench


def client_of(workbench: Workbench, settings: Settings | None = None, **options: Any) -> TestClient:
    api = create_api(settings or workbench.settings, lambda: workbench)
    return TestClient(api, base_url="http://127.0.0.1", **options)


@pytest.fixture
def client(bench: Workbench) -> TestClient:
    return client_of(bench)


@pytest.fixture
def law(bench: Workbench) -> str:
    return bench.add_document(LAW, "law.md").document.document_id


def finished(client: TestClient, job_url: str) -> dict[str, Any]:
    """The job once it has ended."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        job: dict[str, Any] = client.get(job_url).json()
        if job["state"] in ("finished", "failed", "cancelled"):
            return job
        time.sleep(0.05)
    raise AssertionError("the job did not end within two minutes")


# Documents


def test_a_document_is_uploaded_listed_read_and_deleted(client: TestClient, bench: Workbench) -> None:
    answer = client.post("/documents", files={"file": ("law.md", LAW)})
    assert answer.status_code == 201
    (added,) = answer.json()["added"]
    document = DocumentInfo.model_validate(added["document"])
    assert (document.name, document.sha256, added["existed"]) == ("law.md", hashlib.sha256(LAW).hexdigest(), False)
    again = client.post("/documents", files={"file": ("law.md", LAW)})
    assert (again.status_code, again.json()["added"][0]["existed"]) == (200, True)

    page = client.get("/documents").json()
    assert ([each["document_id"] for each in page["items"]], page["total"]) == ([document.document_id], 1)
    tree = client.get(f"/documents/{document.document_id}/tree").json()
    text = client.get(f"/documents/{document.document_id}/text").text
    assert tree["span"] == [0, len(text)]
    assert "Article 2" in text

    gone = client.delete(f"/documents/{document.document_id}")
    assert gone.json()["document"]["name"] == "law.md"
    assert bench.documents() == []
    assert client.get(f"/documents/{document.document_id}").status_code == 404


def test_an_archive_says_what_became_of_each_file(client: TestClient) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("law.md", LAW)
        archive.writestr("broken.docx", b"no zip")
    result = client.post("/documents", files={"file": ("all.zip", buffer.getvalue())}).json()
    assert [each["document"]["name"] for each in result["added"]] == ["law.md"]
    assert [each["path"] for each in result["failed"]] == ["broken.docx"]
    assert "broken.docx" in result["failed"][0]["error"]


def test_a_bad_document_is_a_problem_in_the_words_of_the_engine(client: TestClient, bench: Workbench) -> None:
    answer = client.post(
        "/documents", files={"file": ("law.docx", b"%PDF-1.7\n%rest")}, headers={"X-Request-ID": "r-1"}
    )
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert (problem["type"], problem["status"], problem["request_id"]) == ("urn:chunkscope:bad-document", 422, "r-1")
    assert "is a PDF" in problem["detail"]
    assert bench.documents() == []


def test_chunks_are_those_of_the_workbench_and_come_in_pages(client: TestClient, bench: Workbench, law: str) -> None:
    spec = "sentence:sentences=1,overlap=0"
    chunk_set: ChunkSet = bench.chunk(law, bench.written_spec(spec))
    first = client.get(f"/documents/{law}/chunks", params={"spec": spec, "limit": 1}).json()
    assert (first["total"], first["next_offset"]) == (len(chunk_set.chunks), 1)
    rest = client.get(f"/documents/{law}/chunks", params={"spec": spec, "offset": 1}).json()
    assert rest["next_offset"] is None
    assert first["items"] + rest["items"] == [chunk.model_dump(mode="json") for chunk in chunk_set.chunks]


def test_looking_at_chunks_never_costs_money(bench: Workbench, law: str, client: TestClient) -> None:
    answer = client.get(f"/documents/{law}/chunks", params={"spec": "contextual_retrieval"})
    assert answer.status_code == 409
    assert f"/documents/{law}/process" in answer.json()["detail"]


def test_processing_makes_a_document_searchable_once(client: TestClient, bench: Workbench, law: str) -> None:
    body = {"specs": ["recursive", {"strategy_name": "sentence", "params": {"sentences": 1, "overlap": 0}}]}
    first = client.post(f"/documents/{law}/process", json=body).json()
    assert [each["spec"]["label"] for each in first] == ["recursive 512/50", "sentence 1/0"]
    assert [each["reused"] for each in first] == [False, False]
    assert {state.strategy_name for state in bench.index_states()} == {"recursive", "sentence"}
    accepted = client.post(f"/documents/{law}/process", json=body, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    job = finished(client, accepted.headers["location"])
    again = client.get(job["result_url"]).json()
    assert [each["reused"] for each in again] == [True, True]


def test_strategies_tell_their_parameters_and_what_they_lack(client: TestClient, bench: Workbench) -> None:
    found = {each["name"]: each for each in client.get("/strategies").json()}
    assert list(found) == [strategy.name for strategy in bench.strategies()]
    assert found["recursive"]["parameters"]["properties"]["size"]["type"] == "integer"
    assert found["recursive"]["collection"] == "recursive_collection"
    assert found["contextual_retrieval"]["available"] is False
    assert "chat model" in found["contextual_retrieval"]["unavailable_because"]


# Queries


def test_a_query_waits_or_not_and_gives_the_same_record(client: TestClient, law: str) -> None:
    body = {"question": FEE["question"], "strategy": "recursive", "top_k": 1}
    waited = client.post("/queries", json=body, headers={"X-Request-ID": "mine"})
    assert waited.status_code == 201
    query = Query.model_validate(waited.json())
    assert (query.status, query.request_id, len(query.retrieved)) == ("ok", "mine", 1)
    assert "300 euros" in query.answer
    assert client.get(waited.headers["location"]).json() == waited.json()

    accepted = client.post("/queries", json=body, headers={"Prefer": "respond-async"})
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    job = finished(client, accepted.json()["job_url"])
    other = Query.model_validate(client.get(job["result_url"]).json())
    changing = {"query_id", "created_at", "request_id", "seconds"}
    assert other.model_dump(exclude=changing) == query.model_dump(exclude=changing)
    listed = client.get("/queries", params={"request_id": "mine"}).json()
    assert [each["query_id"] for each in listed] == [query.query_id]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"question": "x"}, 400, "Give either `strategy` or `spec`"),
        ({"question": "x", "strategy": "nothing"}, 422, "There is no strategy 'nothing'"),
        ({"question": "x", "strategy": "recursive:size=0"}, 422, "size"),
        ({"question": "x", "strategy": "recursive:size"}, 400, "parameter=value"),
        ({"question": "", "strategy": "recursive"}, 422, "body.question"),
        ({"question": "x", "strategy": "recursive", "topk": 3}, 422, "body.topk"),
        ({"question": "x", "strategy": "recursive", "document_ids": ["0" * 32]}, 404, "0" * 32),
        ({"question": "x", "strategy": "recursive"}, 400, "no documents yet"),
    ],
)
def test_a_wrong_query_is_a_problem(client: TestClient, body: dict[str, Any], status: int, words: str) -> None:
    answer = client.post("/queries", json=body)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


# Question sets and benchmarks


def test_question_sets_are_created_listed_and_validated(client: TestClient, law: str) -> None:
    made = client.post("/question-sets", json={"name": "Fees", "questions": [FEE]})
    assert made.status_code == 201
    set_id = made.json()["question_set_id"]
    assert made.json()["questions"][0]["evidence"][0]["method"] == "exact"
    assert client.get(made.headers["location"]).json()["name"] == "Fees"
    assert [each["question_set_id"] for each in client.get("/question-sets").json()["items"]] == [set_id]
    checked = client.post(f"/question-sets/{set_id}/validate").json()
    assert checked["usable"] is True

    lost = {**FEE, "evidence": ["Nobody wrote this sentence anywhere."]}
    file = client.post("/question-sets/file", files={"file": ("lost.json", json.dumps([lost]).encode())})
    checked = client.post(f"/question-sets/{file.json()['question_set_id']}/validate").json()
    assert checked["usable"] is False
    assert "evidence_not_found" in {each["kind"] for each in checked["findings"]}


def test_a_benchmark_of_one_question_waits_or_not(client: TestClient, bench: Workbench, law: str) -> None:
    # What is indexed already spends nothing, so both runs find the same state.
    bench.index([law], [bench.spec("recursive"), bench.spec("sentence")])
    body = {"question": FEE, "specs": ["recursive", "sentence"], "name": "One"}
    waited = client.post("/benchmarks", json=body, headers={"X-Request-ID": "bench-1"})
    assert waited.status_code == 201
    experiment = Experiment.model_validate(waited.json())
    assert (experiment.status, experiment.request_id, len(experiment.cells)) == ("finished", "bench-1", 2)
    assert client.get(waited.headers["location"]).json() == waited.json()

    accepted = client.post("/benchmarks", json=body, headers={"Prefer": "respond-async"})
    job = finished(client, accepted.json()["job_url"])
    assert job["kind"] == "benchmark"
    other = client.get(job["result_url"]).json()
    assert without_ids_and_times(other) == without_ids_and_times(waited.json())
    assert [each["experiment_id"] for each in client.get("/benchmarks").json()["items"]] == [
        job["job_id"],
        experiment.experiment_id,
    ]
    compared = client.get("/experiments/compare", params={"ids": f"{experiment.experiment_id},{job['job_id']}"}).json()
    assert compared["common_questions"] == 1
    assert {each["difference"] for each in compared["metrics"]} <= {0.0, None}
    asked = {"baseline": experiment.experiment_id, "candidate": job["job_id"], "metric": "recall@1000tok"}
    assert client.get("/experiments/check", params=asked).json()["outcome"] in ("pass", "cannot_tell")


def without_ids_and_times(record: Any) -> Any:
    """A record without what differs between two runs of the same: ids of events, moments, seconds."""
    changing = {"experiment_id", "query_id", "request_id", "created_at", "finished_at", "seconds"}
    if isinstance(record, dict):
        return {key: without_ids_and_times(value) for key, value in record.items() if key not in changing}
    return [without_ids_and_times(each) for each in record] if isinstance(record, list) else record


def test_a_dry_run_stores_and_calls_nothing(client: TestClient, bench: Workbench, law: str) -> None:
    answer = client.post("/benchmarks", params={"dry_run": "true"}, json={"question": FEE, "specs": ["recursive"]})
    assert answer.status_code == 200
    assert (answer.json()["cells"], answer.json()["estimated_calls"], answer.json()["estimated_cost_usd"]) == (1, 0, 0)
    assert (bench.question_sets(), bench.experiments(), bench.index_states()) == ([], [], [])


def test_grids_and_a_finished_benchmark_cancelled_and_resumed(client: TestClient, law: str) -> None:
    body = {"question": FEE, "grids": ["sentence:sentences=1|2,overlap=0"]}
    experiment = client.post("/benchmarks", json=body).json()
    assert [spec["label"] for spec in experiment["plan"]["specs"]] == ["sentence 1/0", "sentence 2/0"]
    address = f"/benchmarks/{experiment['experiment_id']}"
    assert client.post(f"{address}/cancel").json()["state"] == "finished"
    resumed = client.post(f"{address}/resume").json()
    assert without_ids_and_times(resumed["cells"]) == without_ids_and_times(experiment["cells"])


def test_a_baseline_is_written_or_named_by_its_id(client: TestClient, bench: Workbench, law: str) -> None:
    sentence = bench.spec("sentence")
    body = {"question": FEE, "specs": ["recursive", "sentence"], "answers": False}
    for baseline in ("sentence", sentence.spec_id):
        experiment = client.post("/benchmarks", json={**body, "baseline": baseline}).json()
        assert experiment["plan"]["baseline"] == sentence.spec_id
    other = client.post("/benchmarks", json={**body, "baseline": "paragraph"})
    assert (other.status_code, "baseline" in other.json()["detail"]) == (400, True)


def test_who_waits_is_told_when_the_app_stops(
    client: TestClient, bench: Workbench, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark stays in the queue for the next start; only the waiting ends."""
    stopped = threading.Event()
    stopped.set()
    monkeypatch.setattr(jobs, "stopping", stopped)
    monkeypatch.setattr(JobRunner, "start", lambda _: None)
    answer = client.post("/benchmarks", json={"question": FEE, "specs": ["recursive"]})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:chunkscope:stopping")
    assert [job.state for job in bench.jobs()] == ["queued"]


def test_report_and_exports_are_files_in_which_no_script_runs(
    client: TestClient, bench: Workbench, law: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = client.post("/benchmarks", json={"question": FEE, "specs": ["recursive"]}).headers["location"]
    report = client.get(f"{address}/report")
    assert report.headers["content-type"] == "text/html; charset=utf-8"
    assert FEE["question"] in report.text
    assert "default-src 'none'" in report.headers["content-security-policy"]
    export = client.get(f"{address}/export", params={"format": "csv"})
    assert export.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert "recursive 512/50" in export.text
    for kind in ("json", "csv"):
        sent = client.get(f"{address}/export", params={"format": kind})
        assert sent.content == bench.export(address.rpartition("/")[2], kind).data
        assert int(sent.headers["content-length"]) == len(sent.content)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    refused = client.get(f"{address}/export")
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:chunkscope:store-unavailable")
    assert "temporary folder: No such file or directory" in refused.json()["detail"]


# Form of the answers


def test_unchanging_records_have_an_etag(client: TestClient, law: str) -> None:
    query = client.post("/queries", json={"question": "fee?", "strategy": "recursive"}).json()
    addresses = [
        f"/documents/{law}",
        f"/documents/{law}/tree",
        f"/documents/{law}/chunks",
        f"/queries/{query['query_id']}",
    ]
    for address in [*addresses, "/strategies"]:
        first = client.get(address)
        etag = first.headers["etag"]
        same = client.get(address, headers={"If-None-Match": f'"other", W/{etag}'})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
        assert client.get(address, headers={"If-None-Match": '"other"'}).content == first.content


def test_request_ids_are_made_taken_over_or_refused(client: TestClient) -> None:
    assert len(client.get("/strategies").headers["x-request-id"]) == 32
    assert client.get("/strategies", headers={"X-Request-ID": "a.b-c_1"}).headers["x-request-id"] == "a.b-c_1"
    for wrong in ("", "x" * 65, "two words", "line\\nbreak", "ä".encode()):
        answer = client.get("/strategies", headers={"X-Request-ID": wrong})
        assert answer.status_code == 400
        assert answer.json()["request_id"] == answer.headers["x-request-id"] != wrong


def test_wrong_addresses_and_methods_are_problems(client: TestClient) -> None:
    assert client.get("/nothing").json()["type"] == "urn:chunkscope:not-found"
    assert client.put("/documents").json()["type"] == "urn:chunkscope:method-not-allowed"
    missing = client.get(f"/queries/{digest('none')}")
    assert (missing.status_code, missing.json()["title"]) == (404, "Not Found")


def test_a_bug_is_one_line_with_the_request_id(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Workbench:
        raise RuntimeError("secret of the document")

    client = TestClient(create_api(bench.settings, broken), base_url="http://127.0.0.1")
    answer = client.get("/strategies", headers={"X-Request-ID": "bug-1"})
    assert answer.status_code == 500
    assert answer.json()["detail"] == "This is a bug in Chunkscope. Details are in the log under bug-1."
    assert "secret" not in answer.text
    assert "a request failed" in caplog.text


def test_too_large_requests_are_refused_before_they_are_read(bench: Workbench) -> None:
    client = client_of(bench, load_settings(max_upload_mb=1))
    read = 0

    def body(size: int) -> Iterator[bytes]:
        nonlocal read
        for _ in range(size // 65536):
            read += 65536
            yield b"x" * 65536

    declared = client.post(
        "/documents",
        content=body(8 << 20),
        headers={"Content-Length": str(8 << 20), "Content-Type": "multipart/form-data; boundary=b"},
    )
    assert (declared.status_code, declared.json()["type"]) == (413, "urn:chunkscope:content-too-large")
    streamed = client.post(
        "/documents", content=body(8 << 20), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert streamed.status_code == 413
    big = client.post("/queries", content=b" " * (JSON_BYTES + 1), headers={"Content-Type": "application/json"})
    assert big.status_code == 413
    assert bench.documents() == []


def test_openapi_has_examples_and_every_operation_its_problems(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    operations = [each for path in schema["paths"].values() for each in path.values()]
    assert len(operations) >= 24
    assert all("401" in each["responses"] and each["summary"] and each["description"] for each in operations)
    assert schema["components"]["schemas"]["QueryBody"]["examples"][0]["question"] == FEE["question"]
    assert client.get("/docs").status_code == 404
