"""The prompts, one file each: a version line, a blank line, the text.

A prompt that changes gets a new version: stored answers name the version they came from.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

_FOLDER = Path(__file__).parent
_FILE = re.compile(r"version: (?P<version>\S+)\n\n(?P<text>.*)", re.DOTALL)


class Prompt(NamedTuple):
    name: str
    version: str
    text: str
    """`$name` stands for a value; `$$` is a dollar sign."""

    def fill(self, **values: str) -> str:
        """The text with its values put in. Raises KeyError for a value that is missing."""
        return Template(self.text).substitute(values)


@cache
def prompt(name: str) -> Prompt:
    """The prompt in `NAME.md`. Raises KeyError when there is none, ValueError when it has no version line."""
    file = _FOLDER / f"{name}.md"
    if not re.fullmatch(r"\w+", name) or not file.is_file():
        raise KeyError(name)
    match = _FILE.fullmatch(file.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{file.name} does not begin with a line `version: ...` and a blank line")
    return Prompt(name, match["version"], match["text"].strip())


def prompt_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.md")))
