"""Program code as units that may be parted: the nodes of its syntax tree, with decorators and leading comments attached.

No table of node types per language: in every grammar a definition has a name (or a declarator) and a body.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import tree_sitter

from engine.documents.code import LANGUAGES

_NAMES = {
    "python": "python", "python3": "python", "javascript": "javascript", "node": "javascript", "typescript": "typescript",
    "java": "java", "go": "go", "golang": "go", "rust": "rust", "c": "c", "c++": "cpp", "cpp": "cpp",
}  # fmt: skip
_LEADING = re.compile(r"comment|decorator|annotation|attribute_item|modifiers")
_BODY = re.compile(r"(?:block|body|declaration_list|compound_statement)$")
_DEEPEST = 200
"""Definitions inside each other that are told apart; generated code can nest further than Python recurses."""


def language_of(info: str) -> str | None:
    """The grammar for a fence's info string such as `py` or `rust,ignore`; None when there is none."""
    word = re.split(r"[\s,{:]", info.strip().lower(), maxsplit=1)[0].lstrip(".")
    return _NAMES.get(word) or LANGUAGES.get(f".{word}")


class Definition(NamedTuple):
    start: int
    end: int
    symbol: str
    """Path of names, outermost first: `Account.close`."""
    inner: tuple[Definition, ...]


@cache
def _language(name: str) -> tree_sitter.Language:
    package = "typescript" if name == "tsx" else name
    module = importlib.import_module(f"tree_sitter_{package}")
    function = f"language_{name}" if package == "typescript" else "language"
    return tree_sitter.Language(getattr(module, function)())


class Code:
    """One passage of code inside a text. All offsets are code points of the whole text."""

    def __init__(self, text: str, start: int, end: int, language: str) -> None:
        self.language = language
        self.start = start
        self.end = end
        self._text = text
        data = text[start:end].encode("utf-8", "surrogatepass")
        self._data = data
        self._characters = None if len(data) == end - start else _character_starts(data)
        # A parser holds state, so that one is made for every passage.
        root = tree_sitter.Parser(_language(language)).parse(data).root_node
        self._root = root
        self._node_at: dict[int, tree_sitter.Node] = {start: root}
        self.definitions = tuple(self._definitions(root, "", 0))

    def boundaries(self, start: int, end: int) -> Sequence[int]:
        """Where the unit that begins at `start` may be parted: its children, each with what leads up to it.

        Called first for the whole passage, then for units between the offsets it gave.
        """
        node = self._node_at.pop(start, None)
        while node is not None and node.named_child_count:
            children, opening = _opened(node)
            kept = {self._at(self._line(child)) for child in opening}
            begins = start if node.parent is None else self._at(node.start_byte)
            first: tree_sitter.Node | None = None
            places: dict[int, tree_sitter.Node] = {}
            for child, place in self._with_leading(children):
                if place <= begins or place in kept:
                    first = child
                elif start < place < end:
                    places.setdefault(place, child)
            if places:
                self._node_at.update(places)
                if first is not None:
                    self._node_at[start] = first
                return sorted(places)
            node = first or max(children, key=_length)
        return ()

    def symbols(self, start: int, end: int) -> list[str]:
        """Definitions that begin in the span; where it begins inside one, the innermost of those."""
        return list(_symbols(self.definitions, start, end))

    def _with_leading(self, children: Sequence[tree_sitter.Node]) -> Iterator[tuple[tree_sitter.Node, int]]:
        """Each child that begins a line, with the start of the line on which its comments and decorators begin."""
        first: tree_sitter.Node | None = None
        above: tree_sitter.Node | None = None
        for child in children:
            if above is not None and child.start_point.row > _last_row(above) + 1:
                if first is not None:
                    # Comments that stand alone are a unit of their own.
                    yield from self._at_line(first, first)
                first = None
            if _LEADING.search(child.type) is not None:
                first = first or child
            else:
                yield from self._at_line(child, first or child)
                first = None
            above = child
        if first is not None:
            yield from self._at_line(first, first)

    def _at_line(self, node: tree_sitter.Node, first: tree_sitter.Node) -> Iterator[tuple[tree_sitter.Node, int]]:
        line = self._line(first)
        if not self._data[line : first.start_byte].strip():
            yield node, self._at(line)

    def _line(self, node: tree_sitter.Node) -> int:
        return self._data.rfind(b"\n", 0, node.start_byte) + 1

    def _definitions(self, parent: tree_sitter.Node, path: str, depth: int) -> Iterator[Definition]:
        stack = list(reversed(parent.named_children))
        while stack:
            node = stack.pop()
            name = self._name(node)
            if name is None:
                if not node.type.endswith(("statement", "expression")) or node.type in _HOLDERS:
                    stack.extend(reversed(node.named_children))
                continue
            symbol = f"{path}.{name}" if path else name
            inner = tuple(self._definitions(node, symbol, depth + 1)) if depth < _DEEPEST else ()
            yield Definition(self._at(node.start_byte), self._at(node.end_byte), symbol, inner)

    def _name(self, node: tree_sitter.Node) -> str | None:
        """The name of a definition; None for any other node."""
        if node.type == "variable_declarator":
            value = node.child_by_field_name("value")
            named = value is not None and value.child_by_field_name("body") is not None
        elif node.type == "type_spec":
            named = True
        else:
            named = node.child_by_field_name("body") is not None and not node.type.endswith("statement")
        if not named:
            return None
        name = node.child_by_field_name("name") or _declared(node)
        if node.type == "impl_item":
            name = node.child_by_field_name("type")
        if name is None:
            return None
        written = " ".join(self._data[name.start_byte : name.end_byte].decode("utf-8", "replace").split())
        return written[:200]

    def _at(self, byte: int) -> int:
        if self._characters is None:
            return self.start + byte
        return self.start + int(np.searchsorted(self._characters, byte))


_HOLDERS = frozenset(("expression_statement", "export_statement", "if_statement", "try_statement"))
"""Statements that can hold definitions of the level around them."""


def _character_starts(data: bytes) -> np.ndarray:
    return np.flatnonzero((np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80)


def _opened(node: tree_sitter.Node) -> tuple[list[tree_sitter.Node], list[tree_sitter.Node]]:
    """Named children with those of a body in its place, and the first of each body, which stays with what opens it."""
    children: list[tree_sitter.Node] = []
    opening: list[tree_sitter.Node] = []
    for child in node.named_children:
        if _BODY.search(child.type) is not None and child.named_child_count:
            children.extend(child.named_children)
            opening.append(child.named_children[0])
        else:
            children.append(child)
    return children, opening


def _length(node: tree_sitter.Node) -> int:
    return node.end_byte - node.start_byte


def _last_row(node: tree_sitter.Node) -> int:
    """The row of the last character: a node that ends with its line break ends in column 0 of the next row."""
    return node.end_point.row - (node.end_point.column == 0)


def _declared(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The name inside the nested declarators of C: pointers around a function around its name."""
    target = node.child_by_field_name("declarator")
    while target is not None:
        inner = target.child_by_field_name("declarator")
        if inner is None:
            return target
        target = inner
    return None


def _symbols(definitions: Sequence[Definition], start: int, end: int) -> Iterator[str]:
    first = max(0, bisect_right(definitions, start, key=_start_of) - 1)
    for definition in definitions[first : bisect_left(definitions, end, key=_start_of)]:
        if definition.end <= start:
            continue
        if definition.start >= start:
            yield definition.symbol
            continue
        inner = list(_symbols(definition.inner, start, end))
        yield from inner or [definition.symbol]


def _start_of(definition: Definition) -> int:
    return definition.start
