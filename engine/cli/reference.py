"""The help of every command as one page: `python -m engine.cli.reference > docs/COMMANDS.md`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from engine.cli.main import parser

WIDTH = "110"

_HEAD = """# Commands

`python -m engine COMMAND` does what the dashboard does, from a shell: the same Workbench, the same records. Standard output is
data (tables on a terminal, lines with tabs in a pipe, JSON with `--json`), standard error is talk, so `> file` keeps what matters.

A data folder has one user at a time. While the dashboard runs, commands with `--server` are carried out by it:

```sh
python -m engine documents list --server http://127.0.0.1:8501
```

Where its API wants a key, give it as `CHUNKSCOPE_API_KEY`. Exit codes are below. `check` is made for pipelines: 0 pass,
3 regression, 4 cannot tell.

A strategy is written by its name, with parameters after a colon: `recursive:size=256,overlap=32`. A grid gives several values
between bars and stands for every combination: `recursive:size=128|256,overlap=0|32` (in quotes, because a shell reads bars).
"""


def page() -> str:
    """The whole of docs/COMMANDS.md."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        parts = [_HEAD, *_sections(parser())]
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return "\n".join(parts)


def _sections(of: argparse.ArgumentParser, level: int = 2) -> Iterator[str]:
    title = of.prog.removeprefix("python -m engine").strip() or "All commands"
    yield f"{'#' * level} {title}\n\n```text\n{of.format_help().rstrip()}\n```\n"
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _sections(each, level + 1 if level > 2 else level)


if __name__ == "__main__":
    sys.stdout.write(page())
