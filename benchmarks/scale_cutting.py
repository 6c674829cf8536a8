"""What a process for cutting would save: indexing with cutting in the indexing threads, and with cutting in a process. Run from the repository:

    python -m benchmarks.scale_cutting                many small documents, and a few of 1 MB under 14 specs; five rounds of each
    python -m benchmarks.scale_cutting --carrying     what carrying a document there and its chunks back costs, without indexing

The process of this measurement gets a document once, keeps it, and cuts whatever needs no model. Chunks are the same either way.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import platform
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import scale, texts
from engine import Workbench, indexing
from engine.bench.run import INDEXERS
from engine.documents import read_document
from engine.models import ChunkSet, Document, StrategySpec
from engine.providers.base import Models
from engine.providers.bundled import BundledEmbedder
from engine.recent import Recent
from engine.settings import load_settings
from engine.strategies import registry
from engine.strategies.source import Source


class Corpus(NamedTuple):
    documents: int
    characters: int
    specs: tuple[str, ...]


CORPORA = {
    "many small documents, 2 specs": Corpus(60, scale.CHARACTERS, scale.SPECS),
    "few large documents, 14 specs": Corpus(
        3,
        1_000_000,
        (
            "recursive:size=256,overlap=0",
            "recursive",
            "recursive:size=1024,overlap=0",
            "fixed_size",
            "fixed_size:size=256,overlap=25",
            "sentence",
            "sentence:sentences=8,overlap=0",
            "paragraph",
            "paragraph:size=256",
            "markdown_structure",
            "markdown_structure:size=256",
            "parent_child",
            "code_aware",
            "semantic",
        ),
    ),
}
_cut = indexing.cut
_sources: Recent[str, Source] = Recent(8)


def _cut_there(document_id: str, document: Document | None, spec: StrategySpec) -> ChunkSet:
    source = _sources.get(document_id) if document is None else _sources.keep(document_id, Source(document))
    assert source is not None, "the corpus has fewer documents at once than are kept"
    return _cut(source, spec, Models())


@contextmanager
def cutting_elsewhere() -> Iterator[None]:
    """`indexing.cut` in a process of its own."""
    sent: set[str] = set()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(os.getpid).result()

        def cut(source: Source, spec: StrategySpec, models: Models) -> ChunkSet:
            if registry.strategy(spec.strategy_name).needs:
                return _cut(source, spec, models)
            document = source.document
            first = document.document_id not in sent
            sent.add(document.document_id)
            return pool.submit(_cut_there, document.document_id, document if first else None, spec).result()

        indexing.cut = cut
        try:
            yield
        finally:
            indexing.cut = _cut


class Took(NamedTuple):
    wall: float
    cpu: float
    """Of this process, all threads, in seconds."""
    chunk: float
    """Seconds in the stage of cutting, in all threads."""
    late_p95: float
    """Milliseconds after which another thread of the process, such as one that draws a page, gets its turn."""
    late_max: float
    chunks: int


@contextmanager
def lateness() -> Iterator[list[float]]:
    """Milliseconds that a thread which wakes every 10 ms is late, while the block runs."""
    late: list[float] = []
    ended = threading.Event()

    def wake() -> None:
        while not ended.is_set():
            due = time.perf_counter() + 0.01
            time.sleep(0.01)
            late.append(1000 * (time.perf_counter() - due))

    thread = threading.Thread(target=wake)
    thread.start()
    try:
        yield late
    finally:
        ended.set()
        thread.join()


def index(workbench: Workbench, specs: list[StrategySpec]) -> Took:
    """Indexes all documents under all specs, as many specs at once as a benchmark does, document after document."""
    documents = [info.document_id for info in workbench.documents()]

    def under(spec: StrategySpec) -> float:
        return sum(workbench.index([document_id], [spec])[0].seconds.get("chunk", 0.0) for document_id in documents)

    wall, cpu = time.perf_counter(), time.process_time()
    with lateness() as late, ThreadPoolExecutor(INDEXERS) as pool:
        cutting = sum(pool.map(under, specs))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    chunks = sum(state.points for state in workbench.index_states())
    return Took(wall, cpu, cutting, float(np.percentile(late, 95)), max(late), chunks)


def measure(corpus: Corpus, elsewhere: bool) -> Took:
    with (
        tempfile.TemporaryDirectory(prefix="cutting-") as folder,
        Workbench.open(load_settings(data_dir=Path(folder), embedding_model="wordllama")) as workbench,
    ):
        scale.read(workbench, corpus.documents, corpus.characters)
        # Loads the embeddings, which is no part of indexing.
        workbench.probe_models()
        with cutting_elsewhere() if elsewhere else nullcontext():
            return index(workbench, workbench.written_specs(corpus.specs))


def compare(rounds: int) -> None:
    """Both ways in turns, so that other work on the machine meets both, and how late a waiting thread is before and meanwhile."""
    with lateness() as idle:
        time.sleep(3)
    print(
        f"a thread of a process that does nothing is late: p95 {np.percentile(idle, 95):.1f} ms, max {max(idle):.0f} ms"
    )
    for name, corpus in CORPORA.items():
        took: dict[bool, list[Took]] = {False: [], True: []}
        for _ in range(rounds):
            for elsewhere in took:
                took[elsewhere].append(measure(corpus, elsewhere))
        print(f"\n{name}: {took[False][0].chunks:,} chunks")
        print(
            f"{'cutting':<16} {'wall':>8} {'best':>8} {'CPU here':>9} {'cores':>6} {'in cut':>8}   late p95  max, ms; medians"
        )
        for elsewhere, label in ((False, "in the threads"), (True, "in a process")):
            wall, cpu, chunk, late, latest, _ = np.median(took[elsewhere], axis=0)
            best = min(each.wall for each in took[elsewhere])
            print(
                f"{label:<16} {wall:>8.1f} {best:>8.1f} {cpu:>9.1f} {cpu / wall:>6.2f} {chunk:>8.1f} {late:>10.1f} {latest:>4.0f}"
            )


def carrying() -> None:
    """Cutting, and carrying a document there and its chunks back, in CPU milliseconds."""
    settings = load_settings(embedding_model="wordllama")
    models = Models(embedder=BundledEmbedder())
    print(f"{'characters':>10} {'spec':<20} {'chunks':>7} {'cut':>8} {'send':>8} {'unpack there':>13} {'receive':>8}")
    for size in (28_000, 400_000, 2_000_000):
        document = read_document(texts.markdown(size, seed=3).encode(), "document.md", settings)
        for name in ("recursive", "sentence", "markdown_structure"):
            spec = registry.spec(name)
            rows = []
            for _ in range(5):
                times = [time.process_time()]
                chunk_set = _cut(Source(document), spec, models)
                times.append(time.process_time())
                there = pickle.dumps(document)
                times.append(time.process_time())
                pickle.loads(there)
                times.append(time.process_time())
                back = pickle.dumps(chunk_set)
                times.append(time.process_time())
                pickle.loads(back)
                times.append(time.process_time())
                rows.append(np.diff(times) * 1000)
            cut, send, unpack, pack, receive = np.median(rows, axis=0)
            print(
                f"{size:>10,} {spec.label:<20} {len(chunk_set.chunks):>7,} {cut:>8.1f} {send:>8.1f} {unpack + pack:>13.1f} {receive:>8.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrying", action="store_true", help="only measure what carrying costs")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if options.carrying:
        carrying()
    else:
        compare(options.rounds)


if __name__ == "__main__":
    main()
