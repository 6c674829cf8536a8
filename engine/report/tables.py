"""The numbers of an experiment as tables: one row per strategy, or one per question, strategy and repeat. CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

from engine.records import Experiment, QuestionResult
from engine.report.view import labels_of

Cell = str | float | int | bool | None
Row = Mapping[str, Cell]

ROW_GROUP = 1000
"""Rows of a Parquet file that are in memory at a time."""

_TEXTS = {"strategy", "spec_id", "status", "error", "question_id", "question", "expected", "answer", "answer_kind"}
_COUNTS = {"chunks", "calls", "input_tokens", "output_tokens", "vector_bytes", "repeat"}

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet run a text as a formula."""


def strategy_rows(experiment: Experiment) -> Iterator[Row]:
    """One row per strategy: means, counts of what was scored, latency, tokens, dollars, differences to the baseline."""
    labels = labels_of(experiment)
    compared = experiment.statistics.comparisons if experiment.statistics else ()
    for result in experiment.results:
        row: dict[str, Cell] = {
            "strategy": labels[result.spec.spec_id],
            "spec_id": result.spec.spec_id,
            "status": result.status,
            "error": result.error,
            "chunks": result.chunk_count,
            "calls": result.usage.calls,
            "input_tokens": result.usage.input_tokens,
            "output_tokens": result.usage.output_tokens,
            "cost_usd": result.usage.cost_usd,
            "vector_bytes": result.index_bytes,
        }
        row |= {f"cut.{name}": value for name, value in result.quality.items()}
        row |= {f"seconds.{name}": value for name, value in result.seconds.items()}
        for each in result.metrics:
            row[each.metric] = each.value
            row[f"{each.metric}.n"] = each.n
        for found in compared:
            if found.spec_id == result.spec.spec_id:
                name = f"{found.metric}.vs_baseline"
                row |= {name: found.difference, f"{name}.low": found.low, f"{name}.high": found.high}
                row[f"{name}.p_holm"] = found.p_holm
        yield row


def question_rows(experiment: Experiment, cells: Iterable[QuestionResult]) -> Iterator[Row]:
    """One row per question, strategy and repeat, with the answer and every metric."""
    labels = labels_of(experiment)
    asked = {question.question_id: question for question in experiment.questions}
    for cell in cells:
        question, query = asked.get(cell.question_id), cell.query
        row: dict[str, Cell] = {
            "question_id": cell.question_id,
            "question": None if question is None else question.question,
            "expected": None if question is None else question.answer,
            "strategy": labels.get(cell.spec_id, cell.spec_id),
            "spec_id": cell.spec_id,
            "repeat": cell.repeat,
            "status": cell.status,
            "error": cell.error,
            "answer": None if query is None else query.answer,
            "answer_kind": None if query is None else query.answer_kind,
            "answered": None if query is None else query.answered,
        }
        row |= {f"seconds.{name}": value for name, value in cell.seconds.items()}
        row |= {f"cost_usd.{purpose}": usage.cost_usd for purpose, usage in cell.usage.items()}
        row |= cell.metrics
        yield row


def columns_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """All columns, in the order in which they first appear."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def write_csv(rows: Iterable[Row], columns: Sequence[str], out: BinaryIO) -> None:
    """UTF-8 with a byte order mark, so that spreadsheets read it as such. Texts that would run as a formula get a leading apostrophe."""
    out.write(b"\xef\xbb\xbf")
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    try:
        writer = csv.writer(text)
        writer.writerow([safe(name) for name in columns])
        for row in rows:
            writer.writerow([safe(row.get(name)) for name in columns])
    finally:
        # Otherwise `out` would be closed with it.
        text.detach()


def write_parquet(rows: Iterable[Row], columns: Sequence[str], out: BinaryIO) -> None:
    """The same as a Parquet file; values keep their types and texts are as they are, because nothing runs them."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    stored = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    types = {name: _type_of(name) for name in columns}
    schema = pa.schema([(name, stored[types[name]]) for name in columns])
    left = iter(rows)
    with parquet.ParquetWriter(out, schema) as writer:
        while group := list(islice(left, ROW_GROUP)):
            values = {
                name: [None if row.get(name) is None else of(row[name]) for row in group] for name, of in types.items()
            }
            writer.write_table(pa.table(values, schema=schema))


def _type_of(column: str) -> type[Any]:
    """The type of a column, whatever is in it: metrics, seconds and dollars are floats; so is whether a question was answered."""
    if column in _TEXTS:
        return str
    return int if column in _COUNTS or column.endswith(".n") else float


def safe(value: Cell) -> Cell:
    """A value for a cell of a spreadsheet. Numbers stay numbers, a minus before them included."""
    if isinstance(value, str) and value.lstrip(" \n\ufeff").startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
