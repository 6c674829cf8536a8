"""Pictures, shapes and text boxes, in DrawingML and in the older VML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import CHART, DGM, MC, WP, A, V, W, alternate, elements, own_text

_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic"
_OBJECT = "{urn:schemas-microsoft-com:office:office}OLEObject"


@dataclass(slots=True)
class Drawing:
    """What a drawing shows as text."""

    alt: str = ""
    """Alternative text, on one line; empty where the drawing shows text of its own."""
    boxes: list[Any] = field(default_factory=list)
    """`w:txbxContent` elements, outermost only."""
    texts: list[str] = field(default_factory=list)
    """Paragraphs drawn as shapes: WordArt, DrawingML text."""
    diagrams: list[Any] = field(default_factory=list)
    """`dgm:relIds` elements: their text stands in another part."""


def read_drawing(element: Any, tally: Tally) -> Drawing:
    """Read a `w:drawing`, `w:pict` or `w:object`. Pictures, charts and objects without text are counted."""
    found = Drawing()
    alts: list[str] = []
    pictures = charts = objects = 0
    stack = [element]
    while stack:
        node = stack.pop()
        tag = node.tag
        if tag == W + "txbxContent":
            found.boxes.append(node)
            continue
        if tag == MC + "AlternateContent":
            branch = alternate(node)
            stack.extend([branch] if branch is not None else [])
            continue
        if tag == A + "p":
            text = "".join(own_text(part) for part in node.iter(A + "t"))
            found.texts.extend([text] if text.strip() else [])
            continue
        if tag == WP + "docPr":
            alts.append(node.get("descr") or node.get("title") or "")
        elif tag == V + "textpath":
            found.texts.extend([node.get("string")] if node.get("string") else [])
        elif tag == DGM + "relIds":
            found.diagrams.append(node)
        elif tag in (_PICTURE, V + "imagedata"):
            pictures += 1
        elif tag == CHART + "chart":
            charts += 1
        elif tag == _OBJECT:
            objects += 1
        elif tag.startswith(V) and node.get("alt"):
            alts.append(node.get("alt"))
        stack.extend(reversed(list(elements(node))))
    alt = " ".join(" ".join(alts).split())
    shows_text = found.boxes or found.texts or found.diagrams
    if alt and (pictures or charts or objects or not shows_text):
        found.alt = alt.replace("[", "(").replace("]", ")")
    else:
        tally.add("picture", pictures if not objects else 0)
    tally.add("chart", charts)
    tally.add("object", objects)
    return found
