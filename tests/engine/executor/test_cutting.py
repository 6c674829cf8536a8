"""Benchmarks of one machine whose documents are cut in processes beside the app: the same records, whatever becomes of the processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import Workbench
from engine.bench.run import Event
from engine.cutting import Cutter
from engine.records import Experiment, Plan
from engine.settings import load_settings
from engine.strategies import registry
from tests.engine.executor.several import chunks, differences, record, vectors

STRATEGIES = [strategy.name for strategy in registry.STRATEGIES if not strategy.needs] + ["semantic"]


def opened(folder: Path, cutter: Cutter | None = None) -> Workbench:
    workbench = Workbench.open(load_settings(data_dir=folder, cutting_processes=0))
    if cutter is not None:
        workbench._cutter = cutter
    return workbench


def plan(workbench: Workbench) -> Plan:
    """The sample documents under every strategy that can be cut beside the app, and one that cannot."""
    samples = workbench.load_samples()
    documents = [info.document_id for info in workbench.documents()]
    few = json.dumps(
        [{"question": each.question, "evidence": [each.evidence[0].quote]} for each in samples.questions[:3]]
    )
    question_set = workbench.add_question_set(few.encode(), "few.json", documents)
    specs = [workbench.spec(name) for name in STRATEGIES]
    return workbench.plan(question_set.question_set_id, specs, documents, seed=1)


def outcome(workbench: Workbench, experiment: Experiment) -> tuple[Any, Any, Any]:
    return record(experiment), chunks(workbench, experiment), vectors(workbench)


def test_records_are_the_same_with_processes_and_with_one_of_them_killed(tmp_path: Path) -> None:
    with opened(tmp_path / "here") as workbench:
        here = workbench.benchmark(plan(workbench))
        assert workbench._cutter.process_ids() == ()
        expected = outcome(workbench, here)

    with opened(tmp_path / "beside", Cutter(2, here_first=0)) as workbench:
        beside = workbench.benchmark(plan(workbench))
        used = workbench._cutter.process_ids()
        assert used
        assert differences(outcome(workbench, beside), expected) == []
    for process in used:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)

    with opened(tmp_path / "killed", Cutter(2, here_first=0)) as workbench:
        killed: list[int] = []
        first = threading.Lock()

        def kill(event: Event) -> None:
            # All at once and only once: a document over which a second process ends is given up.
            if event.stage == "index" and first.acquire(blocking=False):
                killed.extend(workbench._cutter.process_ids())
                for process in killed:
                    os.kill(process, signal.SIGKILL)

        disturbed = workbench.benchmark(plan(workbench), kill)
        assert killed
        assert set(workbench._cutter.process_ids()).isdisjoint(killed)
        assert disturbed.status == "finished"
        assert differences(outcome(workbench, disturbed), expected) == []


def test_documents_that_no_process_can_cut_fail_in_words(tmp_path: Path) -> None:
    deadly = Cutter(1, here_first=0, command=(sys.executable, "-c", DEADLY))
    with opened(tmp_path / "deadly", deadly) as workbench:
        experiment = workbench.benchmark(plan(workbench))
        for result in experiment.results:
            # The one that asks a model is cut in the app, and measured beside it like all.
            task = "measure" if result.spec.strategy_name == "semantic" else "cut"
            assert result.status == "failed"
            assert f"ended the process that was to {task} it, 2 times. What is finished is kept." in (
                result.error or ""
            )
        assert experiment.status == "finished"


DEADLY = "import os\nfrom engine.processes import begin, receive\nsrc, out = begin()\nreceive(src)\nos._exit(9)"


def test_indexing_without_a_benchmark_uses_the_processes_too(tmp_path: Path) -> None:
    with opened(tmp_path / "index", Cutter(1, here_first=0)) as workbench:
        added = workbench.add_document(b"# One\n\nA sentence. Another one.\n", "one.md")
        (done,) = workbench.index([added.document.document_id], [workbench.spec("sentence")])
        assert len(workbench._cutter.process_ids()) == 1
        assert [chunk.text.strip() for chunk in done.chunk_set.chunks]


def test_a_look_at_chunks_starts_no_process(tmp_path: Path) -> None:
    with opened(tmp_path / "look", Cutter(1, here_first=0)) as workbench:
        added = workbench.add_document(b"# One\n\nA sentence. Another one.\n", "one.md")
        workbench.quality(workbench.chunk(added.document.document_id, workbench.spec("sentence")))
        assert workbench._cutter.process_ids() == ()
