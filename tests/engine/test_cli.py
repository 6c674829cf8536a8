"""The command line: data on standard output, one clear sentence and a non-zero code for bad input."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from engine import Workbench
from engine.__main__ import main

LAW = "# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n\n## Article 2\n\nA late fee of 45 euros is due.\n"


@pytest.fixture
def law(tmp_path: Path) -> Path:
    file = tmp_path / "law.md"
    file.write_text(LAW, encoding="utf-8")
    return file


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.json"
    rows = [{"question": "How high is the annual fee?", "answer": "300", "evidence": ["The annual fee is 300 euros."]}]
    file.write_text(json.dumps(rows), encoding="utf-8")
    return file


def test_chunk_prints_one_verbatim_chunk_per_line(law: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chunk", str(law), "--strategy", "sentence:sentences=1,overlap=0"]) == 0
    chunks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert chunks
    for chunk in chunks:
        start, end = chunk["span"]
        assert LAW[start:end] == chunk["text"]


def test_benchmark_prints_the_experiment_and_ask_finds_its_documents(
    law: Path, questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [
        "benchmark",
        str(questions),
        "--documents",
        str(law),
        "--strategy",
        "recursive",
        "--strategy",
        "sentence",
        "--json",
    ]
    assert main(run) == 0
    experiment = json.loads(capsys.readouterr().out)
    assert [result["status"] for result in experiment["results"]] == ["ok", "ok"]
    assert main(["ask", "How high is the annual fee?", "--strategy", "recursive", "--json"]) == 0
    (query,) = json.loads(capsys.readouterr().out)
    assert "300 euros" in query["answer"]


def zip_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.docx", b"", "is empty"),
        ("law.docx", b"%PDF-1.7\n%rest", "is a PDF"),
        ("law.docx", zip_of(b"<x/>")[:40], "damaged"),
        ("law.docx", bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 600, "law.docx"),
    ],
    ids=["empty", "PDF renamed", "truncated", "OLE"],
)
def test_a_bad_document_is_one_sentence_and_nothing_is_stored(
    tmp_path: Path, questions: Path, name: str, data: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    assert main(["benchmark", str(questions), "--documents", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    with Workbench.open() as workbench:
        assert workbench.documents() == []
        assert workbench.experiments() == []


@pytest.mark.parametrize("name", ["encrypted.docx", "legacy.doc"])
def test_password_and_old_word_files_are_named(
    shared_data: Path, questions: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(questions), "--documents", str(shared_data / "docx" / "bad" / name)]) == 1
    err = capsys.readouterr().err
    assert ("password" in err) if name == "encrypted.docx" else (".doc" in err)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "empty"), (b'[{"query": "x"}]', "question"), (b"{", "JSON")],
    ids=["0 bytes", "wrong fields", "no JSON"],
)
def test_a_bad_question_set_is_one_sentence(
    tmp_path: Path, law: Path, data: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(data)
    assert main(["benchmark", str(file), "--documents", str(law)]) == 1
    err = capsys.readouterr().err
    assert words in err
    assert "bad.json" in err
    with Workbench.open() as workbench:
        assert workbench.question_sets() == []


def test_a_locked_data_folder_is_said(law: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Workbench.open():
        assert main(["chunk", str(law)]) == 1
    assert "is in use by another Chunkscope" in capsys.readouterr().err


def test_a_wrong_setting_names_variable_value_and_what_is_allowed(
    law: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOP_K", "many")
    assert main(["chunk", str(law)]) == 1
    err = capsys.readouterr().err
    assert "TOP_K" in err
    assert "many" in err


def test_a_missing_file_and_a_wrong_parameter_are_said(law: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chunk", "nowhere.docx"]) == 1
    assert "nowhere.docx cannot be read" in capsys.readouterr().err
    assert main(["chunk", str(law), "--strategy", "recursive:size=0"]) == 1
    assert "size" in capsys.readouterr().err


def test_demo_compares_seven_strategies_on_the_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    for name in ("fixed_size", "recursive", "sentence", "paragraph", "markdown_structure", "parent_child", "semantic"):
        assert name in out
    head, *table = [line.split("\t") for line in out.splitlines()]
    assert head[2:4] == ["delivered.recall@1000tok", "delivered.tokens@5"]
    # The table holds the figures the conclusion names.
    assert f"(best mean {max(row[2] for row in table)})" in err
    proposed = next(row for row in table if f"Take {row[0]}:" in err)
    assert f"delivered per question at 5 chunks: {proposed[3]} against" in err
    assert "failed" not in out
