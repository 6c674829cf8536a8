"""The data folder: originals of the documents, the embedded index, and the lock that keeps other processes out."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import weakref
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

from engine.errors import DataFolderLocked, NotFound, StoreUnavailable
from engine.files import write_durably


class DataFolder:
    """A folder with `originals/` and `index/`, locked while it is open. The operating system drops the lock when the process ends, however it ends.

    `shared` lets several processes in that all ask for `shared`, where index and database are servers; by default a folder has one user.
    Raises DataFolderLocked, StoreUnavailable.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path.absolute()
        self.originals = self.path / "originals"
        self.index = self.path / "index"
        try:
            self.originals.mkdir(parents=True, exist_ok=True)
            self.index.mkdir(exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _in_words(error, self.path) from error
        try:
            fcntl.flock(self._lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_holder(self._lock)
            os.close(self._lock)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise _in_words(error, self.path) from error
            raise DataFolderLocked(
                f"The data folder {self.path} is in use by another Chunkscope{holder}: stop that one, or choose another DATA_DIR."
            ) from None
        # Only for the message that another process shows; a full disk must not keep this one from starting.
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        _open_folders.add(self)

    def close(self) -> None:
        """Release the lock. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_original(self, data: bytes) -> str:
        """Store the bytes of an upload, durable when it returns; returns their sha256, which is the name. The same bytes are stored once."""
        sha256 = hashlib.sha256(data).hexdigest()
        place = self.originals / sha256
        try:
            if not place.exists():
                write_durably(place, data)
        except OSError as error:
            raise _in_words(error, self.path) from error
        return sha256

    def original(self, sha256: str) -> bytes:
        """The bytes of an original. Raises NotFound."""
        try:
            return self._place(sha256).read_bytes()
        except FileNotFoundError:
            raise _no_original(sha256) from None
        except OSError as error:
            raise _in_words(error, self.path) from error

    def remove_original(self, sha256: str) -> None:
        """Remove an original; one that is not there is no error."""
        try:
            self._place(sha256).unlink(missing_ok=True)
        except OSError as error:
            raise _in_words(error, self.path) from error

    def sweep_originals(self, keep: Collection[str]) -> int:
        """Remove what no document was made from, half-written files included; returns how many files went. For a folder that is not shared."""
        try:
            left_over = [file for file in self.originals.iterdir() if file.name not in keep]
            for file in left_over:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise _in_words(error, self.path) from error
        return len(left_over)

    def _place(self, sha256: str) -> Path:
        # The name comes from outside the engine in some calls, and it becomes a path.
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise _no_original(sha256)
        return self.originals / sha256


_open_folders: weakref.WeakSet[DataFolder] = weakref.WeakSet()


def _close_in_child() -> None:
    for folder in list(_open_folders):
        folder.close()


# A forked child shares the lock with its parent and would keep it after the parent was killed.
os.register_at_fork(after_in_child=_close_in_child)


def _read_holder(lock: int) -> str:
    written = os.pread(lock, 20, 0)
    if not written.isdigit():
        return ""
    return " of this same process" if int(written) == os.getpid() else f" (process {int(written)})"


def _in_words(error: OSError, path: Path) -> StoreUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(
            f"The disk of the data folder {path} is full. Everything stored before is kept. Free some space, then try again."
        )
    reason = error.strerror or "unknown reason"
    return StoreUnavailable(
        f"The data folder {path} cannot be used ({reason}). Everything stored before is kept. Give Chunkscope the right to write there, or choose another DATA_DIR."
    )


def _no_original(sha256: str) -> NotFound:
    return NotFound(f"There is no original {sha256[:64]}. It may have been deleted with its document.")
