"""What embedding through a server costs, and what becomes of every fault. Run from the repository: python -m benchmarks.providers

A server in another process answers after 50 ms. 5,000 texts, a fifth of them copies, are embedded twice: the second time everything is cached.
A bare HTTP client makes the same calls first; what it takes beyond the floor is the machine's and the server's share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import time
import urllib.request
from urllib.parse import urlsplit

from pydantic import SecretStr

from engine.providers.cache import CachedEmbedder, MemoryVectorCache
from engine.providers.openai import Endpoint, close_connections, connect
from engine.providers.openai_embedder import SERVER_LIMITS, OpenAIEmbedder, RequestLimits
from engine.providers.prices import load_prices
from tests.fake_openai import FakeOpenAI, matrix

LATENCY = 0.05
CONCURRENCY = 16
MODEL = "text-embedding-3-small"
DIMENSION = 256
WORDS = [
    "operator",
    "records",
    "shall",
    "keep",
    "five",
    "years",
    "authority",
    "member",
    "state",
    "annex",
    "system",
    "provider",
    "risk",
    "data",
]


def texts(count: int = 5000, copies: float = 0.2) -> list[str]:
    """Passages of about 40 words; the last fifth repeats earlier ones."""
    drawn = random.Random(1)
    distinct = [f"{n}. {' '.join(drawn.choices(WORDS, k=40))}" for n in range(round(count * (1 - copies)))]
    mixed = distinct + drawn.choices(distinct, k=count - len(distinct))
    drawn.shuffle(mixed)
    return mixed


def calls_at(url: str) -> int:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/control/counters") as answer:
        return int(json.load(answer)["calls"].get("embeddings", 0))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def bare_seconds(url: str, passages: list[str], per_call: int) -> float:
    """Seconds in which sockets alone, without a client library, send the same calls and read the answers."""
    address = urlsplit(url)
    batches = [passages[start : start + per_call] for start in range(0, len(passages), per_call)]
    remaining = iter(batches)

    async def work() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for batch in remaining:
            asked = {"model": MODEL, "input": batch, "encoding_format": "base64", "dimensions": DIMENSION}
            body = json.dumps(asked).encode()
            head = f"POST {address.path}/embeddings HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            json.loads(await reader.readexactly(int(answer.split(b"content-length:")[1].split(b"\r\n")[0])))
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return time.perf_counter() - began


def embedding(url: str, repeats: int) -> None:
    passages = texts()
    distinct = list(dict.fromkeys(passages))
    print(
        f"{len(passages)} texts, {len(distinct)} distinct, {LATENCY * 1000:.0f} ms latency, {CONCURRENCY} calls at once, "
        f"{repeats} runs each, load {os.getloadavg()[0]:.1f}; ratios to the floor = calls x latency / concurrency"
    )
    print(
        f"{'texts/call':>10} {'calls':>6} {'floor s':>8} {'least s':>8} {'ratio':>6} {'median':>7} {'bare client':>11} {'to bare':>8} "
        f"{'CPU s':>6} {'peak MB':>8}   second run: calls, wall s"
    )
    for per_call in (4, 8, 16, 64, SERVER_LIMITS.texts):
        endpoint = Endpoint(base_url=url, api_key=SecretStr("any"), concurrency=CONCURRENCY)
        connection = connect(endpoint)
        prices, limits = load_prices(), RequestLimits(per_call, SERVER_LIMITS.tokens)
        OpenAIEmbedder(MODEL, connection, prices, DIMENSION, limits=RequestLimits(1, 1000)).embed(
            [f"warm up {n}" for n in range(CONCURRENCY)]
        )
        bare, walls, spent = [], [], []
        for _ in range(repeats):
            bare.append(asyncio.run(bare_seconds(url, distinct, per_call)))
            embedder = CachedEmbedder(
                OpenAIEmbedder(MODEL, connection, prices, DIMENSION, limits=limits), MemoryVectorCache()
            )
            before, began, cpu = calls_at(url), time.perf_counter(), time.process_time()
            embedder.embed(passages)
            walls.append(time.perf_counter() - began)
            spent.append(time.process_time() - cpu)
            calls = calls_at(url) - before
            began = time.perf_counter()
            embedder.embed(passages)
            again, calls_again = time.perf_counter() - began, calls_at(url) - before - calls
        floor = math.ceil(calls / CONCURRENCY) * LATENCY
        print(
            f"{per_call:>10} {calls:>6} {floor:>8.2f} {min(walls):>8.2f} {min(walls) / floor:>6.2f} {statistics.median(walls) / floor:>7.2f} "
            f"{min(bare) / floor:>11.2f} {min(walls) / min(bare):>8.2f} {min(spent):>6.2f} {peak_mb():>8.0f}   {calls_again}, {again:.2f}"
        )
    close_connections()


def faults() -> None:
    print(
        f"\n{'fault':<16} {'operation':<17} {'got':<22} {'calls':>5} {'stored':>6}   {'then':<5} {'calls':>5} {'paid twice':>10}"
    )
    with FakeOpenAI() as server:
        for row in matrix.run(server):
            print(
                f"{row.fault:<16} {row.operation:<17} {row.got:<22} {row.calls:>5} {row.stored:>6}   {row.then:<5} {row.calls_then:>5} {row.paid_twice:>10}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-faults", action="store_true", help="only the embedding table")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fake_openai", "--port", "0", "--latency", str(LATENCY)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        embedding(server.stdout.readline().split()[1].rstrip("."), options.repeats)
    finally:
        server.terminate()
        server.wait()
    if not options.no_faults:
        faults()


if __name__ == "__main__":
    main()
