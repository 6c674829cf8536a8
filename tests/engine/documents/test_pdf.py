import io

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents.base import Parsed
from engine.documents.pdf import READER
from engine.documents.pdf_layout import in_reading_order
from engine.errors import BadDocument
from engine.models import NodeKind
from engine.settings import Settings
from tests.engine.documents.checks import check_tree, nodes, texts
from tests.engine.documents.files import PdfPage, pdf


def read(data: bytes, **values: int) -> Parsed:
    parsed = READER.read(data, "a.pdf", Settings(_env_file=None, **values))
    check_tree(parsed)
    return parsed


def refusal(data: bytes) -> str:
    with pytest.raises(BadDocument) as caught:
        READER.read(data, "a.pdf", Settings(_env_file=None))
    return caught.value.message


def notices(parsed: Parsed) -> dict[str, int]:
    return {notice.kind: notice.count for notice in parsed.warnings}


LOREM = (
    "The supervisory authority keeps a register of all persons who hold a",
    "licence under this Act and publishes it at least once a year on its site,",
    "together with the conditions of each licence.",
)


def test_lines_become_paragraphs() -> None:
    page = PdfPage().lines(72, 700, *LOREM).lines(72, 640, "A second paragraph starts after a gap.")
    parsed = read(pdf([page]))
    assert texts(parsed, NodeKind.PARAGRAPH) == [" ".join(LOREM), "A second paragraph starts after a gap."]
    assert parsed.visible_characters == parsed.kept_characters == len("".join(parsed.text.split()))


def test_pages_stand_in_the_attributes_and_sentences_go_on_over_the_page() -> None:
    first = PdfPage().lines(72, 700, *LOREM[:2])
    second = PdfPage().lines(72, 700, LOREM[2]).lines(72, 640, "On page two.")
    running, last = nodes(read(pdf([first, second])), NodeKind.PARAGRAPH)
    assert running.attributes == {"page": 1, "last_page": 2}
    assert last.attributes == {"page": 2}


def test_font_sizes_make_headings() -> None:
    page = PdfPage().text(72, 760, "Licensing Act", 20, bold=True).text(72, 720, "Purpose", 14, bold=True)
    page.lines(72, 690, *LOREM).text(72, 600, "Scope", 14, bold=True).lines(72, 570, *LOREM)
    parsed = read(pdf([page]))
    sections = nodes(parsed, NodeKind.SECTION)
    assert [(node.title, node.level, node.rule) for node in sections] == [
        ("Licensing Act", 1, "size"),
        ("Purpose", 2, "size"),
        ("Scope", 2, "size"),
    ]


def test_the_outline_makes_headings_and_wins_over_sizes() -> None:
    first = PdfPage().text(72, 760, "LOUD", 24).text(72, 720, "1. Purpose").lines(72, 690, *LOREM)
    second = PdfPage().text(72, 760, "2. Scope").lines(72, 730, *LOREM)
    parsed = read(pdf([first, second], outline=[("Purpose", 1), ("2. Scope", 2)]))
    assert [(node.label, node.title, node.rule) for node in nodes(parsed, NodeKind.SECTION)] == [
        (None, "Preamble", "implied"),
        ("1.", "Purpose", "outline"),
        ("2.", "Scope", "outline"),
    ]


def test_articles_are_found_by_pattern() -> None:
    page = PdfPage()
    for number in range(1, 5):
        page.lines(72, 800 - 90 * number, f"Article {number}").lines(72, 780 - 90 * number, *LOREM)
    parsed = read(pdf([page]))
    assert [node.label for node in nodes(parsed, NodeKind.ARTICLE)] == [f"Article {number}" for number in range(1, 5)]


def furnished(number: int, total: int) -> PdfPage:
    page = PdfPage().text(72, 810, "Official Journal of Somewhere", 9).text(290, 30, f"Page {number} of {total}", 9)
    return page.lines(72, 700, f"Body of page {number} with words that differ: {'abcdef'[number]}.")


def test_headers_footers_and_page_numbers_are_removed_and_counted() -> None:
    parsed = read(pdf([furnished(number, 4) for number in range(1, 5)]))
    assert "Official" not in parsed.text
    assert "of 4" not in parsed.text
    assert notices(parsed) == {"furniture": 8}
    assert parsed.metadata["headers"] == ["Official Journal of Somewhere"]
    removed = 4 * len("OfficialJournalofSomewhere") + 4 * len("Page1of4")
    assert parsed.visible_characters - parsed.kept_characters == removed


def test_running_chapter_titles_with_the_page_number_are_removed_but_headings_are_not() -> None:
    pages = []
    for number in range(1, 7):
        chapter = "Banks" if number < 4 else "Funds"
        page = PdfPage().text(72, 810, f"{chapter} {number}", 11).lines(72, 650, *LOREM)
        if number in (1, 4):
            page.text(72, 790, f"{1 + number // 4} {chapter}", 18)
        pages.append(page)
    parsed = read(pdf(pages))
    assert [node.title for node in nodes(parsed, NodeKind.SECTION)] == ["1 Banks", "2 Funds"]
    assert notices(parsed) == {"furniture": 6}


def test_one_page_loses_nothing() -> None:
    parsed = read(pdf([furnished(1, 1)]))
    assert "Official Journal of Somewhere" in parsed.text
    assert "Page 1 of 1" in parsed.text


def test_words_divided_at_a_line_end_are_joined() -> None:
    page = PdfPage().lines(
        72,
        700,
        "A well-known rule says that every supervisory autho-",
        "rity has to keep a register of all persons, as the well-",
        "known commentary explains on its first and last page.",
    )
    parsed = read(pdf([page]))
    assert "supervisory authority has" in parsed.text
    assert "as the well-known commentary" in parsed.text
    assert notices(parsed) == {"hyphen": 1}


def test_ruled_tables_become_tables_in_their_place() -> None:
    page = PdfPage().lines(72, 780, "Before the table stands this sentence.")
    page.grid(72, 740, [["Name", "Fee"], ["Bank", "100"], ["Fund", "50"]]).lines(
        72, 640, "And after it stands that one."
    )
    parsed = read(pdf([page]))
    assert parsed.text == (
        "Before the table stands this sentence.\n\n"
        "| Name | Fee |\n| --- | --- |\n| Bank | 100 |\n| Fund | 50 |\n\n"
        "And after it stands that one."
    )
    assert nodes(parsed, NodeKind.TABLE)[0].attributes == {"page": 1}


def test_words_between_ruled_cells_are_not_lost() -> None:
    page = PdfPage().grid(72, 740, [["Name", "Fee"], ["Bank", "100"]])
    page.grid(350, 740, [["Kind", "Sum"], ["Fund", "50"]]).text(290, 725, "between", 10)
    text = read(pdf([page])).text
    for word in ("Name", "Fee", "Bank", "100", "Kind", "Sum", "Fund", "50", "between"):
        assert text.count(word) == 1


def test_a_table_over_two_pages_is_one() -> None:
    first = PdfPage().grid(72, 200, [["Name", "Fee"], ["Bank", "100"]])
    second = PdfPage().grid(72, 780, [["Name", "Fee"], ["Fund", "50"]])
    parsed = read(pdf([first, second]))
    assert parsed.text == "| Name | Fee |\n| --- | --- |\n| Bank | 100 |\n| Fund | 50 |"
    assert notices(parsed) == {"table_header": 7}


def test_two_columns_are_read_one_after_the_other() -> None:
    page = PdfPage().text(72, 780, "A title that runs across the whole of the page and over both of its columns", 11)
    left = [f"left column line {n} with more words" for n in range(14)]
    right = [f"right column line {n} with more words" for n in range(14)]
    page.lines(72, 740, *left).lines(320, 740, *right)
    text = read(pdf([page])).text
    assert text.index("A title") < text.index("left column line 0") < text.index("left column line 13")
    assert text.index("left column line 13") < text.index("right column line 0")
    assert "left column line 0 with more words right" not in text


def word(text: str, x: float, y: float = 100, size: float = 10) -> dict[str, object]:
    return {"text": text, "x0": x, "x1": x + 5 * len(text), "top": y, "bottom": y + size, "size": size, "fontname": "F"}


def test_right_to_left_lines_come_in_logical_order() -> None:
    # As printed, from left to right: the article's number, then its word with the letters in visual order.
    (line,) = in_reading_order([word("5", 300), word("ةداملا", 320)], 595, 1)
    assert line.text == "المادة 5"
    (line,) = in_reading_order([word("ISO", 200), word("9001", 230), word("רקת", 300), word("הז", 340)], 595, 1)
    assert line.text == "זה תקר ISO 9001"
    lines = in_reading_order(
        [word("ןושאר", 300), word("ינש", 300, 130), word("Latin", 300, 160), word("line", 340, 160)], 595, 1
    )
    assert [line.text for line in lines] == ["ראשון", "שני", "Latin line"]


def test_shaped_arabic_letters_become_plain_ones() -> None:
    (line,) = in_reading_order([word("\ufe94\ufe8e\ufef4\ufea3", 300)], 595, 1)
    assert line.text == "حياة"


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 550), st.integers(0, 800), st.integers(1, 30)), max_size=120))
def test_every_word_stands_in_exactly_one_line(places: list[tuple[int, int, int]]) -> None:
    words = [word("x" * length, x, y) | {"text": f"w{n}."} for n, (x, y, length) in enumerate(places)]
    text = "".join(line.text for line in in_reading_order(words, 595, 1)).replace(" ", "")
    assert sorted(text.split(".")) == sorted(["", *(f"w{n}" for n in range(len(places)))])


def test_labels_with_values_beside_them_are_read_across() -> None:
    page = PdfPage()
    for n in range(14):
        page.text(72, 740 - 20 * n, f"Item {n}").text(400, 740 - 20 * n, f"EUR {n}")
    assert "Item 3 EUR 3" in read(pdf([page])).text


def test_metadata() -> None:
    info = {"Title": "The Act", "Author": "A. Writer", "CreationDate": "D:20260131120000Z"}
    parsed = read(pdf([PdfPage().lines(72, 700, *LOREM)], info=info))
    assert parsed.metadata == {"title": "The Act", "author": "A. Writer", "date": "2026-01-31", "pages": 1}


def test_no_text_layer_is_a_clear_refusal() -> None:
    drawn = PdfPage(["100 100 200 200 re S"])
    assert refusal(pdf([drawn])) == (
        "a.pdf has no text layer: its pages are pictures. Nothing was stored. "
        "Run text recognition (OCR) on it and upload the result."
    )


def encrypted(user: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([PdfPage().lines(72, 700, *LOREM)])))
    writer.encrypt(user_password=user, owner_password="owner", algorithm="AES-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def test_a_password_is_a_clear_refusal_and_a_mere_owner_password_is_not() -> None:
    assert refusal(encrypted("secret")).startswith("a.pdf is password-protected. Nothing was stored.")
    assert "supervisory authority" in read(encrypted("")).text


def test_damaged_files_are_a_clear_refusal() -> None:
    whole = pdf([PdfPage().lines(72, 700, *LOREM)])
    assert refusal(whole[:-40]).startswith("a.pdf is damaged (not a complete PDF). Nothing was stored.")
    assert refusal(b"%PDF-1.4\nnothing\n%%EOF").startswith("a.pdf is damaged")


def test_too_many_paragraphs_are_refused() -> None:
    page = PdfPage()
    for n in range(6):
        page.lines(72, 780 - 60 * n, f"Paragraph {n} stands alone.")
    with pytest.raises(BadDocument, match="more than 5 paragraphs"):
        read(pdf([page]), max_paragraphs=5)
