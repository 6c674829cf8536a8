"""Progress of a benchmark on standard error: a bar on a terminal, one plain line per finished stage elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from engine.bench.progress import left_in_words
from engine.cli.backend import Backend, JobStatus
from engine.cli.output import say

POLL_SECONDS = 0.2
ENDED = ("finished", "failed", "cancelled")
_WORDS = {"index": "indexed", "ask": "asked all questions", "batch": "answered"}


def watch(backend: Backend, job_id: str) -> JobStatus:
    """Show a job until it has ended; returns how."""
    if not sys.stderr.isatty():
        return _until_ended(backend, job_id, Lines().show)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Indexing", total=None, note="")

        def draw(progress: dict[str, Any]) -> None:
            done = progress.get("done", 0)
            words = "Asking" if done else "Indexing"
            bar.update(task, description=words, completed=done, total=progress.get("total"), note=_note(progress))

        return _until_ended(backend, job_id, draw)


def _until_ended(backend: Backend, job_id: str, show: Callable[[dict[str, Any]], None]) -> JobStatus:
    while True:
        job = backend.job(job_id)
        show(job.progress)
        if job.state in ENDED:
            return job
        time.sleep(POLL_SECONDS)


def _note(progress: dict[str, Any]) -> str:
    eta, spent, errors = progress.get("eta_seconds"), progress.get("spent_usd"), progress.get("error_count", 0)
    parts = []
    if eta is not None:
        parts.append(f"{left_in_words(eta)} left")
    if spent:
        parts.append(f"{spent:.4f} USD")
    if errors:
        parts.append(f"{errors} errors")
    return ", ".join(parts)


class Lines:
    """Says once what has been finished, and each error."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def show(self, progress: dict[str, Any]) -> None:
        for label, error in progress.get("errors", {}).items():
            self._say(f"{label}: {error}")
        for label, stages in progress.get("stages", {}).items():
            for stage, counts in stages.items():
                if 0 < counts["total"] <= counts["done"]:
                    self._say(f"{label}: {_WORDS.get(stage, stage)}")

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            say(line)
