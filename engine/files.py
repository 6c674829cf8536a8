"""Writing a file so that a crash leaves it whole or leaves the old one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_durably(place: Path, data: bytes) -> None:
    """Write a file that is, at any moment, either as it was or whole, and durable when this returns. Raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
