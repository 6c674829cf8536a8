"""File names as data: how a name is stored and shown. A name is never used as a path."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 255
"""Characters kept of a file name."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def display_name(name: str) -> str:
    """The name under which a file is stored: its last path component, hidden characters escaped, at most `MAX_NAME` characters.

    Control, bidirectional and unassigned characters become `\\u202e`-style escapes, so no face can be misled by them.
    """
    last = re.split(r"[/\\](?!u[0-9a-f]{4,8})", name.strip())[-1] if name.strip() else ""
    escaped = "".join(_escape(char) for char in last)
    return _shorten(escaped, MAX_NAME) or "unnamed"


def shown(name: str, limit: int = 80) -> str:
    """The name inside a sentence: as `display_name`, at most `limit` characters, right-to-left names isolated from the words around them."""
    short = _shorten(display_name(name), limit)
    if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in short):
        return f"{_FIRST_STRONG_ISOLATE}{short}{_POP_ISOLATE}"
    return short


def extension(name: str) -> str:
    """The extension in lower case with its dot, such as `.docx`; empty when there is none."""
    match = re.search(r"[^./\\\s](\.[A-Za-z0-9]{1,10})$", name.strip())
    return match.group(1).lower() if match else ""


def _escape(char: str) -> str:
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\u{code:08x}"


def _shorten(name: str, limit: int) -> str:
    """Cut in the middle, so that the extension stays."""
    if len(name) <= limit:
        return name
    tail = min(12, limit // 3)
    return f"{name[: limit - tail - 1]}…{name[-tail:]}"
