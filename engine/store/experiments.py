"""Experiments: the header when a run begins, each result when it is known, all of it durable the moment a method returns."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, delete, select, tuple_, update

from engine.errors import NotFound
from engine.records import CalibrationSummary, CellStatus, Experiment, QuestionResult, SpecResult, Statistics
from engine.store.batches import CLEARED
from engine.store.database import Database, column, moment, pack, seconds, unpack
from engine.store.jobs import FOREGROUND, QUEUED_AGAIN, NewJob, job_values
from engine.store.records import ExperimentSummary
from engine.store.schema import batches, experiments, jobs, spec_results
from engine.store.schema import cells as _cells

_NOT_IN_HEADER = {"status", "error", "finished_at", "results", "cells", "statistics"}
_BATCH = 100
"""Cells read at a time. With their queries they are some megabytes."""
_IN_COLUMNS = {"name", "status", "error", "finished_at", "note", "tags", "pinned", "headline", "baseline"}


class ExperimentRecords(Database):
    def create_experiment(self, experiment: Experiment, job: NewJob | None = None) -> None:
        """Store an experiment with the results and cells it already has, and the job that carries it out, which has its id.

        One with the same id is replaced.
        """
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
            "baseline": False,
            "search": _searched(_summary(experiment)),
            **_conclusion(experiment.statistics),
        }
        with self.write() as connection:
            connection.execute(delete(experiments).where(experiments.c.experiment_id == experiment.experiment_id))
            connection.execute(self.insert(experiments).values(experiment_id=experiment.experiment_id, **values))
            self._put_results(connection, experiment.experiment_id, experiment.results)
            self._put_cells(connection, experiment.experiment_id, experiment.cells)
            if job is not None:
                connection.execute(self.insert(jobs).values(self._job_of(experiment.experiment_id, job)))

    def requeue_experiment(self, experiment_id: str, job: NewJob) -> None:
        """Have an ended experiment carried out again: its job goes back into the queue, at its old place and for its old owner, as one of
        the kind that `job` is; `job` itself is queued where there was none. Raises NotFound."""
        with self.write() as connection:
            _require(connection, experiment_id)
            values = {"status": "running", "error": None, "finished_at": None, **_conclusion(None)}
            of_experiment = experiments.c.experiment_id == experiment_id
            connection.execute(update(experiments).where(of_experiment).values(values))
            again = {**QUEUED_AGAIN, "kind": job.kind, "updated_at": self.now()}
            queued = self.insert(jobs).values(self._job_of(experiment_id, job))
            connection.execute(queued.on_conflict_do_update(index_elements=["job_id"], set_=again))

    def _job_of(self, experiment_id: str, job: NewJob) -> dict[str, Any]:
        return job_values(job, {"experiment_id": experiment_id}, experiment_id, self.now())

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

    def end_orphans(self, reason: str, *, alone: bool = False) -> int:
        """End experiments that count as running and that nobody carries out, as cancelled for `reason`; returns how many.

        Those are experiments without a job that waits or runs, and those whose job was in the foreground of a process that is silent for
        longer than its lease. `alone`: no other process is alive, so that every foreground job is over.
        """
        now = self.now()
        dead = (jobs.c.state == "running") & (jobs.c.kind == FOREGROUND)
        if not alone:
            dead &= jobs.c.lease_until < now
        alive = select(jobs.c.job_id).where(jobs.c.state.in_(("queued", "running")))
        orphans = (experiments.c.status == "running") & experiments.c.experiment_id.not_in(alive)
        ended = {"state": "cancelled", "error": reason, "lease_until": None, "updated_at": now}
        with self.write() as connection:
            connection.execute(update(jobs).where(dead).values(ended))
            values = {"status": "cancelled", "error": reason, "finished_at": now}
            return connection.execute(update(experiments).where(orphans).values(values)).rowcount

    def conclude_experiment(self, experiment_id: str, statistics: Statistics | None) -> None:
        """Store what the results of an experiment say; None while they are changing. Raises NotFound."""
        self._change(experiment_id, _conclusion(statistics))

    def set_baseline(self, experiment_id: str, is_baseline: bool = True) -> None:
        """Mark an experiment as one that others are compared with, or take the mark away. Raises NotFound."""
        self._change(experiment_id, {"baseline": is_baseline})

    def set_budget(self, experiment_id: str, budget_usd: float | None) -> None:
        """Change what a run may still cost. Raises NotFound."""

        def change(header: dict[str, Any]) -> None:
            header["plan"]["budget_usd"] = budget_usd

        with self.write() as connection:
            _change_header(connection, experiment_id, change)

    def set_calibration(self, experiment_id: str, calibration: CalibrationSummary) -> None:
        """Store how the judge of an experiment did on the calibration cases. Raises NotFound."""
        with self.write() as connection:
            _change_header(
                connection,
                experiment_id,
                lambda header: header.update(calibration=calibration.model_dump(mode="json")),
            )

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
            "tags": None if tags is None else json.dumps(sorted({column(tag) for tag in tags})),
            "pinned": pinned,
        }
        values = {field: value for field, value in given.items() if value is not None}
        which = experiments.c.experiment_id == experiment_id
        with self.write() as connection:
            _require(connection, experiment_id)
            if values:
                connection.execute(update(experiments).where(which).values(values))
                (summary,) = _read_summaries(connection, which)
                connection.execute(update(experiments).where(which).values(search=_searched(summary)))

    def delete_experiment(self, experiment_id: str) -> None:
        """Batches of it that a provider still holds stay on record, see `leftover_batches`. Raises NotFound."""
        with self.write() as connection:
            _require(connection, experiment_id)
            connection.execute(delete(experiments).where(experiments.c.experiment_id == experiment_id))
            cleared = batches.c.state.in_(CLEARED)
            connection.execute(delete(batches).where(batches.c.experiment_id == experiment_id, cleared))

    def experiment(
        self, experiment_id: str, *, queries: bool = True, cells: bool = True, results: bool = True
    ) -> Experiment:
        """The whole record; with `queries=False`, cells come without what was retrieved and answered, which is most of it.
        With `cells=False` they are left out, with `results=False` the results of the specs.

        Results stand in the order of the specs, cells by spec and then by question. Raises NotFound.
        """
        table = experiments
        with self.read() as connection:
            row = connection.execute(select(table).where(table.c.experiment_id == experiment_id)).first()
            if row is None:
                raise _no_experiment(experiment_id)
            by_spec = _read_results(connection, experiment_id) if results else []
            found = _read_cells(connection, _cells.c.experiment_id == experiment_id, queries) if cells else []
        header = Experiment.model_validate(
            {
                **json.loads(unpack(row.header)),
                "status": row.status,
                "error": row.error,
                "finished_at": None if row.finished_at is None else moment(row.finished_at),
                "statistics": None if row.statistics is None else json.loads(unpack(row.statistics)),
            }
        )
        header = header.model_copy(update={"plan": header.plan.model_copy(update={"name": row.name})})
        spec_order = {spec.spec_id: place for place, spec in enumerate(header.specs)}
        by_spec.sort(key=lambda result: spec_order.get(result.spec.spec_id, len(spec_order)))
        place_of = _order(header)
        found.sort(key=lambda cell: place_of(cell.spec_id, cell.question_id, cell.repeat))
        return header.model_copy(update={"results": tuple(by_spec), "cells": tuple(found)})

    def experiment_summary(self, experiment_id: str) -> ExperimentSummary:
        """Raises NotFound."""
        found = self._summaries(experiments.c.experiment_id == experiment_id)
        if not found:
            raise _no_experiment(experiment_id)
        return found[0]

    def experiments(
        self, status: str | None = None, *, tag: str | None = None, pinned: bool | None = None, text: str = ""
    ) -> list[ExperimentSummary]:
        """Experiments, newest first; all, or those of one status, with a tag, or pinned. `text`: words that must all occur in name, note, tags,
        id, documents, question set, strategies or models, as parts of words too and whatever their case."""
        which: list[ColumnElement[bool]] = []
        words = [word for word in map(column, _folded(text).split()) if word]
        if words:
            which.append(self.holds_all(experiments.c.search, words))
        if status is not None:
            which.append(experiments.c.status == status)
        if tag is not None:
            which.append(self.json_has(experiments.c.tags, column(tag)))
        if pinned is not None:
            which.append(experiments.c.pinned == pinned)
        return self._summaries(*which)

    def spec_results(self, experiment_id: str) -> list[SpecResult]:
        """The results of the specs so far, by spec id."""
        with self.read() as connection:
            return _read_results(connection, experiment_id)

    def cells(self, experiment_id: str, spec_id: str) -> list[QuestionResult]:
        """The cells of one spec, without their queries."""
        which = (_cells.c.experiment_id == experiment_id) & (_cells.c.spec_id == spec_id)
        with self.read() as connection:
            return _read_cells(connection, which, queries=False)

    def delete_cells(
        self, experiment_id: str, which: Iterable[tuple[str, str, int]], cost_usd: float | None = 0.0
    ) -> None:
        """Forget cells, each named by spec id, question id and repeat, so that a resumed run does them again.

        `cost_usd`: what they have cost (None: unknown), which the experiment remembers. Raises NotFound where there is a cost.
        """
        table = _cells

        def remember(header: dict[str, Any]) -> None:
            before = header.get("retried_usd", 0.0)
            header["retried_usd"] = None if before is None or cost_usd is None else before + cost_usd

        with self.write() as connection:
            if cost_usd != 0.0:
                _change_header(connection, experiment_id, remember)
            for spec_id, question_id, repeat in which:
                connection.execute(
                    delete(table).where(
                        table.c.experiment_id == experiment_id,
                        table.c.spec_id == spec_id,
                        table.c.question_id == question_id,
                        table.c.repeat == repeat,
                    )
                )

    def cell(self, experiment_id: str, spec_id: str, question_id: str, repeat: int = 0) -> QuestionResult | None:
        """One question under one spec, with what was retrieved and answered."""
        which = (
            (_cells.c.experiment_id == experiment_id)
            & (_cells.c.spec_id == spec_id)
            & (_cells.c.question_id == question_id)
            & (_cells.c.repeat == repeat)
        )
        with self.read() as connection:
            found = _read_cells(connection, which, queries=True)
        return found[0] if found else None

    def read_cells(self, experiment: Experiment, *, queries: bool = True) -> Iterator[QuestionResult]:
        """The cells of an experiment as they stand in it, read in batches: few of them are in memory at a time.

        `experiment`: the record, which may come without its cells. Cells that are stored after the first was read are left out.
        Raises NotFound when the experiment is deleted meanwhile.
        """
        of_experiment = _cells.c.experiment_id == experiment.experiment_id
        key = (_cells.c.spec_id, _cells.c.question_id, _cells.c.repeat)
        with self.read() as connection:
            rows = connection.execute(select(*key).where(of_experiment))
            keys = [(spec_id, question_id, repeat) for spec_id, question_id, repeat in rows]
            _require(connection, experiment.experiment_id)
        place_of = _order(experiment)
        keys.sort(key=lambda each: place_of(*each))
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            with self.read() as connection:
                _require(connection, experiment.experiment_id)
                found = _read_cells(connection, of_experiment & tuple_(*key).in_(batch), queries)
            yield from sorted(found, key=lambda cell: place_of(cell.spec_id, cell.question_id, cell.repeat))

    def finished_cells(self, experiment_id: str) -> dict[tuple[str, str, int], CellStatus]:
        """(spec id, question id, repeat) of every stored cell and how it ended: what a resumed run need not repeat."""
        wanted = select(_cells.c.spec_id, _cells.c.question_id, _cells.c.repeat, _cells.c.status)
        with self.read() as connection:
            rows = connection.execute(wanted.where(_cells.c.experiment_id == experiment_id))
            return {(spec_id, question_id, repeat): status for spec_id, question_id, repeat, status in rows}

    def _put_cells(self, connection: Connection, experiment_id: str, results: Sequence[QuestionResult]) -> None:
        if not results:
            return
        rows = [
            {
                "experiment_id": experiment_id,
                "spec_id": result.spec_id,
                "question_id": result.question_id,
                "repeat": result.repeat,
                "status": result.status,
                "body": result.model_dump_json(exclude={"query"}),
                "packed": None if result.query is None else pack(result.query.model_dump_json()),
            }
            for result in results
        ]
        upsert = self.insert(_cells)
        changed = {name: upsert.excluded[name] for name in ("status", "body", "packed")}
        keys = ["experiment_id", "spec_id", "question_id", "repeat"]
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
        with self.read() as connection:
            return _read_summaries(connection, *which)


def _change_header(connection: Connection, experiment_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    which = experiments.c.experiment_id == experiment_id
    header = connection.execute(select(experiments.c.header).where(which)).scalar()
    if header is None:
        raise _no_experiment(experiment_id)
    values = json.loads(unpack(header))
    change(values)
    connection.execute(update(experiments).where(which).values(header=pack(json.dumps(values))))


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


def _searched(summary: ExperimentSummary) -> str:
    """What a search looks in."""
    parts = (
        summary.name,
        summary.note,
        summary.question_set_name,
        summary.embedding_model,
        summary.llm_model or "",
        summary.experiment_id,
        *summary.tags,
        *summary.document_names,
        *summary.spec_labels,
    )
    return column(_folded(" ".join(parts)))


def _folded(text: str) -> str:
    """Without differences of case, and of how accents are written: file names of some systems keep them as characters of their own."""
    return unicodedata.normalize("NFC", text).casefold()


def _read_summaries(connection: Connection, *which: ColumnElement[bool]) -> list[ExperimentSummary]:
    table = experiments
    columns = [table.c[name] for name in ("summary", *sorted(_IN_COLUMNS))]
    order = (table.c.created_at.desc(), table.c.experiment_id)
    return [_summary_of(row) for row in connection.execute(select(*columns).where(*which).order_by(*order))]


def _conclusion(statistics: Statistics | None) -> dict[str, Any]:
    """The columns that hold what an experiment says."""
    if statistics is None:
        return {"statistics": None, "headline": ""}
    sentence, period, _ = statistics.recommendation.partition(". ")
    headline, verdict = sentence + period.strip(), statistics.verdict
    if verdict is not None and verdict.choice_among_equals:
        headline += f" {verdict.choice_among_equals}"
    return {"statistics": pack(statistics.model_dump_json()), "headline": column(headline)}


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
            "baseline": row.baseline,
            "headline": row.headline,
        }
    )


def _read_results(connection: Connection, experiment_id: str) -> list[SpecResult]:
    table = spec_results
    wanted = select(table.c.body).where(table.c.experiment_id == experiment_id).order_by(table.c.spec_id)
    return [SpecResult.model_validate_json(body) for body in connection.execute(wanted).scalars()]


def _read_cells(connection: Connection, which: ColumnElement[bool], queries: bool) -> list[QuestionResult]:
    if not queries:
        bodies = connection.execute(select(_cells.c.body).where(which)).scalars()
        return [QuestionResult.model_validate_json(body) for body in bodies]
    rows = connection.execute(select(_cells.c.body, _cells.c.packed).where(which))
    return [QuestionResult.model_validate_json(_with_query(row.body, row.packed)) for row in rows]


def _with_query(body: str, packed: bytes | None) -> bytes:
    """The JSON of a cell with its query put back as its last field."""
    if packed is None:
        return body.encode()
    return body[:-1].encode() + b',"query":' + unpack(packed) + b"}"


def _order(experiment: Experiment) -> Callable[[str, str, int], tuple[int, int, int]]:
    """The place of a cell, named by spec id, question id and repeat: by spec, question and repeat, unknown ones last."""
    specs = {spec.spec_id: place for place, spec in enumerate(experiment.specs)}
    questions = {question.question_id: place for place, question in enumerate(experiment.questions)}
    last = len(specs) + len(questions)
    return lambda spec_id, question_id, repeat: (specs.get(spec_id, last), questions.get(question_id, last), repeat)


def _require(connection: Connection, experiment_id: str) -> None:
    wanted = select(experiments.c.experiment_id).where(experiments.c.experiment_id == experiment_id)
    if connection.execute(wanted).first() is None:
        raise _no_experiment(experiment_id)


def _no_experiment(experiment_id: str) -> NotFound:
    return NotFound(f"There is no experiment {experiment_id}. It may have been deleted; History shows what there is.")
