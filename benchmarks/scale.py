"""A corpus of thousands of documents: throughput of each stage, memory over time, search, size on disk. Run from the repository:

    python -m benchmarks.scale                        2,000 documents, 200,000 chunks under two specs, in one process
    python -m benchmarks.scale --documents 100        a smaller corpus of the same kind
    python -m benchmarks.scale --documents 200 --workers 2
                                                      the same on PostgreSQL, a vector server and a Dask cluster of two processes
    python -m benchmarks.scale --search 100000        searches of the embedded index alone

Documents are made from a seed, so that every run reads the same ones. Embeddings are the bundled ones, answers extractive: nothing leaves
the machine. With `--workers`, the vector server is that of the tests (Qdrant Edge behind Qdrant's REST calls), not a Qdrant server.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import texts
from benchmarks.scale_memory import Memory
from engine import Workbench, ids
from engine.bench.run import Event
from engine.index import IndexPoint, collection_name
from engine.index.edge import EdgeIndex
from engine.models import StrategySpec
from engine.records import Experiment
from engine.settings import load_settings

SPECS = ("recursive:size=256,overlap=0", "sentence:sentences=6,overlap=0")
CHARACTERS = 28_000
"""Of one document: with these specs about 100 chunks, half of them under each."""
READERS = 2
"""Documents read at once."""
SEARCHES = 200
TOP_K = 10
DIMENSION = 256
"""Of the bundled embeddings."""


def name_of(number: int) -> str:
    return f"document-{number:05}.md"


def text_of(number: int, characters: int) -> str:
    return texts.markdown(characters, seed=number + 1)


def read(workbench: Workbench, documents: int, characters: int) -> tuple[float, int]:
    """Makes the documents and adds them, `READERS` at once. Returns seconds spent adding, in all threads, and bytes."""

    def add(number: int) -> tuple[float, int]:
        data = text_of(number, characters).encode()
        began = time.perf_counter()
        workbench.add_document(data, name_of(number))
        return time.perf_counter() - began, len(data)

    with ThreadPoolExecutor(READERS) as pool:
        done = list(pool.map(add, range(documents)))
    return math.fsum(seconds for seconds, _ in done), sum(size for _, size in done)


def question_file(documents: int, characters: int, count: int) -> bytes:
    """Questions whose evidence is one sentence of a named document."""
    chosen = random.Random(1)
    rows = []
    for number in sorted(chosen.randrange(documents) for _ in range(count)):
        sentences = [
            part for part in text_of(number, characters).split(". ") if 60 < len(part) < 200 and "\n" not in part
        ]
        quote = chosen.choice(sentences)
        words = quote.split()
        chosen.shuffle(words)
        question = " ".join(words[:12])
        rows.append({"question": f"{question}?", "evidence": [quote], "document": name_of(number)})
    return json.dumps(rows).encode()


def folder_mb(path: Path) -> float:
    """Blocks in use of a folder, or of a file."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(each.stat().st_blocks * 512 for each in files) / 1e6


def index_all(workbench: Workbench, specs: list[StrategySpec], memory: Memory) -> dict[str, float]:
    """Indexes every document under every spec, a spec to a thread, keeping nothing. Returns seconds of each stage, in all threads."""
    documents = [info.document_id for info in workbench.documents()]
    memory.stage = "index"

    def index(spec: StrategySpec) -> dict[str, float]:
        spent: dict[str, float] = {}
        for document_id in documents:
            for done in workbench.index([document_id], [spec]):
                for stage, value in done.seconds.items():
                    spent[stage] = spent.get(stage, 0.0) + value
        return spent

    total: dict[str, float] = {}
    with ThreadPoolExecutor(len(specs)) as pool:
        for spent in pool.map(index, specs):
            for stage, value in spent.items():
                total[stage] = total.get(stage, 0.0) + value
    return total


def benchmark(workbench: Workbench, specs: list[StrategySpec], questions: bytes, memory: Memory) -> Experiment:
    """Runs the benchmark, telling memory whether it still indexes, or only opens what is indexed."""
    memory.stage = "questions"
    question_set = workbench.add_question_set(questions, "questions.json")
    found = sum(bool(question.gold) for question in question_set.questions)
    print(f"{found} of {len(question_set.questions)} questions have their evidence resolved")
    began = time.perf_counter()
    last: dict[str, float] = {}

    indexing = "open" if workbench.index_states() else "index"

    def note(event: Event) -> None:
        memory.stage = indexing if event.stage == "index" else event.stage
        last[event.stage] = time.perf_counter() - began

    memory.stage = indexing
    experiment = workbench.benchmark(workbench.plan(question_set.question_set_id, specs), note)
    total = time.perf_counter() - began
    chunks = sum(result.chunk_count for result in experiment.results)
    indexed = last.get("index", math.nan)
    print(
        f"benchmark: {experiment.status}, {total:,.1f} s in all; {chunks:,} chunks indexed or found after {indexed:,.1f} s, "
        f"{chunks / indexed:,.0f} chunks/s; then {len(experiment.cells):,} questions, {len(experiment.cells) / (total - indexed):,.1f} a second"
    )
    return experiment


def stages_of(experiment: Experiment) -> dict[str, float]:
    """Seconds of each stage of indexing, in all threads of all processes."""
    stages = ("chunk", "enrich", "embed", "upsert")
    return {stage: math.fsum(result.seconds.get(stage, 0.0) for result in experiment.results) for stage in stages}


def searches(workbench: Workbench, specs: list[StrategySpec], memory: Memory) -> None:
    """The nearest chunks among all of a spec, one search after the other, first without and then with the documents named."""
    memory.stage = "search"
    embedder = workbench.models.embedder
    assert embedder is not None
    asked = [" ".join(texts.markdown(400, seed=10_000 + number).split()[:14]) for number in range(SEARCHES)]
    every = [info.document_id for info in workbench.documents()]
    print(f"\nsearch, top {TOP_K}, {SEARCHES} questions one after the other, milliseconds")
    for spec in specs:
        for named, which in (("all", None), ("named documents", every), ("one document", every[:1])):
            spent = []
            for question in asked:
                vector = embedder.embed([question], kind="query").vectors[0]
                began = time.perf_counter()
                workbench._index.search(collection_name(spec.strategy_name), vector, TOP_K, spec.spec_id, which)
                spent.append(1000 * (time.perf_counter() - began))
            p50, p95 = np.percentile(spent, [50, 95])
            print(f"  {spec.label:<28} {named:<16} p50 {p50:>8.2f}  p95 {p95:>8.2f}")


def show_stages(total: dict[str, float], chunks: int, characters: int) -> None:
    print(f"\n{'stage':<8} {'thread seconds':>15} {'chunks/s/thread':>16} {'MB of text/s/thread':>20}")
    for stage, seconds in total.items():
        if seconds > 0:
            print(f"{stage:<8} {seconds:>15.1f} {chunks / seconds:>16,.0f} {characters / 1e6 / seconds:>20.2f}")


def run(documents: int, characters: int, questions: int, workers: int) -> None:
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-")))
        pids = {"app": os.getpid()}
        if workers:
            from benchmarks.scale_cluster import servers

            cluster = stack.enter_context(servers(data, workers))
            settings = cluster.settings
            pids |= cluster.pids
        else:
            cluster, settings = None, load_settings(data_dir=data, embedding_model="wordllama")
        workbench = stack.enter_context(Workbench.open(settings))
        memory = stack.enter_context(Memory(pids).watched())
        memory.stage = "parse"
        began = time.perf_counter()
        adding, size = read(workbench, documents, characters)
        wall = time.perf_counter() - began
        print(
            f"parse: {documents:,} documents, {size / 1e6:,.1f} MB, {wall:,.1f} s with making the texts; {adding:,.1f} thread seconds adding, "
            f"{documents / adding * READERS:,.1f} documents/s with {READERS} readers"
        )
        specs = workbench.written_specs(SPECS)
        if not workers:
            began, cpu_before = time.perf_counter(), time.process_time()
            total = index_all(workbench, specs, memory)
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu_before
            chunks = sum(state.points for state in workbench.index_states())
            print(
                f"index: {chunks:,} chunks under {len(specs)} specs in {wall:,.1f} s, {chunks / wall:,.0f} chunks/s, {cpu / wall:.2f} cores"
            )
            show_stages(total, chunks, size * len(specs))
            searches(workbench, specs, memory)
        experiment = benchmark(workbench, specs, question_file(documents, characters, questions), memory)
        if workers:
            chunks = sum(result.chunk_count for result in experiment.results)
            show_stages(stages_of(experiment), chunks, size * len(specs))
        for result in experiment.results:
            shown = {name: value for name, value in result.seconds.items() if name in ("retrieve_p50", "retrieve_p95")}
            named = ", ".join(f"{name} {1000 * value:,.1f} ms" for name, value in shown.items())
            print(
                f"  {result.spec.label}: {result.chunk_count:,} chunks; deep ranking of a benchmark question: {named}"
            )
        if workers:
            searches(workbench, specs, memory)
        memory.stage = "end"
        chunks = sum(state.points for state in workbench.index_states())
        print(f"\non disk ({chunks:,} chunks)")
        on_disk = {part.name: folder_mb(part) for part in sorted(data.iterdir())}
        if cluster is not None:
            on_disk |= {"PostgreSQL": cluster.database_mb(), "vector server": folder_mb(cluster.vectors)}
        for name, megabytes in on_disk.items():
            print(f"  {name:<20} {megabytes:>10,.1f} MB {1e6 * megabytes / chunks:>10,.0f} bytes a chunk")
        memory.show()


def search_only(count: int) -> None:
    """Searches of the embedded index alone, over random vectors: wall and CPU milliseconds."""
    drawn = np.random.default_rng(0)
    vectors = drawn.standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    per_document = max(1, count // 2000)
    points = [IndexPoint(ids.digest(str(n)), f"document {n // per_document}", "spec") for n in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        index = EdgeIndex(Path(folder) / "index")
        index.ensure("searched", "random", DIMENSION)
        for start in range(0, count, 2000):
            index.upsert("searched", points[start : start + 2000], vectors[start : start + 2000])
        every = list(dict.fromkeys(point.document_id for point in points))
        for named, which in (("all", None), (f"{len(every):,} named", every), ("one document", every[:1])):
            spent = []
            for number in range(SEARCHES):
                began = time.perf_counter(), time.process_time()
                index.search("searched", vectors[number * 7 % count], TOP_K, "spec", which)
                spent.append((time.perf_counter() - began[0], time.process_time() - began[1]))
            (wall, cpu), (wall_95, cpu_95) = np.percentile(np.array(spent) * 1000, [50, 95], axis=0)
            print(f"{named:<14} wall p50 {wall:>6.1f} p95 {wall_95:>6.1f}   CPU p50 {cpu:>6.1f} p95 {cpu_95:>6.1f}")
        index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--characters", type=int, default=CHARACTERS, help="of one document")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--workers", type=int, default=0, help="Dask worker processes; 0: everything in this process")
    parser.add_argument(
        "--search", type=int, metavar="N", help="only measure searches of the embedded index, over N random vectors"
    )
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if options.search:
        search_only(options.search)
        return
    run(options.documents, options.characters, options.questions, options.workers)


if __name__ == "__main__":
    main()
