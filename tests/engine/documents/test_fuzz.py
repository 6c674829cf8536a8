from pathlib import Path

import pytest

from engine.documents.pool import WorkerPool
from engine.settings import Settings
from tests.engine.documents.fuzz import run, seeds


def test_mutated_files_end_in_documents_or_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pool = WorkerPool(size=1)
    outcome = run(pool, 70, 7, seeds(real=False), Settings(_env_file=None))
    assert outcome.failures == []
    assert outcome.documents > 20
    assert outcome.refusals
    assert len(pool.process_ids()) == 1
    pool.close()
    assert pool.process_ids() == ()
    assert list(tmp_path.iterdir()) == []


def test_unchanged_seeds_are_documents() -> None:
    pool = WorkerPool(size=1)
    limits = Settings(_env_file=None)
    for name, data in seeds(real=False).items():
        assert pool.read(data, name, limits).text
    pool.close()
