"""Files that were inserted into a Word document as a whole (`w:altChunk`): HTML and plain text are read, others are not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.documents.base import Block
from engine.documents.docx.package import WordPackage, relation_id
from engine.documents.docx.tally import Tally
from engine.models import NodeKind


@dataclass(slots=True)
class Inserted:
    """Blocks of an inserted file, and the non-blank characters a reader of it sees and the blocks keep."""

    blocks: list[Block] = field(default_factory=list)
    visible_characters: int = 0
    kept_characters: int = 0


def inserted_blocks(package: WordPackage, chunk: Any, tally: Tally, name: str) -> Inserted:
    """The content of an inserted file; nothing, and a notice, for files that are not HTML or text."""
    # Only few Word files hold HTML, and its reader loads more than the rest of this package.
    from engine.documents.decode import decode, non_blank
    from engine.documents.html import html_content

    part = package.by_id(relation_id(chunk))
    if part is None:
        tally.add("chunk")
        return Inserted()
    kind, path = part.content_type.lower(), str(part.partname).lower()
    if kind in ("text/html", "application/xhtml+xml") or path.endswith((".htm", ".html", ".xhtml")):
        content = html_content(decode(part.blob, name).text, name)
        return Inserted(content.blocks, content.visible_characters, content.kept_characters)
    if kind == "text/plain" or path.endswith(".txt"):
        text = decode(part.blob, name).text
        lines = [Block(NodeKind.PARAGRAPH, line.strip()) for line in text.split("\n") if line.strip()]
        return Inserted(lines, non_blank(text), non_blank(text))
    tally.add("chunk")
    return Inserted()
