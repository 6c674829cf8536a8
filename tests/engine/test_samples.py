"""The sample documents and their questions: rebuilt to the byte, read as Word shows them, every quote where it should be."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from pathlib import Path

import docx
import pytest
from docx.oxml.ns import qn

from engine.documents import read_document
from engine.models import Document, NodeKind
from engine.questions.parse import load
from engine.questions.resolve import resolve
from engine.records import QuestionSet
from engine.settings import load_settings
from samples import build, markup


def _lines(blocks: list[markup.Block]) -> list[markup.Line]:
    return [block for block in blocks if isinstance(block, markup.Line)]


def _labels(blocks: list[markup.Block], *styles: str) -> list[str]:
    return [line.label for line in _lines(blocks) if line.style in styles]


def _text(line: markup.Line) -> str:
    """The line as the canonical text shows it."""
    shown = []
    for part in line.content:
        match part:
            case markup.Text(text):
                shown.append(text)
            case markup.Reference(_, label):
                shown.append(label)
            case markup.Footnote(number, _):
                shown.append(f"[^{number}]")
    return "".join(shown)


LEAST_QUESTIONS = {
    "single_clause": 10,
    "multi_clause": 12,
    "number": 20,
    "definition": 8,
    "exception": 10,
    "table": 10,
    "footnote": 2,
    "annex": 2,
    "manual": 12,
    "code": 4,
    "unanswerable": 8,
}


@pytest.fixture(scope="module")
def blocks() -> list[markup.Block]:
    return markup.parse(build.source())


@pytest.fixture(scope="module")
def documents(samples: Path) -> dict[str, Document]:
    settings = load_settings()
    names = ("regulation.docx", "manual.md")
    return {name: read_document((samples / name).read_bytes(), name, settings) for name in names}


@pytest.fixture(scope="module")
def questions(samples: Path) -> QuestionSet:
    return load((samples / "questions.json").read_bytes(), "questions.json")


# The Word file


def test_the_committed_file_is_what_the_script_builds() -> None:
    assert build.build() == build.REGULATION.read_bytes()


def test_the_file_carries_fixed_dates_only() -> None:
    with zipfile.ZipFile(build.REGULATION) as package:
        assert {entry.date_time for entry in package.infolist()} == {(2026, 1, 15, 9, 0, 0)}
        dates = re.findall(rb"\d{4}-\d\d-\d\dT[\d:]+Z", package.read("docProps/core.xml"))
    assert dates == [b"2026-01-15T09:00:00Z"] * 2


def test_numbers_and_references_are_words_own(blocks: list[markup.Block]) -> None:
    document = docx.Document(str(build.REGULATION))
    headings = [p.text for p in document.paragraphs if p.style is not None and p.style.name.startswith("Heading")]
    assert len(headings) == len(_labels(blocks, "chapter", "section", "article"))
    assert not [text for text in headings if re.match(r"(Chapter|Section|Article) [\dIVX]", text)]
    codes = "".join(document.element.body.itertext(qn("w:instrText")))
    references = [part for line in _lines(blocks) for part in line.content if isinstance(part, markup.Reference)]
    assert codes.count("REF _Ref_") == len(references) > 60


def test_tables_have_merged_cells_both_ways(blocks: list[markup.Block]) -> None:
    tables = [block for block in blocks if isinstance(block, markup.Table)]
    cells = [cell for table in tables for row in table.cells for cell in row if cell is not None]
    assert len(tables) >= 3
    assert any(cell.rows > 1 for cell in cells)
    assert any(cell.columns > 1 for cell in cells)


def test_references_name_paragraphs_that_exist(blocks: list[markup.Block]) -> None:
    article, paragraphs, named = "", Counter[str](), []
    for line in _lines(blocks):
        article = line.label if line.style == "article" else article
        paragraphs[article] += line.style == "paragraph"
        named += re.findall(r"(Article \d+)\((\d+)\)", _text(line))
        named += [(article, number) for number in re.findall(r"[Pp]aragraph (\d+)", _text(line))]
    assert len(named) >= 15
    assert [(name, number) for name, number in named if int(number) > paragraphs[name]] == []


def test_sentences_repeat_between_articles(blocks: list[markup.Block]) -> None:
    repeated = "shall make the documentation available to the Authority on request within"
    assert sum(repeated in _text(line) for line in _lines(blocks)) >= 5


# What the reader makes of it


def test_the_reader_shows_the_numbers_word_shows(blocks: list[markup.Block], documents: dict[str, Document]) -> None:
    document = documents["regulation.docx"]
    nodes = list(document.tree.walk())
    articles = [node.label for node in nodes if node.kind is NodeKind.ARTICLE]
    chapters = [
        node.label for node in nodes if node.kind is NodeKind.SECTION and (node.label or "").startswith("Chapter")
    ]
    assert articles == _labels(blocks, "article")
    assert chapters == _labels(blocks, "chapter")
    assert len(articles) >= 60
    assert len(chapters) >= 8


def test_the_reader_keeps_every_line_with_its_number(
    blocks: list[markup.Block], documents: dict[str, Document]
) -> None:
    text = documents["regulation.docx"].text
    for line in _lines(blocks):
        if line.style != "caption":
            assert f"{line.label} {_text(line)}".strip() in text
    notes = {part.body for line in _lines(blocks) for part in line.content if isinstance(part, markup.Footnote)}
    assert len(notes) >= 3
    assert all(note in text for note in notes)


def test_the_reader_keeps_every_character(documents: dict[str, Document]) -> None:
    for document in documents.values():
        assert document.kept_characters == document.visible_characters


def test_a_definitions_article_with_twenty_terms(documents: dict[str, Document]) -> None:
    terms = re.findall(r"^\(\d+\) ‘([^’]+)’ means", documents["regulation.docx"].text, re.MULTILINE)
    assert len(terms) == len(set(terms)) >= 20


def test_the_manual_has_lists_and_code(documents: dict[str, Document]) -> None:
    counts = documents["manual.md"].node_counts
    assert counts["list_item"] >= 40
    assert counts["code"] >= 8
    assert counts["table"] >= 4


# Questions


def test_questions_of_every_kind(questions: QuestionSet) -> None:
    tags = Counter(tag for question in questions.questions for tag in question.tags)
    assert set(tags) == set(LEAST_QUESTIONS)
    assert {tag: tags[tag] for tag, least in LEAST_QUESTIONS.items() if tags[tag] < least} == {}
    assert len(questions.questions) >= 64
    assert len({question.question for question in questions.questions}) == len(questions.questions)
    assert all(question.answer for question in questions.questions)


def test_what_cannot_be_answered_has_no_evidence(questions: QuestionSet) -> None:
    for question in questions.questions:
        assert question.answerable is bool(question.evidence)
        assert question.answerable is ("unanswerable" not in question.tags)


def test_every_quote_stands_once_in_its_document_and_nowhere_else(
    questions: QuestionSet, documents: dict[str, Document]
) -> None:
    for question in questions.questions:
        for evidence in question.evidence:
            counts = {name: document.text.count(evidence.quote) for name, document in documents.items()}
            assert counts == {name: int(name == evidence.document) for name in documents}, evidence.quote


def test_every_quote_is_found_exactly(questions: QuestionSet, documents: dict[str, Document]) -> None:
    resolved = resolve(questions, list(documents.values()))
    found = [(evidence.method, len(evidence.gold)) for question in resolved.questions for evidence in question.evidence]
    assert set(found) == {("exact", 1)}


def test_evidence_lies_in_several_articles(questions: QuestionSet, documents: dict[str, Document]) -> None:
    document = documents["regulation.docx"]
    articles = [node for node in document.tree.walk() if node.kind is NodeKind.ARTICLE]
    spread = 0
    for question in resolve(questions, list(documents.values())).questions:
        if "multi_clause" in question.tags:
            assert len(question.gold) >= 2
            spread += len({a.span for a in articles for gold in question.gold if a.span.overlap(gold.span)}) >= 2
    assert spread >= 10


# The markup


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("### A {a}\n\n2. Text", "is number 1 but is typed 2"),
        ("1. One\n  (b) Text", "is number a but is typed b"),
        ("1. See {nothing}", "nothing is named nothing"),
        ("1. Text\n\n[^n]: Note", "nothing refers to"),
        ("| a | b |\n| c |", "row has 1 cells, not 2"),
        ("  Text", "indented line without a marker"),
    ],
)
def test_the_markup_refuses_what_would_be_wrong_in_word(source: str, problem: str) -> None:
    with pytest.raises(markup.MarkupError, match=problem):
        markup.parse(source)


def test_articles_count_through_chapters_and_points_restart() -> None:
    source = "# C\n### A\n1. x\n  (a) y\n  (b) y\n2. x\n  (a) y\n# D\n### B\n1. x"
    labels = [block.label for block in markup.parse(source) if isinstance(block, markup.Line)]
    assert labels == ["Chapter I", "Article 1", "1.", "(a)", "(b)", "2.", "(a)", "Chapter II", "Article 2", "1."]


@pytest.mark.parametrize(("number", "shown"), [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (49, "XLIX"), (90, "XC")])
def test_roman_numbers(number: int, shown: str) -> None:
    assert markup.roman(number) == shown


@pytest.mark.parametrize(("number", "shown"), [(1, "a"), (26, "z"), (27, "aa"), (28, "bb")])
def test_letters_count_as_in_word(number: int, shown: str) -> None:
    assert markup.letter(number) == shown
