"""Text without what copying a quote changes (spaces, quotation marks, hyphens, Markdown, case), with the way back to the original offsets."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from functools import cached_property

from engine.lexical import terms
from engine.models import Span

_PLAIN = re.compile(r"[A-Za-z0-9.,;:()/'\"-]+")
_NOISE = re.compile(
    r"""
    ^[ \t]*\|?[ \t]*:?-{3,}[-:| \t]*$   # the line under a table header
    | ^[ \t]*[-*+•][ \t]+               # a bullet
    | \]\([^)\s]*\)                     # the target of a link
    | <br[ ]?/?>
    """,
    re.VERBOSE | re.MULTILINE,
)
_DROPPED = frozenset("*_`\\~\u00ad\u200b\u200c\u200d\u2060\ufeff")
_SPACES = frozenset("#|>[]")
_SAME = {
    **dict.fromkeys("“”„‟«»″＂", '"'),
    **dict.fromkeys("‘’‚‛′´＇", "'"),
    **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
}


class Normalised:
    """A normalised text and, for each of its characters, the offset it came from."""

    def __init__(self, original: str) -> None:
        self.original = original
        parts: list[str] = []
        self._origins: list[int] = []
        noise = iter([*_NOISE.finditer(original), None])
        skip = next(noise)
        position = 0
        while position < len(original):
            if skip is not None and position >= skip.start():
                self._add(parts, " ", position)
                position = max(position, skip.end())
                skip = next(noise)
                continue
            stop = len(original) if skip is None else skip.start()
            run = _PLAIN.match(original, position, stop)
            if run is not None:
                parts.append(run.group().lower())
                self._origins.extend(range(position, run.end()))
                position = run.end()
                continue
            self._add(parts, _folded(original[position]), position)
            position += 1
        self.text = "".join(parts)

    def _add(self, parts: list[str], folded: str, position: int) -> None:
        if folded == " " and (not parts or parts[-1].endswith(" ")):
            return
        if folded:
            parts.append(folded)
            self._origins.extend([position] * len(folded))

    def origin(self, start: int, end: int) -> Span:
        """Where the normalised passage `[start, end)` stands in the original text."""
        return Span(self._origins[start], self._origins[end - 1] + 1)

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        """Where each term stands in the normalised text."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for term in terms(self.text):
            found[term.text].append(term.start)
        return dict(found)


def _folded(character: str) -> str:
    if character in _DROPPED:
        return ""
    if character.isspace() or character in _SPACES:
        return " "
    if character in _SAME:
        return _SAME[character]
    return unicodedata.normalize("NFKC", character).lower()
