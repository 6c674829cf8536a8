"""Experiments: the header when a run begins, each result when it is known, all of it durable the moment a method returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, delete, select, update

from engine.errors import NotFound
from engine.records import CellStatus, Experiment, QuestionResult, SpecResult
from engine.store.database import Database, column, moment, pack, seconds, unpack
from engine.store.records import ExperimentSummary
from engine.store.schema import cells, experiments, spec_results

_NOT_IN_HEADER = {"status", "error", "finished_at", "results", "cells"}
_IN_COLUMNS = {"name", "status", "error", "finished_at", "note", "tags", "pinned"}


class ExperimentRecords(Database):
    def create_experiment(self, experiment: Experiment) -> None:
        """Store an experiment with the results and cells it already has. One with the same id is replaced."""
        values = {
            "name": column(experiment.name),
            "status": experiment.status,
            "error": None if experiment.error is None else column(experiment.error),
            "created_at": seconds(experiment.created_at),
            "finished_at": None if experiment.finished_at is None else seconds(experiment.finished_at),
            "note": "",
            "tags": "[]",
            "pinned": False,
            "summary": _summary(experiment).model_dump_json(exclude=_IN_COLUMNS),
            "header": pack(experiment.model_dump_json(exclude=_NOT_IN_HEADER)),
        }
        with self.write() as connection:
            connection.execute(delete(experiments).where(experiments.c.experiment_id == experiment.experiment_id))
            connection.execute(self.insert(experiments).values(experiment_id=experiment.experiment_id, **values))
            self._put_results(connection, experiment.experiment_id, experiment.results)
            self._put_cells(connection, experiment.experiment_id, experiment.cells)

    def add_cells(self, experiment_id: str, results: Sequence[QuestionResult]) -> None:
        """Store how questions went under their specs, in place of earlier results of the same question and spec. Raises NotFound."""
        with self.write() as connection:
            _require(connection, experiment_id)
            self._put_cells(connection, experiment_id, results)

    def add_results(self, experiment_id: str, results: Sequence[SpecResult]) -> None:
        """Store what came of whole specs, in place of earlier results of the same specs. Raises NotFound."""
        with self.write() as connection:
            _require(connection, experiment_id)
            self._put_results(connection, experiment_id, results)

    def finish_experiment(
        self,
        experiment_id: str,
        status: Literal["running", "finished", "cancelled", "failed"] = "finished",
        error: str | None = None,
        finished_at: datetime | None = None,
    ) -> None:
        """Set how a run ended and, in words, why it stopped early; `running`: it was taken up again. Raises NotFound."""
        ended = None if status == "running" else self.now() if finished_at is None else seconds(finished_at)
        self._change(experiment_id, {"status": status, "error": error, "finished_at": ended})

    def annotate_experiment(
        self,
        experiment_id: str,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Iterable[str] | None = None,
        pinned: bool | None = None,
    ) -> None:
        """Change what people write on an experiment; None leaves a field as it is. Raises NotFound."""
        given: dict[str, Any] = {
            "name": None if name is None else column(name),
            "note": None if note is None else column(note),
            "tags": None if tags is None else json.dumps(sorted(set(tags))),
            "pinned": pinned,
        }
        self._change(experiment_id, {field: value for field, value in given.items() if value is not None})

    def delete_experiment(self, experiment_id: str) -> None:
        """Raises NotFound."""
        with self.write() as connection:
            _require(connection, experiment_id)
            connection.execute(delete(experiments).where(experiments.c.experiment_id == experiment_id))

    def experiment(self, experiment_id: str, *, queries: bool = True) -> Experiment:
        """The whole record; with `queries=False`, cells come without what was retrieved and answered, which is most of it.

        Results stand in the order of the specs, cells by spec and then by question. Raises NotFound.
        """
        table = experiments
        with self.read() as connection:
            row = connection.execute(select(table).where(table.c.experiment_id == experiment_id)).first()
            if row is None:
                raise _no_experiment(experiment_id)
            results = _read_results(connection, experiment_id)
            found = _read_cells(connection, cells.c.experiment_id == experiment_id, queries)
        header = Experiment.model_validate(
            {
                **json.loads(unpack(row.header)),
                "status": row.status,
                "error": row.error,
                "finished_at": None if row.finished_at is None else moment(row.finished_at),
            }
        )
        header = header.model_copy(update={"plan": header.plan.model_copy(update={"name": row.name})})
        spec_order = {spec.spec_id: place for place, spec in enumerate(header.specs)}
        question_order = {question.question_id: place for place, question in enumerate(header.questions)}
        last = len(spec_order) + len(question_order)
        results.sort(key=lambda result: spec_order.get(result.spec.spec_id, last))
        found.sort(key=lambda cell: (spec_order.get(cell.spec_id, last), question_order.get(cell.question_id, last)))
        return header.model_copy(update={"results": tuple(results), "cells": tuple(found)})

    def experiment_summary(self, experiment_id: str) -> ExperimentSummary:
        """Raises NotFound."""
        found = self._summaries(experiments.c.experiment_id == experiment_id)
        if not found:
            raise _no_experiment(experiment_id)
        return found[0]

    def experiments(self, status: str | None = None) -> list[ExperimentSummary]:
        """All experiments, or those of one status, newest first."""
        return self._summaries(*([] if status is None else [experiments.c.status == status]))

    def spec_results(self, experiment_id: str) -> list[SpecResult]:
        """The results of the specs so far, by spec id."""
        with self.read() as connection:
            return _read_results(connection, experiment_id)

    def cell(self, experiment_id: str, spec_id: str, question_id: str) -> QuestionResult | None:
        """One question under one spec, with what was retrieved and answered."""
        which = (
            (cells.c.experiment_id == experiment_id)
            & (cells.c.spec_id == spec_id)
            & (cells.c.question_id == question_id)
        )
        with self.read() as connection:
            found = _read_cells(connection, which, queries=True)
        return found[0] if found else None

    def finished_cells(self, experiment_id: str) -> dict[tuple[str, str], CellStatus]:
        """(spec id, question id) of every stored cell and how it ended: what a resumed run need not repeat."""
        wanted = select(cells.c.spec_id, cells.c.question_id, cells.c.status)
        with self.read() as connection:
            rows = connection.execute(wanted.where(cells.c.experiment_id == experiment_id))
            return {(spec_id, question_id): status for spec_id, question_id, status in rows}

    def _put_cells(self, connection: Connection, experiment_id: str, results: Sequence[QuestionResult]) -> None:
        if not results:
            return
        rows = [
            {
                "experiment_id": experiment_id,
                "spec_id": result.spec_id,
                "question_id": result.question_id,
                "status": result.status,
                "body": result.model_dump_json(exclude={"query"}),
                "packed": None if result.query is None else pack(result.query.model_dump_json()),
            }
            for result in results
        ]
        upsert = self.insert(cells)
        changed = {name: upsert.excluded[name] for name in ("status", "body", "packed")}
        keys = ["experiment_id", "spec_id", "question_id"]
        connection.execute(upsert.on_conflict_do_update(index_elements=keys, set_=changed), rows)

    def _put_results(self, connection: Connection, experiment_id: str, results: Sequence[SpecResult]) -> None:
        if not results:
            return
        rows = [
            {"experiment_id": experiment_id, "spec_id": result.spec.spec_id, "body": result.model_dump_json()}
            for result in results
        ]
        upsert = self.insert(spec_results)
        changed = {"body": upsert.excluded["body"]}
        connection.execute(
            upsert.on_conflict_do_update(index_elements=["experiment_id", "spec_id"], set_=changed), rows
        )

    def _change(self, experiment_id: str, values: dict[str, Any]) -> None:
        with self.write() as connection:
            _require(connection, experiment_id)
            if values:
                which = experiments.c.experiment_id == experiment_id
                connection.execute(update(experiments).where(which).values(values))

    def _summaries(self, *which: ColumnElement[bool]) -> list[ExperimentSummary]:
        table = experiments
        columns = [table.c[name] for name in ("summary", *sorted(_IN_COLUMNS))]
        order = (table.c.created_at.desc(), table.c.experiment_id)
        with self.read() as connection:
            rows = connection.execute(select(*columns).where(*which).order_by(*order)).all()
        return [_summary_of(row) for row in rows]


def _summary(experiment: Experiment) -> ExperimentSummary:
    return ExperimentSummary(
        experiment_id=experiment.experiment_id,
        name=experiment.name,
        status=experiment.status,
        error=experiment.error,
        created_at=experiment.created_at,
        finished_at=experiment.finished_at,
        document_names=tuple(document.name for document in experiment.documents),
        question_set_name=experiment.question_set_name,
        question_count=len(experiment.questions),
        spec_labels=tuple(spec.label for spec in experiment.specs),
        embedding_model=experiment.embedding_model,
        llm_model=experiment.llm_model,
        judge_model=experiment.judge_model,
    )


def _summary_of(row: Row[Any]) -> ExperimentSummary:
    return ExperimentSummary.model_validate(
        {
            **json.loads(row.summary),
            "name": row.name,
            "status": row.status,
            "error": row.error,
            "finished_at": None if row.finished_at is None else moment(row.finished_at),
            "note": row.note,
            "tags": json.loads(row.tags),
            "pinned": row.pinned,
        }
    )


def _read_results(connection: Connection, experiment_id: str) -> list[SpecResult]:
    table = spec_results
    wanted = select(table.c.body).where(table.c.experiment_id == experiment_id).order_by(table.c.spec_id)
    return [SpecResult.model_validate_json(body) for body in connection.execute(wanted).scalars()]


def _read_cells(connection: Connection, which: ColumnElement[bool], queries: bool) -> list[QuestionResult]:
    if not queries:
        bodies = connection.execute(select(cells.c.body).where(which)).scalars()
        return [QuestionResult.model_validate_json(body) for body in bodies]
    rows = connection.execute(select(cells.c.body, cells.c.packed).where(which))
    return [QuestionResult.model_validate_json(_with_query(row.body, row.packed)) for row in rows]


def _with_query(body: str, packed: bytes | None) -> bytes:
    """The JSON of a cell with its query put back as its last field."""
    if packed is None:
        return body.encode()
    return body[:-1].encode() + b',"query":' + unpack(packed) + b"}"


def _require(connection: Connection, experiment_id: str) -> None:
    wanted = select(experiments.c.experiment_id).where(experiments.c.experiment_id == experiment_id)
    if connection.execute(wanted).first() is None:
        raise _no_experiment(experiment_id)


def _no_experiment(experiment_id: str) -> NotFound:
    return NotFound(f"There is no experiment {experiment_id}. It may have been deleted; History shows what there is.")
