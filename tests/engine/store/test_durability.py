"""Processes that are killed while they write. What they reported as stored is there, what they had begun is known, and the work can be done again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from engine.index import IndexPoint
from engine.index.edge import EdgeIndex
from engine.store import DataFolder, Store
from tests.engine.store.examples import cell, experiment, spec

COLLECTION, MODEL, POINTS = "sentence_collection", "wordllama", 300


def points() -> list[IndexPoint]:
    return [IndexPoint(f"{number:032x}", "doc", spec().spec_id) for number in range(POINTS)]


def vectors() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(POINTS, 8)).astype(np.float32)


def write_points(data: Path) -> None:
    """Index in small steps, reporting each; the last step is repeated for ever, so that only a kill ends it."""
    with DataFolder(data) as folder:
        store, index = Store(f"sqlite:///{data / 'c.db'}"), EdgeIndex(folder.index)
        index.ensure(COLLECTION, MODEL, 8)
        store.begin_index("doc", spec(), MODEL)
        done = 0
        while True:
            part = slice(done, done + 20)
            index.upsert(COLLECTION, points()[part], vectors()[part])
            report(done + 20)
            done = min(done + 20, POINTS - 40)


def write_cells(url: str) -> None:
    """Store cell after cell, reporting each, for ever."""
    store = Store(url)
    store.create_experiment(experiment())
    number = 0
    while True:
        store.add_cells("exp-1", [cell(f"question {number}", spec())])
        report(number)
        number += 1


def report(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def run_and_kill(task: str, where: str, until: int) -> int:
    """Run one of the tasks above, kill it after it reported `until`, and return the last thing it reported."""
    code = f"import sys; from tests.engine.store import test_durability as t; t.{task}(t.Path(sys.argv[1]) if {task == 'write_points'} else sys.argv[1])"
    command = [sys.executable, "-c", code, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= until:
                break
        process.kill()
        rest = process.stdout.read().split()
        assert process.wait() == -signal.SIGKILL
    return max([until, *(int(each) for each in rest if each.isdigit())])


def nearest(index: EdgeIndex) -> list[tuple[str, float]]:
    return [(hit.chunk_id, hit.score) for hit in index.search(COLLECTION, vectors()[3], 25, spec().spec_id)]


def test_indexing_that_was_killed_is_cleaned_and_done_again_with_the_same_result(tmp_path: Path) -> None:
    undisturbed = EdgeIndex(tmp_path / "undisturbed")
    undisturbed.ensure(COLLECTION, MODEL, 8)
    undisturbed.upsert(COLLECTION, points(), vectors())
    expected = nearest(undisturbed)
    undisturbed.close()

    data = tmp_path / "killed"
    reported = run_and_kill("write_points", str(data), until=100)

    with DataFolder(data) as folder:
        store, index = Store(f"sqlite:///{data / 'c.db'}"), EdgeIndex(folder.index)
        assert reported <= index.count(COLLECTION) < POINTS
        assert store.ready_documents(["doc"], spec().spec_id, MODEL) == set()
        unfinished = store.unfinished_index()
        assert [(state.document_id, state.spec_id, state.model) for state in unfinished] == [
            ("doc", spec().spec_id, MODEL)
        ]

        index.delete(COLLECTION, spec_id=spec().spec_id, document_id="doc")
        store.forget_index(document_id="doc")
        assert index.count(COLLECTION) == 0
        assert store.unfinished_index() == []

        store.begin_index("doc", spec(), MODEL)
        index.upsert(COLLECTION, points(), vectors())
        store.finish_index("doc", spec(), MODEL, POINTS)
        assert index.count(COLLECTION) == POINTS
        assert nearest(index) == expected
        index.close()
        store.close()


def test_cells_that_were_reported_are_there_after_a_kill(url: str) -> None:
    reported = run_and_kill("write_cells", url, until=10)
    store = Store(url)
    found = store.finished_cells("exp-1")
    numbers = sorted(int(question.split()[1]) for _, question, _ in found)
    # The one after the last report may have been stored before the kill came.
    assert numbers in (list(range(reported + 1)), list(range(reported + 2)))
    assert len(store.experiment("exp-1").cells) == len(numbers)
    store.close()
