"""Numbers for Prometheus, in its text format (version 0.0.4)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from engine.providers.totals import totals
from engine.workbench import Workbench

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the latency histogram, in seconds."""

Labels = tuple[tuple[str, str], ...]


class Latencies:
    """How long requests took, by method, route and status. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._sums: dict[Labels, float] = defaultdict(float)
        self.running = 0
        """Requests being answered."""

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        labels = (("method", method), ("route", route), ("status", str(status)))
        place = next((i for i, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        with self._lock:
            self._counts[labels][place] += 1
            self._sums[labels] += seconds

    def lines(self) -> Iterable[str]:
        name = "chunkscope_http_request_seconds"
        yield from _head(name, "histogram", "Seconds from a request of the API to the end of its response.")
        with self._lock:
            counts = {labels: list(each) for labels, each in sorted(self._counts.items())}
            sums = dict(self._sums)
        for labels, each in counts.items():
            total = 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), each, strict=True):
                total += count
                yield _sample(f"{name}_bucket", (*labels, ("le", bound)), total)
            yield _sample(f"{name}_sum", labels, sums[labels])
            yield _sample(f"{name}_count", labels, total)


latencies = Latencies()
"""Of this process: dashboard and API are one."""


def page(workbench: Workbench) -> str:
    """Everything that is measured. Raises StoreUnavailable."""
    lines = [
        *latencies.lines(),
        *_gauge("chunkscope_http_requests_running", "Requests of the API being answered.", {(): latencies.running}),
        *_gauge(
            "chunkscope_jobs",
            "Background jobs by state; `queued` is the queue.",
            {(("state", state),): count for state, count in workbench.job_counts().items()},
        ),
        *_gauge(
            "chunkscope_queue_oldest_seconds",
            "How long the oldest waiting job has waited.",
            {(): workbench.longest_wait()},
        ),
        *_models(),
    ]
    return "\n".join(lines) + "\n"


def _models() -> Iterable[str]:
    known = totals()
    columns: dict[str, tuple[str, Sequence[float]]] = {
        "calls": ("Calls to model servers, repeated tries included.", [t.calls for t in known]),
        "calls_failed": ("Calls that gave no answer.", [t.failed for t in known]),
        "input_tokens": ("Tokens sent to models.", [t.input_tokens for t in known]),
        "output_tokens": ("Tokens written by models.", [t.output_tokens for t in known]),
        "cost_usd": ("Dollars of the answers with a known price.", [t.cost_usd for t in known]),
        "answers_unpriced": ("Answers whose price is unknown.", [t.unpriced for t in known]),
    }
    for column, (words, values) in columns.items():
        name = f"chunkscope_model_{column}_total"
        yield from _head(name, "counter", words)
        for total, value in zip(known, values, strict=True):
            yield _sample(name, (("model", total.model),), value)


def _gauge(name: str, words: str, values: Mapping[Labels, float]) -> Iterable[str]:
    yield from _head(name, "gauge", words)
    for labels, value in values.items():
        yield _sample(name, labels, value)


def _head(name: str, kind: str, words: str) -> Iterable[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
