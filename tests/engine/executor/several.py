"""A benchmark that several processes share, and everything it leaves behind, to be compared with what one process leaves."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from engine import Workbench
from engine.records import Experiment, Plan
from tests import clusters
from tests.engine.bench import killing

NEEDS_CLUSTER = [
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="requirements-scale is not installed"),
    pytest.mark.skipif(not clusters.has_postgres(), reason=f"{clusters.POSTGRES} names no PostgreSQL database"),
    # Dask closes its sockets and processes some time after a worker was killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OTHERS = {
    f"order-{letter}.md": f"# Order {letter}\n\n"
    + "\n\n".join(
        f"## Rule {letter}{n}\n\nRule {letter}{n} is for bridges.\nIt is kept for {n} years by {letter}."
        for n in range(1, 9)
    )
    for letter in "ABC"
}

DIFFERS = frozenset(
    {
        # Made anew for every run.
        "experiment_id",
        "query_id",
        "question_set_id",
        "request_id",
        # When and how fast.
        "created_at",
        "finished_at",
        "seconds",
        "parse_seconds",
        # Where the stores and the workers are.
        "data_dir",
        "database_url",
        "dask_scheduler_address",
        "job_lease_seconds",
        "qdrant_url",
    }
)
"""Fields of a record that are not the same in two runs by their nature."""


def plan(workbench: Workbench) -> Plan:
    """Four documents under three specs, with contexts, answers and verdicts by the test server's models."""
    for name, text in OTHERS.items():
        workbench.add_document(text.encode(), name)
    return killing.plan(workbench)


def without(value: Any, names: frozenset[str]) -> Any:
    """A JSON value without the fields of these names, at any depth."""
    if isinstance(value, dict):
        return {name: without(each, names) for name, each in value.items() if name not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def record(experiment: Experiment) -> Any:
    """The whole experiment as it is stored (cells, answers, verdicts, metrics, statistics, costs) but for `DIFFERS`."""
    return without(experiment.model_dump(mode="json"), DIFFERS)


def chunks(workbench: Workbench, experiment: Experiment) -> dict[str, Any]:
    """Every chunk of every document under every spec, by (document, spec)."""
    return {
        f"{document.name} | {spec.label}": without(known.model_dump(mode="json"), DIFFERS)
        for document in experiment.documents
        for spec in experiment.specs
        if (known := workbench.known_chunks(document.document_id, spec)) is not None
    }


def vectors(workbench: Workbench) -> dict[str, list[float]]:
    """Every vector of the index, by collection and chunk id."""
    found: dict[str, list[float]] = {}
    for collection in workbench._index.collections():
        start = None
        while True:
            page = workbench._index.read(collection.name, start)
            for point, row in zip(page.points, page.vectors.tolist(), strict=True):
                found[f"{collection.name} {point.chunk_id}"] = row
            start = page.following
            if start is None:
                break
    return found


def differences(first: Any, second: Any, place: str = "") -> list[str]:
    """Where two JSON values differ, and how: a failed comparison of whole records would tell nothing."""
    if isinstance(first, dict) and isinstance(second, dict):
        names = dict.fromkeys((*first, *second))
        return [each for name in names for each in differences(first.get(name), second.get(name), f"{place}.{name}")]
    if isinstance(first, list | tuple) and isinstance(second, list | tuple) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [each for number, pair in pairs for each in differences(*pair, f"{place}[{number}]")]
    return [] if first == second else [f"{place}: {first!r:.200} | {second!r:.200}"]
