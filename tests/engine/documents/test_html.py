import pytest

from engine.documents.base import Parsed
from engine.documents.html import READER, html_content
from engine.errors import BadDocument
from engine.models import NodeKind
from engine.settings import Settings
from tests.engine.documents.checks import check_tree, nodes, texts


def read(body: str | bytes, **values: int) -> Parsed:
    data = body if isinstance(body, bytes) else f"<!doctype html><meta charset=utf-8><body>{body}</body>".encode()
    parsed = READER.read(data, "a.html", Settings(_env_file=None, **values))
    check_tree(parsed)
    assert parsed.kept_characters == parsed.visible_characters
    return parsed


def test_headings_make_sections() -> None:
    parsed = read("<h1>The <em>Act</em></h1><p>one</p><h2>Purpose</h2><p>two</p>")
    assert parsed.text == "# The Act\n\none\n\n## Purpose\n\ntwo"
    (act,) = parsed.tree.children
    assert [child.title for child in act.children] == [None, "Purpose"]


def test_article_headings_make_articles() -> None:
    parsed = read("".join(f"<h2>Article {n} — T{n}</h2><p>Text {n}.</p>" for n in (1, 2, 3)))
    assert [(node.label, node.title) for node in nodes(parsed, NodeKind.ARTICLE)] == [
        ("Article 1", "T1"),
        ("Article 2", "T2"),
        ("Article 3", "T3"),
    ]


def test_loose_text_between_blocks_is_kept_in_order() -> None:
    parsed = read("start<div>inner<p>para</p>tail</div>end<br><br>last<span> word</span>")
    assert texts(parsed, NodeKind.PARAGRAPH) == ["start", "inner", "para", "tail", "end", "last word"]
    assert parsed.visible_characters == parsed.kept_characters == len("startinnerparatailendlastword")


def test_white_space_collapses_and_breaks_stay() -> None:
    assert read("<p>a \n  b&nbsp; c<br>d</p>").text == "a b c\nd"


def test_links_are_kept_and_anchors_and_scripts_in_links_are_not() -> None:
    parsed = read(
        '<p>see <a href="https://e.org/a (1)"> the act </a>, <a href="#x">below</a>, <a href="javascript:f()">no</a></p>'
    )
    assert parsed.text == "see [the act](https://e.org/a%281%29) , below, no"


def test_a_link_around_blocks_keeps_its_text() -> None:
    assert read('<a href="/x"><h2>Title</h2><p>text</p></a>').text == "# Title\n\ntext"


def test_lists_nest_and_count() -> None:
    parsed = read(
        '<ul><li>one<ul><li>deep</li></ul></li><li><p>two</p><p>more</p></li></ul><ol start="3" type="a"><li>x<li value=27>y</ol>'
    )
    assert parsed.text == "- one\n  - deep\n- two\n\nmore\n\nc. x\naa. y"
    one, two = (node for node in nodes(parsed, NodeKind.LIST_ITEM) if node.level == 1 and node.label is None)
    assert [child.kind for child in one.children] == [NodeKind.LIST_ITEM]
    assert [child.span.slice(parsed.text) for child in two.children] == ["more"]


def test_tables_repeat_merged_cells_and_escape_pipes() -> None:
    parsed = read(
        "<table><caption>Fees</caption><tr><th>A<th colspan=2>B</tr>"
        "<tr><td rowspan=2>1<td>2<td>3|4</tr><tr><td>5<td><p>6</p><ul><li>7</ul></tr></table>"
    )
    assert parsed.text == ("Fees\n\n| A | B | B |\n| --- | --- | --- |\n| 1 | 2 | 3\\|4 |\n| 1 | 5 | 6<br>- 7 |")
    assert parsed.kept_characters == len("FeesAB1234567|")
    assert [node.attributes.get("header", False) for node in nodes(parsed, NodeKind.ROW)] == [True, False, False]


def test_spans_cannot_blow_a_table_up() -> None:
    row = "<tr>" + "<td rowspan=60000 colspan=60>x</td>" * 3
    parsed = read("<table><tr><th>h" + row * 500 + "</table>")
    assert parsed.kept_characters == 1501
    assert len(parsed.text) < 1_000_000


def test_a_table_in_a_cell_is_flattened() -> None:
    parsed = read("<table><tr><th>k<th>v</tr><tr><td>a<td><table><tr><th>x<th>y<tr><td>1<td>2</table></tr></table>")
    assert "| a | x: y; 1: 2 |" in parsed.text


def test_text_outside_of_cells_is_kept() -> None:
    parsed = read("<table>a<tbody>b<tr>c<td>d<td>e<tr><td>f<td>g</tr></tbody><caption>h</caption></table>")
    assert sorted("".join(parsed.text.split())) == sorted("abch" + "|||" + "|---|---|" + "|d|e|" + "|f|g|")


def test_nesting_that_the_parser_allows_is_walked() -> None:
    for tag in ("div", "b", "a href=x", "span", "ul><li", "table><tr><td"):
        assert "deep" in read(f"<{tag}>" * (240 // (1 + tag.count("<"))) + "deep").text


def test_layout_tables_are_unwrapped() -> None:
    parsed = read("<table><tr><td><h2>Clause</h2><p>text</p></td><td>side</td></tr></table>")
    assert parsed.text == "# Clause\n\ntext\n\nside"


def test_preformatted_text_keeps_its_lines() -> None:
    parsed = read('<pre><code class="language-py">if x:\n    y\n</code></pre><p>use <code>f()</code></p>')
    assert parsed.text == "```py\nif x:\n    y\n```\n\nuse `f()`"
    assert nodes(parsed, NodeKind.CODE)[0].attributes["language"] == "py"


def test_navigation_scripts_and_hidden_parts_are_left_out_and_counted() -> None:
    parsed = read(
        "<nav>menu</nav><div role=navigation>menu</div><script>x()</script><style>y</style><template>t</template>"
        "<noscript>no</noscript><p hidden>h</p><p style='display: none'>h</p><iframe src='http://x'>i</iframe><p>Text</p>"
    )
    assert parsed.text == "Text"
    assert {notice.kind: notice.count for notice in parsed.warnings} == {
        "nav": 2, "script": 1, "style": 1, "template": 1, "noscript": 1, "hidden": 2, "iframe": 1,
    }  # fmt: skip


def test_headers_footers_asides_details_and_forms_are_content() -> None:
    parsed = read(
        "<header>a</header><aside>b</aside><details><summary>c</summary>d</details><form><label>e</label></form>"
        "<dl><dt>f<dd>g</dl><x-card>h</x-card><footer>i</footer>"
    )
    assert "".join(parsed.text.split()) == "abcdefghi"


def test_alternative_texts_stand_for_images() -> None:
    assert read('<p>x <img src="http://e/a.png" alt="A chart"></p>').text == "x ![A chart]"


def test_direction_is_noted() -> None:
    parsed = read('<div dir="rtl"><p>المادة</p></div><p>after</p>')
    first, second = nodes(parsed, NodeKind.PARAGRAPH)
    assert first.attributes == {"direction": "rtl"}
    assert second.attributes == {}


def test_metadata() -> None:
    page = (
        b'<html lang="en"><head><title> The\n Act </title><meta name="author" content="A"><meta name="DC.date" content="2026">'
        b"</head><body>x</body></html>"
    )
    assert read(page).metadata == {"title": "The Act", "language": "en", "author": "A", "date": "2026"}


def test_declared_charsets_are_followed_where_the_bytes_are_not_utf8() -> None:
    page = '<html><head><meta charset="windows-1251"></head><body><p>Статья</p></body></html>'
    assert read(page.encode("cp1251")).text == "Статья"
    assert read(page.encode("utf-8")).text == "Статья"


def test_xhtml_and_entities() -> None:
    page = b'<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><body><p>a &amp; &eacute; &x;</p></body></html>'
    text = read(page).text
    assert "a & é" in text
    assert "root" not in text


def test_too_deep_pages_are_refused_not_cut() -> None:
    with pytest.raises(BadDocument, match="nests its content too deeply"):
        read("<div>" * 400 + "text" + "</div>" * 400)


def test_large_pages_are_read_whole() -> None:
    picture = f'<img src="data:image/png;base64,{"A" * 11_000_000}">'
    assert read(f"<html><body>{picture}<p>text</p>").text == "text"


def test_numbers_of_headings_are_labels() -> None:
    section = nodes(read("<h1>2.1 Scope</h1><p>x</p>"), NodeKind.SECTION)[0]
    assert (section.label, section.title, section.number_path) == ("2.1", "Scope", (2, 1))


def test_a_page_without_text_is_refused() -> None:
    with pytest.raises(BadDocument, match="no text outside of scripts and navigation"):
        READER.read(b"<html><body><script>app()</script></body></html>", "a.html", Settings(_env_file=None))


def test_too_many_paragraphs_are_refused() -> None:
    with pytest.raises(BadDocument, match="more than 5 paragraphs"):
        read("<p>x</p>" * 6, max_paragraphs=5)


def test_fragments_give_blocks_for_other_readers() -> None:
    content = html_content("<p>one <b>two</b></p><p><b>three</b></p>", "a.docx")
    assert [(block.kind, block.text) for block in content.blocks] == [
        (NodeKind.PARAGRAPH, "one two"),
        (NodeKind.PARAGRAPH, "three"),
    ]
    assert [hint.bold for hint in content.hints] == [False, True]
    assert html_content("  ", "a.docx").blocks == []
