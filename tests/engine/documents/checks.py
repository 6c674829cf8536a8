"""What holds for the result of every reader."""

from __future__ import annotations

from engine.documents.base import Parsed
from engine.models import Node, NodeKind


def check_tree(parsed: Parsed) -> None:
    """Spans are in the text, children are in order inside their parent, and leaves hold every non-blank character."""
    text, tree = parsed.text, parsed.tree
    assert tree.kind is NodeKind.DOCUMENT
    assert tuple(tree.span) == (0, len(text))
    covered = bytearray(len(text))
    for node in tree.walk():
        assert 0 <= node.span.start <= node.span.end <= len(text)
        if node.heading is not None:
            assert node.span.start <= node.heading.start <= node.heading.end <= node.span.end
            covered[node.heading.start : node.heading.end] = b"\1" * node.heading.length
        if node.kind not in (NodeKind.DOCUMENT, NodeKind.SECTION, NodeKind.ARTICLE):
            covered[node.span.start : node.span.end] = b"\1" * node.span.length
        reached = node.span.start
        for child in node.children:
            assert child.span.start >= reached
            assert child.span.end <= node.span.end
            reached = child.span.end
    missing = "".join(char for char, seen in zip(text, covered, strict=True) if not seen and not char.isspace())
    assert missing == ""
    assert parsed.kept_characters <= parsed.visible_characters


def nodes(parsed: Parsed, kind: NodeKind) -> list[Node]:
    return [node for node in parsed.tree.walk() if node.kind is kind]


def texts(parsed: Parsed, kind: NodeKind) -> list[str]:
    return [node.span.slice(parsed.text) for node in nodes(parsed, kind)]
