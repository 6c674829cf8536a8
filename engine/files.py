"""Writing a file so that a crash leaves it whole or leaves the old one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO


def write_durably(place: Path, data: bytes) -> None:
    """Write a file that is, at any moment, either as it was or whole, and durable when this returns. Raises OSError."""
    with replacing(place, 0o600) as file:
        file.write(data)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def replacing(place: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write that takes the place of another when the block ends, and leaves it as it was when it raises.

    `mode`: permissions, of which the umask takes some away. Raises OSError.
    """
    temporary = place.with_name(f".writing-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
