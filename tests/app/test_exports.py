"""Chunks as files, and the code that makes them again."""

from __future__ import annotations

import csv
import io
import json

import pytest

from app import exports
from engine import Workbench
from engine.models import ChunkSet

TEXT = "# Fees\n\n=SUM(A1) is a formula in a spreadsheet.\n\nThe fee is 300 euros.\n"


def chunk_set(workbench: Workbench) -> ChunkSet:
    document = workbench.add_document(TEXT.encode(), "law.md").document
    return workbench.chunk(document.document_id, workbench.spec("sentence", {"sentences": 1, "overlap": 0}))


def test_files_hold_every_chunk_and_the_code_makes_them_again(capsys: pytest.CaptureFixture[str]) -> None:
    with Workbench.open() as workbench:
        made = chunk_set(workbench)
    lines = [json.loads(line) for line in exports.jsonl(made).decode().splitlines()]
    assert [line["chunk_id"] for line in lines] == [chunk.chunk_id for chunk in made.chunks]
    assert [line["text"] for line in lines] == [chunk.text for chunk in made.chunks]
    rows = list(csv.DictReader(io.StringIO(exports.table(made).decode("utf-8-sig"))))
    assert [int(row["start"]) for row in rows] == [chunk.evidence_span.start for chunk in made.chunks]
    formula = next(row for row in rows if "SUM" in row["text"])
    assert formula["text"].startswith("'=SUM")
    exec(compile(exports.code(made), "exported", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed if line[:1].isdigit()] == [
        [str(chunk.chunk_index), str(chunk.token_count)] for chunk in made.chunks
    ]
