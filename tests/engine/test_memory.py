"""Freed memory goes back to the system, and the collector rests where no cycles are made."""

from __future__ import annotations

import gc
import threading
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


def test_the_collector_rests_until_the_last_one_inside_has_left() -> None:
    entered, leave = threading.Event(), threading.Event()

    def inside() -> None:
        with memory.no_search_for_cycles():
            entered.set()
            leave.wait(60)

    other = threading.Thread(target=inside)
    assert gc.isenabled()
    with memory.no_search_for_cycles():
        other.start()
        assert entered.wait(60)
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    other.join(60)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with pytest.raises(ValueError, match="inside"), memory.no_search_for_cycles():
            raise ValueError("inside")
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(ValueError, match="inside"), memory.no_search_for_cycles():
        raise ValueError("inside")
    assert gc.isenabled()
