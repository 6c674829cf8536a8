"""Strategy specs as one line of text, for addresses and session state: `recursive:size=256,overlap=32;sentence`."""

from __future__ import annotations

from collections.abc import Sequence

from engine import UserError, Workbench
from engine.models import StrategySpec


def encode(workbench: Workbench, specs: Sequence[StrategySpec]) -> str:
    """Strategies with the parameters that differ from the defaults."""
    return ";".join(_encode(workbench, spec) for spec in specs)


def _encode(workbench: Workbench, spec: StrategySpec) -> str:
    defaults = workbench.spec(spec.strategy_name).params
    changed = ",".join(f"{name}={value}" for name, value in spec.params.items() if value != defaults[name])
    return f"{spec.strategy_name}:{changed}" if changed else spec.strategy_name


def decode(workbench: Workbench, text: str) -> list[StrategySpec]:
    """The specs in a line; what names no strategy or does not fit is left out, because anyone can edit an address."""
    found = []
    for part in text.split(";"):
        name, _, changed = part.partition(":")
        pairs = (pair.partition("=") for pair in changed.split(",") if pair)
        try:
            found.append(workbench.spec(name, {key: value for key, _, value in pairs}))
        except UserError:
            continue
    return found
