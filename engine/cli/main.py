"""The parser of the command line, and what its exit codes mean."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from engine.cli import asking, benchmark, doctor, documents, experiments, questions, servers, sharing, upkeep
from engine.cli.output import FAILED, INTERRUPTED, OK, say
from engine.errors import DataFolderLocked, UserError
from engine.settings import load_settings

EXIT_CODES = """exit codes:
  0    done
  1    something you can fix; one sentence on standard error says what
  2    a wrong command line
  3    a check was made and its answer is no
  4    a check was made and there is too little to answer it
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int | None] = options.command
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    try:
        return command(options) or OK
    except DataFolderLocked as error:
        say(error.message + _offer(options))
    except UserError as error:
        say(error.message)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever reads the output has seen enough; closing it again at exit must not raise.
        sys.stdout = None
        return OK
    return FAILED


def parser() -> argparse.ArgumentParser:
    """The whole command line; docs/COMMANDS.md shows its help."""
    parser = argparse.ArgumentParser(
        prog="python -m engine",
        description="Cut documents, search the chunks, measure which cut answers best. "
        "Data goes to standard output, everything else to standard error.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (documents, asking, questions, benchmark, experiments, sharing, upkeep, servers, doctor):
        module.add_commands(commands)
    return parser


def _offer(options: argparse.Namespace) -> str:
    """What to do about a data folder that a running app holds, for commands which the app can carry out."""
    if not hasattr(options, "server"):
        return ""
    settings = load_settings()
    return f" If it is the app, it can do this for you: add --server http://127.0.0.1:{settings.port}"
