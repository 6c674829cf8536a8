"""What an installation of several processes needs, on this machine: PostgreSQL, a vector server, a Dask cluster."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import create_engine, make_url, text

if TYPE_CHECKING:
    from distributed import LocalCluster

PATIENCE = 120.0
"""Seconds after which a server that should answer counts as stuck."""
POSTGRES = "CHUNKSCOPE_TEST_POSTGRES_URL"


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's server programs, where they are installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def has_postgres() -> bool:
    """Whether a test can have a PostgreSQL database: a server that is named, or one it can start."""
    return bool(os.environ.get(POSTGRES)) or postgres_programs() is not None


@contextmanager
def database() -> Iterator[str]:
    """The address of an empty PostgreSQL database: a schema on the server that is named, or a server of its own."""
    named = os.environ.get(POSTGRES)
    if not named:
        with _server() as url:
            yield url
        return
    address = make_url(named).set(drivername="postgresql+psycopg")
    schema = f"test_{uuid.uuid4().hex}"
    admin = create_engine(address, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
        try:
            yield address.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(
                hide_password=False
            )
        finally:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    admin.dispose()


@contextmanager
def _server() -> Iterator[str]:
    programs = postgres_programs()
    assert programs is not None
    folder, port = Path(tempfile.mkdtemp(prefix="postgres-")), free_port()
    # PostgreSQL refuses to run as root.
    owner = "postgres" if os.geteuid() == 0 else None
    if owner is not None:
        account = pwd.getpwnam(owner)
        os.chown(folder, account.pw_uid, account.pw_gid)
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "chunkscope", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        user=owner,
    )
    process = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        user=owner,
    )
    try:
        ended = time.monotonic() + PATIENCE
        ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-d", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            assert process.poll() is None, "PostgreSQL did not start"
            assert time.monotonic() < ended, "PostgreSQL does not answer"
            time.sleep(0.1)
        yield f"postgresql+psycopg://chunkscope@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class VectorServer(NamedTuple):
    url: str
    pid: int
    folder: Path
    """Where its collections are; the folder goes with the server."""


@contextmanager
def vector_server() -> Iterator[str]:
    """The address of a vector server in a process of its own."""
    with vector_process() as server:
        yield server.url


@contextmanager
def vector_process() -> Iterator[VectorServer]:
    """A vector server in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="qdrant-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.qdrant_server", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, "TMPDIR": folder},
        )
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip().partition("=")[2]
            yield VectorServer(url, process.pid, Path(folder))
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


@contextmanager
def dask_cluster(workers: int, environment: Mapping[str, str]) -> Iterator[LocalCluster]:
    """A scheduler in this process and workers in processes of their own, one thread each, which are started again when they end."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            env=dict(environment),
            silence_logs="CRITICAL",
        ) as cluster,
    ):
        yield cluster
