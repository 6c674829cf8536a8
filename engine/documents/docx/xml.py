"""Names of the XML elements the reader meets, and small look-ups on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

W_NS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
R_NS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
A_NS = "http://schemas.openxmlformats.org/drawingml/2006/main"
W = f"{{{W_NS}}}"
R = f"{{{R_NS}}}"
A = f"{{{A_NS}}}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
V = "{urn:schemas-microsoft-com:vml}"

WRAPPERS = frozenset(
    W + name
    for name in ("ins", "moveTo", "hyperlink", "smartTag", "customXml", "fldSimple", "dir", "bdo", "sdtContent")
)
"""Elements that hold content and add none, at block, row, cell and run level."""
REMOVED = frozenset((W + "del", W + "moveFrom"))
"""Tracked deletions and the old place of moved text."""
SILENT = frozenset(
    W + name
    for name in (
        "pPr", "rPr", "tblPr", "tblGrid", "trPr", "tcPr", "tblPrEx", "sdtPr", "sdtEndPr", "customXmlPr", "smartTagPr", "sectPr",
        "proofErr", "bookmarkStart", "bookmarkEnd", "permStart", "permEnd", "lastRenderedPageBreak", "commentRangeStart",
        "commentRangeEnd", "moveFromRangeStart", "moveFromRangeEnd", "moveToRangeStart", "moveToRangeEnd",
        "customXmlInsRangeStart", "customXmlInsRangeEnd", "customXmlDelRangeStart", "customXmlDelRangeEnd",
        "customXmlMoveFromRangeStart", "customXmlMoveFromRangeEnd", "customXmlMoveToRangeStart",
        "customXmlMoveToRangeEnd", "footnoteRef", "endnoteRef", "annotationRef", "separator", "continuationSeparator",
        "softHyphen", "rubyPr", "instrText", "delInstrText", "fldData", "background",
    )
)  # fmt: skip
"""Elements that show nothing of their own."""

_FALSE = ("0", "false", "off")


def alternate(element: Any) -> Any | None:
    """The branch of an `mc:AlternateContent` that Word shows: the first choice, else the fallback."""
    choice = element.find(MC + "Choice")
    return choice if choice is not None else element.find(MC + "Fallback")


def value(parent: Any | None, name: str, attribute: str = "val") -> str | None:
    """An attribute of a child element, such as `w:pPr/w:jc@w:val`."""
    child = parent.find(W + name) if parent is not None else None
    result: str | None = child.get(W + attribute) if child is not None else None
    return result


def toggle(parent: Any | None, name: str) -> bool | None:
    """State of an on/off property; None where it is not given."""
    child = parent.find(W + name) if parent is not None else None
    return None if child is None else child.get(W + "val") not in _FALSE


def integer(text: str | None) -> int | None:
    """The number in an attribute; None where there is none. Producers write "12.0" and worse."""
    if text is None:
        return None
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def own_text(element: Any) -> str:
    """Text of a `w:t` or `m:t`, comments inside it left out."""
    if not len(element):
        return element.text or ""
    return (element.text or "") + "".join(child.tail or "" for child in element)


def elements(parent: Any) -> Iterator[Any]:
    """Child elements, comments and processing instructions left out."""
    for child in parent:
        if isinstance(child.tag, str):
            yield child
