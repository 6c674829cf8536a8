import codecs

import pytest

from engine.documents.base import Parsed
from engine.documents.decode import clean, clean_value, decode
from engine.documents.text import READER
from engine.errors import BadDocument
from engine.models import NodeKind
from engine.settings import Settings
from tests.engine.documents.checks import check_tree, nodes, texts

ACT = """BANKING ACT 2026

CHAPTER I
GENERAL PROVISIONS

Article 1
Scope
This Act applies to all banks that
are licensed in the country.

Article 2. Definitions
(a) "bank" means a company;
(b) "client" means a person
    who holds an account.

Article 3
The regulator shall, under Article 2 of this Act, keep a register.
"""


def read(text: str | bytes, **values: int) -> Parsed:
    data = text if isinstance(text, bytes) else text.encode()
    parsed = READER.read(data, "a.txt", Settings(_env_file=None, **values))
    check_tree(parsed)
    return parsed


def test_the_files_own_text_is_canonical() -> None:
    parsed = read(ACT)
    assert parsed.text == ACT
    assert parsed.visible_characters == parsed.kept_characters == len("".join(ACT.split()))


def test_articles_and_points_of_a_typed_law() -> None:
    parsed = read(ACT)
    chapter = nodes(parsed, NodeKind.SECTION)[1]
    assert (chapter.label, chapter.title) == ("CHAPTER I", "GENERAL PROVISIONS")
    articles = nodes(parsed, NodeKind.ARTICLE)
    assert [(node.label, node.title) for node in articles] == [
        ("Article 1", "Scope"),
        ("Article 2", "Definitions"),
        ("Article 3", None),
    ]
    assert articles[0].heading.slice(parsed.text) == "Article 1\nScope"
    assert articles[0].children[0].span.slice(parsed.text) == (
        "This Act applies to all banks that\nare licensed in the country."
    )
    assert [node.label for node in articles[1].children] == ["(a)", "(b)"]
    assert articles[1].children[1].span.slice(parsed.text) == '(b) "client" means a person\n    who holds an account.'
    assert articles[2].children[0].span.slice(parsed.text).startswith("The regulator shall, under Article 2")


def test_paragraphs_without_structure_say_so() -> None:
    parsed = read("One paragraph\non two lines.\n\n\nAnother.")
    assert texts(parsed, NodeKind.PARAGRAPH) == ["One paragraph\non two lines.", "Another."]
    assert parsed.structure.confidence == "none"


def test_lines_are_paragraphs_where_no_line_is_blank() -> None:
    assert texts(read("First line.\nSecond line."), NodeKind.PARAGRAPH) == ["First line.", "Second line."]


def test_long_lines_are_paragraphs() -> None:
    long = "word " * 40
    assert len(texts(read(f"{long}\n{long}\n\nend"), NodeKind.PARAGRAPH)) == 3


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_ends_become_newlines(ending: str) -> None:
    assert read(f"a{ending}{ending}b").text == "a\n\nb"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (codecs.BOM_UTF8 + "Größe".encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + "Größe".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "Größe".encode("utf-16-be"), "utf-16-be"),
        (codecs.BOM_UTF32_LE + "Größe".encode("utf-32-le"), "utf-32-le"),
        ("Größe".encode(), "utf-8"),
        ("Größe".encode("utf-16-le"), "utf-16-le"),
        ("Größe".encode("utf-16-be"), "utf-16-be"),
    ],
)
def test_byte_order_marks_and_utf8(data: bytes, encoding: str) -> None:
    decoded = decode(data, "a.txt")
    assert (decoded.text, decoded.encoding, decoded.notices) == ("Größe", encoding, ())


def test_other_encodings_are_detected_and_noted() -> None:
    text = "Статья 1. Настоящий Закон регулирует отношения в области связи. " * 20
    decoded = decode(text.encode("cp1251"), "a.txt")
    assert decoded.text == text
    assert [notice.kind for notice in decoded.notices] == ["encoding"]


def test_broken_bytes_in_utf8_do_not_spoil_the_rest() -> None:
    decoded = decode("Größe über Maß. ".encode() * 20 + b"\xff end", "a.txt")
    assert decoded.text == "Größe über Maß. " * 20 + "? end"
    assert [(notice.kind, notice.count) for notice in decoded.notices] == [("undecodable", 1)]


def test_a_cut_character_behind_a_byte_order_mark_is_counted() -> None:
    decoded = decode(codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"\0", "a.txt")
    assert (decoded.text, decoded.notices[0].count) == ("ab?", 1)


def test_text_in_no_known_encoding_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def best(self) -> None:
            return None

    monkeypatch.setattr("engine.documents.decode.from_bytes", lambda _: Nothing())
    with pytest.raises(BadDocument, match="Save it as UTF-8 and upload that"):
        decode(b"\xff\xfa\x81 \x90\xf8 " * 3, "a.txt")
    assert decode(b"plain text " * 50 + b"\xff", "a.txt").text.endswith("plain text ?")


def test_nul_and_lone_surrogates_are_replaced_and_counted() -> None:
    cleaned = clean("a\0b\0c\ud800d")
    assert cleaned.text == "a b c?d"
    assert {notice.kind: notice.count for notice in cleaned.notices} == {"nul": 2, "surrogate": 1}
    assert read(b"x\xed\xa0\x80y").text == "x?y"


def test_metadata_values_are_one_clean_line() -> None:
    assert clean_value(" a\n b\0c ") == "a b c"
    assert len(clean_value("x" * 5000)) == 1000


def test_empty_looking_files() -> None:
    parsed = read("\n \n")
    assert parsed.text == "\n \n"
    assert parsed.tree.children == ()


def test_too_many_paragraphs_are_refused() -> None:
    with pytest.raises(BadDocument, match="more than 3 paragraphs"):
        read("a\n\n" * 4, max_paragraphs=3)
