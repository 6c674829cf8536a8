"""Exports are written as the cells are read: the same bytes as the record gives, never all of it in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from engine import Workbench
from engine.cli import main
from engine.errors import NotFound
from engine.files import replacing
from engine.records import Experiment, QuestionResult
from engine.report import SCHEMA, SCHEMA_VERSION, export, tables, write_json
from engine.store import experiments
from tests.engine.bench.examples import METRIC, experiment

SCORES = {"sentence": [1.0, 0.5, None], "paragraph": [0.0, 0.25, 0.75]}


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


@pytest.fixture
def stored(workbench: Workbench) -> Experiment:
    """Six cells, read in batches of four."""
    made = experiment("one", SCORES)
    workbench._store.create_experiment(made)
    return workbench.experiment("one")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "_BATCH", 4)


def test_json_is_the_record_written_as_one(workbench: Workbench, stored: Experiment) -> None:
    head = json.dumps({"schema": SCHEMA, "schema_version": SCHEMA_VERSION})[:-1]
    body = stored.model_dump_json(exclude={"cells"})[:-1]
    cells = ",".join(cell.model_dump_json() for cell in stored.cells)
    whole = f'{head}, "experiment": {body},"cells":[{cells}]}}}}'
    assert workbench.export("one", "json").data == whole.encode()


def test_a_cell_is_written_before_the_next_is_read(stored: Experiment) -> None:
    out = io.BytesIO()
    lengths = []

    def cells() -> Iterator[QuestionResult]:
        for cell in stored.cells:
            lengths.append(len(out.getvalue()))
            yield cell

    write_json(stored, cells(), out)
    sizes = [len(cell.model_dump_json()) for cell in stored.cells]
    written = [after - before for before, after in pairwise(lengths)]
    assert written == [sizes[0], *(1 + size for size in sizes[1:-1])]


def test_a_table_reads_queries_only_for_its_rows_and_has_every_column(stored: Experiment) -> None:
    """The last cell alone has a metric that none before it has."""
    *before, last = stored.cells
    found = (*before, last.model_copy(update={"metrics": {METRIC: 0.75, "late": 1.0}}))
    asked: list[bool] = []

    def cells(*, queries: bool) -> Iterable[QuestionResult]:
        asked.append(queries)
        return iter(found)

    data = export(stored, "csv", cells, lambda *_: None).data.decode("utf-8-sig")
    lines = data.split("\r\n")
    assert asked == [False, True]
    assert lines[0].endswith(f"answered,{METRIC},late")
    assert [line.rpartition(",")[2] for line in lines[1:-1]] == ["", "", "", "", "", "1.0"]


def test_parquet_comes_in_row_groups_with_types_that_do_not_hang_on_values(
    workbench: Workbench, stored: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 4)
    file = parquet.ParquetFile(io.BytesIO(workbench.export("one", "parquet").data))
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [4, 2]
    types = {field.name: str(field.type) for field in file.schema_arrow}
    assert {types[name] for name in ("question", "answer", "error")} == {"string"}
    assert (types["repeat"], types["answered"], types[METRIC]) == ("int64", "double", "double")
    assert file.read().to_pydict()[METRIC] == [1.0, 0.5, None, 0.0, 0.25, 0.75]


def test_an_experiment_that_is_deleted_meanwhile_is_no_short_file(workbench: Workbench, stored: Experiment) -> None:
    exported = workbench.export("one", "json")
    cells = workbench._store.read_cells(stored)
    assert next(cells) == stored.cells[0]
    workbench.delete_experiment("one")
    with pytest.raises(NotFound, match="may have been deleted"):
        list(cells)
    with pytest.raises(NotFound, match="may have been deleted"):
        exported.write(io.BytesIO())


def test_what_cannot_be_written_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    place = tmp_path / "kept.json"
    place.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(place) as out:
            out.write(b"half")
            raise NotFound("Gone.")

    with pytest.raises(NotFound):
        interrupted()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("kept.json", b"old")]


def test_the_command_line_writes_the_file_over_an_older_one_and_through_a_link(
    workbench: Workbench, stored: Experiment, tmp_path: Path
) -> None:
    expected = {kind: workbench.export("one", kind).data for kind in ("json", "csv")}
    workbench.close()
    place, link = tmp_path / "cells", tmp_path / "link"
    place.write_bytes(b"old")
    link.symlink_to(place)
    for kind, path in (("csv", place), ("json", link)):
        assert main(["experiments", "export", "one", "--format", kind, "--output", str(path)]) == 0
        assert place.read_bytes() == expected[kind]
    assert link.is_symlink()
    assert main(["experiments", "export", "one", "--output", str(tmp_path / "absent" / "file")]) == 1
