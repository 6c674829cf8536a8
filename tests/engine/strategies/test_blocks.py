"""The scanner against CommonMark, case by case and against markdown-it on random documents."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engine.strategies.blocks import heading_paths, paragraph_starts, scan


def headings(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in scan(text).headings]


def blocks(text: str) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in scan(text).blocks]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# One\n## Two\n###### Six\n####### Seven\n", [(1, "One"), (2, "Two"), (6, "Six")]),
        ("#One\n#\n# \n", [(1, ""), (1, "")]),
        ("   # Indented\n    # Code\n", [(1, "Indented")]),
        ("# Closed ##\n# Not closed#\n# #\n", [(1, "Closed"), (1, "Not closed#"), (1, "")]),
        ("Text\n# Interrupts\nMore\n", [(1, "Interrupts")]),
        ("Title\n===\nSub\n---\n", [(1, "Title"), (2, "Sub")]),
        ("Over\ntwo lines\n=\n", [(1, "Over two lines")]),
        ("\n===\n\n---\n", []),
        ("- item\n---\n> quote\n===\n", []),
        ("# Head\n---\n", [(1, "Head")]),
        ("```\n# no\n```\n# yes\n", [(1, "yes")]),
        ("~~~~\n# no\n~~~\n# no\n~~~~~\n# yes\n", [(1, "yes")]),
        ("```a`b\n# yes\n```\n# no\n", [(1, "yes")]),
        ("```\n# never closed\n", []),
        ("<div>\n# no\n</div>\n\n# yes\n", [(1, "yes")]),
        ("<!-- a\n\n# no\n-->\n# yes\n", [(1, "yes")]),
        ("<pre>\n\n# no\n</pre>\n# yes\n", [(1, "yes")]),
        ("---\ntitle: a\n# comment\n---\n# yes\n", [(1, "yes")]),
        ("---\ntitle: a\n\nmore: b\n---\n# yes\n", [(1, "yes")]),
        ("---\n\nText\n\n---\n\n# yes\n", [(1, "yes")]),
        ("| a | b |\n|---|---|\n| # | no |\n", []),
        ("# One\r\ntext\r\n\r\nTwo\r\n---\r\n", [(1, "One"), (2, "Two")]),
        ("# One\rtext\r\rTwo\r---\r", [(1, "One"), (2, "Two")]),
        ("# \u0645\u0627\u062f\u0629 1\n", [(1, "\u0645\u0627\u062f\u0629 1")]),
    ],
)
def test_headings(text: str, found: list[tuple[int, str]]) -> None:
    assert headings(text) == found


def test_heading_spans_hold_their_lines() -> None:
    text = "# One\nText.\n\nTwo\nlines\n---\nEnd"
    assert [text[heading.start : heading.end] for heading in scan(text).headings] == ["# One\n", "Two\nlines\n---\n"]


def test_blocks_have_exact_spans() -> None:
    fence = "```py\nx = 1\n\ny = 2\n```\n"
    table = "| a | b |\n|:--|--:|\n| 1 | 2 |\n| 3 | 4 |\n"
    html = "<div>\n<p>x</p>\n</div>\n"
    text = f"---\na: 1\n---\n{fence}Text\n\n{table}\n{html}\nEnd\n"
    assert blocks(text) == [
        ("front_matter", "---\na: 1\n---\n"),
        ("fence", fence),
        ("table", table),
        ("html", html),
    ]
    found = scan(text).blocks
    assert text[found[1].body_start : found[1].body_end] == "x = 1\n\ny = 2\n"
    assert found[1].info == "py"
    assert text[found[2].body_start : found[2].end] == "| 1 | 2 |\n| 3 | 4 |\n"


@pytest.mark.parametrize(
    "text",
    ["| a | b |\n|---|\n", "a | b\n- | - |c\n", "|---|---|\n", "a\n\n|---|\n", "    | a |\n    |---|\n"],
)
def test_not_a_table(text: str) -> None:
    assert [kind for kind, _ in blocks(text)] == []


def test_a_table_ends_where_another_block_begins() -> None:
    assert blocks("| a |\n|---|\n| 1 |\n> quote\n") == [("table", "| a |\n|---|\n| 1 |\n")]
    assert blocks("a | b\n--|--\n1 | 2\n\nText\n") == [("table", "a | b\n--|--\n1 | 2\n")]


def test_escaped_pipes_are_no_columns() -> None:
    assert [kind for kind, _ in blocks("| a \\| b |\n|---|\n| 1 |\n")] == ["table"]


def test_paths_skip_missing_levels() -> None:
    text = "# A\n### C\n## B\n# D\n"
    assert list(heading_paths(scan(text).headings)) == [("A",), ("A", "C"), ("A", "B"), ("D",)]


def test_paragraphs_do_not_begin_inside_blocks() -> None:
    text = "One\n\nTwo\n\n```\na\n\nb\n```\n\n \t\nThree\n"
    assert [text[start:].splitlines()[0] for start in paragraph_starts(text, scan(text))] == ["Two", "```", "Three"]


_PARSER = MarkdownIt("commonmark").enable("table")
LINES = st.sampled_from(
    ["# Head", "## Sub ##", "Text here", "more text", "", "", "===", "---", "```", "```py", "~~~", "````", "    indented", "  ## In",
     "| a | b |", "|---|---|", "| 1 | 2 |", "<div>", "</div>", "<!-- c", "-->", "<b>x</b>", "#no", "***", "\ttab", "=", "`x`", "<?php", "?>"]
)  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=600)
@given(st.lists(LINES, min_size=1, max_size=14))
def test_like_markdown_it(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if lines[0] == "---":
        return  # Front matter is no part of CommonMark.
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens = _PARSER.parse(text)
    expected = {
        (token.type.removesuffix("_open"), starts[token.map[0]])
        for token in tokens
        if token.level == 0 and token.map and token.type in ("heading_open", "fence", "html_block", "table_open")
    }
    outline = scan(text)
    found = {("heading", heading.start) for heading in outline.headings}
    found |= {({"html": "html_block"}.get(block.kind, block.kind), block.start) for block in outline.blocks}
    assert found == expected


def test_hostile_texts_are_scanned_in_one_pass() -> None:
    # Each of these would take minutes if the scanner looked back over a whole paragraph for every line of it.
    for line in ("<a>", "|---", "a\n-|-", "-|", "<!x", "`" * 3 + "a`", "text", "- x\n---", "    code\n---", "<"):
        text = (line + "\n") * 60_000
        assert scan(text).headings is not None
    assert scan("---\n" + "a: b\n" * 60_000).blocks == ()
    assert scan("|" * 200_000 + "\n" + "|" * 200_000).blocks == ()
    assert scan("a | b\n" * 3 + "|-" * 100_000 + "x").blocks == ()
    assert scan("<a " + "b=c " * 50_000).blocks == ()
