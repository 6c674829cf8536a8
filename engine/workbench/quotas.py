"""What signed-in users may spend. The local user, who pays, has no quota."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, NamedTuple

from engine.errors import BudgetExceeded
from engine.settings import Settings
from engine.store import Job, Store
from engine.store.owners import LOCAL

_MOST_JOBS = 100_000


class Spent(NamedTuple):
    """Of one user in one period."""

    period: Literal["day", "month"]
    usd: float
    """Of benchmarks that were at work in the period, whole, and of questions asked in it. A price that is unknown counts as 0."""
    limit_usd: float | None
    """None: no limit."""

    @property
    def left_usd(self) -> float | None:
        return None if self.limit_usd is None else max(0.0, self.limit_usd - self.usd)


def spent(store: Store, settings: Settings) -> tuple[Spent, ...]:
    """Today and this month, by UTC. Periods without a limit are not counted; the local user has none."""
    if store.user == LOCAL:
        return ()
    day = datetime.fromtimestamp(store.now(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    periods: tuple[tuple[Literal["day", "month"], datetime, float | None], ...] = (
        ("day", day, settings.spend_per_day_usd),
        ("month", day.replace(day=1), settings.spend_per_month_usd),
    )
    return tuple(Spent(name, _since(store, begin), limit) for name, begin, limit in periods if limit is not None)


def check(store: Store, settings: Settings, expected_usd: float | None = 0.0) -> None:
    """Raises BudgetExceeded when something of this expected cost (None: unknown) does not fit into a quota of the user."""
    for each in spent(store, settings):
        left = each.left_usd or 0.0
        if expected_usd is not None and left > 0 and expected_usd <= left:
            continue
        raise BudgetExceeded(
            f"Of your {each.limit_usd:.2f} USD a {each.period} (SPEND_PER_{each.period.upper()}_USD) {left:.4f} USD are left, and this is "
            f"expected to cost {'an unknown sum (name the price in PRICES_FILE)' if expected_usd is None else f'{expected_usd:.4f} USD'}. Nothing was started. "
            f"Make it smaller, wait for the next {each.period}, or ask whoever runs this installation."
        )


def _cost(store: Store, job: Job) -> float:
    """Dollars of a benchmark: what it has spent, or, before it has ended, at least what it is expected to."""
    done = float(job.progress.get("spent_usd") or 0.0)
    if job.state not in ("queued", "running"):
        return done
    return max(done, store.experiment(job.job_id, cells=False).estimated_cost_usd or 0.0)


def _since(store: Store, begin: datetime) -> float:
    jobs = store.jobs(owner=store.user, limit=_MOST_JOBS)
    total = sum(_cost(store, job) for job in jobs if job.updated_at >= begin)
    for query_id in store.owned("query", since=begin.timestamp()):
        query = store.query(query_id)
        judged = query.judgement.usage.cost_usd if query.judgement else None
        total += (query.usage.cost_usd or 0.0) + (judged or 0.0)
    return total
