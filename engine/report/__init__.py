"""A finished benchmark for those who were not there: HTML to read and print, JSON to keep, CSV and Parquet to calculate with."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from engine.errors import BadRequest
from engine.records import Experiment, QuestionResult
from engine.report import tables
from engine.report.html import render
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


class Exported(NamedTuple):
    """A file to download."""

    name: str
    media_type: str
    data: bytes


def export(
    experiment: Experiment, kind: str, cells: Callable[[], Iterable[QuestionResult]], cell: ReadCell, note: str = ""
) -> Exported:
    """An experiment, whose own cells may come without queries, as a file.

    `cells`: all cells with their queries, one after the other. `cell`: one of them. Raises BadRequest for an unknown kind.
    """
    if kind not in FORMATS:
        raise BadRequest(f"There is no export {kind!r}. Choose one of: {', '.join(FORMATS)}.")
    suffix = kind.rpartition(".")[2]
    if kind == "html":
        data = render(experiment, cell, note).encode("utf-8", "replace")
    elif kind == "json":
        data = to_json(experiment, cells())
    else:
        rows = (
            tables.strategy_rows(experiment)
            if kind.startswith("strategies")
            else tables.question_rows(experiment, cells())
        )
        data = tables.to_csv(rows) if suffix == "csv" else tables.to_parquet(rows)
    return Exported(f"{_file_name(experiment.name)}.{kind}", _MEDIA_TYPES[suffix], data)


def to_json(experiment: Experiment, cells: Iterable[QuestionResult]) -> bytes:
    """`{"schema", "schema_version", "experiment"}`: the whole record, readable again by `from_json`."""
    head = json.dumps({"schema": SCHEMA, "schema_version": SCHEMA_VERSION})[:-1]
    body = experiment.model_copy(update={"cells": ()}).model_dump_json(exclude={"cells"})[:-1]
    each = ",".join(cell.model_dump_json() for cell in cells)
    return f'{head}, "experiment": {body},"cells":[{each}]}}}}'.encode()


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
