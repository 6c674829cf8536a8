"""Cutting documents and measuring the cut, in this process or in others beside it."""

from engine.cutting.cutter import HERE, Cutter

__all__ = ["HERE", "Cutter"]
