"""Answers and verdicts of a benchmark through the provider's batch endpoint: within a day, at a lower price.

The benchmark itself is not told twice. A run goes through its questions as always; a call that nobody has answered yet is set aside
instead of made, and its question stays open. When all are asked, what was set aside is sent as batches, and when those are answered
the run goes through its open questions again. Answers come first, verdicts on them next, a judge's second tries last.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine import ids
from engine.bench.leftovers import chats_of, provider_of, put_away, server_of
from engine.errors import BadRequest, ModelCallFailed, NotFound
from engine.models import StrategySpec
from engine.providers.base import NO_USAGE, ChatModel, ChatReply, ChatRequest, Models, Probe, Usage
from engine.providers.cache import CachedChat
from engine.records import Plan, QuestionResult
from engine.store import Store
from engine.store.batches import ANSWERED, FETCHED, KEPT, READ
from engine.store.records import Batch, BatchCall

if TYPE_CHECKING:
    from engine.providers.openai_batch import BatchChat, BatchState, Line

logger = logging.getLogger(__name__)

PURPOSES = frozenset({"answer", "judge"})
"""Calls that can wait for a night. Contexts are written directly: what follows them needs them."""
MOST_TRIES = 2
"""Batches a call is sent in before it counts as failed."""
LONGEST_HOURS = 25.0
"""A provider that cannot be reached is asked again for so long: a batch's day, and one hour more."""
SPEC = StrategySpec(strategy_name="overnight", params={}, label="overnight batches")
"""Under which the progress of a run shows how far its batches are."""
CALIBRATION = "calibration"
"""Payer of the calls that calibrate the judge."""

_NOT_MEASURED = ("generate", "judge", "total")
"""Times of a question that a batch has no part in."""
_LOOK = 0.5
"""Seconds between looks at whether the run was cancelled, while a batch is waited for."""
PATIENCE_SECONDS = 10.0
"""How long a cancelled run waits for its batches to end, so that their files can be deleted."""
_OUT_OF_REACH = frozenset({"unavailable", "timeout", "rate_limited"})

Watch = Callable[[int, int], None]
"""Told how many of the calls that were sent are answered, and how many were sent."""


def check(plan: Plan, models: Models) -> None:
    """Raises BadRequest when a plan that is to run overnight has nothing that could be sent."""
    if plan.batch and not (isinstance(models.chat, CachedChat) and (plan.answers or plan.closed_book)):
        raise BadRequest(
            "An overnight run sends answers and verdicts to the batch endpoint of a chat model, and this benchmark has no answers of one. "
            "Nothing was started. Set OPENAI_API_KEY and let it answer, or start it without overnight."
        )


def unit_name(spec_id: str, question_id: str, repeat: int) -> str:
    """Names the cell that pays for calls of a batch."""
    return f"{spec_id}/{question_id}/{repeat}"


@dataclass
class Unit:
    """What one thread is working on: the calls of one answer or verdict."""

    name: str
    deferred: bool = False
    batched: bool = False


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that was set aside."""

    model: str
    request: ChatRequest
    payer: str
    attempts: int
    """Batches it was in before."""


class Overnight:
    """The batches of one run of an experiment. Safe to ask from several threads; `settle` is called between two passes.

    `poll_seconds`: time between two looks at a batch. `most_calls`, `most_bytes`: limits of one batch.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str,
        models: Models,
        poll_seconds: float,
        most_calls: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        from engine.providers import openai_batch

        self._store = store
        self._experiment_id = experiment_id
        self._poll_seconds = poll_seconds
        self._most_calls = most_calls or openai_batch.MOST_CALLS
        self._most_bytes = most_bytes or openai_batch.MOST_BYTES
        self._lock = threading.Lock()
        self._own = threading.local()
        self._calls = {call.key: call for call in store.batch_calls(experiment_id)}
        self._waiting: dict[str, _Waiting] = {}
        self._known: dict[str, ChatRequest] = {}
        self._chats = chats_of(models)
        self._is_taken_back = False
        self.models = replace(models, chat=self._deferring(models.chat), judge=self._deferring(models.judge))

    def _deferring(self, chat: ChatModel | None) -> ChatModel | None:
        if not isinstance(chat, CachedChat):
            return chat
        name = next(
            name
            for name, each in self._chats.items()
            if server_of(each) == server_of(chat) and each.model == chat.model
        )
        return _DeferringChat(name, chat, self._answer)

    # One pass

    @contextmanager
    def unit(self, name: str) -> Iterator[Unit]:
        """The calls this thread makes inside belong to the answer or verdict `name`."""
        unit = self._own.unit = Unit(name)
        try:
            yield unit
        finally:
            del self._own.unit

    def _answer(self, model: str, chat: CachedChat, request: ChatRequest) -> ChatReply:
        """What a batch or the cache has answered; otherwise the call is set aside, and the unit with it."""
        unit: Unit = self._own.unit
        key = chat.key(request)
        with self._lock:
            self._known[key] = request
            call = self._calls.get(key)
        if call is not None and (call.status == "ok" or (call.status != "waiting" and self._is_final(call))):
            reply = self._reply(call)
            if reply is not None:
                unit.batched = True
                return reply if call.payer == unit.name else replace(reply, usage=NO_USAGE, from_cache=True)
        if call is None:
            stored = chat.stored(request)
            if stored is not None:
                return stored
        unit.deferred = True
        if call is None or call.status != "waiting":
            attempts = 0 if call is None else call.attempts
            payer = unit.name if call is None else call.payer
            with self._lock:
                self._waiting.setdefault(key, _Waiting(model, request, payer, attempts))
        return ChatReply("cancelled", detail="The call waits for an overnight batch.")

    @staticmethod
    def _is_final(call: BatchCall) -> bool:
        """A reply that the model gave is one, usable or not; what no model has seen is asked once more."""
        return call.status in ("refused", "invalid_output") or call.attempts >= MOST_TRIES

    def _reply(self, call: BatchCall) -> ChatReply | None:
        stored = self._store.batch_reply(self._experiment_id, call.key)
        return None if stored is None else _read(stored)

    @property
    def has_waiting(self) -> bool:
        """Whether calls were set aside."""
        with self._lock:
            return bool(self._waiting)

    def unrecorded_usd(self, is_recorded: Callable[[str], bool]) -> float | None:
        """Dollars of calls whose answer or verdict is not stored yet; None when a price is unknown."""
        costs = [call.cost_usd for call in self._calls.values() if not is_recorded(call.payer)]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    # Between two passes

    def settle(self, watch: Watch, cancelled: Callable[[], bool]) -> None:
        """Send what was set aside and wait until everything that was sent is answered, or the run is cancelled.

        Raises ModelCallFailed when the server refuses a batch or cannot be reached for long; what was sent stays on record.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        self._take_up()
        for model in dict.fromkeys(each.model for each in waiting.values()):
            if not cancelled():
                self._send(model, {key: each for key, each in waiting.items() if each.model == model})
        self._wait(watch, cancelled)
        self._calls = {call.key: call for call in self._store.batch_calls(self._experiment_id)}

    def finish(self) -> None:
        """The run has ended and every cell holds its replies; the reply cache keeps those that were ok."""
        self._store.forget_batch_calls(self._experiment_id)

    def _open(self) -> list[Batch]:
        return [each for each in self._store.batches(self._experiment_id) if each.state not in (ANSWERED, READ)]

    def _take_up(self) -> None:
        """Batches that an earlier process was sending when it ended: the server knows whether it has them."""
        for batch in self._open():
            if batch.provider_id is None:
                found = self._provider(batch.model).find(batch.batch_id)
                if found is None:
                    self._store.drop_batch(batch.batch_id)
                else:
                    self._store.set_batch(batch.batch_id, "validating", found)

    def _provider(self, model: str) -> BatchChat:
        return provider_of(self._chats, model)

    def _send(self, model: str, waiting: dict[str, _Waiting]) -> None:
        provider = self._provider(model)
        lines = [provider.line(key, each.request) for key, each in waiting.items()]
        for part in _parts(lines, self._most_calls, self._most_bytes):
            batch = Batch(
                batch_id=ids.new_id(),
                experiment_id=self._experiment_id,
                model=model,
                state="creating",
                calls=len(part),
            )
            calls = [
                BatchCall(
                    key=line.call_id,
                    batch_id=batch.batch_id,
                    payer=waiting[line.call_id].payer,
                    attempts=waiting[line.call_id].attempts + 1,
                )
                for line in part
            ]
            self._store.begin_batch(batch, calls)
            try:
                provider_id = provider.create(batch.batch_id, part)
            except ModelCallFailed as error:
                if getattr(error, "status_code", None) in (400, 404, 405, 422):
                    self._store.drop_batch(batch.batch_id)
                    raise ModelCallFailed(
                        f"{model} takes no batches here. Nothing was sent, and what is finished is kept. "
                        f"Start the benchmark without overnight. The server said: {error.message}",
                        error.cause,
                    ) from None
                raise
            self._store.set_batch(batch.batch_id, "validating", provider_id)
            logger.info("sent a batch of %d calls to %s", len(part), model)

    def _wait(self, watch: Watch, cancelled: Callable[[], bool]) -> None:
        pause = threading.Event()
        calls = sum(batch.calls for batch in self._open())
        done: dict[str, int] = {}
        silent = 0.0
        while batches := self._open():
            for batch in batches:
                try:
                    done[batch.batch_id] = self._look(batch)
                    silent = 0.0
                except ModelCallFailed as error:
                    if any(each.batch_id == batch.batch_id and each.state in (FETCHED, KEPT) for each in self._open()):
                        # Whoever clears up after runs that nobody carries out was faster.
                        continue
                    if error.cause not in _OUT_OF_REACH or silent > LONGEST_HOURS * 3600:
                        raise
                    logger.warning("a batch could not be looked at: %s", error.message)
            watch(sum(done.values()), calls)
            left = self._poll_seconds if self._open() else 0.0
            silent += left
            while left > 0 and not cancelled():
                pause.wait(min(left, _LOOK))
                left -= _LOOK
            if cancelled():
                self.cancel_if_asked()
                return

    def _look(self, batch: Batch) -> int:
        """One look at a batch; its replies are stored when it has ended. Returns the calls that have ended."""
        provider = self._provider(batch.model)
        if batch.state in (FETCHED, KEPT):
            self._keep(batch, {key: json.loads(row) for key, row in self._stored_rows(batch)})
            if batch.state == KEPT:
                self._store.clear_batch(batch.batch_id)
            return batch.calls
        state = provider.state(batch.provider_id or "")
        if state.state == "failed":
            provider.clear(state)
            self._store.drop_batch(batch.batch_id)
            said = f" ({state.problem})" if state.problem else ""
            raise ModelCallFailed(
                f"The provider refused a batch of {batch.calls} calls to {batch.model}{said}. Nothing of it is billed, and what is finished is kept. "
                "Correct what it says, or wait until earlier batches have ended, and resume.",
                "invalid_output",
            )
        if not state.ended:
            self._store.set_batch(batch.batch_id, state.state)
            return state.done
        self._keep(batch, provider.rows(state))
        if provider.clear(state):
            self._store.clear_batch(batch.batch_id)
        return batch.calls

    def _stored_rows(self, batch: Batch) -> Iterator[tuple[str, str]]:
        for call in self._calls_of(batch):
            row = self._store.batch_reply(self._experiment_id, call.key)
            if row is not None:
                yield call.key, row

    def _calls_of(self, batch: Batch) -> list[BatchCall]:
        return [call for call in self._store.batch_calls(self._experiment_id) if call.batch_id == batch.batch_id]

    def _keep(self, batch: Batch, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Store how the calls of a batch ended, by what the server wrote on each."""
        chat, provider = self._chats[batch.model], self._provider(batch.model)
        ended = []
        for call in self._calls_of(batch):
            row, request = rows.get(call.key), self._known.get(call.key)
            reply = ChatReply(
                "unavailable",
                detail=f"A call to {batch.model} in an overnight batch came back without a readable answer. Resume to ask it again.",
            )
            if row is not None and request is not None:
                reply = provider.reply(request, row)
            chat.keep(call.key, reply)
            ended.append(
                call.model_copy(
                    update={"status": reply.status, "cost_usd": reply.usage.cost_usd, "reply": _written(reply)}
                )
            )
        self._store.end_batch(batch.batch_id, ended)

    def cancel_if_asked(self) -> None:
        """A run that someone cancels takes its batches back; one whose process merely ends leaves them to be answered."""
        if self._is_taken_back:
            return
        try:
            if not self._store.job(self._experiment_id).cancel_requested:
                return
            self._store.experiment_summary(self._experiment_id)
        except NotFound:
            self.take_back(forget=True)
        else:
            self.take_back()

    def take_back(self, patience_seconds: float | None = None, *, forget: bool = False) -> None:
        """Cancel what was sent and have its files deleted at the provider; answers that are billed already are stored first.

        A batch that has not ended after `patience_seconds` (PATIENCE_SECONDS) is left to `Leftovers`; only the file that was sent is deleted.
        `forget`: nobody will resume it, so that nothing is read.
        """
        self._is_taken_back = True
        with self._best_effort():
            self._take_up()
        batches = [
            batch for batch in self._open() if batch.provider_id is not None and batch.state not in (FETCHED, KEPT)
        ]
        for batch in batches:
            with self._best_effort():
                self._provider(batch.model).cancel(batch.provider_id or "")
        states = self._ended(batches, PATIENCE_SECONDS if patience_seconds is None else patience_seconds)
        unseen = {call.batch_id for call in self._store.batch_calls(self._experiment_id) if call.key not in self._known}
        for batch in batches:
            state = states.get(batch.batch_id)
            if state is None:
                continue
            with self._best_effort():
                if not state.ended:
                    self._provider(batch.model).clear(state._replace(output_file=None, error_file=None))
                elif forget or batch.batch_id in unseen:
                    put_away(self._store, self._provider(batch.model), batch, state, forget=forget)
                else:
                    self._look(batch)

    def _ended(self, batches: Sequence[Batch], patience_seconds: float) -> dict[str, BatchState]:
        """The states of batches by their id when all have ended or the time is over; without those that could not be looked at."""
        states: dict[str, BatchState] = {}
        until = time.monotonic() + patience_seconds
        pause = threading.Event()
        while True:
            for batch in batches:
                with self._best_effort():
                    states[batch.batch_id] = self._provider(batch.model).state(batch.provider_id or "")
            if all(state.ended for state in states.values()) or time.monotonic() >= until:
                return states
            pause.wait(min(self._poll_seconds, _LOOK))

    @contextmanager
    def _best_effort(self) -> Iterator[None]:
        """A provider out of reach keeps nobody from cancelling or deleting a run."""
        try:
            yield
        except ModelCallFailed as error:
            logger.warning("a batch could not be taken back: %s", error.message)


class _DeferringChat:
    """A chat model whose answers and verdicts come from batches; whatever else is asked of it is asked directly."""

    def __init__(
        self, name: str, inner: CachedChat, answer: Callable[[str, CachedChat, ChatRequest], ChatReply]
    ) -> None:
        self._name = name
        self._inner = inner
        self._answer = answer

    @property
    def model(self) -> str:
        return self._inner.model

    def complete(self, request: ChatRequest) -> ChatReply:
        if request.purpose not in PURPOSES:
            return self._inner.complete(request)
        return self._answer(self._name, self._inner, request)

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        return self._inner.complete_many(requests, cancelled, on_reply)

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        return self._inner.stream(request)

    def probe(self) -> Probe:
        return self._inner.probe()


def without_times(cell: QuestionResult) -> QuestionResult:
    """A cell without the times of calls that a batch has answered: they say nothing about the model."""
    seconds = {stage: value for stage, value in cell.seconds.items() if stage not in _NOT_MEASURED}
    query = cell.query
    if query is not None:
        own = {stage: value for stage, value in query.seconds.items() if stage not in _NOT_MEASURED}
        query = query.model_copy(update={"seconds": own})
    return cell.model_copy(update={"seconds": seconds, "query": query})


def _parts(lines: Sequence[Line], most_calls: int, most_bytes: int) -> Iterator[list[Line]]:
    """Lines in batches of at most so many calls and bytes."""
    part: list[Line] = []
    size = 0
    for line in lines:
        if part and (len(part) >= most_calls or size + line.size > most_bytes):
            yield part
            part, size = [], 0
        part.append(line)
        size += line.size
    if part:
        yield part


def _written(reply: ChatReply) -> str:
    return json.dumps(
        {
            "status": reply.status,
            "text": reply.text,
            "data": reply.data,
            "detail": reply.detail,
            "usage": list(reply.usage),
            "extra": dict(reply.extra),
        }
    )


def _read(stored: str) -> ChatReply:
    values = json.loads(stored)
    return ChatReply(**{**values, "usage": Usage(*values["usage"])})
