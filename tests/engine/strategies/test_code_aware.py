from __future__ import annotations

import pytest

from engine.models import Chunk
from engine.providers.base import Models
from engine.strategies.code_aware import CodeAware
from engine.strategies.source import SOURCE_CODE, Source
from engine.strategies.syntax import language_of
from tests.engine.strategies.contracts import broken
from tests.engine.strategies.doubles import document

STRATEGY = CodeAware()

PYTHON = '''import os


# about f
@deco
def f(x):
    if x:
        return 1
    return 2


class A:
    """Doc of A."""

    # leading
    @property
    def g(self):
        return self.x

    def h(self):
        return None
'''


def chunks(text: str, size: int, name: str = "a.py") -> tuple[Chunk, ...]:
    made = document(text, name=name)
    if not name.endswith(".md"):
        made = made.model_copy(update={"media_type": SOURCE_CODE})
    chunk_set = STRATEGY.chunk(Source(made), STRATEGY.parse({"size": size}), Models())
    assert broken(chunk_set, text, size) == []
    return chunk_set.chunks


def test_functions_and_classes_are_whole_with_what_leads_up_to_them() -> None:
    made = chunks(PYTHON, 40)
    assert [chunk.text.splitlines()[0] for chunk in made] == ["import os", "class A:"]
    assert made[0].text.rstrip().endswith("return 2")
    assert made[1].attributes == {
        "path": "a.py",
        "language": "python",
        "symbol": "A",
        "symbols": ["A"],
        "lines": [12, 21],
    }


def test_comments_and_decorators_are_never_parted_from_their_function() -> None:
    made = chunks(PYTHON, 26)
    assert [chunk.text.strip().splitlines()[0] for chunk in made] == [
        "import os",
        "# about f",
        "class A:",
        "# leading",
        "def h(self):",
    ]
    assert [chunk.attributes["symbols"] for chunk in made] == [[], ["f"], ["A"], ["A.g"], ["A.h"]]
    assert made[1].attributes["lines"] == [4, 9]


def test_an_oversized_definition_is_cut_between_statements_then_lines() -> None:
    body = "".join(f"    total{i} = compute({i}, {i})\n" for i in range(12))
    text = "def long():\n" + body + "    data = [\n" + "        1111, 2222,\n" * 12 + "    ]\n"
    made = chunks(text, 40)
    assert all(chunk.text.endswith("\n") for chunk in made)
    assert made[0].text.startswith("def long():\n    total0")
    assert {chunk.attributes["symbol"] for chunk in made} == {"long"}


FUNCTION_FIRST = {
    "a.js": ("// about f\nexport function f() {\n  return 1;\n}\n\n", "class A {\n  m() {\n    return 2;\n  }\n}\n", ["f"], ["A"]),
    "a.jsx": ("const f = () => {\n  return <p>one</p>;\n};\n\n", "function A() {\n  return <b/>;\n}\n", ["f"], ["A"]),
    "a.ts": ("@dec\nexport class F {\n  m(): void {}\n}\n\n", "interface A {\n  size: number;\n  name: string;\n}\n", ["F"], ["A"]),
    "a.tsx": ("function F(): X {\n  return <p/>;\n}\n\n", "enum A {\n  One = 1,\n  Two = 2,\n}\n", ["F"], ["A"]),
    "A.java": ("/** about A */\n@Note\nclass A {\n  void m() {}\n}\n\n", "record R(int a) {\n  int b() { return a; }\n}\n", ["A"], ["R"]),
    "a.go": ("// F does.\nfunc F() int {\n\treturn 1\n}\n\n", "type T struct {\n\tname string\n\tsize int\n}\n", ["F"], ["T"]),
    "a.rs": ("/// about f\n#[test]\nfn f() -> u8 {\n    1\n}\n\n", "impl Show for A {\n    fn m(&self) {}\n}\n", ["f"], ["A"]),
    "a.c": ("/* about f */\nstatic int *f(int a) {\n  return 0;\n}\n\n", "struct S {\n  int number;\n  int total;\n};\n", ["f"], ["S"]),
    "a.cpp": ("template <class T>\nT f(T a) {\n  return a;\n}\n\n", "namespace n {\nclass A {\n  void m() {}\n};\n}\n", ["f"], ["n"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTION_FIRST)
def test_languages(name: str) -> None:
    first, second, first_symbols, second_symbols = FUNCTION_FIRST[name]
    made = chunks(first + second, 24, name)
    assert [chunk.text for chunk in made] == [first, second]
    assert [chunk.attributes["symbols"] for chunk in made] == [first_symbols, second_symbols]


def test_methods_are_named_by_their_class() -> None:
    text = "public class Account {\n  int close() {\n    return 1;\n  }\n\n  int open() {\n    return 2;\n  }\n}\n"
    made = chunks(text, 16, "Account.java")
    assert made[-1].attributes["symbol"] == "Account.open"


def test_code_that_does_not_parse_is_still_cut_whole() -> None:
    text = "def f(:\n  ]]\nclass\n" * 20
    assert "".join(chunk.text for chunk in chunks(text, 20)) == text


def test_code_without_line_breaks_and_deep_nesting() -> None:
    assert "".join(chunk.text for chunk in chunks("f(" * 5000 + ")" * 5000, 64, "a.js"))
    nested = "".join("  " * depth + f"class C{depth}:\n" for depth in range(150)) + "  " * 150 + "pass\n"
    assert chunks(nested, 64)[0].attributes["symbols"][0] == "C0"


def test_offsets_are_characters_where_the_code_is_not_ascii() -> None:
    text = '# größe\ndef größe():\n    return "漢字"\n\n\ndef zwei():\n    return "😀"\n'
    made = chunks(text, 22)
    assert [chunk.attributes["symbols"] for chunk in made] == [["größe"], ["zwei"]]
    assert made[1].text.startswith("def zwei")


MARKDOWN = f"# Manual\n\nHow to call it.\n\n```py\n{PYTHON}```\n\nThat is all.\n"


def test_a_fence_that_fits_stays_whole_with_its_prose() -> None:
    [chunk] = chunks(MARKDOWN, 512, "a.md")
    assert chunk.text == MARKDOWN
    assert chunk.attributes["symbols"] == ["f", "A"]


def test_a_long_fence_is_cut_at_definitions_and_prose_stays_out_of_it() -> None:
    made = chunks(MARKDOWN, 48, "a.md")
    assert [chunk.text.strip().splitlines()[0] for chunk in made] == ["# Manual", "```py", "class A:", "That is all."]
    assert made[2].text == PYTHON[PYTHON.index("class A:") :] + "```\n\n"
    assert [chunk.attributes.get("symbols") for chunk in made] == [None, ["f"], ["A"], None]
    assert made[2].attributes["lines"] == [17, 27]


def test_a_fence_without_a_known_language_is_cut_between_lines() -> None:
    made = chunks("```\n" + "some output here\n" * 30 + "```\n", 24, "a.md")
    assert all(chunk.text.endswith("\n") for chunk in made)
    assert all(chunk.attributes == {} for chunk in made)


def test_a_source_file_has_no_markdown_headings() -> None:
    [first, *_] = chunks("# Not a heading\nimport a\n" * 30, 40)
    assert first.heading_path == ()


@pytest.mark.parametrize(
    ("info", "language"),
    [("py", "python"), ("Python3", "python"), ("js", "javascript"), ("rust,ignore", "rust"), ("c++", "cpp"),
     ("{.go}", None), (".go", "go"), ("ts title=x", "typescript"), ("", None), ("text", None), ("golang", "go")],
)  # fmt: skip
def test_info_strings(info: str, language: str | None) -> None:
    assert language_of(info) == language
