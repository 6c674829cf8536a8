"""Number labels: every trap that makes readers print another number than Word does."""

from __future__ import annotations

import pytest

from engine.documents.docx.formats import format_number
from tests.engine.documents.word import (
    abstract,
    cell,
    labels,
    level,
    num,
    numbered,
    numbered_nodes,
    p,
    read,
    read_body,
    run,
    style,
    table,
    word,
)

SECTION = "<w:sectPr/>"
NUMBER = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'


def test_labels_stand_apart_from_the_text_and_in_the_canonical_text() -> None:
    parsed = read_body(
        numbered("Scope") + numbered("Ships", level=1),
        numbering=abstract(0, level(0, "Article %1"), level(1, "(%2)", "lowerLetter")) + num(1, 0),
    )

    first, second = numbered_nodes(parsed)
    assert (first.label, first.title, first.number_path) == ("Article 1", "Scope", (1,))
    assert (second.label, second.number_path) == ("(a)", (1, 1))
    assert parsed.text == "## Article 1 Scope\n\n(a) Ships"


def test_legal_numbering_changes_roman_numbers_and_letters_but_not_padded_digits() -> None:
    parsed = read_body(
        numbered("One") + numbered("Two", level=1) + numbered("Three", level=2),
        numbering=abstract(
            0,
            level(0, "Article %1.", "upperRoman"),
            level(1, "Section %1.%2", "decimalZero", more="<w:isLgl/>"),
            level(2, "%1-%2-%3", "lowerLetter"),
        )
        + num(1, 0),
    )

    assert labels(parsed) == ["Article I.", "Section 1.01", "I-01-a"]


def test_an_empty_paragraph_that_only_ends_a_section_does_not_count() -> None:
    parsed = read_body(
        numbered("One") + numbered("", properties=SECTION) + numbered("Two") + numbered("") + numbered("Four"),
        numbering=abstract(0, level(0, "%1.")) + num(1, 0),
    )

    assert labels(parsed) == ["1.", "2.", "3.", "4."]


def test_a_level_without_a_start_counts_from_zero() -> None:
    parsed = read_body(
        numbered("Zero") + numbered("One"), numbering=abstract(0, level(0, "%1.", start=None)) + num(1, 0)
    )

    assert labels(parsed) == ["0.", "1."]


def test_uses_of_one_definition_share_the_count_and_a_start_override_applies_once() -> None:
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    parsed = read_body(
        numbered("a", 1) + numbered("b", 2) + numbered("c", 3) + numbered("d", 3) + numbered("e", 1),
        numbering=abstract(0, level(0, "%1.")) + num(1, 0) + num(2, 0) + num(3, 0, override),
    )

    assert labels(parsed) == ["1.", "2.", "7.", "8.", "9."]


def test_an_overriding_level_replaces_the_level() -> None:
    override = f'<w:lvlOverride w:ilvl="0">{level(0, "§ %1", "upperRoman", 4)}</w:lvlOverride>'
    parsed = read_body(
        numbered("a", 2) + numbered("b", 2), numbering=abstract(0, level(0, "%1.")) + num(2, 0, override)
    )

    assert labels(parsed) == ["§ IV", "§ V"]


def test_a_skipped_level_prints_its_start_and_goes_on_from_there() -> None:
    parsed = read_body(
        numbered("a", level=2) + numbered("b", level=1) + numbered("c"),
        numbering=abstract(0, level(0, "%1"), level(1, "%1.%2", "lowerLetter"), level(2, "%1.%2.%3")) + num(1, 0),
    )

    assert labels(parsed) == ["1.a.1", "1.b", "2"]


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        ("", "1 2"),
        ('<w:lvlRestart w:val="0"/>', "1 2 3"),
        ('<w:lvlRestart w:val="1"/>', "1 2 3"),
        ('<w:lvlRestart w:val="2"/>', "1 2"),
    ],
)
def test_restarts_after_higher_levels(restart: str, expected: str) -> None:
    definition = abstract(0, level(0, "A%1"), level(1, "B%2"), level(2, "%3", more=restart)) + num(1, 0)
    body = numbered("x") + numbered("x", level=1) + numbered("x", level=2) + numbered("x", level=1)
    parsed = read_body(body + numbered("x", level=2) + numbered("x", level=2), numbering=definition)

    deepest = [label for label in labels(parsed) if label.isdigit()]
    assert deepest[1:] == (["1", "2"] if expected == "1 2" else ["2", "3"])


def test_formats_that_print_nothing_and_custom_formats() -> None:
    custom = (
        '<w:lvl w:ilvl="2"><w:start w:val="1"/><mc:AlternateContent>'
        '<mc:Choice Requires="w14"><w:numFmt w:val="custom" w:format="001, 002, 003, ..."/></mc:Choice>'
        '<mc:Fallback><w:numFmt w:val="decimal"/></mc:Fallback></mc:AlternateContent><w:lvlText w:val="%3)"/></w:lvl>'
    )
    definition = abstract(0, level(0, "", "none"), level(1, "●", "bullet"), custom) + num(1, 0)
    parsed = read_body(
        numbered("none") + numbered("bullet", level=1) + numbered("custom", level=2), numbering=definition
    )

    assert labels(parsed) == ["001)"]
    assert parsed.text == "none\n\n  - bullet\n\n001) custom"


def test_what_stands_between_label_and_text() -> None:
    def with_suffix(index: int, suffix: str, text: str = "%1.") -> str:
        return abstract(index, level(0, text, more=f'<w:suff w:val="{suffix}"/>')) + num(index, index)

    parsed = read_body(
        numbered("tab", 1) + numbered("space", 2) + numbered("nothing", 3) + numbered("宽", 4),
        numbering=with_suffix(1, "tab")
        + with_suffix(2, "space")
        + with_suffix(3, "nothing")
        + with_suffix(4, "nothing", "%1　"),
    )

    assert parsed.text == "1. tab\n\n1. space\n\n1.nothing\n\n1 宽"


def test_deleted_and_hidden_paragraphs_do_not_count_but_cells_and_text_boxes_do() -> None:
    mark = "<w:rPr><w:del w:id='1' w:author='x'/></w:rPr>"
    deleted = numbered("", properties=mark).replace(
        "</w:p>", "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    )
    hidden = numbered("", properties="<w:rPr><w:vanish/></w:rPr>")
    box = f"<w:r><w:pict><v:textbox><w:txbxContent>{numbered('box')}</w:txbxContent></v:textbox></w:pict></w:r>"
    anchor = numbered("anchor").replace("</w:p>", f"{box}</w:p>")
    body = numbered("one") + deleted + hidden + table([cell(numbered("left")), cell(numbered("right"))]) + anchor
    parsed = read_body(body + numbered("last"), numbering=abstract(0, level(0, "%1.")) + num(1, 0))

    assert "| 2. left | 3. right |" in parsed.text
    assert labels(parsed) == ["1.", "4.", "5.", "6."]
    assert "5. box" in parsed.text


def test_a_style_gives_the_list_and_the_level_that_names_the_style() -> None:
    definition = abstract(
        0, level(0, "Part %1", more='<w:pStyle w:val="One"/>'), level(1, "%1.%2", more='<w:pStyle w:val="Two"/>')
    ) + num(1, 0)
    styles = style("One", "One", NUMBER) + style("Two", "Two", NUMBER) + style("Child", "Child", based_on="Two")
    off = '<w:numPr><w:numId w:val="0"/></w:numPr>'
    parsed = read_body(
        p("a", style="One") + p("b", style="Two") + p("c", style="Child") + p("d", style="Two", properties=off),
        numbering=definition,
        styles=styles,
    )

    assert labels(parsed) == ["Part 1", "1.1", "1.2"]
    assert parsed.text.endswith("\n\nd")


def test_a_linked_list_style_is_followed() -> None:
    numbering = (
        '<w:abstractNum w:abstractNumId="0"><w:numStyleLink w:val="Legal"/></w:abstractNum>'
        + abstract(1, level(0, "Clause %1"))
        + num(1, 0)
        + num(2, 1)
    )
    list_style = style("Legal", "Legal", '<w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr>', kind="numbering")
    parsed = read_body(numbered("x", 1) + numbered("y", 2), numbering=numbering, styles=list_style)

    assert labels(parsed) == ["Clause 1", "Clause 2"]


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [
        (7, "decimal", "7"), (7, "decimalZero", "07"), (14, "upperRoman", "XIV"), (1999, "lowerRoman", "mcmxcix"),
        (27, "lowerLetter", "aa"), (28, "upperLetter", "BB"), (1, "ordinal", "1st"), (112, "ordinal", "112th"),
        (21, "cardinalText", "Twenty-one"), (21, "ordinalText", "Twenty-first"), (30, "ordinalText", "Thirtieth"),
        (12, "chineseCounting", "十二"), (23, "chineseCountingThousand", "二十三"),
        (105, "chineseCountingThousand", "一百零五"), (1010, "chineseCountingThousand", "一千零一十"),
        (20, "japaneseCounting", "二十"), (2017, "ideographDigital", "二〇一七"), (12, "decimalFullWidth", "１２"),
        (3, "decimalEnclosedCircle", "③"), (21, "decimalEnclosedCircle", "㉑"), (1, "russianLower", "а"),
        (2, "russianUpper", "Б"), (3, "arabicAlpha", "ت"), (3, "arabicAbjad", "ج"), (15, "hebrew1", "טו"),
        (21, "hebrew1", "כא"), (2, "hebrew2", "ב"), (4, "numberInDash", "- 4 -"), (11, "chineseLegalSimplified", "壹拾壹"),
        (3, "bullet", ""), (3, "none", ""), (3, "unheardOf", "3"), (0, "upperRoman", "0"), (10**9, "upperRoman", "1000000000"),
    ],
)  # fmt: skip
def test_number_formats(number: int, name: str, expected: str) -> None:
    assert format_number(number, name) == expected


def test_broken_numbering_is_passed_over() -> None:
    loop = '<w:abstractNum w:abstractNumId="0"><w:numStyleLink w:val="Loop"/></w:abstractNum>' + num(1, 0)
    styles = style("Loop", "Loop", NUMBER, kind="numbering")
    parsed = read(word(numbered("a", 1) + numbered("b", 99) + numbered("c", 1, 12), numbering=loop, styles=styles))

    assert parsed.text == "a\n\nb\n\nc"


def test_bold_run_in_labels_stay_text() -> None:
    parsed = read_body(p(run("1. ", "<w:b/>"), "Typed"))

    assert parsed.text == "1. Typed"
