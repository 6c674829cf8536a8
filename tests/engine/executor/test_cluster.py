"""A benchmark on a Dask cluster whose two workers are killed, one while it indexes and one while it asks: the records of one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine import Workbench
from engine.bench.run import Event
from engine.ids import canonical_json
from tests import clusters
from tests.engine.bench import killing
from tests.engine.executor import several
from tests.fake_openai import FakeOpenAI

pytestmark = several.NEEDS_CLUSTER

WORKERS = 2


@pytest.mark.timeout(900)
def test_workers_that_are_killed_change_nothing(fake_openai: FakeOpenAI, tmp_path: Path) -> None:
    from distributed import Client

    with killing.environment(killing.variables(fake_openai, tmp_path / "local")), Workbench.open() as workbench:
        local = workbench.benchmark(several.plan(workbench))
    fake_openai.reset()
    with clusters.database() as database, clusters.vector_server() as vectors:
        variables = {
            **killing.variables(fake_openai, tmp_path / "shared"),
            "DATABASE_URL": database,
            "QDRANT_URL": vectors,
        }
        with (
            killing.environment(variables),
            clusters.dask_cluster(WORKERS, {**os.environ, **variables}) as cluster,
            killing.environment({"DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}),
            Client(cluster, set_as_default=False) as client,
            Workbench.open() as workbench,
        ):
            victims = list(client.run(os.getpid).values())
            seen: list[str] = []

            def note(event: Event) -> None:
                seen.append(event.stage)
                if victims and seen.count(event.stage) == 3:
                    os.kill(victims.pop(), signal.SIGKILL)

            assert f"has {WORKERS} workers" in workbench.health()["workers"]
            found = workbench.benchmark(several.plan(workbench), note)
            assert victims == []
    assert killing.outcome(found) == killing.outcome(local)
    assert (seen.count("index"), seen.count("ask")) == (4 * 3, 6 * 3)
    chats = [canonical_json(body) for body in fake_openai.counters.requests if "messages" in body]
    assert len(chats) - len(set(chats)) <= WORKERS * killing.IN_FLIGHT
