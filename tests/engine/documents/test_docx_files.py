"""Real Word files: every visible character is kept, and the numbers of each file hold."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from lxml import etree

from engine.documents.assemble import assemble
from engine.documents.base import Parsed
from engine.documents.tree import node_counts
from engine.errors import BadDocument
from engine.models import NodeKind
from tests.engine.documents.word import SETTINGS, W_NS, labels, notices, numbered_nodes, p, read, style, word

FILES = Path(__file__).parents[4] / "shared" / "data" / "docx"
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="../shared/data is not there")
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"


@cache
def parsed_file(name: str) -> Parsed:
    return read((FILES / name).read_bytes(), name)


def visible_text(data: bytes) -> str:
    """The visible text of the body and of the notes it refers to, by XPath over the original XML: a third, separate count."""
    archive = zipfile.ZipFile(BytesIO(data))
    texts = []
    for part in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        if part not in archive.namelist():
            continue
        root = etree.fromstring(archive.read(part).replace(STRICT.encode(), W_NS.encode()))
        hidden = "ancestor::w:del or ancestor::w:moveFrom or ancestor::mc:Fallback[preceding-sibling::mc:Choice] or ../w:rPr/w:vanish or ancestor::*/@w:type[. = 'separator' or . = 'continuationSeparator']"
        found = root.xpath(
            f"//w:t[not({hidden})] | //w:noBreakHyphen[not({hidden})]",
            namespaces={"w": W_NS, "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006"},
        )
        texts.extend("-" if element.tag.endswith("noBreakHyphen") else element.text or "" for element in found)
    return "".join("".join(texts).split())


NUMBERS = {
    # file: visible characters, headings, Word-numbered labels, tables, notes
    "arabic-tracked-changes.docx": (8230, 6, 0, 3, 0),
    "article-section-islgl.docx": (343, 6, 6, 0, 0),
    "chinese-standard-part1.docx": (9241, 33, 93, 1, 0),
    "data-processing-agreement.docx": (26187, 53, 72, 3, 0),
    "due-diligence-list.docx": (15959, 20, 149, 1, 0),
    "fedramp-monitoring-guide.docx": (24701, 17, 17, 4, 2),
    "fedramp-requirements.docx": (14072, 16, 19, 2, 10),
    "mutual-nda-layout-tables.docx": (1239, 2, 0, 2, 0),
    "override-list-numbering.docx": (411, 0, 43, 0, 0),
    "rich-cells.docx": (905, 7, 0, 6, 0),
    "russian-act.docx": (36317, 23, 20, 2, 0),
    "statutes-all-normal.docx": (8413, 25, 0, 0, 0),
    "strict.docx": (52, 0, 2, 1, 0),
    "textbox.docx": (1602, 0, 2, 0, 0),
    "un-declaration-content-controls.docx": (8000, 12, 0, 0, 0),
}


def numbers(parsed: Parsed) -> tuple[int, int, int, int, int]:
    headings = sum(1 for node in parsed.tree.walk() if node.heading is not None)
    counts = node_counts(parsed.tree)
    return (
        parsed.visible_characters,
        headings,
        len(labels(parsed)),
        counts.get("table", 0),
        counts.get("note", 0),
    )


@needs_files
def test_every_file_of_the_folder_has_its_numbers_here() -> None:
    assert sorted(path.name for path in FILES.glob("*.docx")) == sorted(NUMBERS)


@needs_files
@pytest.mark.parametrize("name", NUMBERS)
def test_every_visible_character_is_kept(name: str) -> None:
    parsed = parsed_file(name)

    assert parsed.kept_characters == parsed.visible_characters
    missing = Counter(visible_text((FILES / name).read_bytes())) - Counter(parsed.text)
    assert not missing
    assert numbers(parsed) == NUMBERS[name]


@needs_files
@pytest.mark.parametrize("name", NUMBERS)
def test_spans_of_the_tree_are_exact(name: str) -> None:
    parsed = parsed_file(name)

    for node in parsed.tree.walk():
        text = node.span.slice(parsed.text)
        assert text == text.strip() or node.kind in (NodeKind.LIST_ITEM, NodeKind.DOCUMENT)
        if node.heading is not None:
            assert node.heading.slice(parsed.text).startswith("#")
        if node.label:
            assert node.label in text
        position = node.span.start
        for child in node.children:
            assert position <= child.span.start
            position = child.span.end


@needs_files
@pytest.mark.parametrize("name", ["article-section-islgl.docx", "override-list-numbering.docx"])
def test_labels_equal_the_values_printed_in_the_files(name: str) -> None:
    """Both files print the number Word shows into the text of each paragraph."""
    parsed = parsed_file(name)

    for node in numbered_nodes(parsed):
        line = node.span.slice(parsed.text).split("\n")[0].lstrip("# ")
        marked = re.search(r"\[expect\](.*?)\[/expect\]", line)
        expected = marked[1] if marked else line[len(node.label or "") :].strip()
        assert node.label == expected


@needs_files
def test_labels_of_the_data_processing_agreement() -> None:
    """Checked against another word processor, and by the contract's own cross-references ("Section 3.2 of this DPA")."""
    expected = [
        "1.",
        "1.1",
        "1.2",
        "2.",
        "2.1",
        "2.2",
        "2.3",
        "2.4",
        "2.5",
        "2.6",
        "(a)",
        "(b)",
        "(c)",
        "(d)",
        "3.",
        "3.1",
        "3.2",
        "(a)",
        "(b)",
        "(c)",
        "(i)",
        "(ii)",
        "(iii)",
        "(iv)",
        "(v)",
        "(vi)",
        "(vii)",
        "3.3",
        "(a)",
        "(b)",
        "(c)",
        "3.4",
        "4.",
        "5.",
        "5.1",
        "5.2",
        "5.3",
        "6.",
        "6.1",
        "6.2",
        "7.",
        "7.1",
        "7.2",
        "(a)",
        "(b)",
        "8.",
        "8.1",
        "8.2",
        "8.3",
        "9.",
        "10.",
        "11.",
    ] + [f"11.{number}" for number in range(1, 21)]
    parsed = parsed_file("data-processing-agreement.docx")

    assert labels(parsed) == expected
    titles = {node.label: node.title for node in parsed.tree.walk() if node.kind is NodeKind.ARTICLE}
    assert titles["3.2"] == "Ex-EEA Transfers."


@needs_files
def test_labels_of_the_chinese_standard_agree_with_its_own_table_of_contents() -> None:
    parsed = parsed_file("chinese-standard-part1.docx")

    contents = [node.span.slice(parsed.text) for node in parsed.tree.walk() if node.rule == "contents"]
    headings = [node for node in parsed.tree.walk() if node.heading and node.level <= 2 and node.label]
    # A line of the contents: number, title, page. Spaces inside "附 录 A" differ.
    printed = {"".join(re.sub(r"\d+$", "", line).split()) for line in contents[2:]}
    assert {"".join(f"{node.label}{node.title}".split()) for node in headings} == printed
    assert labels(parsed)[:12] == ["1", "2", "3", "3.1", "3.2", "3.3", "4", "5", "5.1", "a)", "b)", "c)"]
    assert [label for label in labels(parsed) if label.startswith("附")] == [
        f"附\u3000录\u3000{letter}" for letter in "ABC"
    ]


@needs_files
def test_structure_of_the_files() -> None:
    rules = {name: (parsed_file(name).structure.rule, parsed_file(name).structure.confidence) for name in NUMBERS}

    assert rules["statutes-all-normal.docx"] == ("pattern", "high")
    assert rules["data-processing-agreement.docx"] == ("numbers", "medium")
    assert rules["mutual-nda-layout-tables.docx"] == ("form", "low")
    assert rules["fedramp-requirements.docx"][1] == "high"
    assert rules["textbox.docx"] == ("none", "none")
    articles = [
        node.label
        for node in parsed_file("un-declaration-content-controls.docx").tree.walk()
        if node.kind is NodeKind.ARTICLE
    ]
    assert articles == [f"Article {number}" for number in range(1, 12)]
    statutes = [node for node in parsed_file("statutes-all-normal.docx").tree.walk() if node.kind is NodeKind.ARTICLE]
    assert [node.number_path for node in statutes] == [(number,) for number in range(1, 22)]


@needs_files
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("encrypted.docx", "password-protected"),
        ("legacy.doc", "old Word format"),
        ("truncated.docx", "damaged"),
        ("truncated-2.docx", "damaged"),
        ("external-entity.docx", "DOCTYPE"),
    ],
)
def test_bad_files_are_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(BadDocument, match=words):
        assemble((FILES / "bad" / name).read_bytes(), name, SETTINGS)


@needs_files
def test_unusual_files_open() -> None:
    macro, chunk, outside = (
        read((FILES / "bad" / name).read_bytes(), name)
        for name in ("macro.docm", "altchunk-html.docx", "external-refs.docx")
    )

    assert notices(macro)["macros"] == 1
    assert (chunk.kept_characters, chunk.visible_characters) == (75, 75)
    assert notices(outside)["external"] == 4
    assert "http://example.com/tracking.png" in " ".join(notice.message for notice in outside.warnings)
    assert notices(read((FILES / "bad" / "zero-length.docx").read_bytes())) == {"empty": 1}


def test_many_styles_are_looked_up_once_each() -> None:
    """A file with 2,672 styles and 12,000 paragraphs: a look-up that scans the styles would take minutes."""
    styles = "".join(style(f"S{number}", f"Style {number}", based_on=f"S{number // 2}") for number in range(1, 2672))
    body = "".join(p(f"Paragraph {number}", style=f"S{number % 2671 + 1}") for number in range(12_000))
    parsed = read(word(body, styles=style("S0", "heading 1") + styles))

    assert parsed.kept_characters == parsed.visible_characters
    assert node_counts(parsed.tree)["section"] == 12_000
