"""The same benchmark in one process and on a Dask cluster of two worker processes: identical records, also when a worker is killed."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Workbench
from engine.bench.run import Event
from engine.ids import canonical_json
from engine.records import Experiment, Plan
from tests import clusters
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="requirements-scale is not installed"),
    pytest.mark.skipif(not clusters.has_postgres(), reason=f"{clusters.POSTGRES} names no PostgreSQL database"),
    # Dask closes its sockets and processes some time after a worker was killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WORKERS = 2
OTHERS = {
    f"order-{letter}.md": f"# Order {letter}\n\n"
    + "\n\n".join(f"## Rule {n}\n\nRule {letter}{n} is for bridges.\nIt is kept for {n} years." for n in range(1, 9))
    for letter in "ABC"
}


def plan(workbench: Workbench) -> Plan:
    """Four documents under three specs, with contexts, answers and verdicts by the test server's models."""
    for name, text in OTHERS.items():
        workbench.add_document(text.encode(), name)
    return killing.plan(workbench)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    from engine.providers.openai import close_connections

    with FakeOpenAI() as server:
        yield server
        close_connections()


@pytest.fixture(scope="module")
def local(server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The experiment of one process on embedded stores."""
    variables = killing.variables(server, tmp_path_factory.mktemp("local"))
    with killing.environment(variables), Workbench.open() as workbench:
        return workbench.benchmark(plan(workbench))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [0, 2], ids=["undisturbed", "one worker killed while indexing and one while asking"])
def test_a_cluster_gives_the_records_of_one_process(
    server: FakeOpenAI, local: Experiment, tmp_path: Path, kills: int
) -> None:
    from distributed import Client

    server.reset()
    with clusters.database() as database, clusters.vector_server() as vectors:
        variables = killing.variables(server, tmp_path / "shared") | {"DATABASE_URL": database, "QDRANT_URL": vectors}
        with (
            killing.environment(variables),
            clusters.dask_cluster(WORKERS, {**os.environ, **variables}) as cluster,
            killing.environment({"DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}),
            Client(cluster, set_as_default=False) as client,
            Workbench.open() as workbench,
        ):
            victims = list(client.run(os.getpid).values())[:kills]
            seen: list[str] = []

            def note(event: Event) -> None:
                seen.append(event.stage)
                if victims and seen.count(event.stage) == 3:
                    os.kill(victims.pop(), signal.SIGKILL)

            assert f"has {WORKERS} workers" in workbench.health()["workers"]
            found = workbench.benchmark(plan(workbench), note)
            assert victims == []
    assert killing.outcome(found) == killing.outcome(local)
    assert (seen.count("index"), seen.count("ask")) == (4 * 3, 6 * 3)
    chats = [canonical_json(body) for body in server.counters.requests if "messages" in body]
    assert len(chats) - len(set(chats)) <= kills * killing.IN_FLIGHT
