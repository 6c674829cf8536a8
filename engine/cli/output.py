"""How the command line speaks: data on standard output, talk on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.errors import BadRequest
from engine.models import Record
from engine.providers.estimate import CallsEstimate

OK = 0
FAILED = 1
"""Something a reader can fix. 2 is argparse's own code for a wrong command line."""
NO = 3
"""A check was made and its answer is no."""
CANNOT_TELL = 4
"""A check was made and there is too little to answer it."""
INTERRUPTED = 130

_any = TypeAdapter(Any)


def say(words: str) -> None:
    """One line of talk."""
    sys.stderr.write(f"{words}\n")


def print_json(value: Any) -> None:
    """A record, or a structure of records, as indented JSON."""
    if isinstance(value, Record):
        print(value.model_dump_json(indent=2))
    else:
        print(json.dumps(_any.dump_python(value, mode="json"), ensure_ascii=False, indent=2))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table on a terminal, lines of values between tabs elsewhere. None is shown as a dash."""
    rows = [list(row) for row in rows]
    if not sys.stdout.isatty():
        for line in (headings, *rows):
            print("\t".join(" ".join(shown(cell, grouped=False).split()) for cell in line))
        return
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        numbers = bool(rows) and all(isinstance(row[place], int | float | None) for row in rows)
        # Names of metrics are long: they take a line for each of their parts, so that none is cut off.
        table.add_column(
            re.sub(r"(?<=\w\.)(?=\w)|(?=@)", "\n", heading), justify="right" if numbers else "left", no_wrap=place == 0
        )
    for row in rows:
        table.add_row(*(escape(shown(cell)) for cell in row))
    Console(width=max(Console().width, 110)).print(table)


def print_estimate(cost: CallsEstimate | None, without: str, as_json: bool) -> None:
    """Calls that are still to be made and the most they cost; `without`: why there is no estimate, in words."""
    if as_json:
        print_json(cost)
    elif cost is None:
        say(without)
    else:
        price = "price unknown" if cost.most_cost_usd is None else f"at most {cost.most_cost_usd:.4f} USD"
        print(f"{cost.calls} calls to {cost.model}, {cost.cached_calls} more from the cache, {price}.")


def shown(value: object, grouped: bool = True) -> str:
    """A value of a table. `grouped`: whether thousands are separated by commas, which programs cannot read."""
    if value is None:
        return "-"
    comma = "," if grouped else ""
    if isinstance(value, float):
        return f"{value:{comma}.0f}" if abs(value) > 1.5 else f"{value:.3f}"
    return f"{value:{comma}}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def read(path: Path) -> bytes:
    """The bytes of a file. Raises BadRequest in words."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}. Check the path and try again.") from None


def write(path: Path, data: bytes) -> None:
    """Write a file and say so. Raises BadRequest in words."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    say(f"Wrote {path}.")
