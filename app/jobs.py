"""How far a background job is, for the sidebar and for the Benchmark page."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app import money
from app.states import guard
from app.text import plain
from engine import Workbench
from engine.bench import overnight
from engine.bench.progress import left_in_words
from engine.store import Job

RUNNING = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    """0 while it is not known yet."""

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0


def stages(job: Job) -> dict[str, dict[str, Progress]]:
    """Per spec label and stage."""
    return {
        label: {stage: Progress(counts["done"], counts["total"]) for stage, counts in each.items()}
        for label, each in job.progress.get("stages", {}).items()
    }


def asked(job: Job) -> Progress:
    """Questions asked over all specs."""
    return Progress(job.progress.get("done", 0), job.progress.get("total", 0))


def _batch(job: Job) -> Progress | None:
    """Calls of the overnight batches that are with the provider now; None where there are none."""
    night = stages(job).get(overnight.SPEC.label, {}).get("batch")
    return night if night is not None and night.done < night.total else None


def waits_for_a_batch(job: Job) -> bool:
    return _batch(job) is not None


def in_words(job: Job) -> str:
    """Progress, cost and time left on one line."""
    progress = asked(job)
    parts = [f"{progress.done} of {progress.total} answers" if progress.total else "getting ready"]
    night = _batch(job)
    if night is not None:
        parts.append(f"{night.done} of {night.total} calls of the overnight batches")
    if job.progress.get("eta_seconds") is not None:
        parts.append(f"about {left_in_words(job.progress['eta_seconds'])} left")
    if job.progress.get("spent_usd"):
        parts.append(f"{money.dollars(job.progress['spent_usd'])} so far")
    return ", ".join(parts)


def progress_table(job: Job) -> pd.DataFrame:
    """One row per strategy: documents indexed and the share of questions answered."""
    rows = []
    for label, found in stages(job).items():
        if label == overnight.SPEC.label:
            continue
        indexed, answered = found.get("index", Progress(0, 0)), found.get("ask", Progress(0, 0))
        rows.append(
            {
                "strategy": label,
                "documents indexed": f"{indexed.done} of {indexed.total}" if indexed.total else "–",
                "answered": answered.share,
            }
        )
    return pd.DataFrame(rows, columns=["strategy", "documents indexed", "answered"])


def chip(workbench: Workbench) -> None:
    """The jobs that wait or run, kept up to date while there are any."""
    jobs = workbench.jobs()

    @st.fragment(run_every=2.0 if jobs else None)
    @guard()
    def running() -> None:
        left = workbench.jobs()
        if jobs and not left:
            st.rerun()
        for job in left:
            progress = asked(job)
            words = "waits" if job.state == "queued" else in_words(job)
            st.progress(progress.share, text=f"Benchmark: {plain(words)}")
            st.page_link(
                "../pages/benchmark.py",
                label="Show it",
                icon=":material/leaderboard:",
                query_params={"experiment": job.job_id},
            )

    running()
