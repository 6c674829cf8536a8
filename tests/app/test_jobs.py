"""How far a job is, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app import jobs
from engine.bench import overnight
from engine.store import Job

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(stages: dict[str, Any]) -> Job:
    return Job(
        job_id="one",
        kind="benchmark",
        state="running",
        owner="",
        payload={},
        progress={"done": 0, "total": 720, "stages": stages},
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.mark.parametrize(
    ("stages", "waits", "words"),
    [
        ({}, False, "0 of 720 answers"),
        (
            {overnight.SPEC.label: {"batch": {"done": 15, "total": 735}}},
            True,
            "0 of 720 answers, 15 of 735 calls of the overnight batches",
        ),
        ({overnight.SPEC.label: {"batch": {"done": 735, "total": 735}}}, False, "0 of 720 answers"),
    ],
)
def test_a_run_waits_for_a_batch_while_calls_of_it_are_open(stages: dict[str, Any], waits: bool, words: str) -> None:
    assert jobs.waits_for_a_batch(job(stages)) is waits
    assert jobs.in_words(job(stages)) == words
