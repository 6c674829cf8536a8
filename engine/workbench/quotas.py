"""What signed-in users may spend. The local user, who pays, has no quota.

Whatever may cost is checked before and counted after, in one of two ways: the job of a benchmark counts itself (`admitted`), everything else
is a charge (`charged`), which the Workbench takes in one place (`Parts._paying`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from engine import ids
from engine.errors import BudgetExceeded, NotFound
from engine.settings import Settings
from engine.store import Job, Store
from engine.store.owners import LOCAL


class Spent(NamedTuple):
    """Of one user in one period."""

    period: Literal["day", "month"]
    usd: float
    """Of benchmarks that were at work in the period, whole, and of everything else that called a model in it, deleted since or not. A price
    that is unknown counts as 0."""
    limit_usd: float | None
    """None: no limit."""

    @property
    def left_usd(self) -> float | None:
        return None if self.limit_usd is None else max(0.0, self.limit_usd - self.usd)


class Charge:
    """What one piece of work has cost so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self.usd = 0.0
        self._lock = threading.Lock()

    def add(self, usd: float | None) -> None:
        """None: unknown, which counts as 0."""
        with self._lock:
            self.usd += usd or 0.0


def spent(store: Store, settings: Settings, but: str = "") -> tuple[Spent, ...]:
    """Today and this month, by UTC. Periods without a limit are not counted; the local user has none.

    `but`: the id of a benchmark that is left out.
    """
    if store.user == LOCAL:
        return ()
    day = datetime.fromtimestamp(store.now(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    periods: tuple[tuple[Literal["day", "month"], datetime, float | None], ...] = (
        ("day", day, settings.spend_per_day_usd),
        ("month", day.replace(day=1), settings.spend_per_month_usd),
    )
    return tuple(Spent(name, _since(store, begin, but), limit) for name, begin, limit in periods if limit is not None)


def check(store: Store, settings: Settings, expected_usd: float | None = 0.0, but: str = "") -> None:
    """Raises BudgetExceeded when something of this expected cost (None: unknown) does not fit into a quota of the user. What costs nothing
    always fits.

    `but`: a benchmark that was begun before; `expected_usd` then says what it costs as a whole.
    """
    if expected_usd == 0.0:
        return
    for each in spent(store, settings, but):
        left = each.left_usd or 0.0
        if expected_usd is not None and expected_usd <= left:
            continue
        raise BudgetExceeded(
            f"Of your {each.limit_usd:.2f} USD a {each.period} (SPEND_PER_{each.period.upper()}_USD) {left:.4f} USD are left, and this is "
            f"expected to cost {'an unknown sum (name the price in PRICES_FILE)' if expected_usd is None else f'{expected_usd:.4f} USD'}. Nothing was started. "
            f"Make it smaller, wait for the next {each.period}, or ask whoever runs this installation."
        )


@contextmanager
def admitted(store: Store, settings: Settings, expected_usd: float | None = 0.0, but: str = "") -> Iterator[None]:
    """`check`, and let the user start nothing else before the block ends: what it starts must be on record by then."""
    if store.user == LOCAL:
        yield
        return
    with store.exclusive("quota", store.user):
        check(store, settings, expected_usd, but)
        yield


@contextmanager
def charged(store: Store, settings: Settings, expected_usd: Callable[[], float | None]) -> Iterator[Charge]:
    """`check`, and count what the block adds to the charge; while it runs, what it is expected to cost.

    `expected_usd` is only asked where there is a quota to keep. What a process that is killed has charged stays counted as it was expected.
    """
    charge = Charge()
    if store.user == LOCAL:
        yield charge
        return
    charge_id = ids.new_id()
    has_quota = settings.spend_per_day_usd is not None or settings.spend_per_month_usd is not None
    expected = expected_usd() if has_quota else 0.0
    if expected != 0.0:
        with admitted(store, settings, expected):
            store.set_charge(charge_id, store.user, expected or 0.0)
    try:
        yield charge
    finally:
        if expected != 0.0 or charge.usd > 0:
            store.set_charge(charge_id, store.user, charge.usd)


def whole_cost(store: Store, experiment_id: str) -> float | None:
    """Dollars that a benchmark which was begun is expected to have cost in the end, at least what it has spent; None: unknown."""
    expected = store.experiment(experiment_id, cells=False).estimated_cost_usd
    if expected is None or store.user == LOCAL:
        return expected
    with suppress(NotFound):
        return max(expected, float(store.job(experiment_id).progress.get("spent_usd") or 0.0))
    return expected


def _cost(store: Store, job: Job) -> float:
    """Dollars of a benchmark: what it has spent, or, before it has ended, at least what it is expected to."""
    done = float(job.progress.get("spent_usd") or 0.0)
    if job.state not in ("queued", "running"):
        return done
    try:
        return max(done, store.experiment(job.job_id, cells=False).estimated_cost_usd or 0.0)
    except NotFound:
        # It was deleted, and its run is about to stop.
        return done


def _since(store: Store, begin: datetime, but: str) -> float:
    jobs = store.jobs_since(store.user, begin.timestamp())
    total = sum(_cost(store, job) for job in jobs if job.job_id != but)
    return total + sum(store.charges(store.user, begin.timestamp()).values())
