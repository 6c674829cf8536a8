from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine import files
from engine.errors import DataFolderLocked, NotFound, StoreUnavailable
from engine.store import DataFolder

HOLD = """
import sys
from pathlib import Path
from engine.store import DataFolder
folder = DataFolder(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_new_folder_has_room_for_originals_and_index(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "new" / "data") as folder:
        assert folder.originals.is_dir()
        assert folder.index.is_dir()


def test_a_folder_in_use_is_refused_in_one_sentence_that_names_it(tmp_path: Path) -> None:
    with DataFolder(tmp_path):
        for shared in (False, True):
            with pytest.raises(DataFolderLocked) as caught:
                DataFolder(tmp_path, shared=shared)
            assert str(tmp_path) in caught.value.message
            assert caught.value.message.count(". ") == 0
    DataFolder(tmp_path).close()


def test_processes_that_all_share_are_let_in(tmp_path: Path) -> None:
    with DataFolder(tmp_path, shared=True), DataFolder(tmp_path, shared=True), pytest.raises(DataFolderLocked):
        DataFolder(tmp_path)


def test_the_lock_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DataFolderLocked, match=f"process {process.pid}"):
            DataFolder(tmp_path)
        process.kill()
        process.wait()
        with DataFolder(tmp_path) as folder:
            assert folder.path == tmp_path


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    ready, release = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"1")
        os.read(release[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        folder.close()
        DataFolder(tmp_path).close()
    finally:
        os.write(release[1], b"1")
        os.waitpid(child, 0)
        for end in (*ready, *release):
            os.close(end)


def test_originals_are_stored_once_under_their_hash(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        sha256 = folder.add_original(b"law")
        assert sha256 == hashlib.sha256(b"law").hexdigest()
        assert folder.add_original(b"law") == sha256
        assert folder.original(sha256) == b"law"
        assert [file.name for file in folder.originals.iterdir()] == [sha256]
        folder.remove_original(sha256)
        folder.remove_original(sha256)
        with pytest.raises(NotFound, match="no original"):
            folder.original(sha256)


@pytest.mark.parametrize("name", ["../lock", "", "a" * 63, "A" * 64])
def test_only_a_hash_names_an_original(tmp_path: Path, name: str) -> None:
    with DataFolder(tmp_path) as folder:
        for call in (folder.original, folder.remove_original):
            with pytest.raises(NotFound):
                call(name)
        assert (tmp_path / "lock").exists()


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        kept, orphan = folder.add_original(b"kept"), folder.add_original(b"orphan")
        (folder.originals / ".writing-abc").write_bytes(b"half")
        assert folder.sweep_originals({kept}) == 2
        assert folder.original(kept) == b"kept"
        assert not (folder.originals / orphan).exists()


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with DataFolder(tmp_path) as folder:
        monkeypatch.setattr(files.os, "fsync", full)
        with pytest.raises(StoreUnavailable, match=r"disk .* is full"):
            folder.add_original(b"law")
        assert list(folder.originals.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        DataFolder(tmp_path / "file" / "data")
