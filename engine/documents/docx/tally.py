"""What the reader left out, changed or could not know, counted and said in words."""

from __future__ import annotations

from collections import Counter

from engine.models import Notice

_MESSAGES = {
    "lost": "Characters of visible text could not be read. Compare with the original.",
    "deleted": "Characters of tracked deletions were left out, as if the changes were accepted.",
    "moved": "Characters at the old place of tracked moves were left out; they stand at their new place.",
    "inserted": "Characters of tracked insertions and moves were kept, as if the changes were accepted.",
    "hidden": "Characters of hidden text were left out.",
    "comments": "Comments were left out.",
    "picture": "Pictures without alternative text were left out.",
    "chart": "Charts were left out; their numbers are not text.",
    "object": "Embedded objects were left out.",
    "symbol": "Characters of symbol fonts without a Unicode counterpart were replaced by □.",
    "field": "Fields without a stored result show nothing.",
    "subdocument": "Subdocuments stored in other files were not fetched.",
    "chunk": "Inserted files that are not HTML or text were not read. Open the file in Word, save it, and upload that copy.",
    "empty": "The document holds no text.",
    "dangling": "References to parts that are missing from the file were passed over.",
    "strict": "Parts in strict Open XML were read as in an ordinary Word file.",
    "macros": "Macros were not read and not run.",
    "template": "The file is a template; its text was read.",
    "note": "References to notes that are missing from the file were passed over.",
    "contents": "Lines of the table of contents were kept as text, not as headings.",
    "clause": "Paragraphs with a heading's style were too long for headings; they became labelled paragraphs.",
    "layout": "Tables used for layout were unwrapped; their text was kept.",
    "columns": "Tables with more than 63 columns were narrowed; their text was kept.",
}
_MAX_LISTED = 5
"""Addresses outside of the file that a notice names."""
_LONGEST_ADDRESS = 120
_NOT_LOSS = ("inserted", "contents", "clause", "layout", "strict", "template")
"""Counted for the reader to know; nothing was lost."""


class Tally:
    """Counts by kind; `notices` says them in words, losses first."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._outside: dict[str, list[str]] = {}

    def add(self, kind: str, count: int = 1) -> None:
        if count:
            self._counts[kind] += count

    def unknown(self, tag: str) -> None:
        """An element the reader does not know. Text inside it is read all the same."""
        self._unknown[tag.rsplit("}", 1)[-1]] += 1

    def outside(self, noun: str, target: str) -> None:
        """Content outside of the file that a part or a field refers to. It is never fetched."""
        self._outside.setdefault(noun, []).append(_address(target))

    def __getitem__(self, kind: str) -> int:
        return self._counts[kind]

    def notices(self) -> list[Notice]:
        kinds = sorted(self._counts, key=lambda kind: (kind in _NOT_LOSS, list(_MESSAGES).index(kind)))
        found = [Notice(kind=kind, message=_MESSAGES[kind], count=self._counts[kind]) for kind in kinds]
        for noun, targets in sorted(self._outside.items()):
            listed = ", ".join(dict.fromkeys(targets[:_MAX_LISTED]))
            message = f"The file refers to content outside of it ({noun}), which was not fetched: {listed}."
            found.append(Notice(kind="external", message=message, count=len(targets)))
        for name, count in sorted(self._unknown.items()):
            message = f"The element {name} is not known; text inside it was read, anything else was passed over."
            found.append(Notice(kind="unknown", message=message, count=count))
        return found


def _address(target: str) -> str:
    """An address inside a sentence: printable characters, at most `_LONGEST_ADDRESS` of them."""
    printable = "".join(character if character.isprintable() else "?" for character in target)
    return printable if len(printable) <= _LONGEST_ADDRESS else printable[:_LONGEST_ADDRESS] + "…"
