"""What the Workbench is made of, and what it keeps in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.index import ChunkIndex
from engine.models import ChunkSet
from engine.providers.base import Models
from engine.providers.meter import Meter, metered
from engine.recent import Recent
from engine.settings import Settings
from engine.store import DataFolder, Store
from engine.strategies.source import Source
from engine.workbench import quotas

OPEN_CHUNK_SETS = 24
"""Chunk sets kept in memory, so that looking at one again costs nothing."""


class Parts:
    """Settings, models, store, index and data folder of one Workbench."""

    def __init__(self, settings: Settings, folder: DataFolder, store: Store, index: ChunkIndex, models: Models) -> None:
        self.settings = settings
        self.models = models
        self._folder = folder
        self._store = store
        self._index = index
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._chunk_sets: Recent[tuple[str, str, str], ChunkSet] = Recent(OPEN_CHUNK_SETS)
        self._qualities: Recent[tuple[str, str, str], dict[str, float]] = Recent(OPEN_CHUNK_SETS)

    @contextmanager
    def _paying(self, expected_usd: Callable[[], float | None]) -> Iterator[Models]:
        """The models, for work that may call one. It must fit into the user's quotas, and what its calls have cost is counted.

        Every method that calls a model takes it from here; a benchmark counts what it spends itself. `expected_usd`: dollars at most, or
        as a dry run expects; None: unknown. Raises BudgetExceeded.
        """
        meter = Meter()
        with quotas.charged(self._store, self.settings, expected_usd) as charge:
            try:
                yield metered(self.models, meter)
            finally:
                for usage in meter.by_purpose.values():
                    charge.add(usage.cost_usd)
