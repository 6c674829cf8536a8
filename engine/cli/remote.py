"""Commands carried out by an app that is running, through its REST API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlencode, urlsplit

from engine.bench.dry_run import DryRun
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison
from engine.cli.backend import Indexed, JobStatus, Order
from engine.cli.output import read
from engine.errors import BadRequest, UserError
from engine.models import Chunk, DocumentInfo, Node, Record, StrategySpec
from engine.providers.estimate import CallsEstimate
from engine.questions import Finding
from engine.records import Experiment, Query, QuestionSet
from engine.report import Exported
from engine.store import ExperimentSummary, QuestionSetInfo
from engine.store.owners import Kind
from engine.strategies.describe import StrategyInfo
from engine.workbench import Added, Deletion, FileAdded

R = TypeVar("R", bound=Record)

PREFIX = "/api/v1"
PAGE = 500
PIECE = 256 * 1024
"""Bytes of an answer that are read at a time."""


class ServerRefused(UserError):
    """The app answered with a problem; its words are the message."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key is sent to the address that was given and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Remote:
    """`address`: where the app runs, such as http://127.0.0.1:8501. `key`: a key of its API, where it wants one."""

    def __init__(self, address: str, key: str | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadRequest(f"{address} is not the address of a server. Write for example http://127.0.0.1:8501.")
        self.address = address.rstrip("/").removesuffix(PREFIX)
        self._key = key
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if parts.hostname in ("localhost", "127.0.0.1", "::1"):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def close(self) -> None:
        """There is nothing to close: every call has a connection of its own."""

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
        """What the API answers. Raises ServerRefused with the words of the problem."""
        return b"".join(self._pieces(method, path, body, headers))

    def _pieces(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Iterator[bytes]:
        sent = dict(headers or {})
        data = body
        if body is not None and not isinstance(body, bytes):
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        if self._key:
            sent["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(f"{self.address}{PREFIX}{path}", data, sent, method=method)
        try:
            with self._opener.open(request) as response:
                while piece := response.read(PIECE):
                    yield piece
                # Reading in pieces, the standard library does not say that a connection broke off.
                if response.length:
                    raise IncompleteRead(b"", response.length)
        except urllib.error.HTTPError as error:
            with error:
                raise ServerRefused(_words(error.read(), error.code)) from None
        except (urllib.error.URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ServerRefused(
                f"{self.address} cannot be reached: {reason}. Check that the app runs and that its address is right."
            ) from None

    def _get(self, path: str) -> Any:
        return json.loads(self.call("GET", path))

    def _all(self, path: str, of: type[R]) -> list[R]:
        """Every entry of a list that comes in pages."""
        found: list[R] = []
        offset: int | None = 0
        while offset is not None:
            sign = "&" if "?" in path else "?"
            page = self._get(f"{path}{sign}{urlencode({'limit': PAGE, 'offset': offset})}")
            found += [of.model_validate(item) for item in page["items"]]
            offset = page["next_offset"]
        return found

    def documents(self) -> list[DocumentInfo]:
        return self._all("/documents", DocumentInfo)

    def add(self, path: Path) -> Iterator[FileAdded]:
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for file in files:
            shown = str(file.relative_to(path)) if path.is_dir() else file.name
            try:
                result = json.loads(self._upload("/documents", read(file), file.name))
            except ServerRefused as error:
                if not path.is_dir():
                    raise
                yield FileAdded(shown, None, error.message)
                continue
            for each in result["added"]:
                info = DocumentInfo.model_validate(each["document"])
                yield FileAdded(info.name, Added(info, each["existed"]), None)
            for each in result["failed"]:
                yield FileAdded(each["path"], None, each["error"])

    def _upload(self, path: str, data: bytes, name: str) -> bytes:
        boundary = uuid.uuid4().hex
        safe = name.replace("\\", "_").replace('"', "_").replace("\r", "_").replace("\n", "_")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
        return self.call("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def tree(self, document_id: str) -> Node:
        return Node.model_validate_json(self.call("GET", f"/documents/{document_id}/tree"))

    def delete(self, document_id: str) -> Deletion:
        gone = json.loads(self.call("DELETE", f"/documents/{document_id}"))
        info = DocumentInfo.model_validate(gone["document"])
        return Deletion(info, tuple(gone["collections"]), gone["chunks"], gone["experiments"])

    def chunks(self, document_id: str, spec: str) -> Sequence[Chunk]:
        return self._all(f"/documents/{document_id}/chunks?{urlencode({'spec': spec})}", Chunk)

    def enrich(self, document_id: str, spec: str) -> Sequence[Chunk]:
        page = json.loads(self.call("POST", f"/documents/{document_id}/enrich", {"spec": spec}))
        return [Chunk.model_validate(each) for each in page["items"]]

    def enrich_estimate(self, document_id: str, spec: str) -> CallsEstimate | None:
        return _estimate(self.call("POST", f"/documents/{document_id}/enrich?dry_run=true", {"spec": spec}))

    def preview(self, path: Path, spec: str) -> Sequence[Chunk]:
        raise BadRequest(
            f"With --server, chunks are those of a stored document. Add it with `documents add {path}`, then name it."
        )

    def strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo.model_validate(each) for each in self._get("/strategies")]

    def index(self, document_ids: Sequence[str], specs: Sequence[str]) -> Iterator[Indexed]:
        for document_id in document_ids:
            body = {"specs": list(specs)}
            for done in json.loads(self.call("POST", f"/documents/{document_id}/process", body)):
                spec = StrategySpec.model_validate(done["spec"])
                yield Indexed(document_id, spec, done["chunks"], done["reused"], done["seconds"])

    def ask(
        self, question: str, specs: Sequence[str], document_ids: Sequence[str] | None, top_k: int | None
    ) -> list[Query]:
        chosen = None if document_ids is None else list(document_ids)
        bodies = [{"question": question, "strategy": spec, "document_ids": chosen, "top_k": top_k} for spec in specs]
        return [Query.model_validate_json(self.call("POST", "/queries", body)) for body in bodies]

    def question_sets(self) -> list[QuestionSetInfo]:
        return self._all("/question-sets", QuestionSetInfo)

    def question_set(self, question_set_id: str) -> QuestionSet:
        return QuestionSet.model_validate_json(self.call("GET", f"/question-sets/{question_set_id}"))

    def add_questions(self, data: bytes, name: str, document_ids: Sequence[str] | None) -> QuestionSet:
        path = "/question-sets/file" + _only(document_ids)
        return QuestionSet.model_validate_json(self._upload(path, data, name))

    def draft(self, document_ids: Sequence[str], count: int, seed: int, with_model: bool) -> QuestionSet:
        body = {"document_ids": list(document_ids), "count": count, "seed": seed, "with_model": with_model}
        return QuestionSet.model_validate_json(self.call("POST", "/question-sets/draft", body))

    def draft_estimate(self, document_ids: Sequence[str], count: int, seed: int) -> CallsEstimate | None:
        body = {"document_ids": list(document_ids), "count": count, "seed": seed, "with_model": True}
        return _estimate(self.call("POST", "/question-sets/draft?dry_run=true", body))

    def choose_copy(self, question_set_id: str, question_id: str, evidence: int, copy: int | None) -> QuestionSet:
        body = {"question_id": question_id, "evidence": evidence, "place": copy}
        return QuestionSet.model_validate_json(self.call("POST", f"/question-sets/{question_set_id}/copy", body))

    def check_questions(self, question_set_id: str, document_ids: Sequence[str] | None) -> Sequence[Finding]:
        path = f"/question-sets/{question_set_id}/validate" + _only(document_ids)
        found = json.loads(self.call("POST", path))
        return [Finding.model_validate(each) for each in found["findings"]]

    def dry_run(self, order: Order) -> DryRun:
        return DryRun.model_validate_json(self.call("POST", "/benchmarks?dry_run=true", _body(order)))

    def start(self, order: Order) -> str:
        return self._begun(self.call("POST", "/benchmarks", _body(order), {"Prefer": "respond-async"}))

    def _begun(self, answer: bytes) -> str:
        job_id: str = json.loads(answer)["job_id"]
        return job_id

    def job(self, job_id: str) -> JobStatus:
        job = self._get(f"/jobs/{job_id}")
        return JobStatus(job["state"], job["error"], job["progress"])

    def cancel(self, job_id: str) -> None:
        self.call("POST", f"/benchmarks/{job_id}/cancel")

    def resume(self, experiment_id: str, budget_usd: float | None) -> str:
        path = f"/benchmarks/{experiment_id}/resume"
        if budget_usd is not None:
            path += f"?{urlencode({'budget_usd': budget_usd})}"
        return self._begun(self.call("POST", path, headers={"Prefer": "respond-async"}))

    def experiments(self) -> list[ExperimentSummary]:
        return self._all("/benchmarks", ExperimentSummary)

    def experiment(self, experiment_id: str, *, queries: bool = True) -> Experiment:
        path = f"/benchmarks/{experiment_id}?queries={'true' if queries else 'false'}"
        return Experiment.model_validate_json(self.call("GET", path))

    def compare(self, experiment_ids: Sequence[str]) -> ExperimentComparison:
        path = f"/experiments/compare?{urlencode({'ids': list(experiment_ids)}, doseq=True)}"
        return ExperimentComparison.model_validate_json(self.call("GET", path))

    def check(self, baseline_id: str, candidate_id: str, metric: str, max_drop: float) -> Check:
        asked = {"baseline": baseline_id, "candidate": candidate_id, "metric": metric, "max_drop": max_drop}
        return Check.model_validate_json(self.call("GET", f"/experiments/check?{urlencode(asked)}"))

    def export(self, experiment_id: str, kind: str) -> Exported:
        def write(out: BinaryIO) -> None:
            for piece in self._pieces("GET", f"/benchmarks/{experiment_id}/export?{urlencode({'format': kind})}"):
                out.write(piece)

        return Exported(f"{experiment_id[:12]}.{kind}", "", write)

    def share(self, kind: Kind, item_id: str, shared: bool) -> bool:
        body = {"kind": kind, "id": item_id, "shared": shared}
        return bool(json.loads(self.call("POST", "/sharing", body))["shared"])


def _only(document_ids: Sequence[str] | None) -> str:
    return "" if document_ids is None else "?" + urlencode({"document_ids": list(document_ids)}, doseq=True)


def _body(order: Order) -> dict[str, Any]:
    return {
        "question_set_id": order.question_set_id,
        "document_ids": None if order.document_ids is None else list(order.document_ids),
        "specs": list(order.specs),
        "baseline": order.baseline,
        **order.options,
    }


def _estimate(answer: bytes) -> CallsEstimate | None:
    found = json.loads(answer)
    return None if found is None else CallsEstimate.model_validate(found)


def _words(answer: bytes, status: int) -> str:
    try:
        detail = json.loads(answer)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"The server answered with status {status} and no reason. Check that its address is that of Chunkscope."
    return str(detail)
