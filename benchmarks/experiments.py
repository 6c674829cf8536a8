"""Benchmarks as durable experiments: kills, dry run, History, comparison, throughput, scale. Run from the repository:

    python -m benchmarks.experiments --dry-run --history --latency
    python -m benchmarks.experiments --exports 500
    python -m benchmarks.experiments --kills 20
    python -m benchmarks.experiments --scale --documents 20 --pages 300 --questions 500

Everything happens in temporary folders; models are the bundled ones, or a server of the test suite on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import text

from engine import Workbench, report
from engine.bench.run import Event
from engine.models import StrategySpec
from engine.records import Experiment
from engine.strategies import registry
from engine.strategies.base import Need
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI

LATENCY = 0.3
CONCURRENCY = 16
SEED = 8


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path, killing.environment({"DATA_DIR": path}):
        yield Path(path)


def kills(count: int) -> None:
    """A process killed with SIGKILL at random moments, one run each."""
    drawn = random.Random(SEED)
    with FakeOpenAI() as server, tempfile.TemporaryDirectory() as path:
        server.latency = 0.05
        undisturbed = killing.finish(server, Path(path) / "undisturbed")
        total = killing.calls(server)
        print(f"One undisturbed run makes {total} calls, {killing.IN_FLIGHT} at once.\n")
        print(f"{'kill':>4} {'after call':>10} {'calls in all':>12} {'paid twice':>10} {'same result':>11}")
        for number, wanted in enumerate(sorted(drawn.randint(1, total - 1) for _ in range(count)), start=1):
            server.reset()
            place = Path(path) / str(number)
            killing.kill_after(server, place, wanted)
            resumed = killing.finish(server, place)
            same = killing.outcome(resumed) == killing.outcome(undisturbed)
            print(
                f"{number:>4} {wanted:>10} {killing.calls(server):>12} {killing.paid_twice(server):>10} {'yes' if same else 'NO':>11}"
            )


def dry_run() -> None:
    """All strategies on 100 questions of the sample, with a model server, before and after the benchmark has run."""
    with (
        FakeOpenAI() as server,
        folder() as path,
        killing.environment(killing.variables(server, path)),
        Workbench.open() as workbench,
    ):
        question_set = workbench.load_samples()
        more = [
            question.model_copy(
                update={"question_id": f"{question.question_id}-again", "question": f"{question.question} (again)"}
            )
            for question in question_set.questions[: 100 - len(question_set.questions)]
        ]
        hundred = question_set.model_copy(update={"questions": (*question_set.questions, *more)[:100]})
        workbench._store.save_question_set(hundred)
        specs = [workbench.spec(strategy.name) for strategy in workbench.strategies()]
        plan = workbench.plan(hundred.question_set_id, specs, judge=True)
        for name in ("first", "second"):
            wall, cpu = time.perf_counter(), time.process_time()
            estimate = workbench.dry_run(plan)
            print(
                f"Dry run, {len(specs)} specs x {len(hundred.questions)} questions, {name}: {time.perf_counter() - wall:.2f} s wall, "
                f"{time.process_time() - cpu:.2f} s CPU, {estimate.estimated_calls:,} calls, ${estimate.estimated_cost_usd:.4f}, "
                f"calls made: {killing.calls(server)}"
            )


def measured(workbench: Workbench, count: int) -> Experiment:
    """The sample's questions under 14 specs, repeated until there are so many; not stored."""
    question_set = workbench.load_samples()
    names = [
        strategy.name for strategy in workbench.strategies() if not strategy.needs & {Need.CHAT, Need.TOKEN_EMBEDDER}
    ]
    specs = [workbench.spec(name) for name in names]
    specs += [
        workbench.spec("recursive", {"size": size, "overlap": 0})
        for size in range(128, 128 + 32 * (14 - len(specs)), 32)
    ]
    first = workbench.benchmark(workbench.plan(question_set.question_set_id, specs, name="Measured"))
    questions, cells = list(first.questions), list(first.cells)
    for again in range(1, 1 + count // len(first.questions)):
        names_of = {
            question.question_id: f"{question.question_id}-{again}"
            for question in first.questions[: count - len(questions)]
        }
        questions += [
            each.model_copy(update={"question_id": names_of[each.question_id]})
            for each in first.questions
            if each.question_id in names_of
        ]
        cells += [
            each.model_copy(update={"question_id": names_of[each.question_id]})
            for each in first.cells
            if each.question_id in names_of
        ]
    return first.model_copy(update={"questions": tuple(questions), "cells": tuple(cells)})


def many_experiments(workbench: Workbench, count: int) -> list[str]:
    """Copies of one experiment of 14 specs x 100 questions under other ids."""
    first = measured(workbench, 100)
    store, ids = workbench._store, [f"{number:032x}" for number in range(count)]
    for number, experiment_id in enumerate(ids):
        change = {
            "experiment_id": experiment_id,
            "created_at": first.created_at + timedelta(minutes=number),
            "plan": first.plan.model_copy(update={"name": f"Run {number}"}),
        }
        copy = first.model_copy(update=change)
        if number == 0:
            store.create_experiment(copy)
            continue
        # The cells are copied inside the database: written one by one they would take minutes and show nothing else.
        store.create_experiment(copy.model_copy(update={"cells": ()}))
        with store.write() as connection:
            connection.execute(
                text(
                    "INSERT INTO cells SELECT :id, spec_id, question_id, repeat, status, body, packed FROM cells WHERE experiment_id = :first"
                ),
                {"id": experiment_id, "first": ids[0]},
            )
    return ids


def history(count: int) -> None:
    with folder() as path, Workbench.open() as workbench:
        began = time.perf_counter()
        ids = many_experiments(workbench, count)
        size = sum(file.stat().st_size for file in path.rglob("*.db*")) / 1e6
        print(f"{count} experiments of 14 x 100 stored in {time.perf_counter() - began:.0f} s, database {size:,.0f} MB")
        timed("History: list of all", lambda: workbench.experiments())
        timed("History: search", lambda: workbench.experiments("run recursive"))
        timed("Open one without answers", lambda: workbench.experiment(ids[0], queries=False))
        timed("Compare 2", lambda: workbench.compare(ids[:2]))
        timed("Compare 4", lambda: workbench.compare(ids[:4]))
        timed("Gate", lambda: workbench.check(ids[0], ids[1], "recall@1000tok", 0.02))
        timed("Report, HTML", lambda: workbench.export(ids[0], "html").data)


def exports(questions: int) -> None:
    """Every export of an experiment of 14 specs: its size, and the most memory that writing it to a file took."""
    with folder() as path, Workbench.open() as workbench:
        whole = measured(workbench, questions).model_copy(update={"experiment_id": "0" * 32})
        workbench._store.create_experiment(whole)
        print(f"{len(whole.cells):,} cells")
        del whole
        for kind in report.FORMATS:
            cpu = time.process_time()
            tracemalloc.start()
            with (path / kind).open("wb") as out:
                workbench.export("0" * 32, kind).write(out)
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            size = (path / kind).stat().st_size / 1e6
            print(f"{kind:<20} {size:>7.1f} MB, peak {peak:>7.1f} MB, {time.process_time() - cpu:>5.1f} s CPU traced")


def timed(name: str, work: object) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()  # type: ignore[operator]
    print(f"{name:<26} {time.perf_counter() - wall:>6.2f} s wall {time.process_time() - cpu:>6.2f} s CPU")


@contextmanager
def served(latency: float) -> Iterator[str]:
    """The fake server in a process of its own, so that it does not share this one's interpreter."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fake_openai", "--port", "0", "--latency", str(latency)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1].rstrip(".")
    finally:
        process.terminate()
        process.wait()


def counters(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/control/counters") as answer:
        return dict(json.load(answer)["calls"])


def latency() -> None:
    """60 questions x 5 strategies with 300 ms per call and 16 calls at once, against the time the calls alone need."""
    print(f"\n{'judge':>5} {'calls':>6} {'wall s':>7} {'floor s':>8} {'ratio':>6} {'CPU s':>6}")
    for judge in (False, True):
        with served(LATENCY) as url, folder() as path:
            values = {
                "DATA_DIR": str(path),
                "OPENAI_BASE_URL": url,
                "OPENAI_API_KEY": "any",
                "CONCURRENCY": str(CONCURRENCY),
            }
            with killing.environment(values), Workbench.open() as workbench:
                question_set = workbench.load_samples()
                sixty = question_set.model_copy(update={"questions": question_set.questions[:60]})
                workbench._store.save_question_set(sixty)
                names = ("fixed_size", "recursive", "sentence", "paragraph", "markdown_structure")
                plan = workbench.plan(sixty.question_set_id, [workbench.spec(name) for name in names], judge=judge)
                ended: list[float] = []
                before, cpu = time.perf_counter(), time.process_time()
                workbench.benchmark(plan, lambda _, ended=ended: ended.append(time.perf_counter()))
                wall = ended[-1] - before
                calls = sum(counters(url).values())
                floor = calls * LATENCY / CONCURRENCY
                spent = time.process_time() - cpu
                print(
                    f"{'yes' if judge else 'no':>5} {calls:>6} {wall:>7.2f} {floor:>8.2f} {wall / floor:>6.2f} {spent:>6.1f}"
                )


def scale(documents: int, pages: int, questions: int) -> None:
    """Many long documents, every strategy that needs no other model, many questions: time and memory."""
    with folder() as path, Workbench.open() as workbench:
        began = time.perf_counter()
        texts = [long_document(number, pages) for number in range(documents)]
        rows = [
            {
                "question": f"What does rule {rule} of volume {number} require of the {thing(number, rule)}?",
                "answer": sentence(number, rule),
                "evidence": [{"quote": sentence(number, rule), "document": f"volume-{number}.md"}],
            }
            for number, rule in ((n % documents, 3 + 7 * (n // documents)) for n in range(questions))
        ]
        for number, written in enumerate(texts):
            workbench.add_document(written.encode(), f"volume-{number}.md")
        tokens = sum(document.token_count for document in workbench.documents())
        question_set = workbench.add_question_set(json.dumps(rows).encode(), "scale.json")
        print(
            f"{documents} documents, {tokens:,} tokens, {len(question_set.questions)} questions read in {time.perf_counter() - began:.0f} s, {memory()}"
        )
        chosen = [s for s in registry.STRATEGIES if not s.needs & {Need.CHAT, Need.TOKEN_EMBEDDER}]
        specs: list[StrategySpec] = [workbench.spec(each.name) for each in chosen]
        specs += [workbench.spec("recursive", {"size": size, "overlap": 0}) for size in (128, 256, 384, 640)][
            : 14 - len(specs)
        ]
        began, said = time.perf_counter(), threading.Lock()

        def show(event: Event) -> None:
            if event.done == event.total:
                with said:
                    print(
                        f"{time.perf_counter() - began:>7.0f} s  {event.stage:<6} {event.spec.label:<36} {memory()}",
                        flush=True,
                    )

        job_free = workbench._freeze(workbench.plan(question_set.question_set_id, specs), None)
        workbench._store.create_experiment(job_free)
        workbench._runner().run(job_free, show, lambda: False)
        done: Experiment = workbench.experiment(job_free.experiment_id, queries=False)
        cells = len(done.cells)
        size = sum(512 * file.stat().st_blocks for file in path.rglob("*") if file.is_file()) / 1e9
        print(
            f"{len(specs)} specs, {cells:,} cells in {time.perf_counter() - began:.0f} s; {memory()}; data folder {size:.2f} GB"
        )


WORDS = (
    "operator",
    "records",
    "authority",
    "provider",
    "register",
    "audit",
    "incident",
    "contract",
    "service",
    "deadline",
    "notice",
    "review",
)


def thing(number: int, rule: int) -> str:
    return f"{WORDS[(number + rule) % len(WORDS)]} of class {rule}"


def sentence(number: int, rule: int) -> str:
    return f"Under rule {rule} of volume {number}, the {thing(number, rule)} is kept for {rule % 17 + 1} years and reported within {rule % 29 + 1} days."


def long_document(number: int, pages: int) -> str:
    """About 500 words a page: articles of one rule each, with filler that differs from article to article."""
    drawn = random.Random(number)
    rules = max(1, pages * 500 // 125)
    parts = [f"# Volume {number}"]
    for rule in range(rules):
        filler = ". ".join(" ".join(drawn.choices(WORDS, k=12)).capitalize() for _ in range(8))
        parts.append(f"## Article {rule}\n\n{sentence(number, rule)} {filler}.")
    return "\n\n".join(parts) + "\n"


def memory() -> str:
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, help="runs to kill at a random moment")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--history", type=int, nargs="?", const=200, default=0, help="experiments to store (200)")
    parser.add_argument(
        "--exports", type=int, nargs="?", const=500, default=0, help="questions of the experiment (500)"
    )
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--questions", type=int, default=500)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {math.fsum(os.getloadavg()[:1]):.1f}")
    if options.dry_run:
        dry_run()
    if options.history:
        history(options.history)
    if options.exports:
        exports(options.exports)
    if options.latency:
        latency()
    if options.kills:
        kills(options.kills)
    if options.scale:
        scale(options.documents, options.pages, options.questions)


if __name__ == "__main__":
    main()
