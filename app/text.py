"""Untrusted text (names, document text, questions, model output) made safe for places that Streamlit reads as Markdown."""

from __future__ import annotations

import re

_JOINER = "\u2060"
"""Word joiner: invisible, without width."""
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_REWRITTEN = re.compile(r"[:@](?=\S)|[-<>=~](?=[-<>=~])|\bwww(?=\.)", re.IGNORECASE)
"""Where Streamlit rewrites text after Markdown was parsed: icons, emoji, arrows, addresses. A backslash does not stop that."""
_BREAKS = re.compile(r"[\r\n\u2028\u2029]+")


def plain(text: str) -> str:
    """Markdown that shows `text` as it is, on one line: no markup, HTML, formula, icon, link or colour can start in it."""
    joined = _REWRITTEN.sub(lambda match: match.group() + _JOINER, _BREAKS.sub(" ", text))
    return _PUNCTUATION.sub(r"\\\1", joined)


def isolated(text: str) -> str:
    """The text with invisible marks around it, so that words written from right to left do not turn what follows on the line."""
    return f"\u2068{text}\u2069"


def shortened(text: str, limit: int = 90) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """`1 chunk`, `2 chunks`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
