"""Every command of the command line: on the data folder, and through a running app with the same words and the same output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app import runtime
from engine import Workbench, keys
from engine.bench.jobs import JobRunner
from engine.cli import benchmark, main
from engine.cli.backend import Backend, JobStatus, find
from engine.cli.progress import Lines, watch
from engine.cli.reference import page
from engine.errors import BadRequest, NotFound
from engine.settings import load_settings
from engine.strategies import written
from engine.strategies.written import Written
from tests.fake_openai import FakeOpenAI
from tests.serving import served

LAW = "# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n\n## Article 2\n\nA late fee of 45 euros is due.\n"
FEE = {"question": "How high is the annual fee?", "answer": "300", "evidence": ["The annual fee is 300 euros."]}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def law(tmp_path: Path) -> Path:
    file = tmp_path / "law.md"
    file.write_text(LAW, encoding="utf-8")
    return file


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.json"
    file.write_text(json.dumps([FEE]), encoding="utf-8")
    return file


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; gives its exit code, standard output and standard error."""

    def command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.fixture(params=["folder", "server"])
def anywhere(request: pytest.FixtureRequest, run: Run) -> Iterator[Run]:
    """The same command on the data folder, and through the API of a running app."""
    if request.param == "folder":
        yield run
        return
    with served() as address:
        yield lambda *arguments: run(*arguments, "--server", address)


def rows(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()]


# Documents and chunks


def test_documents_are_added_listed_shown_and_deleted(anywhere: Run, law: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    law.rename(folder / "law.md")
    (folder / "broken.docx").write_bytes(b"no zip")
    code, out, err = anywhere("documents", "add", folder)
    assert code == 1, "a script has to hear of the file that is missing"
    ((document_id, name),) = rows(out)
    assert (name, "broken.docx" in err) == ("law.md", True)
    assert err.endswith("1 of 2 files are stored.\n")
    code, out, _ = anywhere("documents", "add", folder, "--json")
    both = json.loads(out)
    assert (code, [each["document"]["name"] for each in both["added"]]) == (1, ["law.md"])
    assert both["added"][0]["existed"]
    assert [each["path"] for each in both["failed"]] == ["broken.docx"]
    assert anywhere("documents", "add", folder / "law.md")[0] == 0
    assert rows(anywhere("documents", "list")[1])[1][:2] == [document_id[:12], "law.md"]
    (listed,) = json.loads(anywhere("documents", "list", "--json")[1])
    assert listed["document_id"] == document_id
    shown = anywhere("documents", "show", document_id[:8])[1]
    assert re.search(r"^  Article 2 \[\d+:\d+\]$", shown, re.MULTILINE)
    code, out, err = anywhere("documents", "delete", "law.md")
    assert (code, out) == (0, "")
    assert err.startswith("Deleted law.md")
    assert json.loads(anywhere("documents", "list", "--json")[1]) == []
    assert anywhere("documents", "show", "law.md")[0] == 1


def test_only_bad_files_are_a_failure(anywhere: Run, tmp_path: Path) -> None:
    (tmp_path / "law.docx").write_bytes(b"%PDF-1.7\n%rest")
    code, out, err = anywhere("documents", "add", tmp_path / "law.docx")
    assert (code, out) == (1, "")
    assert "is a PDF" in err


def test_chunks_of_a_stored_document_have_spans(anywhere: Run, law: Path, tmp_path: Path) -> None:
    anywhere("documents", "add", law)
    law.unlink()
    code, out, _ = anywhere("chunk", "law.md", "--strategy", "sentence:sentences=1,overlap=0")
    chunks = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(LAW[slice(*chunk["span"])] == chunk["text"] for chunk in chunks)
    assert anywhere("chunk", "law.md", "--output", tmp_path / "chunks.jsonl")[1] == ""
    assert len((tmp_path / "chunks.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_chunking_a_file_through_a_server_says_how(run: Run, law: Path) -> None:
    with served() as address:
        code, _, err = run("chunk", law, "--server", address)
    assert code == 1
    assert f"documents add {law}" in err


def test_strategies_and_index(anywhere: Run, law: Path) -> None:
    listed = rows(anywhere("strategies")[1])
    assert listed[1][:2] == ["fixed_size", "512/50"]
    assert {each["name"] for each in json.loads(anywhere("strategies", "--json")[1])} == {
        each[0] for each in listed[1:]
    }
    anywhere("documents", "add", law)
    grid = ("--grid", "sentence:sentences=1|2,overlap=0")
    first = rows(anywhere("index", "law.md", *grid)[1])
    assert [(each[0], each[1]) for each in first] == [("sentence 1/0", "law.md"), ("sentence 2/0", "law.md")]
    assert {each[3] for each in rows(anywhere("index", *grid)[1])} == {"was indexed already"}


# Questions


def test_ask_answers_with_sources(anywhere: Run, law: Path) -> None:
    anywhere("documents", "add", law)
    code, out, _ = anywhere("ask", FEE["question"], "--strategy", "recursive", "--document", "law.md", "--top-k", 1)
    assert code == 0
    assert out.startswith("recursive 512/50 (extractive, no LLM)\n")
    assert "300 euros" in out
    (query,) = json.loads(anywhere("ask", FEE["question"], "--strategy", "recursive", "--json")[1])
    assert query["spec"]["label"] == "recursive 512/50"


def test_question_sets_are_validated_with_an_exit_code(anywhere: Run, law: Path, questions: Path) -> None:
    anywhere("documents", "add", law)
    code, _, err = anywhere("questions", "validate", questions)
    assert code == 0
    assert "Questions: 1. Quotes found: 1 of 1. Errors: 0." in err
    assert rows(anywhere("questions", "list")[1])[1][1:] == ["questions.json", "1"]
    questions.write_text(json.dumps([{**FEE, "evidence": ["Nobody wrote this."]}]), encoding="utf-8")
    code, out, _ = anywhere("questions", "validate", questions, "--json")
    assert code == 3
    assert json.loads(out)["usable"] is False


def test_evidence_of_a_deleted_document_is_an_error(anywhere: Run, law: Path, questions: Path, tmp_path: Path) -> None:
    anywhere("documents", "add", law)
    anywhere("questions", "validate", questions)
    questions.unlink()
    other = tmp_path / "other.md"
    other.write_text("# Dues\n\nNothing of fees.\n", encoding="utf-8")
    anywhere("documents", "add", other)
    anywhere("documents", "delete", "law.md")
    code, out, err = anywhere("questions", "validate", "questions.json")
    assert code == 3
    assert rows(out)[0] == [
        "error",
        "How high is the annual fee?",
        "Evidence 1 was not found in the text, so it does not count.",
    ]
    assert "Quotes found: 0 of 1. Errors: 1." in err


def test_evidence_is_looked_for_in_the_documents_that_are_named(
    anywhere: Run, law: Path, questions: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.md"
    other.write_text("# Dues\n\nNothing of fees.\n", encoding="utf-8")
    anywhere("documents", "add", law, other)
    for given in (questions, "questions.json"):
        assert "Quotes found: 0 of 1" in anywhere("questions", "validate", given, "--document", "other.md")[2]
        questions.unlink(missing_ok=True)
    assert "Quotes found: 1 of 1" in anywhere("questions", "validate", "questions.json")[2]


def test_what_is_shared_and_no_longer_is_the_same_for_page_api_and_command_line(
    anywhere: Run, law: Path, questions: Path
) -> None:
    anywhere("documents", "add", law)
    anywhere("benchmark", questions, "--strategy", "sentence")
    for kind, name in (("document", "law.md"), ("question-set", "questions.json"), ("experiment", "questions.json")):
        code, out, err = anywhere("share", kind, name, "--json")
        shared = json.loads(out)
        assert (code, shared["kind"], shared["shared"]) == (0, kind.replace("-", " "), True)
        assert f"Everyone who signs in can read the {shared['kind']} {shared['id']}." in err
        with opened() as workbench:
            ben = workbench.acting_as("ben@example.org")
            assert workbench.ownership(shared["kind"], shared["id"]).shared
            assert ben.ownership(shared["kind"], shared["id"]).shared, "the page shows this"
        code, out, err = anywhere("unshare", kind, shared["id"][:8])
        assert (code, out) == (0, "")
        assert f"Only its owner can read the {shared['kind']} {shared['id']}." in err
        with opened() as workbench, pytest.raises(NotFound):
            workbench.acting_as("ben@example.org").ownership(shared["kind"], shared["id"])
    code, _, err = anywhere("share", "document", "nothing.md")
    assert code == 1
    assert "There is no document nothing.md" in err


@contextmanager
def opened() -> Iterator[Workbench]:
    """The Workbench of the running app, or else of the data folder."""
    if runtime._workbench is not None:
        yield runtime._workbench
        return
    with Workbench.open() as workbench:
        yield workbench


def test_questions_are_drafted_and_stored(anywhere: Run, samples: Path) -> None:
    anywhere("documents", "add", samples / "manual.md")
    code, out, err = anywhere("questions", "draft", "--count", 3, "--json")
    drafted = json.loads(out)
    assert code == 0
    assert 1 <= len(drafted["questions"]) <= 3
    assert not any(each["reviewed"] for each in drafted["questions"])
    assert drafted["question_set_id"] in err
    code, out, err = anywhere("questions", "draft", "--with-model", "--dry-run")
    assert (code, out) == (0, "")
    assert "No chat model is configured" in err
    code, _, err = anywhere("questions", "draft", "--with-model")
    assert code == 1
    assert "needs a chat model" in err


@pytest.fixture
def with_model(fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> FakeOpenAI:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_openai.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("LLM_MODEL", "gpt-4o-mini")
    monkeypatch.setenv("EMBEDDING_MODEL", "wordllama")
    return fake_openai


def test_the_model_describes_the_chunks_of_a_document(with_model: FakeOpenAI, anywhere: Run, law: Path) -> None:
    anywhere("documents", "add", law)
    law.unlink()
    asked = ("law.md", "--strategy", "sentence:sentences=1,overlap=0")
    anywhere("index", *asked)
    code, out, _ = anywhere("enrich", *asked, "--dry-run")
    count = len(anywhere("chunk", *asked)[1].splitlines())
    assert code == 0
    assert out.startswith(f"{count} calls to gpt-4o-mini, 0 more from the cache, at most ")
    assert with_model.calls("chat") == 0
    written = rows(anywhere("enrich", *asked)[1])
    assert written[0] == ["chunk", "summary", "keywords"]
    kept = [json.loads(line)["summary"] for line in anywhere("chunk", *asked)[1].splitlines()]
    assert "The annual fee is 300 euros." in kept
    assert [each[1] for each in written[1:]] == [each or "-" for each in kept]
    assert with_model.calls("chat") == count
    assert anywhere("enrich", *asked, "--dry-run")[1].startswith(f"0 calls to gpt-4o-mini, {count} more from the cache")


def test_without_a_model_nothing_is_described(anywhere: Run, law: Path) -> None:
    anywhere("documents", "add", law)
    code, out, err = anywhere("enrich", "law.md", "--dry-run")
    assert (code, out) == (0, "")
    assert "no chat model is configured" in err
    code, _, err = anywhere("enrich", "law.md")
    assert code == 1
    assert "need a chat model" in err


def test_a_copy_of_a_quote_is_chosen(anywhere: Run, law: Path, questions: Path) -> None:
    law.write_text(f"{LAW}\n## Article 3\n\nThe annual fee is 300 euros.\n", encoding="utf-8")
    anywhere("documents", "add", law)
    anywhere("questions", "validate", questions)
    shown = rows(anywhere("questions", "choose", "questions.json")[1])
    assert [each[1:6] for each in shown[1:]] == [
        ["1", "1", "counts", "law.md", "Article 1"],
        ["1", "2", "-", "law.md", "Article 3"],
    ]
    chosen = rows(anywhere("questions", "choose", "questions.json", shown[1][0], "--place", 2)[1])
    assert [each[3] for each in chosen[1:]] == ["-", "counts"]


# Benchmarks and experiments


def test_a_benchmark_and_what_can_be_done_with_it(anywhere: Run, law: Path, questions: Path, tmp_path: Path) -> None:
    specs = ("--strategy", "recursive", "--grid", "sentence:sentences=1|2,overlap=0")
    anywhere("documents", "add", law)
    code, out, _ = anywhere("benchmark", questions, *specs, "--dry-run", "--json")
    assert (code, json.loads(out)["cells"]) == (0, 3)
    assert json.loads(anywhere("experiments", "list", "--json")[1]) == []

    code, out, err = anywhere("benchmark", questions, *specs, "--name", "First", "--budget", "0")
    assert code == 0
    table = rows(out)
    assert [row[0] for row in table] == ["strategy", "recursive 512/50", "sentence 1/0", "sentence 2/0"]
    assert table[0][2:5] == ["delivered.recall@1000tok", "delivered.tokens@5", "recall@1000tok"]
    assert [row[2] for row in table[1:]] == ["1.000"] * 3
    assert "sentence 1/0: asked all questions" in err

    code, out, _ = anywhere("benchmark", "questions.json", *specs, "--name", "Second", "--json")
    second = json.loads(out)
    assert (code, second["status"], len(second["cells"])) == (0, "finished", 3)
    assert second["cells"][0]["query"]["answer_kind"] == "extractive"
    assert [row[1:3] for row in rows(anywhere("experiments", "list")[1])[1:]] == [
        ["Second", "finished"],
        ["First", "finished"],
    ]
    assert json.loads(anywhere("experiments", "show", "Second", "--json")[1]) == second
    compared = anywhere("experiments", "compare", "First", "Second")[1]
    assert ["Second", "sentence 1/0", "recall@1000tok", "1", "1.000", "1.000", "+0.000"] in [
        row[:7] for row in rows(compared)
    ]
    anywhere("experiments", "report", "First", "--output", tmp_path / "report.html")
    assert FEE["question"] in (tmp_path / "report.html").read_text(encoding="utf-8")
    anywhere("experiments", "export", "First", "--format", "csv", "--output", tmp_path / "cells.csv")
    assert "sentence 2/0" in (tmp_path / "cells.csv").read_text(encoding="utf-8")

    code, out, _ = anywhere("check", "--baseline", "First", "--max-drop", "0.5", "--json")
    assert (json.loads(out)["outcome"], code) in (("pass", 0), ("cannot_tell", 4))
    assert anywhere("check")[0] == 1
    code, out, _ = anywhere("benchmark", "--resume", "Second", "--json")
    assert (code, json.loads(out)["experiment_id"]) == (0, second["experiment_id"])


def test_an_interrupted_benchmark_is_kept_and_goes_on(
    run: Run, law: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C cancels the job and says how to go on; --resume then gives the whole record."""
    calls = []

    def interrupted(backend: Backend, job_id: str) -> JobStatus:
        calls.append(job_id)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return watch(backend, job_id)

    with monkeypatch.context() as patch:
        patch.setattr(benchmark, "watch", interrupted)
        # The job stays in the queue, so that it cannot have ended before it is cancelled.
        patch.setattr(JobRunner, "start", lambda _: None)
        code, out, err = run("benchmark", questions, "--documents", law, "--strategy", "recursive")
    assert (code, out) == (130, "")
    assert f"Go on with: python -m engine benchmark --resume {calls[0]}" in err
    assert json.loads(run("experiments", "list", "--json")[1])[0]["status"] == "cancelled"
    code, out, _ = run("benchmark", "--resume", calls[0][:8], "--json")
    assert (code, json.loads(out)["status"], len(json.loads(out)["cells"])) == (0, "finished", 1)


# Upkeep


def test_models_cache_reindex_and_doctor(run: Run, law: Path) -> None:
    out = run("models")[1]
    assert "wordllama (in use)\tbundled\t256" in out
    assert "vectors of two models cannot be compared" in out
    run("documents", "add", law)
    run("index", "--strategy", "recursive")
    assert run("cache", "size")[1] == "cache\tentries\tMB\nvectors\t0\t0.0\nreplies\t0\t0.0\n"
    assert run("cache", "prune", "--keep-mb", 1)[2] == "Dropped 0 vectors and 0 replies.\n"
    assert run("cache", "prune", "--keep-mb", -1)[0] == 1
    code, out, _ = run("doctor")
    assert code == 0, out
    assert {row[0] for row in rows(out)} == {"ok"}
    assert "Dropped 1 collections" in run("reindex")[2]
    with Workbench.open() as workbench:
        assert workbench.collections() == []


def test_doctor_says_what_is_wrong_and_what_to_do(
    run: Run, law: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Workbench.open():
        code, out, _ = run("doctor")
    assert code == 3
    assert "WRONG\tdata folder\tThe data folder" in out
    monkeypatch.setenv("LLM_MODEL", "m")
    monkeypatch.setenv("EMBEDDING_MODEL", "wordllama")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("MAX_RETRIES", "0")
    code, out, _ = run("doctor", "--json")
    found = {each["subject"]: each for each in json.loads(out)}
    assert code == 3
    assert found["database"]["ok"] is True
    assert found["answers"]["ok"] is False
    assert "127.0.0.1:1" in found["answers"]["message"]
    assert run("doctor", "--no-models")[0] == 0
    monkeypatch.setenv("HOST", "0.0.0.0")
    assert "WRONG\taddress\tHOST is 0.0.0.0" in run("doctor", "--no-models")[1]
    monkeypatch.setenv("TOP_K", "many")
    code, out, _ = run("doctor")
    assert (code, out.startswith("WRONG\tsettings\tTOP_K is 'many'.")) == (3, True)


def test_validate_compares_only_what_is_comparable(run: Run, tmp_path: Path) -> None:
    assert run("validate", tmp_path / "nothing")[0] == 1


# A running app


def test_a_held_folder_offers_the_server(run: Run, law: Path) -> None:
    with Workbench.open():
        code, _, err = run("documents", "list")
        assert code == 1
        assert "is in use by another Chunkscope" in err
        assert "--server http://127.0.0.1:8501" in err
        assert "--server" not in run("reindex")[2]


def test_a_server_that_wants_a_key_gets_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    key = keys.new_key()
    with served(load_settings(api_keys=f"ann:{keys.fingerprint(key)}")) as address:
        code, _, err = run("documents", "list", "--server", address)
        assert code == 1
        assert "needs a key" in err
        assert run("documents", "list", "--server", address, "--api-key", key)[0] == 0
        monkeypatch.setenv("CHUNKSCOPE_API_KEY", key)
        assert run("documents", "list", "--server", f"{address}/api/v1/")[0] == 0


@pytest.mark.parametrize(
    ("address", "words"),
    [("http://127.0.0.1:1", "cannot be reached"), ("nowhere", "not the address"), ("ftp://x", "not the address")],
)
def test_a_server_that_is_none_is_said(run: Run, address: str, words: str) -> None:
    code, _, err = run("documents", "list", "--server", address)
    assert code == 1
    assert words in err


# Words


def test_docs_show_the_help_as_it_is(root: Path) -> None:
    """Regenerate with `python -m engine.cli.reference > docs/COMMANDS.md`. How lines are wrapped differs between Pythons."""
    assert (root / "docs" / "COMMANDS.md").read_text(encoding="utf-8").split() == page().split()


def test_a_wrong_command_line_is_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["documents"])
    assert caught.value.code == 2
    assert main(["benchmark"]) == 1


def test_ids_may_be_shortened_and_names_given() -> None:
    known = [("aaaa1111", "law.md"), ("aaaa2222", "law.md"), ("bbbb3333", "tax.md")]
    assert find("document", "aaaa1111", known) == "aaaa1111"
    assert find("document", "aaaa1", known) == "aaaa1111"
    assert find("document", "tax.md", known) == "bbbb3333"
    for unclear in ("law.md", "aaaa"):
        with pytest.raises(BadRequest, match="could be 2 documents"):
            find("document", unclear, known)
    for unknown in ("bbb", "cccc", ""):
        with pytest.raises(NotFound):
            find("document", unknown, known)


def test_specs_and_grids_are_read_as_written() -> None:
    assert written.read("recursive") == Written("recursive", {})
    assert written.read("recursive: size=1 , overlap=0") == Written("recursive", {"size": "1", "overlap": "0"})
    grid = written.read_grid("a:x=1|2,y=3|4")
    assert [written.write(each) for each in grid] == ["a:x=1,y=3", "a:x=1,y=4", "a:x=2,y=3", "a:x=2,y=4"]
    with pytest.raises(BadRequest, match="65 specs"):
        written.read_grid("a:x=" + "|".join(map(str, range(65))))


def test_progress_says_each_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    progress: dict[str, Any] = {"stages": {"a": {"index": {"done": 1, "total": 1}, "ask": {"done": 1, "total": 2}}}}
    lines.show(progress)
    lines.show({**progress, "errors": {"a": "The model was refused."}})
    assert capsys.readouterr().err == "a: indexed\na: The model was refused.\n"


def test_the_served_workbench_is_closed_again() -> None:
    with served():
        assert runtime.workbench().documents() == []
    with Workbench.open() as workbench:
        assert workbench.documents() == []
