"""Options that several commands share, and the backend they choose."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from engine.cli.backend import Backend, find_document
from engine.cli.local import Local
from engine.cli.remote import Remote
from engine.strategies import written
from engine.workbench import FIRST_STRATEGIES, Workbench

KEY_VARIABLE = "CHUNKSCOPE_API_KEY"


def backend_options() -> argparse.ArgumentParser:
    """The options of commands that a running app can carry out."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--server", metavar="URL", help="carry it out in the app that runs there, through its REST API")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"key of that API; better given as {KEY_VARIABLE}, where other users of the machine cannot see it",
    )
    return parser


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def strategy_option(parser: argparse.ArgumentParser, many: bool = False) -> None:
    repeat = " May be given several times." if many else " Default: recursive."
    parser.add_argument(
        "--strategy",
        metavar="SPEC",
        action="append" if many else "store",
        default=[] if many else "recursive",
        help=f"name, with parameters as in recursive:size=256,overlap=32.{repeat}",
    )


def grid_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grid",
        metavar="GRID",
        action="append",
        default=[],
        help="every combination of values, as in 'recursive:size=128|256|512,overlap=0|32'. May be given several times.",
    )


def specs(options: argparse.Namespace) -> list[str]:
    """The specs that --strategy and --grid name; those of a first benchmark when there is neither. Raises BadRequest."""
    grids = getattr(options, "grid", [])
    expanded = [written.write(each) for grid in grids for each in written.read_grid(grid)]
    return [*options.strategy, *expanded] or list(FIRST_STRATEGIES)


def open_backend(options: argparse.Namespace) -> Backend:
    """The app at --server, or a Workbench of this process. Raises UserError."""
    if getattr(options, "server", None):
        return Remote(options.server, options.api_key or os.environ.get(KEY_VARIABLE))
    return Local(Workbench.open())


def chosen_documents(backend: Backend, given: Sequence[str]) -> list[str] | None:
    """Ids of the documents that were named; None, which means all, when none was."""
    return [find_document(backend, each) for each in given] or None
