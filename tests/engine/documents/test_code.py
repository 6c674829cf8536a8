import pytest

from engine.documents.base import Parsed
from engine.documents.code import LANGUAGES, READER
from engine.models import NodeKind
from engine.settings import Settings
from tests.engine.documents.checks import check_tree, nodes, texts

SOURCES = {
    "a.py": ("import os\n\n# about f\n@deco\ndef f():\n    pass\n\nclass A:\n    x = 1\n    def m(self):\n        def inner(): pass\n", ["f", "A", "A.m"]),
    "a.js": ("export function f() {}\nconst g = () => 1, h = 2;\nclass A { m() {} get x() { return 1; } }\nlet y = 3;\n", ["f", "g", "A", "A.m", "A.x"]),
    "a.ts": ("export interface I { a: string }\ntype T = string;\nenum E { A }\nabstract class A { m(): void {} }\nnamespace N { export function f() {} }\n", ["I", "T", "E", "A", "A.m", "N", "N.f"]),
    "a.tsx": ("export const V = () => <div/>;\n", ["V"]),
    "a.java": ("package p;\nclass A { A() {} int m() { return 1; } class B { void n() {} } }\ninterface I { void q(); }\nrecord R(int x) {}\nenum E { X; void z() {} }\n", ["A", "A.A", "A.m", "A.B", "A.B.n", "I", "I.q", "R", "E", "E.z"]),
    "a.go": ("package p\n\ntype T struct{}\n\n// M does\nfunc (t *T) M() {}\n\nfunc F[K any](k K) {}\n", ["T", "T.M", "F"]),
    "a.rs": ("use x;\n#[derive(Debug)]\nstruct S;\nimpl S { fn m(&self) {} }\nimpl Tr for S { fn n() {} }\ntrait Tr { fn n(); }\nmod q { pub fn z() {} }\n", ["S", "S", "S.m", "Tr for S", "Tr for S.n", "Tr", "Tr.n", "q", "q.z"]),
    "a.c": ("#include <x.h>\n#ifdef A\nstatic int *f(int a, char **b) { return 0; }\n#endif\nstruct S { int x; };\ntypedef struct { int y; } T;\nint g;\n", ["f", "S", "T"]),
    "a.cpp": ("namespace n {\ntemplate <class T> class A { public: void m() {} };\nint f() { return 1; }\n}\nvoid n::A::q() {}\n", ["n", "n.A", "n.A.m", "n.f", "n::A::q"]),
}  # fmt: skip


def read(source: str | bytes, name: str = "a.py") -> Parsed:
    data = source if isinstance(source, bytes) else source.encode()
    parsed = READER.read(data, name, Settings(_env_file=None))
    check_tree(parsed)
    return parsed


@pytest.mark.parametrize("name", SOURCES)
def test_every_language_gives_one_node_per_definition(name: str) -> None:
    source, symbols = SOURCES[name]
    parsed = read(source, name)
    assert parsed.text == source
    found = nodes(parsed, NodeKind.CODE)
    assert [node.attributes["symbol"] for node in found] == symbols
    assert {node.attributes["language"] for node in found} == {LANGUAGES[name[1:]]}
    assert parsed.warnings == ()


def test_decorators_and_the_comment_above_belong_to_the_definition() -> None:
    parsed = read(SOURCES["a.py"][0])
    function = nodes(parsed, NodeKind.CODE)[0]
    assert function.span.slice(parsed.text) == "# about f\n@deco\ndef f():\n    pass"
    assert function.attributes["lines"] == [3, 6]
    assert function.attributes["path"] == "a.py"


def test_a_comment_behind_a_blank_line_is_not_taken() -> None:
    parsed = read("# header\n\ndef f(): pass\n")
    assert texts(parsed, NodeKind.CODE) == ["def f(): pass"]
    assert texts(parsed, NodeKind.PARAGRAPH) == ["# header"]


def test_methods_stand_inside_their_class() -> None:
    (class_,) = read("class A:\n    def m(self):\n        pass\n").tree.children
    assert [child.title for child in class_.children] == ["m"]
    method = class_.children[0]
    assert (method.level, method.attributes["lines"]) == (2, [2, 3])


def test_offsets_count_code_points_behind_wide_characters() -> None:
    source = 's = "é第😀"\n\ndef größe():\n    return "ü"\n\nx = 1\n'
    parsed = read(source)
    assert texts(parsed, NodeKind.CODE) == ['def größe():\n    return "ü"']
    assert texts(parsed, NodeKind.PARAGRAPH) == ['s = "é第😀"', "x = 1"]


def test_broken_code_is_kept_whole_and_noted() -> None:
    parsed = read("def f(:\n    ((\n\ndef g():\n    pass\n")
    assert [notice.kind for notice in parsed.warnings] == ["syntax"]
    assert parsed.structure.confidence in ("medium", "none")


def test_code_without_definitions() -> None:
    parsed = read("x = 1\n")
    assert parsed.structure.confidence == "none"
    assert texts(parsed, NodeKind.PARAGRAPH) == ["x = 1"]


def test_deep_nesting_does_not_crash() -> None:
    assert read("(" * 5000 + ")" * 5000).text
    deep = "".join(f"{' ' * level}class A{level}:\n" for level in range(60))
    assert len(nodes(read(deep + " " * 60 + "pass\n"), NodeKind.CODE)) == 12
