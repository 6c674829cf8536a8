"""Freed memory goes back to the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import memory


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(memory._trim() is None, reason="the C library of this system cannot return memory")
def test_blocks_too_small_to_be_mapped_are_returned() -> None:
    blocks = [bytes(100_000) for _ in range(2000)]
    last = bytes(100_000)
    full = resident()
    del blocks
    memory.give_back()
    assert resident() < full - 100_000_000
    assert len(last) == 100_000
