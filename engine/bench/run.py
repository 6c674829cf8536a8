"""Runs a stored experiment to its end: index every spec, ask every question, score it. Every finished unit is stored at once,
so a run that was killed, cancelled or stopped continues where it was."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Literal

from engine import memory
from engine.answer import SentenceVectors
from engine.asking import Limits
from engine.bench import closed_book, overnight, summary
from engine.bench.cell_writer import CellWriter
from engine.bench.conclude import conclude
from engine.bench.dry_run import DryRun
from engine.bench.open_spec import Indexes, OpenSpec, Parts
from engine.bench.overnight import Overnight
from engine.bench.plan import answer_seeds, judged_by
from engine.bench.spending import Spending
from engine.cutting import HERE, Cutter
from engine.errors import BudgetExceeded, IndexUnavailable, ModelCallFailed, NotFound, StoreUnavailable, UserError
from engine.executor.base import Executor, Unit
from engine.executor.local import LocalExecutor
from engine.index.base import ChunkIndex
from engine.judge import calibration
from engine.models import StrategySpec
from engine.providers.base import ChatModel, Models, Usage
from engine.providers.bundled import BundledEmbedder
from engine.records import Experiment, Question, SpecResult
from engine.store import Store
from engine.strategies.source import Source

logger = logging.getLogger(__name__)

INDEXERS = 2
"""Specs indexed at once, while the questions are embedded. Cutting is CPU work; more threads than cores only wait for each other. An
embedder that asks a server is waited for, so that as many specs are indexed as may be open."""
ASKERS_PER_CALL = 2
"""Askers for each call that may be in flight: while one waits, the other searches and scores, so that the next call is always ready."""
OPEN_SPECS = 4
"""Specs whose chunks are in memory at once. The next one is indexed when all questions of an earlier one are answered."""
UNAVAILABLE_LIMIT = 5
"""Calls in a row that end with a model out of reach, each after its own retries, before the run stops instead of failing every question."""

Stage = Literal["index", "ask", "batch"]
Ended = Literal["finished", "cancelled"]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a run, for whoever shows progress."""

    stage: Stage
    spec: StrategySpec
    done: int
    """Units finished in this stage of this spec: documents for `index`, questions (times repeats) for `ask`, calls for `batch`."""
    total: int
    error: str | None = None
    spent_usd: float | None = None
    """By the whole run so far; None when a price is unknown."""


Emit = Callable[[Event], None]


class Runner:
    """Carries out experiments against one set of models, index and store.

    `estimate`: the dry run of an experiment, asked only where there is a budget to keep. `poll_seconds`: between two looks at an
    overnight batch. `executor`: where units are carried out; those of an overnight run are only collected, which happens here. `cutter`: where documents are cut.
    """

    def __init__(
        self,
        store: Store,
        index: ChunkIndex,
        models: Models,
        source: Callable[[str], Source],
        limits: Limits,
        askers: int,
        estimate: Callable[[Experiment], DryRun],
        poll_seconds: float = 60.0,
        executor: Executor | None = None,
        cutter: Cutter = HERE,
    ) -> None:
        self.store = store
        self.index = index
        self.models = models
        self.source = source
        self.limits = limits
        self.askers = askers
        self.estimate = estimate
        self.poll_seconds = poll_seconds
        self.executor = executor or LocalExecutor()
        self.cutter = cutter

    def run(self, experiment: Experiment, emit: Emit, cancelled: Callable[[], bool]) -> Ended:
        """Do what is not done yet and store the outcome, including what it says. `cancelled`: it was told to stop or met its budget.

        Raises the UserError that kept the run from going on (StoreUnavailable, IndexUnavailable, WorkersUnavailable, ModelCallFailed); the experiment is then
        stored as failed with that sentence, everything finished is kept, and another run continues.
        """
        try:
            if experiment.plan.batch:
                return self._run_overnight(experiment, emit, cancelled)
            return _Work(self, experiment, emit, cancelled).run() or "finished"
        except UserError as error:
            with suppress(StoreUnavailable):
                self.store.finish_experiment(experiment.experiment_id, "failed", error.message)
            raise
        finally:
            self.executor.release(experiment.experiment_id)

    def _run_overnight(self, experiment: Experiment, emit: Emit, cancelled: Callable[[], bool]) -> Ended:
        """Pass after pass over the open questions, each after the batches it waits for."""
        experiment_id = experiment.experiment_id
        batches = Overnight(self.store, experiment_id, self.models, self.poll_seconds)
        try:
            while (ended := _Work(self, experiment, emit, cancelled, batches).run()) is None:
                batches.settle(lambda done, total: emit(Event("batch", overnight.SPEC, done, total)), cancelled)
                experiment = self.store.experiment(experiment_id, cells=False)
        except NotFound:
            # It was deleted meanwhile.
            batches.cancel_if_asked()
            raise
        if ended == "finished":
            batches.finish()
        else:
            batches.cancel_if_asked()
        return ended


class _Work:
    """The state of one run, or of one pass of an overnight run."""

    def __init__(
        self,
        runner: Runner,
        experiment: Experiment,
        emit: Emit,
        cancelled: Callable[[], bool],
        batches: Overnight | None = None,
    ) -> None:
        self._runner = runner
        self._store = runner.store
        self._experiment = experiment
        self._emit = emit
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._stopped_by: UserError | None = None
        self._unavailable = 0
        self._batches = batches
        self._executor = runner.executor if batches is None else LocalExecutor()
        self._deferred = 0
        self._models = runner.models if batches is None else batches.models
        self._seeds = answer_seeds(experiment.plan, runner.models)
        self._done = set(self._store.finished_cells(experiment.experiment_id))
        self._before = {result.spec.spec_id: result for result in self._store.spec_results(experiment.experiment_id)}
        self._writer = CellWriter(self._store, experiment.experiment_id)
        self._parts = Parts(
            experiment,
            self._models,
            runner.index,
            runner.store,
            runner.source,
            runner.limits,
            SentenceVectors(),
            BundledEmbedder(),
            self._stopping,
            runner.cutter,
        )
        self._room = threading.Semaphore(OPEN_SPECS)
        self._asked: list[Future[None]] = []
        self._calibration_cost = 0.0
        self._spending, self._index_costs, self._ask_cost = self._budget()

    def run(self) -> Ended | None:
        """None: questions wait for overnight batches."""
        runner, experiment = self._runner, self._experiment
        asks_server = hasattr(runner.models.embedder, "uncached")
        n_indexers = (OPEN_SPECS if asks_server else INDEXERS) + 1
        n_askers = runner.askers * (1 if runner.models.chat is None else ASKERS_PER_CALL)
        with ThreadPoolExecutor(n_indexers, "index") as indexers, ThreadPoolExecutor(n_askers, "ask") as askers:
            questions = indexers.submit(self._embed_questions)
            prepared = [indexers.submit(self._prepare, spec, askers, questions) for spec in experiment.specs]
            try:
                self._calibrate(askers)
            except UserError as failure:
                self._stop(failure)
            for future in prepared:
                future.result()
            self._ask_closed_book(askers)
        for asked in self._asked:
            asked.result()
        if self._deferred and not self._stopping():
            self._check_batches()
            if not self._stopping():
                return None
        error = self._stopped_by
        if error is not None and not isinstance(error, BudgetExceeded):
            raise error
        cancelled = error is not None or self._cancelled()
        light = self._store.experiment(experiment.experiment_id, queries=False)
        self._store.conclude_experiment(experiment.experiment_id, conclude(light))
        ended: Ended = "cancelled" if cancelled else "finished"
        self._store.finish_experiment(experiment.experiment_id, ended, None if error is None else error.message)
        return ended

    def _budget(self) -> tuple[Spending, dict[str, float], float]:
        """What the run has spent before, and what indexing a spec and asking a question may cost at most."""
        calibrated = self._experiment.calibration
        spent = self._experiment.retried_usd
        if calibrated is not None and spent is not None:
            spent = None if calibrated.usage.cost_usd is None else spent + calibrated.usage.cost_usd
        for spec in self._experiment.specs:
            cells = self._store.cells(self._experiment.experiment_id, spec.spec_id)
            before = self._before.get(spec.spec_id)
            used = summary.total(summary.added(before.index_usage if before else {}, *(cell.usage for cell in cells)))
            spent = None if spent is None or used.cost_usd is None else spent + used.cost_usd
        budget = self._experiment.plan.budget_usd
        spending = Spending(spent, budget)
        if budget is None:
            return spending, {}, 0.0
        estimate = self._runner.estimate(self._experiment)
        costs = {each.spec.spec_id: each.index_cost_usd or 0.0 for each in estimate.specs}
        calibrating = estimate.stage("calibration").cost_usd
        self._calibration_cost = 0.0 if calibrating is None else calibrating.high / len(calibration.cases())
        return spending, costs, (estimate.high_ask_usd or 0.0)

    def _check_batches(self) -> None:
        """Stop before batches that might cost more than is left of the budget."""
        batches, budget = self._batches, self._experiment.plan.budget_usd
        if batches is None or budget is None or not batches.has_waiting:
            return
        done = {overnight.unit_name(*cell) for cell in self._store.finished_cells(self._experiment.experiment_id)}
        calibrated = self._store.experiment(self._experiment.experiment_id, cells=False).calibration is not None
        owed = batches.unrecorded_usd(lambda unit: unit in done or (calibrated and unit == overnight.CALIBRATION))
        self._spending.add("owed", owed)
        try:
            with self._spending.unit("batches", self._deferred * self._ask_cost):
                pass
        except BudgetExceeded as error:
            self._stop(error)

    # Stopping

    def _stopping(self) -> bool:
        return self._stopped_by is not None or self._cancelled()

    def _stop(self, error: UserError) -> None:
        with self._lock:
            if self._stopped_by is None:
                self._stopped_by = error

    def _is_fatal(self, error: Exception | None, lost_verdict: bool = False) -> bool:
        """Whether an error would meet every other unit as well; then the run stops and nothing is recorded for this one.

        `lost_verdict`: the unit has an answer from before and its judge was out of reach, which is no sign that models answer again.
        """
        if isinstance(error, StoreUnavailable | IndexUnavailable | BudgetExceeded):
            self._stop(error)
            return True
        out_of_reach = isinstance(error, ModelCallFailed) and error.cause in ("unavailable", "auth")
        with self._lock:
            if out_of_reach:
                self._unavailable += 1
            elif not lost_verdict:
                self._unavailable = 0
            stop = self._unavailable >= UNAVAILABLE_LIMIT
        if stop and isinstance(error, UserError):
            self._stop(error)
        return out_of_reach and stop

    # Indexing

    def _embed_questions(self) -> dict[str, Usage]:
        """Embeds all questions in as few calls as there can be; searches then find them in the cache."""
        embedder, plan = self._runner.models.embedder, self._experiment.plan
        if embedder is None or plan.retriever == "lexical" or not hasattr(embedder, "uncached"):
            return {}
        try:
            texts = [question.question for question in self._experiment.questions]
            return {"embedding": embedder.embed(texts, kind="query").usage}
        except UserError as error:
            # Every search that needs a vector says the same in its own row.
            logger.warning("the questions could not be embedded: %s", error.message)
            return {}

    def _prepare(self, spec: StrategySpec, askers: ThreadPoolExecutor, questions: Future[dict[str, Usage]]) -> None:
        """Index all documents under one spec, then queue its questions. A failure is the spec's alone."""
        remaining = self._remaining(spec)
        before = self._before.get(spec.spec_id)
        if not remaining and before is not None and before.status == "ok" and before.metrics:
            self._note("ask", spec, len(self._experiment.questions) * len(self._seeds))
            return
        self._room.acquire()
        opened = None
        try:
            opened = self._open(spec, questions, before)
        except UserError as error:
            self._stop(error)
        finally:
            if opened is None:
                self._room.release()
        if opened is None:
            return
        self._queue(opened, remaining, askers)

    def _calibrate(self, askers: ThreadPoolExecutor) -> None:
        """Have the judge score cases whose verdict is known, once per experiment, before the first question and while the specs are indexed."""
        experiment = self._experiment
        judge, before = judged_by(experiment.plan, self._models), experiment.calibration
        if judge is None or (before is not None and before.scored):
            return
        judged = list(askers.map(lambda case: self._judge_case(judge, case), calibration.cases()))
        results = [result for result in judged if result is not None]
        if len(results) == len(judged):
            self._store.set_calibration(experiment.experiment_id, calibration.collected(judge, results).summary)

    def _judge_case(self, judge: ChatModel, case: calibration.Case) -> calibration.CaseResult | None:
        """None: the run stops."""
        if self._stopping():
            return None
        try:
            with self._unit(overnight.CALIBRATION) as unit, self._reserved("calibration", self._calibration_cost):
                result = calibration.judge_case(judge, case)
                if self._is_deferred(unit):
                    return None
                self._spending.add("calibration", result.judgement.usage.cost_usd)
                return result
        except BudgetExceeded as error:
            self._stop(error)
            return None

    def _ask_closed_book(self, askers: ThreadPoolExecutor) -> None:
        """Queue the questions of the closed-book baseline, where the plan asks for it."""
        plan, chat = self._experiment.plan, self._models.chat
        if not plan.closed_book or self._stopping():
            return
        if chat is None:
            missing = "The closed-book baseline needs a chat model and none is configured. Set OPENAI_API_KEY, or OPENAI_BASE_URL and LLM_MODEL."
            failed = SpecResult(spec=closed_book.SPEC, status="failed", error=missing)
            self._store.add_results(self._experiment.experiment_id, [failed])
            return
        self._queue(closed_book.ClosedBook(self._parts, chat), self._remaining(closed_book.SPEC), askers)

    def _remaining(self, spec: StrategySpec) -> list[tuple[Question, int]]:
        """Questions and repeats that have no cell yet."""
        return [
            (question, repeat)
            for question in self._experiment.questions
            for repeat in range(len(self._seeds))
            if (spec.spec_id, question.question_id, repeat) not in self._done
        ]

    def _queue(
        self,
        opened: OpenSpec | closed_book.ClosedBook,
        remaining: list[tuple[Question, int]],
        askers: ThreadPoolExecutor,
    ) -> None:
        asking = _Asking(opened, len(remaining), len(self._experiment.questions) * len(self._seeds))
        if not remaining:
            self._close(asking)
            return
        units = [Unit(question, repeat, self._seeds[repeat]) for question, repeat in remaining]
        # With a budget each question is reserved and paid by itself.
        size = self._executor.batch if self._experiment.plan.budget_usd is None else 1
        parts = [units[start : start + size] for start in range(0, len(units), size)]
        futures = [askers.submit(self._ask, asking, part) for part in parts]
        with self._lock:
            self._asked.extend(futures)

    def _open(
        self, spec: StrategySpec, questions: Future[dict[str, Usage]], before: SpecResult | None
    ) -> OpenSpec | None:
        """The spec with its chunks, indexed; None when the run stops or no document could be indexed.

        `questions`: what embedding them costs, which is counted with the first spec. No question is asked before they are embedded, or
        another process would embed them too.
        """
        spent = before.index_usage if before is not None else {}
        indexes = Indexes(self._parts, spec, spent, keeps=self._executor.asks_here)
        documents = self._experiment.documents
        for number, document in enumerate(documents, start=1):
            if self._stopping():
                return None
            try:
                with self._spending.unit("index", self._index_costs.get(spec.spec_id, 0.0) / len(documents)):
                    cost, error = self._executor.index(indexes, documents, number - 1, self._stopping)
                    self._spending.add("index", cost)
            except BudgetExceeded as stop:
                error = stop
            if self._is_fatal(error):
                return None
            self._note("index", spec, number, len(documents), indexes.errors.get(document.document_id))
        embedded = questions.result()
        if spec == self._experiment.specs[0]:
            self._spending.add("questions", indexes.spend(embedded))
        result = indexes.result()
        self._store.add_results(self._experiment.experiment_id, [result])
        return None if result.status == "failed" else indexes.open(result)

    # Asking

    def _ask(self, asking: _Asking, units: Sequence[Unit]) -> None:
        try:
            if not self._stopping():
                self._ask_units(asking, units)
        except UserError as error:
            self._stop(error)
        finally:
            with self._lock:
                asking.left -= len(units)
                last = asking.left == 0
            if last:
                self._close(asking)

    def _ask_units(self, asking: _Asking, units: Sequence[Unit]) -> None:
        spec_id = asking.opened.spec.spec_id
        name = overnight.unit_name(spec_id, units[0].question.question_id, units[0].repeat)
        with self._unit(name) as unit, self._reserved("ask", self._ask_cost):
            every = list(self._executor.ask(asking.opened, units, self._stopping))
            if self._is_deferred(unit):
                return
            for asked in every:
                self._spending.add("ask", summary.total(asked.cell.usage).cost_usd)
        for asked in every:
            cell = asked.cell if unit is None or not unit.batched else overnight.without_times(asked.cell)
            if self._is_fatal(asked.error, "unavailable" in cell.unscored.values()):
                if asked.stored:
                    self._store.delete_cells(self._experiment.experiment_id, [(spec_id, cell.question_id, cell.repeat)])
                continue
            if not asked.stored:
                self._writer.add(cell)
            with self._lock:
                asking.finished += 1
                finished = asking.finished
            self._note("ask", asking.opened.spec, finished, asking.total, cell.error)

    def _unit(self, name: str) -> AbstractContextManager[overnight.Unit | None]:
        """Calls inside belong to one answer or verdict, where they come from batches."""
        return nullcontext() if self._batches is None else self._batches.unit(name)

    def _reserved(self, kind: str, estimate_usd: float) -> AbstractContextManager[None]:
        """The cost of one unit, which batches that were answered have caused already. Raises BudgetExceeded."""
        return self._spending.unit(kind, estimate_usd) if self._batches is None else nullcontext()

    def _is_deferred(self, unit: overnight.Unit | None) -> bool:
        """Whether a call of the unit waits for a batch; the unit is then done again when that is answered."""
        if unit is None or not unit.deferred:
            return False
        with self._lock:
            self._deferred += 1
        return True

    def _close(self, asking: _Asking) -> None:
        """All questions of a spec are asked, or the run stops: its row is stored, and its chunks are given up."""
        try:
            cells = self._store.cells(self._experiment.experiment_id, asking.opened.spec.spec_id)
            self._store.add_results(self._experiment.experiment_id, [asking.opened.summary(cells)])
        except UserError as error:
            self._stop(error)
        finally:
            asking.opened.give_up()
            memory.give_back()
            if isinstance(asking.opened, OpenSpec):
                self._room.release()

    def _note(
        self, stage: Stage, spec: StrategySpec, done: int, total: int | None = None, error: str | None = None
    ) -> None:
        self._emit(Event(stage, spec, done, done if total is None else total, error, self._spending.spent_usd))


class _Asking:
    """The questions of one open spec."""

    def __init__(self, opened: OpenSpec | closed_book.ClosedBook, left: int, total: int) -> None:
        self.opened = opened
        self.left = left
        """Queued and not ended."""
        self.total = total
        self.finished = total - left
