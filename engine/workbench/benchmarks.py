"""The Workbench's benchmarks and the experiments they become."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, get_args

from engine import ids, report
from engine.asking import Limits
from engine.bench import gate, history, overnight
from engine.bench import plan as planning
from engine.bench.dry_run import DryRun
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison
from engine.bench.jobs import JobRunner
from engine.bench.leftovers import Leftovers
from engine.bench.overnight import Overnight
from engine.bench.run import Emit, Runner
from engine.errors import BadRequest, NotFound, UserError
from engine.executor import open_executor
from engine.index import ChunkIndex
from engine.judge import trust
from engine.metrics import chunk_quality
from engine.models import Chunk, StrategySpec
from engine.providers.base import Models
from engine.providers.vectors import well_formed
from engine.records import Experiment, Plan, QuestionResult, QuestionSet
from engine.report import Exported
from engine.settings import Settings
from engine.store import DataFolder, ExperimentSummary, Job, JobState, Store
from engine.store.owners import LOCAL
from engine.workbench import quotas
from engine.workbench.asking import ASKERS, Asking, judge_of


class Benchmarks(Asking):
    """Benchmarks and experiments of a Workbench."""

    def __init__(self, settings: Settings, folder: DataFolder, store: Store, index: ChunkIndex, models: Models) -> None:
        super().__init__(settings, folder, store, index, models)
        self._executor = open_executor(settings, store, models)
        self._jobs = JobRunner(
            store,
            self._runner,
            settings.queue_limit,
            settings.queue_limit_per_user,
            settings.job_lease_seconds,
            settings.benchmarks_at_once,
        )
        self._leftovers = Leftovers(store, models, settings.batch_poll_seconds)

    def repeat_judge(self, experiment_id: str, repeats: int = 3, sample: int = 10) -> tuple[trust.Spread, ...]:
        """Judge a seeded sample of an experiment's answers several times.

        Raises NotFound, NeedsModel, BadRequest without judged answers, BudgetExceeded where it does not fit into a quota.
        """
        judge_of(self.models)
        if repeats < 2 or sample < 1:
            raise BadRequest("A spread needs at least one answer and two repeats. Nothing was judged.")
        experiment = self.experiment(experiment_id)
        judged = [
            cell
            for cell in experiment.cells
            if cell.query is not None and cell.query.judgement is not None and cell.query.retrieved
        ]
        if not judged:
            raise BadRequest("This experiment has no judged answers, so there is nothing to repeat.")
        chosen = random.Random(experiment.plan.seed).sample(judged, min(sample, len(judged)))
        answers = {question.question_id: question.answer for question in experiment.questions}
        queries = [cell.query for cell in chosen if cell.query is not None]
        expected = [answers.get(cell.question_id) for cell in chosen]
        costs = [query.judgement.usage.cost_usd for query in queries if query.judgement is not None]
        cost = None if None in costs else repeats * sum(each or 0.0 for each in costs)
        with self._paying(lambda: cost) as models:
            return trust.repeat(judge_of(models), queries, expected, self.document, repeats)

    def plan(
        self,
        question_set: QuestionSet | str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Plan:
        """A plan for a question set, or the id of one, over the given documents (all when None). `options`: further fields of Plan."""
        if isinstance(question_set, str):
            question_set = self.question_set(question_set)
        return Plan(
            name=name or question_set.name,
            document_ids=tuple(self._document_ids(document_ids)),
            specs=tuple(specs),
            question_set_id=question_set.question_set_id,
            top_k=options.pop("top_k", None) or self.settings.top_k,
            baseline=options.pop("baseline", None) or (specs[0].spec_id if specs else None),
            **options,
        )

    def dry_run(self, plan: Plan, question_set: QuestionSet | None = None) -> DryRun:
        """Calls, tokens and cost of a benchmark before it runs, on the plan's question set or one that is not stored.

        Calls no model and stores nothing. Raises BadRequest, NotFound.
        """
        documents = [self._store.document_info(document_id) for document_id in plan.document_ids]
        question_set = question_set or self.question_set(plan.question_set_id)
        planning.check(plan, documents, question_set)
        overnight.check(plan, self.models)
        return self._dry_runner().estimate(plan, question_set.questions)

    def benchmark(self, plan: Plan, emit: Emit = lambda _: None, request_id: str | None = None) -> Experiment:
        """Run a benchmark to its end in this thread.

        Raises BadRequest for a plan that cannot give a result, BudgetExceeded for one that does not fit into a quota, and the UserError that kept the run from going on.
        """
        experiment = self._freeze(plan, request_id)
        with quotas.admitted(self._store, self.settings, experiment.estimated_cost_usd):
            self._store.claim("experiment", experiment.experiment_id)
            job = self._jobs.hold(experiment, self._job_owner)
        self._jobs.run_here(experiment, job, emit)
        return self.experiment(experiment.experiment_id)

    def submit(self, plan: Plan, owner: str = "", request_id: str | None = None) -> Job:
        """Queue a benchmark; it runs in the background. The job has the id of its experiment. Raises BadRequest, Busy."""
        return self._queued(self._freeze(plan, request_id), owner)

    def rerun(
        self,
        experiment_id: str,
        changes: Mapping[str, Any] | None = None,
        owner: str = "",
        request_id: str | None = None,
    ) -> Job:
        """Queue an experiment again, with its frozen questions and the models of now. `changes`: fields of its plan to set otherwise.

        Raises NotFound, also for a document that was deleted, BadRequest, Busy.
        """
        before = self._store.experiment(experiment_id, cells=False)
        plan = planning.changed(before.plan, changes or {})
        return self._queued(self._freeze(plan, request_id, before), owner)

    def _queued(self, experiment: Experiment, owner: str) -> Job:
        with quotas.admitted(self._store, self.settings, experiment.estimated_cost_usd):
            self._store.claim("experiment", experiment.experiment_id)
            try:
                return self._jobs.submit(experiment, self._job_owner or owner)
            except UserError:
                self._store.disclaim("experiment", experiment.experiment_id)
                raise

    @property
    def _job_owner(self) -> str:
        """The user that jobs are counted for; empty where there are no users."""
        return "" if self._store.user == LOCAL else self._store.user

    def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        return self._store.job(job_id)

    def jobs(self) -> list[Job]:
        """Jobs that wait or run, oldest first."""
        return self._store.jobs(("queued", "running"))

    def job_counts(self) -> dict[JobState, int]:
        """Jobs of each state there were, and are."""
        return {state: self._store.count_jobs([state]) for state in get_args(JobState)}

    def longest_wait(self) -> float:
        """Seconds the oldest queued job has waited; 0.0 when none waits."""
        waiting = self._store.jobs(["queued"], limit=1)
        return max(0.0, (datetime.now(UTC) - waiting[0].updated_at).total_seconds()) if waiting else 0.0

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; what is finished is kept. Raises NotFound."""
        job = self._store.cancel_job(job_id)
        if job.state == "cancelled":
            # It was waiting, so nobody else will take back what an earlier run has sent.
            self._batches(job_id).take_back(patience_seconds=0)
        return job

    def _batches(self, experiment_id: str) -> Overnight:
        return Overnight(self._store, experiment_id, self.models, self.settings.batch_poll_seconds)

    def resume(self, experiment_id: str, budget_usd: float | None = None, owner: str = "") -> Job:
        """Continue an ended experiment: what is missing is done, and what failed is tried again. What is finished stays as it is.

        `budget_usd`: a new budget for the whole run; None leaves it. Raises NotFound, Busy.
        """
        self._store.require_own("experiment", experiment_id)
        cost = quotas.whole_cost(self._store, experiment_id)
        with quotas.admitted(self._store, self.settings, cost, but=experiment_id):
            if budget_usd is not None:
                self._store.set_budget(experiment_id, budget_usd)
            return self._jobs.resume(experiment_id, self._job_owner or owner)

    def retry_failed(self, experiment_id: str, owner: str = "") -> Job:
        """Try again what failed in an experiment, and only that. Raises NotFound, Busy."""
        return self.resume(experiment_id, owner=owner)

    def orphans(self, experiment_id: str, spec_id: str) -> tuple[Chunk, ...]:
        """Chunks of a spec that are among the first `top_k` hits of no question of an experiment, as far as they are still stored.

        Raises NotFound, BadRequest for a spec that is not in it.
        """
        experiment = self.experiment(experiment_id)
        spec = next((each for each in experiment.specs if each.spec_id == spec_id), None)
        if spec is None:
            raise BadRequest("This strategy is not part of the experiment. Choose one that is.")
        own = [cell.query for cell in experiment.cells if cell.spec_id == spec_id and cell.query is not None]
        there = {info.document_id for info in self.documents()} & {each.document_id for each in experiment.documents}
        known = [self.known_chunks(document_id, spec) for document_id in sorted(there)]
        return chunk_quality.orphans(
            [chunk for chunk_set in known if chunk_set is not None for chunk in chunk_set.chunks],
            (hit.chunk.chunk_id for query in own for hit in query.retrieved),
        )

    def experiments(
        self, text: str = "", *, status: str | None = None, tag: str | None = None, pinned: bool | None = None
    ) -> list[ExperimentSummary]:
        """Experiments, newest first. `text`: words that must all occur in name, note, tags, id, documents, question set, strategies or models."""
        return self._store.experiments(status, tag=tag, pinned=pinned, text=text)

    def experiment(self, experiment_id: str, *, queries: bool = True, cells: bool = True) -> Experiment:
        """`queries`: whether its cells come with their answers and retrieved chunks, which are most of its bytes; `cells`: whether
        they come at all. Raises NotFound."""
        return self._store.experiment(experiment_id, queries=queries, cells=cells)

    def experiment_summary(self, experiment_id: str) -> ExperimentSummary:
        """What lists show of it: note, tags, marks. Raises NotFound."""
        return self._store.experiment_summary(experiment_id)

    def cell(self, experiment_id: str, spec_id: str, question_id: str, repeat: int = 0) -> QuestionResult | None:
        """One question under one spec, with its query; None when it is not finished."""
        return self._store.cell(experiment_id, spec_id, question_id, repeat)

    def annotate(
        self,
        experiment_id: str,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
    ) -> ExperimentSummary:
        """Change what people write on an experiment; None leaves a field as it is. Raises NotFound, BadRequest for an empty name."""
        if name is not None and not name.strip():
            raise BadRequest("An experiment needs a name. Nothing was changed.")
        self._store.annotate_experiment(experiment_id, name=name, note=note, tags=tags, pinned=pinned)
        return self._store.experiment_summary(experiment_id)

    def mark_baseline(self, experiment_id: str, is_baseline: bool = True) -> ExperimentSummary:
        """Mark an experiment as one that others are compared with, or take the mark away. Raises NotFound."""
        self._store.set_baseline(experiment_id, is_baseline)
        return self._store.experiment_summary(experiment_id)

    def compare(self, experiment_ids: Sequence[str]) -> ExperimentComparison:
        """Two to four experiments against the first: settings that differ, metrics on the common questions, questions by regression.

        Raises NotFound, BadRequest in words where nothing can be compared.
        """
        return history.compare([self._store.experiment(each, queries=False, results=False) for each in experiment_ids])

    def check(self, baseline_id: str, candidate_id: str, metric: str, max_drop: float) -> Check:
        """Whether a candidate is worse than a baseline by more than `max_drop` on a metric: pass, regression or cannot tell.

        Raises NotFound, BadRequest.
        """
        pair = [self._store.experiment(each, queries=False) for each in (baseline_id, candidate_id)]
        return gate.check(*pair, metric=metric, max_drop=max_drop)

    def export(self, experiment_id: str, kind: str = "html") -> Exported:
        """An experiment as a file to write: one of `report.FORMATS`. Raises NotFound, BadRequest."""
        chosen = report.check_format(kind)
        experiment = self._store.experiment(experiment_id, queries=False, cells=chosen == "html")
        cell = functools.partial(self._store.cell, experiment_id)
        note = self._store.experiment_summary(experiment_id).note
        return report.export(experiment, chosen, functools.partial(self._store.read_cells, experiment), cell, note)

    def delete_experiment(self, experiment_id: str) -> None:
        """One that waits or runs is cancelled. Raises NotFound."""
        self._store.require_own("experiment", experiment_id)
        state: JobState = "cancelled"
        with suppress(NotFound):
            state = self._store.cancel_job(experiment_id).state
        if state != "running":
            # Otherwise its run does it.
            self._batches(experiment_id).take_back(forget=True)
        self._store.delete_experiment(experiment_id)

    def _freeze(self, plan: Plan, request_id: str | None, repeats: Experiment | None = None) -> Experiment:
        """The experiment of a plan; with `repeats`, with the questions of that one."""
        plan = plan.model_copy(update={"name": well_formed(plan.name)})
        documents = [self._store.document_info(document_id) for document_id in plan.document_ids]
        question_set = history.frozen_questions(repeats) if repeats else self.question_set(plan.question_set_id)
        planning.check(plan, documents, question_set)
        overnight.check(plan, self.models)
        costs = self.models.chat is not None or not planning.is_local(self.models)
        cost = self._dry_runner().estimate(plan, question_set.questions).estimated_cost_usd if costs else 0.0
        planning.check_budget(plan, cost)
        experiment = planning.freeze(
            plan, documents, question_set, self.models, self.settings, request_id or ids.new_id(), cost
        )
        return experiment.model_copy(update={"repeats_experiment": repeats.experiment_id if repeats else None})

    def _runner(self) -> Runner:
        askers = ASKERS if self.models.chat is None else self.settings.concurrency

        def estimate(experiment: Experiment) -> DryRun:
            return self._dry_runner().estimate(experiment.plan, experiment.questions)

        limits = Limits.of(self.settings)
        return Runner(
            self._store,
            self._index,
            self.models,
            self._source,
            limits,
            askers,
            estimate,
            self.settings.batch_poll_seconds,
            self._executor,
            self._cutter,
        )
