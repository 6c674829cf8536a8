"""The content of Word documents: every visible character, in reading order, with its structure."""

from __future__ import annotations

import pytest

from engine.documents.docx.styles import StyleSheet
from engine.documents.docx.visible import count_text
from engine.errors import BadDocument
from engine.models import NodeKind
from tests.engine.documents.word import (
    NAMESPACES,
    abstract,
    cell,
    level,
    notices,
    num,
    numbered,
    p,
    read,
    read_body,
    relation,
    run,
    style,
    table,
    word,
)

K = NodeKind
BOX = "<w:r><w:pict><v:shape><v:textbox><w:txbxContent>{}</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"


def field(instruction: str, result: str | None) -> str:
    shown = "" if result is None else f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run(result)}'
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f"<w:r><w:instrText>{instruction}</w:instrText></w:r>{shown}"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


@pytest.mark.parametrize(
    "wrapped",
    [
        "<w:ins w:id='1'>{}</w:ins>",
        "<w:moveTo w:id='1'>{}</w:moveTo>",
        "<w:hyperlink>{}</w:hyperlink>",
        "<w:smartTag>{}</w:smartTag>",
        "<w:customXml>{}</w:customXml>",
        "<w:fldSimple w:instr='REF x'>{}</w:fldSimple>",
        "<w:dir w:val='rtl'>{}</w:dir>",
        "<w:bdo w:val='rtl'>{}</w:bdo>",
        "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
        "<mc:AlternateContent><mc:Choice Requires='wps'>{}</mc:Choice><mc:Fallback><w:r><w:t>no</w:t></w:r></mc:Fallback></mc:AlternateContent>",
        "<mc:AlternateContent><mc:Fallback>{}</mc:Fallback></mc:AlternateContent>",
        "<w:ins w:id='1'><w:hyperlink><w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt></w:hyperlink></w:ins>",
    ],
)
def test_wrappers_are_seen_through_in_runs_and_blocks(wrapped: str) -> None:
    inline = read_body(p("before ", wrapped.format(run("inside")), " after"))
    block = read_body(p("before") + wrapped.format(p("inside")) + p("after"))

    assert inline.text == "before inside after"
    assert block.text == "before\n\ninside\n\nafter"
    assert (inline.kept_characters, inline.visible_characters) == (17, 17)


def test_content_controls_around_rows_and_cells_are_seen_through() -> None:
    control = "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>"
    row = f"<w:tr>{control.format(cell('a'))}{cell('b')}</w:tr>"
    parsed = read_body(f"<w:tbl>{control.format(row)}<w:tr>{cell('c')}{cell('d')}</w:tr></w:tbl>")

    assert parsed.text == "|  |  |\n| --- | --- |\n| a | b |\n| c | d |"


def test_tracked_changes_are_accepted_and_counted() -> None:
    deleted = "<w:del w:id='1'><w:r><w:delText>old </w:delText></w:r></w:del>"
    moved = f"<w:moveFrom w:id='2'>{run('there ')}</w:moveFrom>"
    inserted = f"<w:ins w:id='3'>{run('new ')}</w:ins>"
    parsed = read_body(p("A ", deleted, moved, inserted, "end"))

    assert parsed.text == "A new end"
    assert notices(parsed) == {"deleted": 3, "moved": 5, "inserted": 3}
    assert parsed.metadata["tracked_characters"] == {"inserted": 3, "deleted": 3, "moved": 5}
    assert parsed.visible_characters == parsed.kept_characters == 7


def test_a_deleted_paragraph_mark_joins_paragraphs_and_a_deleted_row_is_left_out() -> None:
    mark = "<w:rPr><w:del w:id='1'/></w:rPr>"
    joined = read_body(p("one ", properties=mark) + p("two") + p("three ", properties=mark))
    row = f"<w:tr><w:trPr><w:del w:id='1'/></w:trPr>{cell('gone')}{cell('gone')}</w:tr>"
    rows = read_body(f"<w:tbl><w:tr>{cell('a')}{cell('b')}</w:tr>{row}</w:tbl>")

    assert joined.text == "one two\n\nthree"
    assert "gone" not in rows.text
    assert notices(rows)["deleted"] == 8
    assert rows.kept_characters == rows.visible_characters == 2


def test_hidden_text_is_left_out_and_counted_also_when_a_style_hides_it() -> None:
    styles = style("Hide", "Hide", "<w:rPr><w:vanish/></w:rPr>", kind="character")
    parsed = read_body(
        p("see ", run("direct", "<w:vanish/>"), run("styled", '<w:rStyle w:val="Hide"/>'))
        + p(run("shown", '<w:rStyle w:val="Hide"/><w:vanish w:val="0"/>')),
        styles=styles,
    )

    assert parsed.text == "see\n\nshown"
    assert notices(parsed)["hidden"] == 12
    assert parsed.kept_characters == parsed.visible_characters == 8


def test_hidden_rows_are_left_out_and_counted() -> None:
    hidden = f"<w:tr><w:trPr><w:hidden/></w:trPr>{cell('secret')}{cell('too')}</w:tr>"
    shown = f"<w:tr><w:trPr><w:hidden w:val='0'/></w:trPr>{cell('a')}{cell('b')}</w:tr>"
    parsed = read_body(f"<w:tbl><w:tblGrid/>{hidden}{shown}</w:tbl>")

    assert "secret" not in parsed.text
    assert notices(parsed) == {"hidden": 9}
    assert parsed.kept_characters == parsed.visible_characters == 2


def test_special_characters_of_runs() -> None:
    content = (
        "<w:r><w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t><w:softHyphen/><w:tab/><w:t>x</w:t>"
        '<w:sym w:font="Wingdings" w:char="F0FC"/><w:sym w:font="Symbol" w:char="F061"/>'
        '<w:sym w:font="Wingdings" w:char="F001"/></w:r>'
    )
    parsed = read_body(p(content))

    assert parsed.text == "co-op x✓α□"
    assert notices(parsed) == {"symbol": 1}


def test_instructions_of_fields_are_not_text_but_their_results_are() -> None:
    nested = field("IF " + field("DATE", "never shown"), "shown")
    button = field("MACROBUTTON NoMacro [Click here]", None)
    choice = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="draft"/>'
        '<w:listEntry w:val="final"/></w:ddList></w:ffData></w:fldChar></w:r><w:r><w:instrText>FORMDROPDOWN</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    parsed = read_body(p("see ", field("REF _Ref1", "Section 2"), " ", nested, " ", button, " ", choice))

    assert parsed.text == "see Section 2 shown [Click here] final"
    assert parsed.kept_characters == parsed.visible_characters


def test_fields_and_relationships_to_outside_content_are_listed_and_not_fetched() -> None:
    parsed = read(
        word(
            p(field('INCLUDEPICTURE "http://example.org/track.png"', "[picture]")),
            relations=relation("x", "image", "http://example.org/a.png", external=True)
            + relation("y", "hyperlink", "http://example.org/", external=True),
        )
    )

    assert parsed.text == "[picture]"
    messages = [notice.message for notice in parsed.warnings if notice.kind == "external"]
    assert len(messages) == 2
    assert "http://example.org/track.png" in messages[0]
    assert "http://example.org/a.png" in messages[1]


def test_text_boxes_stand_behind_their_paragraph_with_tables_inside() -> None:
    box = BOX.format(p("same line") + p("same line") + table([cell("k"), cell("v")]))
    parsed = read_body(p("anchor ", box, "text") + p("next"))

    assert parsed.text == "anchor text\n\nsame line\n\nsame line\n\n|  |  |\n| --- | --- |\n| k | v |\n\nnext"
    assert parsed.kept_characters == parsed.visible_characters == 32


def test_only_one_branch_of_a_text_box_is_read() -> None:
    modern = (
        f"<w:drawing><wp:anchor><wps:txbx><w:txbxContent>{p('box')}</w:txbxContent></wps:txbx></wp:anchor></w:drawing>"
    )
    old = f"<w:pict><v:textbox><w:txbxContent>{p('box')}</w:txbxContent></v:textbox></w:pict>"
    both = f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'>{modern}</mc:Choice><mc:Fallback>{old}</mc:Fallback></mc:AlternateContent></w:r>"
    parsed = read_body(p("a", both))

    assert parsed.text == "a\n\nbox"


def test_notes_are_marked_in_place_and_stand_at_the_end_of_their_article() -> None:
    note = '<w:footnote w:id="{}">{}</w:footnote>'
    footnotes = (
        '<w:footnote w:type="separator" w:id="0"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>'
        + note.format(2, p("Second ", "<w:ins w:id='9'>" + run("note") + "</w:ins>"))
        + note.format(3, p("First") + p("more"))
        + note.format(4, p("never referred to"))
    )
    endnotes = '<w:endnote w:id="2">' + p("End") + "</w:endnote>"
    mark = '<w:r><w:{}Reference w:id="{}"/></w:r>'
    parsed = read_body(
        p("Article 1")
        + p("Text", mark.format("footnote", 3), " goes on", mark.format("footnote", 2), ".")
        + p("Article 2")
        + p("Again", mark.format("footnote", 3), mark.format("endnote", 2), mark.format("footnote", 99))
        + p("Article 3"),
        footnotes=footnotes,
        endnotes=endnotes,
    )

    assert parsed.text == (
        "## Article 1\n\nText[^1] goes on[^2].\n\n[^1]: First\nmore\n\n[^2]: Second note\n\n"
        "## Article 2\n\nAgain[^1][^e1]\n\n[^e1]: End\n\n## Article 3"
    )
    assert [node.label for node in parsed.tree.walk() if node.kind is K.NOTE] == ["1", "2", "e1"]
    assert parsed.kept_characters == parsed.visible_characters
    assert notices(parsed)["note"] == 1


def test_notes_may_refer_to_notes_without_end() -> None:
    mark = '<w:r><w:footnoteReference w:id="{}"/></w:r>'
    footnotes = "".join(
        f'<w:footnote w:id="{number}">{p(f"n{number}", mark.format((number + 1) % 1000))}</w:footnote>'
        for number in range(1000)
    )
    parsed = read_body(p("x", mark.format(0)), footnotes=footnotes)

    assert parsed.text.startswith("x[^1]\n\n[^1]: n0[^2]\n\n[^2]: n1[^3]")
    assert parsed.text.endswith("[^1000]: n999[^1]")
    assert parsed.kept_characters == parsed.visible_characters


def test_equations_are_linear_text() -> None:
    def m(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    fraction = f"<m:f><m:num>{m('a+b')}</m:num><m:den>{m('c')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{m('x')}</m:e><m:sup>{m('2')}</m:sup></m:sSup>"
    root = f"<m:rad><m:deg/><m:e>{m('y')}</m:e></m:rad>"
    total = f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{m("i=1")}</m:sub><m:sup>{m("n")}</m:sup><m:e>{m("i")}</m:e></m:nary>'
    parsed = read_body(p("so ", f"<m:oMath>{m('z=')}{fraction}{m('+')}{power}{m('+')}{root}{m('+')}{total}</m:oMath>"))

    assert parsed.text.split() == ["so", "z=(a+b)/c+x^2+√(y)+∑_(i=1)^n", "i"]
    assert parsed.kept_characters == parsed.visible_characters


def test_alternative_text_is_kept_and_pictures_without_it_are_counted() -> None:
    picture = '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="p"{}/><a:graphic><a:graphicData><pic:pic/></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>'
    parsed = read_body(p(picture.format(' descr="A map of\n the port"'), picture.format("")))

    assert parsed.text == "![A map of the port]"
    assert notices(parsed) == {"picture": 1}


def test_diagrams_are_read_from_their_part() -> None:
    data = (
        '<dgm:dataModel xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>Step one'
        "</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"
    )
    drawing = '<w:r><w:drawing><wp:inline><a:graphic><a:graphicData><dgm:relIds r:dm="d1"/></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>'
    parsed = read(
        word(p("See", drawing), relations=relation("d1", "diagramData", "data1.xml"), parts={"word/data1.xml": data})
    )

    assert parsed.text == "See\n\nStep one"
    assert parsed.kept_characters == parsed.visible_characters == 10


def test_inserted_html_and_text_are_read_and_other_files_are_named() -> None:
    chunk = '<w:altChunk r:id="{}"/>'
    parsed = read(
        word(
            p("before") + chunk.format("h") + chunk.format("t") + chunk.format("d") + p("after"),
            relations=relation("h", "aFChunk", "a.html")
            + relation("t", "aFChunk", "b.txt")
            + relation("d", "aFChunk", "c.docx"),
            parts={
                "word/a.html": "<html><body><p>One</p><table><tr><td>k</td><td>v</td></tr></table></body></html>",
                "word/b.txt": "Two\n\nThree",
                "word/c.docx": b"PK",
            },
        )
    )

    assert [line for line in parsed.text.split("\n") if line][:2] == ["before", "One"]
    assert "| k | v |" in parsed.text
    assert parsed.text.endswith("Two\n\nThree\n\nafter")
    assert notices(parsed) == {"chunk": 1}
    assert parsed.kept_characters == parsed.visible_characters


def test_line_breaks_stay_and_empty_lines_or_very_long_paragraphs_split() -> None:
    br = "<w:r><w:br/></w:r>"
    parsed = read_body(p("a", br, "b", br, br, "c"))
    lines = [f"Line {number} " + "x" * 90 for number in range(30)]
    long = read_body(p(*[part for line in lines for part in (line, br)]))

    assert parsed.text == "a\nb\n\nc"
    assert long.text == "\n\n".join(lines)


def test_unknown_elements_are_counted_and_their_text_is_read() -> None:
    parsed = read_body(p("a ", f"<w:novelty>{run('b')}</w:novelty>") + f"<w:blocky>{p('c')}</w:blocky>")

    assert parsed.text == "a b\n\nc"
    assert notices(parsed) == {"unknown": 2}


def test_comments_in_the_text_of_the_xml_do_not_cut_it() -> None:
    assert read_body(p("<w:r><w:t>before <!-- x -->after</w:t></w:r>")).text == "before after"


def test_headers_and_footers_are_metadata_without_page_numbers() -> None:
    parsed = read(
        word(
            p("body"),
            relations=relation("h1", "header", "header1.xml") + relation("f1", "footer", "footer1.xml"),
            parts={
                "word/header1.xml": word_part("hdr", p("Law No. 7") + p(field("PAGE", "12"))),
                "word/footer1.xml": word_part("ftr", p(field("PAGE", "1"))),
            },
        )
    )

    assert parsed.text == "body"
    assert parsed.metadata["headers"] == ["Law No. 7"]
    assert "footers" not in parsed.metadata


def word_part(root: str, content: str) -> str:
    return f"<w:{root} {NAMESPACES}>{content}</w:{root}>"


# --- headings ----------------------------------------------------------------------------------------------------

HEADINGS = (
    style("berschrift1", "heading 1")
    + style("H2", "heading 2", '<w:pPr><w:outlineLvl w:val="1"/></w:pPr>')
    + style("Odd", "heading 1", '<w:pPr><w:outlineLvl w:val="1"/></w:pPr>')
    + style("Based", "My heading", based_on="H2")
    + style("Local", "Заголовок 3")
    + style("Body", "Not a heading", '<w:pPr><w:outlineLvl w:val="9"/></w:pPr>', based_on="H2")
    + style("TOC1", "toc 1")
    + style("TitleStyle", "Title")
    + style("LoopA", "A", based_on="LoopB")
    + style("LoopB", "B", based_on="LoopA")
)


@pytest.mark.parametrize(
    ("paragraph", "level", "rule"),
    [
        (p("x", properties='<w:outlineLvl w:val="2"/>', style="berschrift1"), 3, "outline"),
        (p("x", style="berschrift1"), 1, "style"),
        (p("x", style="H2"), 2, "style"),
        (p("x", style="Odd"), 2, "style"),
        (p("x", style="Based"), 2, "style"),
        (p("x", style="Local"), 3, "name"),
        (p("x", style="Body"), None, None),
        (p("x", properties='<w:outlineLvl w:val="9"/>', style="H2"), None, None),
        (p("x", style="TOC1"), None, "contents"),
        (p("x", style="LoopA"), None, None),
    ],
)
def test_heading_levels_and_the_rule_that_fired(paragraph: str, level: int | None, rule: str | None) -> None:
    parsed = read_body(paragraph + p("text"), styles=HEADINGS)

    node = next(
        node
        for node in parsed.tree.walk()
        if node.span.slice(parsed.text).lstrip("# ").startswith("x")
        and node.rule != "implied"
        and node.kind is not K.DOCUMENT
    )
    assert node.rule == rule
    assert (node.kind is K.SECTION) == (level is not None)


def test_a_style_is_looked_up_once_however_many_paragraphs_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str | None] = []
    plain = StyleSheet._chain
    monkeypatch.setattr(StyleSheet, "_chain", lambda self, of: looked_up.append(of) or plain(self, of))
    read_body(p("x", style="Based") * 50 + p("y", style="Local") * 50, styles=HEADINGS)

    assert sorted(filter(None, looked_up)) == ["Based", "Local"]


def test_lines_of_a_table_of_contents_are_kept_but_are_no_headings() -> None:
    contents = (
        p(
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC \\o</w:instrText></w:r>'
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + run("Article 1 Scope\t3")
        )
        + p("Article 2 Terms\t4")
        + p("Article 3 Fines\t5", '<w:r><w:fldChar w:fldCharType="end"/></w:r>')
    )
    gallery = (
        '<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
        f"<w:sdtContent>{p('Article 1 Scope 3')}{p('Article 2 Terms 4')}{p('Article 3 Fines 5')}</w:sdtContent></w:sdt>"
    )
    body = "".join(p(f"Article {number}") + p("Text.") for number in (1, 2, 3))

    for listing in (contents, gallery):
        parsed = read_body(listing + body)
        assert [
            node.span.slice(parsed.text).split("\n")[0] for node in parsed.tree.walk() if node.kind is K.ARTICLE
        ] == [
            "## Article 1",
            "## Article 2",
            "## Article 3",
        ]
        assert notices(parsed)["contents"] == 3


def test_a_heading_style_on_a_long_clause_is_a_labelled_paragraph_with_its_run_in_title() -> None:
    numbering = abstract(0, level(0, "%1."), level(1, "%1.%2")) + num(1, 0)
    styles = style("H1", "heading 1") + style("H2", "heading 2")

    def at(index: int) -> str:
        return f'<w:numPr><w:ilvl w:val="{index}"/><w:numId w:val="1"/></w:numPr>'

    clause = p(run("Access.", "<w:b/>"), " " + "The provider gives access. " * 10, style="H2", properties=at(1))
    parsed = read_body(
        p("Service", style="H1", properties=at(0)) + clause + clause + p("Fees", style="H1", properties=at(0)),
        styles=styles,
        numbering=numbering,
    )

    service = parsed.tree.children[0]
    assert [(node.kind, node.label, node.title) for node in service.children] == [
        (K.PARAGRAPH, "1.1", "Access"),
        (K.PARAGRAPH, "1.2", "Access"),
    ]
    assert "1.1 Access. The provider" in parsed.text
    assert notices(parsed)["clause"] == 2


def test_right_to_left_paragraphs_keep_their_order_and_say_so() -> None:
    parsed = read_body(p("المادة 5 ", "نطاق", properties="<w:bidi/>"))

    node = next(node for node in parsed.tree.walk() if node.kind is K.PARAGRAPH)
    assert parsed.text == "المادة 5 نطاق"
    assert node.attributes["direction"] == "rtl"


def test_bullets_are_list_items_with_their_depth() -> None:
    numbering = abstract(0, level(0, "●", "bullet"), level(1, "○", "bullet")) + num(1, 0)
    parsed = read_body(
        p("Buy:") + numbered("milk") + numbered("fresh", level=1) + numbered("eggs"), numbering=numbering
    )

    assert parsed.text == "Buy:\n\n- milk\n  - fresh\n- eggs"
    assert [node.level for node in parsed.tree.walk() if node.kind is K.LIST_ITEM] == [1, 2, 1]


# --- what was kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("segments", "canonical", "kept"),
    [
        ([["ab"], ["cd"]], "ab\n\ncd", 4),
        ([["cd"], ["ab"]], "ab\n\ncd", 4),
        ([["ab"], ["ab"]], "ab", 2),
        ([["ab"], ["ab"]], "cd ab\n\nab", 4),
        ([["a", "b"]], "a[^1]b", 2),
        ([["ab"]], "cd", 0),
        ([["a|b"]], "| a\\|b |", 3),
        ([["ab"]], "| x<br>ab |", 2),
    ],
)
def test_what_was_kept_is_counted_and_not_flattered(segments: list[list[str]], canonical: str, kept: int) -> None:
    visible = sum(len(piece) for pieces in segments for piece in pieces)
    assert count_text(segments, canonical) == (visible, kept)


# --- tables ------------------------------------------------------------------------------------------------------


def test_merged_cells_repeat_their_text_and_the_header_is_found() -> None:
    restart, go_on = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    span = '<w:gridSpan w:val="2"/>'
    header = f"<w:tr><w:trPr><w:tblHeader/></w:trPr>{cell('Unit')}{cell('Value', properties=span)}</w:tr>"
    rows = (
        f"<w:tr>{cell('Speed', properties=restart)}{cell('a')}{cell('b')}</w:tr>"
        f"<w:tr>{cell(properties=go_on)}{cell('c')}{cell('x|y')}</w:tr>"
        f"<w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr>{cell('d')}{cell('one', 'two')}</w:tr>"
    )
    parsed = read_body(f"<w:tbl><w:tblGrid/>{header}{rows}</w:tbl>")

    assert parsed.text == (
        "| Unit | Value | Value |\n| --- | --- | --- |\n| Speed | a | b |\n| Speed | c | x\\|y |\n|  | d | one<br>two |"
    )
    rows_found = [node for node in parsed.tree.walk() if node.kind is K.ROW]
    assert [row.attributes.get("header", False) for row in rows_found] == [True, False, False, False]
    assert parsed.kept_characters == parsed.visible_characters


def test_what_a_cell_writes_itself_is_not_taken_for_an_escape() -> None:
    parsed = read_body(table([cell("a|b"), cell("c\\|d")], [cell("&lt;br&gt;"), cell("|")]))

    assert parsed.text.endswith("| a\\|b | c\\\\|d |\n| <br> | \\| |")
    assert parsed.kept_characters == parsed.visible_characters


def test_text_behind_long_repeated_cells_is_found_again() -> None:
    restart, go_on = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = [
        [cell("m" * 450 if number == 0 else "", properties=go_on if number else restart), cell(f"r{number}")]
        for number in range(4)
    ]
    parsed = read_body(table(*rows))

    assert parsed.text.count("m" * 450) == 4
    assert parsed.kept_characters == parsed.visible_characters == 450 + 8


def test_a_bold_first_row_is_a_header() -> None:
    bold = [cell(p(run(text, "<w:b/>"))) for text in ("k", "v")]
    parsed = read_body(table(bold, [cell("a"), cell("b")]))

    assert parsed.text == "| k | v |\n| --- | --- |\n| a | b |"


def test_a_nested_table_is_flattened_in_its_cell_and_kept_as_a_node() -> None:
    inner = table([cell(p(run("k", "<w:b/>"))), cell(p(run("v", "<w:b/>")))], [cell("a"), cell("b")])
    parsed = read_body(table([cell("left"), cell("intro", inner)], [cell("c"), cell("d")]))

    assert "| left | intro<br>k: a; v: b |" in parsed.text
    row = next(node for node in parsed.tree.walk() if node.kind is K.ROW)
    (nested,) = row.children
    assert (nested.kind, nested.span.slice(parsed.text)) == (K.TABLE, "k: a; v: b")


def test_layout_tables_are_unwrapped_in_reading_order() -> None:
    one_column = read_body(table([cell("a", "b")], [cell("c")]))
    pages = read_body(table([cell("a", "b", "c"), cell("d", "e", "f")]))
    headed = read_body(table([cell(p("Scope", style="H1"), "a"), cell("b")]), styles=style("H1", "heading 1"))

    assert one_column.text == "a\n\nb\n\nc"
    assert pages.text == "\n\n".join("abcdef")
    assert headed.text == "# Scope\n\na\n\nb"
    assert notices(one_column) == {"layout": 1}


def test_notes_in_cells_stand_behind_the_table_and_lists_keep_their_marks() -> None:
    footnotes = '<w:footnote w:id="2">' + p("Note") + "</w:footnote>"
    numbering = abstract(0, level(0, "●", "bullet")) + num(1, 0)
    first = cell(p("a", '<w:r><w:footnoteReference w:id="2"/></w:r>'))
    parsed = read_body(
        table([first, cell(numbered("x"), numbered("y"))], [cell("c"), cell("d")]),
        footnotes=footnotes,
        numbering=numbering,
    )

    assert parsed.text == "|  |  |\n| --- | --- |\n| a[^1] | - x<br>- y |\n| c | d |\n\n[^1]: Note"


def test_hostile_spans_do_not_blow_up_the_grid() -> None:
    wide = [cell("a", properties='<w:gridSpan w:val="2000000000"/>') for _ in range(100)]
    parsed = read_body(table(wide, [cell("b"), cell("c")]))

    assert parsed.text.count("a") >= 100
    assert len(parsed.text) < 5000


def test_deeply_nested_tables_are_read_or_refused_but_never_crash() -> None:
    def nested(depth: int) -> bytes:
        body = p("core")
        for _ in range(depth):
            body = f"<w:tbl><w:tr><w:tc>{body}</w:tc><w:tc>{p('x')}</w:tc></w:tr></w:tbl>"
        return word(body)

    assert "core" in read(nested(60)).text
    with pytest.raises(BadDocument, match=r"damaged|deeply"):
        read(nested(3000))
