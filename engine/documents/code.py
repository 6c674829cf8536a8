"""Program code: the file's own text is canonical; one CODE node per definition, methods under their class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from engine.documents.base import Parsed
from engine.documents.decode import decode, non_blank
from engine.documents.limits import check_paragraphs
from engine.documents.names import display_name, extension
from engine.models import Node, NodeKind, Notice, Span, Structure
from engine.settings import Settings

MAX_NESTING = 12
"""Classes and namespaces inside each other that get nodes of their own."""

LANGUAGES = {
    ".py": "python", ".pyi": "python",
    ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".ts": "typescript", ".tsx": "tsx",
    ".java": "java", ".go": "go", ".rs": "rust",
    ".c": "c", ".h": "c",
    ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".hpp": "cpp",
}  # fmt: skip


class _Grammar(NamedTuple):
    """Which syntax nodes are what, by the names of the language's tree-sitter grammar."""

    definitions: frozenset[str]
    containers: frozenset[str]
    """Definitions whose members are definitions too."""
    wrappers: frozenset[str]
    """Nodes around a definition that belong to it: decorators, export, template parameters."""
    groups: frozenset[str]
    """Nodes that only group definitions: bodies, preprocessor conditions, `extern "C"`."""
    leading: frozenset[str]
    """Nodes that belong to the definition right below them."""


def _grammar(definitions: str, containers: str, wrappers: str = "", groups: str = "", leading: str = "") -> _Grammar:
    holders = frozenset(containers.split())
    return _Grammar(
        frozenset(definitions.split()) | holders,
        holders,
        frozenset(wrappers.split()),
        frozenset(groups.split()),
        frozenset(("comment", "line_comment", "block_comment", *leading.split())),
    )


_ECMA = "function_declaration generator_function_declaration method_definition lexical_declaration variable_declaration"
_C_GROUPS = "preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list"
_GRAMMARS = {
    "python": _grammar("function_definition", "class_definition", "decorated_definition", "block"),
    "javascript": _grammar(_ECMA, "class_declaration", "export_statement", "class_body"),
    "typescript": _grammar(
        _ECMA + " interface_declaration type_alias_declaration enum_declaration function_signature",
        "class_declaration abstract_class_declaration internal_module module",
        "export_statement ambient_declaration expression_statement",
        "class_body statement_block",
        "decorator",
    ),
    "java": _grammar(
        "method_declaration constructor_declaration compact_constructor_declaration annotation_type_declaration",
        "class_declaration interface_declaration enum_declaration record_declaration",
        groups="class_body interface_body enum_body enum_body_declarations",
    ),
    "go": _grammar("function_declaration method_declaration type_declaration", ""),
    "rust": _grammar(
        "function_item function_signature_item struct_item enum_item union_item macro_definition",
        "trait_item impl_item mod_item",
        groups="declaration_list",
        leading="attribute_item",
    ),
    "c": _grammar(
        "function_definition struct_specifier union_specifier enum_specifier type_definition", "", groups=_C_GROUPS
    ),
    "cpp": _grammar(
        "function_definition struct_specifier union_specifier enum_specifier type_definition concept_definition",
        "class_specifier struct_specifier namespace_definition",
        "template_declaration",
        _C_GROUPS + " field_declaration_list",
    ),
}
_GRAMMARS["tsx"] = _GRAMMARS["typescript"]
_FUNCTION_VALUES = frozenset(("arrow_function", "function_expression", "generator_function", "class"))


class CodeReader:
    """Source files of the languages in `LANGUAGES`, parsed by tree-sitter."""

    media_type = "text/x-source"
    version = "code-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument when the encoding cannot be told or there are too many definitions."""
        decoded = decode(data, name)
        text = decoded.text
        language = LANGUAGES.get(extension(name), "python")
        source = _Source(text, language, display_name(name))
        nodes, broken = source.nodes()
        check_paragraphs(len(nodes), name, settings)
        notices = list(decoded.notices)
        if broken:
            message = "Some of the code does not parse (syntax errors or macros); definitions near it may be missing from the tree, their text is not."
            notices.append(Notice(kind="syntax", message=message))
        found = any(node.kind is NodeKind.CODE for node in nodes)
        characters = non_blank(text)
        return Parsed(
            text=text,
            tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text)), children=tuple(nodes)),
            structure=Structure(
                rule="definitions" if found else "none",
                confidence=("medium" if broken else "high") if found else "none",
            ),
            visible_characters=characters,
            kept_characters=characters,
            warnings=tuple(notices),
            metadata={"language": language, "encoding": decoded.encoding},
        )


READER = CodeReader()


class _Definition(NamedTuple):
    syntax: Any
    """The tree-sitter node that names the definition."""
    start: int
    end: int
    """Bytes of the whole, decorators and the comment above included."""
    first_line: int
    last_line: int


class _Source:
    def __init__(self, text: str, language: str, path: str) -> None:
        self._text = text
        self._bytes = text.encode("utf-8")
        self._language = language
        self._grammar = _GRAMMARS[language]
        self._path = path
        self._starts = None if text.isascii() else _character_starts(self._bytes)

    def nodes(self) -> tuple[list[Node], bool]:
        """Definitions and the code between them, and whether the parser met syntax errors."""
        root = _parser(self._language).parse(self._bytes).root_node
        children: list[Node] = []
        reached = 0
        for definition in self._definitions(root):
            node = self._node(definition, (), 1)
            children.extend(self._between(reached, node.span.start))
            children.append(node)
            reached = node.span.end
        children.extend(self._between(reached, len(self._text)))
        return children, root.has_error

    def _definitions(self, parent: Any) -> Iterator[_Definition]:
        """Definitions right under a syntax node, or in groups under it, in order."""
        above: Any = None
        stack = list(reversed(parent.children))
        while stack:
            child = stack.pop()
            if child.type in self._grammar.leading:
                touches = above is not None and above[1].end_point.row + 1 == child.start_point.row
                above = (above[0] if touches else child, child)
                continue
            named = self._named(child)
            if named is not None:
                touches = above is not None and above[1].end_point.row + 1 >= child.start_point.row
                first = above[0] if touches else child
                rows = (first.start_point.row + 1, child.end_point.row + 1)
                yield _Definition(named, first.start_byte, child.end_byte, *rows)
            elif child.type in self._grammar.groups:
                stack.extend(reversed(child.children))
            if child.type != "decorator":
                above = None

    def _named(self, syntax: Any) -> Any:
        """The definition a node is or wraps; None when it is neither."""
        while syntax.type in self._grammar.wrappers:
            inner = [child for child in syntax.named_children if self._is_definition(child)]
            if not inner:
                return None
            syntax = inner[-1]
        return syntax if self._is_definition(syntax) else None

    def _is_definition(self, syntax: Any) -> bool:
        kind = syntax.type
        if kind in self._grammar.wrappers:
            return True
        if kind not in self._grammar.definitions:
            return False
        if kind in ("lexical_declaration", "variable_declaration"):
            return any(_function_value(each) for each in syntax.named_children)
        if kind in ("struct_specifier", "union_specifier", "enum_specifier", "class_specifier"):
            return syntax.child_by_field_name("body") is not None
        return True

    def _node(self, definition: _Definition, outer: tuple[str, ...], depth: int) -> Node:
        syntax = definition.syntax
        name = self._name(syntax)
        path = (*outer, name)
        start = self._at(definition.start)
        end = self._at(definition.end)
        children: list[Node] = []
        if syntax.type in self._grammar.containers and depth < MAX_NESTING:
            body = syntax.child_by_field_name("body")
            if body is not None:
                children = [self._node(each, path, depth + 1) for each in self._definitions(body)]
        return Node(
            kind=NodeKind.CODE,
            span=Span(start, end),
            level=depth,
            title=name,
            rule="definition",
            attributes={
                "language": self._language,
                "path": self._path,
                "symbol": ".".join(path),
                "lines": [definition.first_line, definition.last_line],
            },
            children=tuple(children),
        )

    def _name(self, syntax: Any) -> str:
        target = syntax.child_by_field_name("name")
        if syntax.type in ("lexical_declaration", "variable_declaration"):
            target = next(e for e in syntax.named_children if _function_value(e)).child_by_field_name("name")
        elif syntax.type == "impl_item":
            target = syntax.child_by_field_name("type")
            trait = syntax.child_by_field_name("trait")
            if trait is not None and target is not None:
                return f"{self._slice(trait)} for {self._slice(target)}"
        elif syntax.type == "type_declaration":
            spec = next(iter(syntax.named_children), None)
            target = None if spec is None else spec.child_by_field_name("name")
        elif target is None:
            target = _declared(syntax)
        name = "(anonymous)" if target is None else self._slice(target)
        if self._language == "go" and syntax.type == "method_declaration":
            receiver = syntax.child_by_field_name("receiver")
            owner = re.search(r"(\w+)(?:\[[^\]]*\])?\s*\)$", "" if receiver is None else self._slice(receiver))
            return f"{owner.group(1)}.{name}" if owner else name
        return name

    def _slice(self, syntax: Any) -> str:
        return " ".join(self._bytes[syntax.start_byte : syntax.end_byte].decode("utf-8", "replace").split())[:200]

    def _between(self, start: int, end: int) -> list[Node]:
        body = self._text[start:end]
        if not body.strip():
            return []
        first = start + len(body) - len(body.lstrip())
        # Leading spaces of the first line are part of the code.
        first = max(start, self._text.rfind("\n", start, first) + 1)
        span = Span(first, start + len(body.rstrip()))
        attributes = {"language": self._language, "path": self._path}
        return [Node(kind=NodeKind.PARAGRAPH, span=span, rule="between definitions", attributes=attributes)]

    def _at(self, offset: int) -> int:
        """Code point offset of a byte offset."""
        return offset if self._starts is None else int(np.searchsorted(self._starts, offset))


def _function_value(syntax: Any) -> bool:
    if syntax.type != "variable_declarator":
        return False
    value = syntax.child_by_field_name("value")
    return value is not None and value.type in _FUNCTION_VALUES


def _declared(syntax: Any) -> Any:
    """The name inside C's nested declarators: pointer, function, parameters."""
    target = syntax.child_by_field_name("declarator")
    while target is not None:
        inner = target.child_by_field_name("declarator")
        if inner is None:
            inner = next((each for each in target.named_children if each.type.endswith("identifier")), None)
            if inner is None or inner.type == target.type or target.type.endswith("identifier"):
                return target
        target = inner
    return None


def _character_starts(data: bytes) -> Any:
    return np.flatnonzero((np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80)


@cache
def _parser(language: str) -> Any:
    import importlib

    import tree_sitter

    package = "typescript" if language == "tsx" else language
    module = importlib.import_module(f"tree_sitter_{package}")
    function = {"typescript": "language_typescript", "tsx": "language_tsx"}.get(language, "language")
    return tree_sitter.Parser(tree_sitter.Language(getattr(module, function)()))
