"""What the Workbench is made of, and what it keeps in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict

from engine.index import ChunkIndex
from engine.models import ChunkSet
from engine.providers.base import Models
from engine.recent import Recent
from engine.settings import Settings
from engine.store import DataFolder, Store
from engine.strategies.source import Source

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
