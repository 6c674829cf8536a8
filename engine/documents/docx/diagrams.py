"""Text of SmartArt diagrams, which stands in a part of its own."""

from __future__ import annotations

from typing import Any

from engine.documents.docx.package import WordPackage, relation_id
from engine.documents.docx.xml import DGM, A, own_text


def diagram_root(package: WordPackage, reference: Any) -> Any | None:
    """Root of the data part a `dgm:relIds` names; None when it is missing."""
    return package.root(package.by_id(relation_id(reference, "dm")))


def diagram_texts(root: Any) -> list[str]:
    """One line per point of the diagram, in the order of the data."""
    texts = []
    for point in root.iter(DGM + "pt"):
        lines = ("".join(own_text(part) for part in line.iter(A + "t")) for line in point.iter(A + "p"))
        text = " ".join(lines).strip()
        if text:
            texts.append(text)
    return texts
