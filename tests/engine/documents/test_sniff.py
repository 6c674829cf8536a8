import io
import zipfile

import pytest

from engine.documents.names import display_name, extension, shown
from engine.documents.sniff import FileType, is_archive, sniff
from engine.errors import BadDocument
from tests.engine.documents.files import PdfPage, docx, ole, pdf, zipped

A_PDF = pdf([PdfPage().text(72, 700, "Text")])
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (docx("Text"), "a.docx", FileType.DOCX),
        (docx("Text"), "a.docm", FileType.DOCX),
        (docx("Text"), "no extension", FileType.DOCX),
        (A_PDF, "a.pdf", FileType.PDF),
        (A_PDF, "a", FileType.PDF),
        (b"<!DOCTYPE html><p>x</p>", "a.html", FileType.HTML),
        (b"\n<!-- c --><HTML lang='en'><body>x</body></HTML>", "a.txt", FileType.HTML),
        (b"<p>fragment</p>", "a.htm", FileType.HTML),
        (b"<p>fragment</p>", "a.txt", FileType.TEXT),
        (b"# Title", "a.md", FileType.MARKDOWN),
        (b"# Title", "a.txt", FileType.TEXT),
        (b"x = 1", "a.py", FileType.CODE),
        (b"int x;", "a.cpp", FileType.CODE),
        (b"plain", "a.unknown", FileType.TEXT),
        ("plain".encode("utf-16-le"), "a.txt", FileType.TEXT),
        ("Grüße".encode("utf-16"), "a.txt", FileType.TEXT),
        ("Grüße".encode("cp1252"), "a.txt", FileType.TEXT),
        (b"one NUL \0 in a text", "a.txt", FileType.TEXT),
    ],
)
def test_type_is_decided_by_content_and_extension_only_tells_texts_apart(
    data: bytes, name: str, expected: FileType
) -> None:
    assert sniff(data, name) is expected


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (A_PDF, "x.docx", "x.docx is a PDF, not a Word document. Nothing was stored. Rename it to .pdf and upload it again."),
        (docx("T"), "x.pdf", "x.pdf is a Word document, not a PDF. Nothing was stored. Rename it to .docx and upload it again."),
        (b"just text", "x.docx", "x.docx is plain text, not a Word document."),
        (b"just text", "x.pdf", "x.pdf is plain text, not a PDF."),
        (b"<html><body>x</body></html>", "x.docx", "x.docx is an HTML page, not a Word document."),
        (OLE + b"\0" * 600, "x.doc", "x.doc is in the old Word format (.doc). Nothing was stored. Save it as .docx"),
        (OLE + b"\0" * 600, "x.docx", "x.docx is an old Office file, which is not read here."),
        (docx("T")[:-30], "x.docx", "x.docx is damaged (not a complete .docx)."),
        (docx("T")[:200], "x.docx", "x.docx is damaged (not a complete .docx)."),
        (b"\0\1\2\3" * 100, "x.docx", "x.docx is damaged (not a complete .docx)."),
        (b"\0\1\2\3" * 100, "x.bin", "x.bin is a binary file of a type that is not known here"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "x.png", "x.png is an image (PNG), which is not read here."),
        (b"\x7fELF" + b"\0" * 50, "x.txt", "x.txt is a program"),
        (b"{\\rtf1 hello}", "x.rtf", "x.rtf is a Rich Text file (.rtf), which is not read here. Nothing was stored. Save it as .docx"),
        (zipped({"a.txt": "x"}), "x.zip", "x.zip is a zip of files"),
        (zipped({"a.txt": "x"}), "x.docx", "x.docx is a zip archive without a Word document in it."),
        (zipped({"mimetype": "application/epub+zip"}), "x.epub", "x.epub is an e-book (EPUB)"),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "x.odt", "x.odt is an OpenDocument file"),
        (zipped({"[Content_Types].xml": "spreadsheetml.main+xml"}), "x.xlsx", "x.xlsx is an Excel workbook"),
    ],
)  # fmt: skip
def test_refusals_say_what_the_file_is_and_what_to_do(data: bytes, name: str, message: str) -> None:
    with pytest.raises(BadDocument) as caught:
        sniff(data, name)
    assert caught.value.message.startswith(message)
    assert "Nothing was stored." in caught.value.message


def message(data: bytes, name: str) -> str:
    with pytest.raises(BadDocument) as caught:
        sniff(data, name)
    return caught.value.message


def test_an_encrypted_word_document_is_told_by_its_stream() -> None:
    assert message(ole("EncryptionInfo", "EncryptedPackage"), "x.docx") == (
        "x.docx is password-protected. Nothing was stored. Remove the password and upload it again."
    )


def test_old_word_files_are_told_even_when_they_pass_the_zip_check() -> None:
    data = ole("1Table", "WordDocument") + zipped({"theme/theme.xml": "x"})
    assert zipfile.is_zipfile(io.BytesIO(data))
    for name in ("x.doc", "x.docx", "x"):
        assert message(data, name) == (
            f"{name} is in the old Word format (.doc). Nothing was stored. Save it as .docx and upload that."
        )


def test_other_old_office_files_are_refused() -> None:
    assert message(ole("Workbook"), "x.xls").startswith("x.xls is an old Office file, which is not read here.")


def test_a_zip_of_files_is_an_archive_and_a_zipped_document_is_not() -> None:
    assert is_archive(zipped({"a.txt": "x", "b/c.md": "y"}), "x.zip")
    assert not is_archive(docx("x"), "x.zip")
    assert not is_archive(A_PDF, "x.zip")
    assert not is_archive(b"PK but broken", "x.zip")


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("plain.docx", "plain.docx"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.docx", "a.docx"),
        ("evil\u202excod.exe", "evil\\u202excod.exe"),
        ("line\nbreak\0.txt", "line\\u000abreak\\u0000.txt"),
        ("lone\ud800.txt", "lone\\ud800.txt"),
        ("   ", "unnamed"),
        ("a/", "unnamed"),
        ("قانون.docx", "قانون.docx"),
    ],
)
def test_names_are_stored_without_path_and_hidden_characters(name: str, stored: str) -> None:
    assert display_name(name) == stored
    assert display_name(stored) == stored


def test_long_names_are_cut_in_the_middle() -> None:
    stored = display_name("a" * 400 + ".docx")
    assert len(stored) == 255
    assert stored.endswith("aa.docx")
    assert len(shown("b" * 400 + ".docx")) == 80


def test_right_to_left_names_are_isolated_in_sentences() -> None:
    assert shown("قانون.docx") == "\u2068قانون.docx\u2069"
    assert shown("law.docx") == "law.docx"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.DOCX", ".docx"), ("a.tar.gz", ".gz"), (".bashrc", ""), ("noext", ""), ("a.b c", ""), ("a.py/b", "")],
)
def test_extension(name: str, expected: str) -> None:
    assert extension(name) == expected


def test_an_encrypted_zip_member_is_told_while_sniffing() -> None:
    data = bytearray(zipped({"[Content_Types].xml": "x"}))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        directory = archive.start_dir
    data[6] |= 1
    data[directory + 8] |= 1
    with pytest.raises(BadDocument, match="protected by a password"):
        sniff(bytes(data), "x.docx")
