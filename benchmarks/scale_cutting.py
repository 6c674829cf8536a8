"""What processes for cutting save: a benchmark run with cutting in the app (`CUTTING_PROCESSES=0`) and in processes beside it. From the repository:

    python -m benchmarks.scale_cutting                many small documents, and a few of 1 MB under 14 specs; five rounds of each
    python -m benchmarks.scale_cutting --carrying     what carrying a document there and its chunks back costs, without indexing

Both ways in turns, so that other work on the machine meets both. One question is asked of each spec; everything else is indexing and measuring
the cut. Exit code 1 when chunks or measures differ.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import scale, texts
from benchmarks.dashboard import cpu_seconds
from benchmarks.scale_memory import resident
from engine import Workbench
from engine.documents import read_document
from engine.metrics import chunk_quality
from engine.models import ChunkSet
from engine.providers.base import Models
from engine.settings import load_settings
from engine.strategies import registry
from engine.strategies.source import Source


class Corpus(NamedTuple):
    documents: int
    characters: int
    specs: tuple[str, ...]


CORPORA = {
    "many small documents, 2 specs": Corpus(200, scale.CHARACTERS, scale.SPECS),
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


class Took(NamedTuple):
    wall: float
    cpu: float
    """Of this process, all threads, in seconds."""
    beside: float
    """CPU seconds of the processes that cut."""
    megabytes: float
    """Their own memory together, at the end."""
    late_p95: float
    """Milliseconds after which another thread of the process, such as one that draws a page, gets its turn."""
    late_max: float


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


def measure(corpus: Corpus, processes: int | None) -> tuple[Took, Any]:
    """What a benchmark of one question takes, and its chunk counts and measures of the cut."""
    with (
        tempfile.TemporaryDirectory(prefix="cutting-") as folder,
        Workbench.open(
            load_settings(data_dir=Path(folder), embedding_model="wordllama", cutting_processes=processes)
        ) as workbench,
    ):
        scale.read(workbench, corpus.documents, corpus.characters)
        questions = scale.question_file(corpus.documents, corpus.characters, 1)
        question_set = workbench.add_question_set(questions, "questions.json")
        # Loads the embeddings, which is no part of indexing.
        workbench.probe_models()
        plan = workbench.plan(question_set.question_set_id, workbench.written_specs(corpus.specs))
        wall, cpu = time.perf_counter(), time.process_time()
        with lateness() as late:
            experiment = workbench.benchmark(plan)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        pids = workbench._cutter.process_ids()
        took = Took(
            wall,
            cpu,
            sum(map(cpu_seconds, pids)),
            sum(resident(pid).own for pid in pids),
            float(np.percentile(late, 95)),
            max(late),
        )
        return took, [(result.chunk_count, result.quality) for result in experiment.results]


def compare(rounds: int) -> int:
    with lateness() as idle:
        time.sleep(3)
    print(
        f"a thread of a process that does nothing is late: p95 {np.percentile(idle, 95):.1f} ms, max {max(idle):.0f} ms"
    )
    differ = False
    for name, corpus in CORPORA.items():
        took: dict[int | None, list[Took]] = {0: [], None: []}
        outcomes = []
        for _ in range(rounds):
            for processes, rows in took.items():
                row, outcome = measure(corpus, processes)
                rows.append(row)
                outcomes.append(outcome)
        same = all(outcome == outcomes[0] for outcome in outcomes)
        differ |= not same
        chunks = sum(count for count, _ in outcomes[0])
        print(f"\n{name}: {chunks:,} chunks, {'the same' if same else 'DIFFERENT'} in every run")
        print(
            f"{'cutting':<14} {'wall s':>8} {'best':>8} {'CPU here':>9} {'beside':>8} {'cores':>6} {'MB beside':>10} {'late p95':>9} {'max, ms':>8}   medians"
        )
        for processes, label in ((0, "in the app"), (None, "in processes")):
            wall, cpu, beside, megabytes, late, latest = np.median(took[processes], axis=0)
            best = min(each.wall for each in took[processes])
            print(
                f"{label:<14} {wall:>8.1f} {best:>8.1f} {cpu:>9.1f} {beside:>8.1f} {(cpu + beside) / wall:>6.2f} {megabytes:>10.0f} {late:>9.1f} {latest:>8.0f}"
            )
    return int(differ)


def carrying() -> None:
    """Cutting and measuring, and carrying a document there once and chunks back for each spec, in CPU milliseconds of the app."""
    settings = load_settings(embedding_model="wordllama", parse_timeout=600)
    print(f"{'characters':>10} {'spec':<20} {'chunks':>7} {'cut':>8} {'measure':>8} {'document':>9} {'chunks':>8}")
    for size in (28_000, 400_000, 2_000_000):
        document = read_document(texts.markdown(size, seed=3).encode(), "document.md", settings)
        for name in ("recursive", "sentence", "markdown_structure"):
            spec = registry.spec(name)
            rows = []
            for _ in range(5):
                source = Source(document)
                times = [time.process_time()]
                chunk_set = registry.cut(source, spec, Models())
                times.append(time.process_time())
                chunk_quality.measure(chunk_set, source)
                times.append(time.process_time())
                document.model_dump_json().encode()
                times.append(time.process_time())
                written = chunk_set.model_dump_json()
                times.append(time.process_time())
                ChunkSet.model_validate_json(written)
                chunk_set.model_dump_json().encode()
                times.append(time.process_time())
                rows.append(np.diff(times) * 1000)
            cut, measured, there, _, back = np.median(rows, axis=0)
            print(
                f"{size:>10,} {spec.label:<20} {len(chunk_set.chunks):>7,} {cut:>8.1f} {measured:>8.1f} {there:>9.1f} {back:>8.1f}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrying", action="store_true", help="only measure what carrying costs")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not options.carrying:
        return compare(options.rounds)
    carrying()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
