"""An independent count of the visible text: a plain pass over the XML that shares nothing with the walker.

It answers "text kept: N of M": every run of visible text of the document must stand in the canonical text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.documents.docx.styles import StyleSheet
from engine.documents.docx.symbols import symbol
from engine.documents.docx.xml import MC, A, M, V, W, own_text, toggle, value

_NEAR = 400
"""Squeezed characters behind the last find in which a short text is expected."""
_UNLIKELY_TWICE = 24
_ESCAPED_PIPE = re.compile(r"\\+\|")
_UNIT_ENDS = re.compile(r"\n|(?<!\\)\||<br>")
"""Ends of a line, a cell of a table or a line in a cell."""
_NOT_SHOWN = frozenset(
    (W + "del", W + "moveFrom", W + "delText", W + "instrText", W + "rPr", W + "pPr", W + "sdtPr", W + "tblPr", W + "trPr", W + "tcPr")
)  # fmt: skip


class TextCount(NamedTuple):
    visible: int
    kept: int


def count_text(segments: Iterable[list[str]], canonical: str) -> TextCount:
    """Non-blank characters of the segments, and how many of them stand in the canonical text.

    A segment is the text of one paragraph in pieces. It is looked up whole, just behind the one before it; a segment
    that stands elsewhere, or is interrupted by a note mark, is looked up afterwards. A text that occurs twice in the
    document must stand twice in the canonical text.
    """
    haystack = _squeezed(canonical)
    needed: Counter[str] = Counter()
    astray: dict[str, list[str]] = {}
    position = visible = kept = 0
    for pieces in segments:
        squeezed = [piece for piece in map(_squeezed, pieces) if piece]
        whole = "".join(squeezed)
        if not whole:
            continue
        visible += len(whole)
        needed[whole] += 1
        end = position + len(whole) + _NEAR if len(whole) < _UNLIKELY_TWICE else len(haystack)
        place = haystack.find(whole, position, end)
        if place < 0:
            astray[whole] = squeezed
        else:
            position = place + len(whole)
    # Whole lines and cells are counted once for all: searching the text for each would take time times text.
    units = Counter(map(_squeezed, _UNIT_ENDS.split(canonical))) if astray else Counter()
    for whole, count in needed.items():
        if whole not in astray or units[whole] >= count:
            kept += len(whole) * count
            continue
        found = min(count, haystack.count(whole))
        kept += len(whole) * found
        for piece in astray[whole]:
            kept += max(0, min(count, haystack.count(piece)) - found) * len(piece)
    return TextCount(visible, kept)


def _squeezed(text: str) -> str:
    return _ESCAPED_PIPE.sub("|", "".join(text.split()).replace("<br>", ""))


def visible_segments(root: Any, styles: StyleSheet) -> Iterator[list[str]]:
    """Visible text below an element, one list of pieces per paragraph, text boxes and tables included."""
    fields: list[bool] = []
    """Per open field, whether it shows its result already."""
    instructing = 0
    done: list[list[str]] = []
    loose: list[str] = []
    stack: list[tuple[Any, list[str], str | None]] = [(root, loose, None)]
    while stack:
        node, pieces, style = stack.pop()
        tag = node.tag
        if not isinstance(tag, str) or tag in _NOT_SHOWN:
            continue
        if tag == W + "fldChar":
            instructing += _step(fields, node.get(W + "fldCharType"))
            continue
        if tag in (W + "p", A + "p"):
            pieces = []
            done.append(pieces)
            style = styles.paragraph_style(value(node.find(W + "pPr"), "pStyle"))
        elif tag == W + "r" and _is_hidden(node, style, styles):
            stack.extend((mark, pieces, style) for mark in reversed(node.findall(W + "fldChar")))
            continue
        elif tag == W + "tr" and _row_is_hidden(node.find(W + "trPr")):
            continue
        elif not instructing:
            pieces.extend(_own(node))
        children = list(node)
        if tag == MC + "AlternateContent":
            choices = node.findall(MC + "Choice")[:1]
            children = choices or node.findall(MC + "Fallback")[:1]
        stack.extend((child, pieces, style) for child in reversed(children))
    yield from done
    yield loose


def _step(fields: list[bool], kind: str | None) -> int:
    """Takes a field mark in; returns by how many the fields still in their instruction change."""
    if kind == "begin":
        fields.append(False)
        return 1
    if kind == "separate" and fields and not fields[-1]:
        fields[-1] = True
        return -1
    if kind == "end" and fields:
        return -1 if not fields.pop() else 0
    return 0


def _row_is_hidden(properties: Any | None) -> bool:
    """Whether a row was deleted or is hidden."""
    return properties is not None and (properties.find(W + "del") is not None or bool(toggle(properties, "hidden")))


def _own(node: Any) -> list[str]:
    """Text an element shows itself."""
    tag = node.tag
    if tag in (W + "t", M + "t", A + "t"):
        return [own_text(node)]
    if tag == W + "noBreakHyphen":
        return ["-"]
    if tag == W + "sym":
        return [symbol(node.get(W + "font"), node.get(W + "char")) or ""]
    if tag == V + "textpath":
        return [node.get("string") or ""]
    return []


def _is_hidden(run: Any, style: str | None, styles: StyleSheet) -> bool:
    properties = run.find(W + "rPr")
    own = toggle(properties, "vanish")
    if own is not None:
        return own
    character = value(properties, "rStyle")
    by_character = styles.look(character).hidden if character else None
    return bool(by_character if by_character is not None else styles.paragraph_look(style).hidden)
