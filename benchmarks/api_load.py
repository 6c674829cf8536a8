"""Load on the REST API over loopback while a benchmark runs: throughput, latency and errors of 50 clients, and whether the dashboard still answers.

    python -m benchmarks.api_load --seconds 20

Starts `python -m app` on a free port with a data folder of its own, loads the samples through the API, and runs benchmarks
one after the other in the background while the clients work. Everything is bundled: no model server is called.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import httpx2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = ["recursive", "sentence", "fixed_size", "paragraph", "markdown_structure", "parent_child", "semantic"]
QUESTIONS = ("Who issues a licence?", "When is the annual report due?", "What does a passport contain?")
SPECS = ("recursive:size=256,overlap=32", "sentence:sentences=3", "fixed_size:size=128,overlap=16", "paragraph")


class Figures:
    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: dict[str, int] = defaultdict(int)

    async def timed(self, client: httpx2.AsyncClient, kind: str, method: str, path: str, body: object = None) -> None:
        began = time.perf_counter()
        try:
            answer = await client.request(method, path, json=body)
            good = answer.status_code < 400
        except httpx2.HTTPError:
            good = False
        self.seconds[kind].append(time.perf_counter() - began)
        self.errors[kind] += not good


@asynccontextmanager
async def app(folder: str, log: IO[bytes] | None = None) -> AsyncIterator[str]:
    """The address of a running app. `log`: where its log goes; None: to that of this process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "DATA_DIR": folder, "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "WARNING"}
    process = subprocess.Popen(
        [sys.executable, "-m", "app"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=log
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient() as client:
            for _ in range(2400):
                try:
                    if (await client.get(f"{address}/ready")).status_code == 200:
                        break
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(0.1)
            else:
                raise RuntimeError("the app did not become ready within four minutes")
        yield address
    finally:
        process.terminate()
        process.wait()


async def load(address: str, clients: int, seconds: float) -> tuple[Figures, int]:
    """The figures, and how many benchmarks ended meanwhile."""
    figures, benchmarks = Figures(), 0
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=f"{address}/api/v1", timeout=120, limits=limits) as client:
        documents = []
        for name in ("regulation.docx", "manual.md"):
            data = (ROOT / "samples" / name).read_bytes()
            answer = await client.post("/documents", files={"file": (name, data)})
            documents.append(answer.json()["added"][0]["document"]["document_id"])
        data = (ROOT / "samples" / "questions.json").read_bytes()
        answer = await client.post("/question-sets/file", files={"file": ("questions.json", data)})
        plan = {"question_set_id": answer.json()["question_set_id"], "specs": STRATEGIES}
        for document in documents:
            (await client.post(f"/documents/{document}/process", json={"specs": ["recursive"]})).raise_for_status()

        until = time.perf_counter() + seconds

        async def benchmark() -> None:
            nonlocal benchmarks
            while time.perf_counter() < until:
                job = (await client.post("/benchmarks", json=plan, headers={"Prefer": "respond-async"})).json()
                while (await client.get(f"/jobs/{job['job_id']}")).json()["state"] in ("queued", "running"):
                    if time.perf_counter() > until:
                        await client.post(f"/benchmarks/{job['job_id']}/cancel")
                        return
                    await asyncio.sleep(0.5)
                benchmarks += 1

        async def dashboard() -> None:
            async with httpx2.AsyncClient(base_url=address, timeout=120) as browser:
                while time.perf_counter() < until:
                    await figures.timed(browser, "GET / (dashboard)", "GET", "/")
                    await asyncio.sleep(0.5)

        async def one(number: int) -> None:
            turn = number
            while time.perf_counter() < until:
                kind = turn % 3
                if kind == 0:
                    await figures.timed(client, "GET /strategies", "GET", "/strategies")
                elif kind == 1:
                    body = {"question": QUESTIONS[turn % len(QUESTIONS)], "strategy": "recursive"}
                    await figures.timed(client, "POST /queries", "POST", "/queries", body)
                else:
                    path = f"/documents/{documents[turn % 2]}/chunks?spec={SPECS[turn % len(SPECS)]}"
                    await figures.timed(client, "GET chunks", "GET", path)
                turn += 1

        await asyncio.gather(benchmark(), dashboard(), *(one(number) for number in range(clients)))
    return figures, benchmarks


def report(figures: Figures, benchmarks: int, clients: int, seconds: float) -> None:
    print(
        f"{clients} clients, {seconds:g} s, {os.cpu_count()} cores, {benchmarks} benchmarks of 7 x 90 ended meanwhile"
    )
    print(f"{'':24}{'requests':>9}{'per s':>8}{'p50 s':>8}{'p95 s':>8}{'max s':>8}{'errors':>8}")
    for kind, each in sorted(figures.seconds.items()):
        p50, p95 = np.percentile(each, [50, 95])
        row = (
            f"{len(each):>9}{len(each) / seconds:>8.1f}{p50:>8.3f}{p95:>8.3f}{max(each):>8.3f}{figures.errors[kind]:>8}"
        )
        print(f"{kind:24}{row}")
    print(json.dumps({kind: len(each) for kind, each in figures.seconds.items()}))


async def run(clients: int, seconds: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with app(folder) as address:
            figures, benchmarks = await load(address, clients, seconds)
    report(figures, benchmarks, clients, seconds)
    return 1 if sum(figures.errors.values()) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    return asyncio.run(run(options.clients, options.seconds))


if __name__ == "__main__":
    sys.exit(main())
