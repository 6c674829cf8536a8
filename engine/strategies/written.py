"""Specs as people write them: `recursive:size=256,overlap=32`, and grids of them: `recursive:size=128|256,overlap=0|32`."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from engine.errors import BadRequest

MAX_GRID = 64
"""Most specs one grid may stand for."""


class Written(NamedTuple):
    name: str
    params: dict[str, Any]
    """As text; the strategy's parameters turn it into numbers."""


def read(text: str) -> Written:
    """A name and parameters. Raises BadRequest for what is not of the form."""
    name, values = _split(text)
    return Written(name, values)


def write(spec: Written) -> str:
    """The text that `read` turns into the same."""
    params = ",".join(f"{name}={value}" for name, value in spec.params.items())
    return f"{spec.name}:{params}" if params else spec.name


def read_grid(text: str) -> list[Written]:
    """Every combination of the values between bars, the last parameter changing fastest. Raises BadRequest."""
    name, values = _split(text)
    choices = [[each.strip() for each in value.split("|")] for value in values.values()]
    combinations = [Written(name, dict(zip(values, each, strict=True))) for each in itertools.product(*choices)]
    if len(combinations) > MAX_GRID:
        raise BadRequest(
            f"The grid {text} stands for {len(combinations)} specs, more than the {MAX_GRID} allowed. Give fewer values."
        )
    return combinations


def _split(text: str) -> tuple[str, dict[str, str]]:
    name, _, rest = text.partition(":")
    values = {}
    for part in filter(None, (each.strip() for each in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise BadRequest(
                f"{part!r} is not of the form parameter=value. Write for example recursive:size=256,overlap=32."
            )
        values[key.strip()] = value.strip()
    return name.strip(), values
