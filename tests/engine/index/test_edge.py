from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine import ids
from engine.errors import IndexUnavailable
from engine.index import IndexPoint, open_index
from engine.index.edge import EdgeIndex
from engine.settings import load_settings

NAME = "sentence_collection"
POINT = IndexPoint(ids.digest("a"), "doc", "spec")
EAST = np.array([[1, 0]], dtype=np.float32)

HOLD = """
import sys
from pathlib import Path
from types import SimpleNamespace
from engine.index.edge import EdgeIndex
index = EdgeIndex(Path(sys.argv[1]))
index.ensure("sentence_collection", "wordllama", 2)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a closed index that holds one point."""
    index = EdgeIndex(tmp_path / "index")
    index.ensure(NAME, "wordllama", 2)
    index.upsert(NAME, [POINT], EAST)
    index.close()
    return tmp_path / "index"


def test_settings_without_a_server_open_the_embedded_index(tmp_path: Path) -> None:
    index = open_index(load_settings(data_dir=tmp_path))
    assert isinstance(index, EdgeIndex)
    index.ensure(NAME, "wordllama", 2)
    assert (tmp_path / "index" / NAME).is_dir()
    index.close()


def test_points_are_there_when_the_index_is_opened_again(folder: Path) -> None:
    index = EdgeIndex(folder)
    assert [hit.chunk_id for hit in index.search(NAME, EAST[0], 5, "spec")] == [POINT.chunk_id]
    (info,) = index.collections()
    assert (info.name, info.model, info.dimension, info.points) == (NAME, "wordllama", 2, 1)
    assert info.bytes_on_disk is not None
    assert 0 < info.bytes_on_disk < 10_000_000
    index.close()


def test_a_second_process_is_refused_in_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        index = EdgeIndex(tmp_path)
        for call in (index.health, lambda: index.count(NAME), lambda: index.ensure(NAME, "wordllama", 2)):
            with pytest.raises(IndexUnavailable, match="in use by another Chunkscope"):
                call()
        process.kill()
        process.wait()
        assert index.count(NAME) == 0
        index.close()


def test_a_folder_that_was_removed_is_said_in_words_with_the_remedy(folder: Path) -> None:
    shutil.rmtree(folder / NAME)
    index = EdgeIndex(folder)
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.search(NAME, EAST[0], 5, "spec")
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.health()
    again(index)


def test_a_folder_that_is_removed_while_it_is_open_is_said_in_words(folder: Path) -> None:
    index = EdgeIndex(folder)
    assert index.count(NAME) == 1
    shutil.rmtree(folder / NAME)
    for call in (lambda: index.count(NAME), lambda: index.upsert(NAME, [POINT], EAST)):
        with pytest.raises(IndexUnavailable, match="index them again"):
            call()
    again(index)


def test_damaged_files_are_said_in_words_with_the_remedy(folder: Path) -> None:
    for file in (folder / NAME / "segments").rglob("*"):
        if file.is_file():
            file.write_bytes(b"\x07" * file.stat().st_size)
    index = EdgeIndex(folder)
    with pytest.raises(IndexUnavailable, match=r"damaged or missing.*index them again"):
        index.count(NAME)
    again(index)


def test_a_damaged_description_is_said_in_words_with_the_remedy(folder: Path) -> None:
    (folder / f"{NAME}.json").write_text("{")
    index = EdgeIndex(folder)
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.count(NAME)
    again(index)


def again(index: EdgeIndex) -> None:
    """The remedy that the messages name works."""
    index.drop(NAME)
    index.ensure(NAME, "another model", 2)
    index.upsert(NAME, [POINT], EAST)
    assert index.count(NAME) == 1
    index.close()


def test_a_collection_whose_creation_was_cut_off_does_not_exist(folder: Path) -> None:
    # The description is written last, so this is what a kill in the middle leaves.
    (folder / f"{NAME}.json").unlink()
    index = EdgeIndex(folder)
    assert index.collections() == []
    assert index.count(NAME) == 0
    index.ensure(NAME, "wordllama", 2)
    assert index.count(NAME) == 0
    index.close()


def test_deleted_points_give_their_space_back(tmp_path: Path) -> None:
    sizes = []
    for round_number in range(4):
        index = EdgeIndex(tmp_path)
        index.ensure(NAME, "wordllama", 64)
        index.delete(NAME, document_id="doc")
        points = [IndexPoint(ids.digest(f"{round_number}-{place}"), "doc", "spec") for place in range(2000)]
        index.upsert(NAME, points, np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32))
        assert index.count(NAME) == 2000
        index.close()
        segments = (tmp_path / NAME / "segments").rglob("*")
        sizes.append(sum(512 * file.stat().st_blocks for file in segments if file.is_file()))
    # If nothing came back, the fourth round would stand beside the three before.
    assert sizes[-1] < 2 * sizes[0]


def test_a_disk_that_is_nearly_full_is_said_in_words_before_the_engine_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = EdgeIndex(folder)
    assert index.count(NAME) == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10 * 2**20))
    for call in (
        lambda: index.upsert(NAME, [POINT], EAST),
        lambda: index.delete(NAME, document_id="doc"),
        lambda: index.ensure("other_collection", "wordllama", 2),
    ):
        with pytest.raises(IndexUnavailable, match=r"disk .* is full, or nearly so.*kept"):
            call()
    assert len(index.search(NAME, EAST[0], 5, "spec")) == 1
    index.drop(NAME)
    assert not (folder / NAME).exists()
    index.close()


def test_deleting_what_is_not_there_does_not_touch_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = EdgeIndex(folder)
    assert index.count(NAME) == 1
    files = {path: path.stat().st_mtime_ns for path in (folder / NAME).rglob("*")}
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=0))
    index.delete(NAME, document_id="another", spec_id="spec")
    assert {path: path.stat().st_mtime_ns for path in (folder / NAME).rglob("*")} == files
    index.close()


def test_a_closed_index_says_so(folder: Path) -> None:
    index = EdgeIndex(folder)
    index.close()
    index.close()
    with pytest.raises(IndexUnavailable, match="closed"):
        index.count(NAME)


@pytest.mark.parametrize("name", ["../outside", "", "Sentence", "a/b"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    index = EdgeIndex(tmp_path / "index")
    with pytest.raises(ValueError, match="no collection name"):
        index.ensure(name, "wordllama", 2)
    assert list((tmp_path / "index").iterdir()) == []
