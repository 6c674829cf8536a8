"""Memory of processes over time, for `benchmarks.scale`: what is their own, and what is mapped from files."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

SAMPLES = 12
"""Rows of the table over time."""
EVERY_SECONDS = 0.5


class Resident(NamedTuple):
    """Resident memory of one process, in MB."""

    own: float
    """Anonymous memory: what the process has allocated. Only swapping can take it away."""
    mapped: float
    """Pages of files, programs and libraries among them: a cache that the system takes back when it needs the room."""


class Point(NamedTuple):
    seconds: float
    stage: str
    processes: dict[str, Resident]


@dataclass
class Memory:
    """Resident memory of the processes named, every half second while it is `watched`."""

    pids: dict[str, int]
    stage: str = "start"
    points: list[Point] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[Memory]:
        began = time.perf_counter()

        def look() -> None:
            while not self._ended.wait(EVERY_SECONDS):
                found = {name: resident(pid) for name, pid in self.pids.items()}
                self.points.append(Point(time.perf_counter() - began, self.stage, found))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def show(self) -> None:
        """The table over time, and of each stage the medians of its first and last quarter."""
        print("\nmemory, MB: own (allocated) + mapped (files)")
        print(f"{'seconds':>8}  {'stage':<10}" + "".join(f" {name:>16}" for name in self.pids))
        for point in self.points[:: max(1, len(self.points) // SAMPLES)]:
            cells = "".join(f" {each.own:>9,.0f} +{each.mapped:>5,.0f}" for each in point.processes.values())
            print(f"{point.seconds:>8.0f}  {point.stage:<10}{cells}")
        print(
            f"\n{'stage':<10} {'process':<16} {'own: first quarter':>18} {'last':>7} {'peak':>7} {'mapped: last':>13}"
        )
        for stage in dict.fromkeys(point.stage for point in self.points):
            of_stage = [point.processes for point in self.points if point.stage == stage]
            quarter = max(1, len(of_stage) // 4)
            for name in self.pids:
                own = [each[name].own for each in of_stage]
                first, last = np.median(own[:quarter]), np.median(own[-quarter:])
                mapped = np.median([each[name].mapped for each in of_stage[-quarter:]])
                print(f"{stage:<10} {name:<16} {first:>18,.0f} {last:>7,.0f} {max(own):>7,.0f} {mapped:>13,.0f}")


def resident(pid: int) -> Resident:
    """Zeros for a process that has ended."""
    sizes = {"RssAnon": 0.0, "RssFile": 0.0, "RssShmem": 0.0}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) / 1024
    except (OSError, ValueError):
        return Resident(0.0, 0.0)
    return Resident(sizes["RssAnon"], sizes["RssFile"] + sizes["RssShmem"])
