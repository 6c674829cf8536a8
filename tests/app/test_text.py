"""Untrusted text as Markdown shows what was written and starts nothing."""

from __future__ import annotations

import re
import unicodedata

import pytest
from markdown_it import MarkdownIt

from app.text import counted, isolated, plain, shortened

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "**bold** _it_ ~~gone~~ `code`",
    "[link](javascript:alert(1)) ![image](http://example.com/x.png)",
    "$x^2$ and $$y$$",
    ":material/delete: :red[danger] :smile: :red-background[x]",
    "http://example.com www.example.com a@example.com",
    "# heading\n- list\n\n1. one\n\n> quote\n\n```code```",
    "&lt;b&gt; &copy; \\* a\\b",
    "a--b -> c <- d >= e",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_text_itself(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(plain(text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in tokens[1].children or []} <= {"text", "text_special"}
    shown = "".join(child.content for child in tokens[1].children or [])
    assert shown.replace("\u2060", "") == re.sub(r"\n+", " ", text)


@pytest.mark.parametrize("pattern", [":material/", ":smile:", ":red[", "://", "www.", "a@e", "--", "->", "<-", ">="])
def test_what_streamlit_rewrites_after_parsing_is_broken_up(pattern: str) -> None:
    unescaped = "".join(plain(text).replace("\\", "") for text in HOSTILE)
    assert pattern not in unescaped


def test_words() -> None:
    assert counted(1, "chunk") == "1 chunk"
    assert counted(1200, "match", "matches") == "1,200 matches"
    assert shortened("one\n two", 20) == "one two"
    assert shortened("a long line of words", 10) == "a long li…"


def test_words_from_right_to_left_are_closed_off_from_the_rest_of_the_line() -> None:
    marks = [unicodedata.bidirectional(letter) for letter in isolated("نص")]
    assert marks == ["FSI", "AL", "AL", "PDI"]
