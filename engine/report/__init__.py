"""A finished benchmark for those who were not there: HTML to read and print, JSON to keep, CSV and Parquet to calculate with."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Protocol, get_args

from engine.errors import BadRequest
from engine.records import Experiment, QuestionResult
from engine.report import tables
from engine.report.html import write_html
from engine.report.questions import ReadCell

Format = Literal["html", "json", "csv", "parquet", "strategies.csv", "strategies.parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""`csv` and `parquet` have a row per question, strategy and repeat; `strategies.*` a row per strategy."""

SCHEMA = "chunkscope.experiment"
SCHEMA_VERSION = 1
"""Of the JSON export. It grows when a field is renamed, removed or gets another meaning; new fields leave it."""

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True)
class Exported:
    """A file to download. It is made when it is written, piece by piece."""

    name: str
    media_type: str
    write: Callable[[BinaryIO], None]
    """Writes the whole file. Raises NotFound when the experiment is deleted meanwhile."""

    @property
    def data(self) -> bytes:
        """The whole file in memory."""
        out = io.BytesIO()
        self.write(out)
        return out.getvalue()


class ReadCells(Protocol):
    """Reads the cells of an experiment anew, in their order; few of them are in memory at a time."""

    def __call__(self, *, queries: bool) -> Iterable[QuestionResult]: ...


def export(experiment: Experiment, kind: Format, cells: ReadCells, cell: ReadCell, note: str = "") -> Exported:
    """An experiment as a file. Its own cells, needed for `html` alone, may come without queries; `cell` reads one with it."""
    suffix = kind.rpartition(".")[2]

    def write(out: BinaryIO) -> None:
        if kind == "html":
            write_html(experiment, cell, out, note)
        elif kind == "json":
            write_json(experiment, cells(queries=True), out)
        else:
            _write_table(experiment, kind, cells, out)

    return Exported(f"{_file_name(experiment.name)}.{kind}", _MEDIA_TYPES[suffix], write)


def check_format(kind: str) -> Format:
    """Raises BadRequest for an unknown kind of file."""
    for known in FORMATS:
        if kind == known:
            return known
    raise BadRequest(f"There is no export {kind!r}. Choose one of: {', '.join(FORMATS)}.")


def write_json(experiment: Experiment, cells: Iterable[QuestionResult], out: BinaryIO) -> None:
    """`{"schema", "schema_version", "experiment"}`: the whole record, readable again by `from_json`."""
    head = json.dumps({"schema": SCHEMA, "schema_version": SCHEMA_VERSION})[:-1]
    body = experiment.model_copy(update={"cells": ()}).model_dump_json(exclude={"cells"})[:-1]
    out.write(f'{head}, "experiment": {body},"cells":['.encode())
    for place, cell in enumerate(cells):
        out.write(b"," * (place > 0) + cell.model_dump_json().encode())
    out.write(b"]}}")


def _write_table(experiment: Experiment, kind: Format, cells: ReadCells, out: BinaryIO) -> None:
    def rows(*, queries: bool) -> Iterator[tables.Row]:
        if kind.startswith("strategies"):
            return tables.strategy_rows(experiment)
        return tables.question_rows(experiment, cells(queries=queries))

    # The columns must be known before the first row, and are the same without the queries, which are most of the bytes.
    columns = tables.columns_of(rows(queries=False))
    write = tables.write_csv if kind.endswith("csv") else tables.write_parquet
    write(rows(queries=True), columns, out)


def from_json(data: bytes) -> Experiment:
    """The experiment of a JSON export. Raises BadRequest in words for anything else."""
    try:
        found = json.loads(data)
        known = found["schema"] == SCHEMA and found["schema_version"] == SCHEMA_VERSION
        experiment = found["experiment"]
    except (ValueError, KeyError, TypeError):
        raise BadRequest("This is not an experiment exported by Chunkscope.") from None
    if not known:
        raise BadRequest(
            f"The experiment was exported in version {found['schema_version']} of the format; this Chunkscope reads version {SCHEMA_VERSION}."
        )
    return Experiment.model_validate(experiment)


def _file_name(name: str) -> str:
    """A name that every file system takes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:60].lower() or "experiment"
