"""Chunkscope's engine: cut documents, search the chunks, measure which cut answers best. Usable without the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import UserError
from engine.settings import Settings, load_settings

if TYPE_CHECKING:
    from engine.workbench import Workbench

__all__ = ["Settings", "UserError", "Workbench", "load_settings"]


def __getattr__(name: str) -> Any:
    # The Workbench pulls in every library; the reader processes and the tests of small parts do without.
    if name == "Workbench":
        from engine.workbench import Workbench

        return Workbench
    raise AttributeError(name)
