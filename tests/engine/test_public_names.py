"""The public surface of the engine."""

from __future__ import annotations

import engine


def test_the_engine_exports_what_it_lists() -> None:
    assert engine.__all__ == ["Settings", "UserError", "Workbench", "load_settings"]
    assert all(hasattr(engine, name) for name in engine.__all__)
