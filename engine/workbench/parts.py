"""What the Workbench is made of, and what it keeps in memory."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from engine.cutting import Cutter
from engine.errors import NotAllowed
from engine.index import ChunkIndex
from engine.models import ChunkSet
from engine.providers.base import Models
from engine.providers.meter import Meter, metered
from engine.recent import Recent
from engine.settings import Settings
from engine.store import DataFolder, Store
from engine.store.owned import OwnedStore
from engine.store.owners import LOCAL
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
        self._cutter = Cutter(settings.cutting_processes)
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._chunk_sets: Recent[tuple[str, str, str], ChunkSet] = Recent(OPEN_CHUNK_SETS)
        self._qualities: Recent[tuple[str, str, str], dict[str, float]] = Recent(OPEN_CHUNK_SETS)

    def acting_as(self, user: str) -> Self:
        """The same Workbench on behalf of one signed-in user, who sees their own and what is shared, changes only their own, and is held
        to the quotas. It need not be closed. Raises NotAllowed for a name that is nobody's or the local user's, whom nobody can sign in as.
        """
        if user in ("", LOCAL):
            raise NotAllowed(
                f"Nobody can be signed in as {user or 'nobody'}: that name stands for whoever runs this installation. Nothing was done. "
                "Sign in under another name."
            )
        view = copy.copy(self)
        view._store = OwnedStore(self._store, user)
        return view

    @property
    def user(self) -> str:
        """On whose behalf it works; `LOCAL` without sign-in."""
        return self._store.user

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
