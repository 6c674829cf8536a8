import hashlib
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine import documents, ids, processes, tokens
from engine.documents import FileRead, close_worker, parser_versions, read_document, read_many, supported_types
from engine.documents.pool import pool
from engine.errors import BadDocument, NotFound, UserError
from engine.models import Document
from engine.settings import Settings
from tests.engine.documents.files import PdfPage, docx, docx_parts, pdf, zipped

SETTINGS = Settings(_env_file=None)
BAD = Path(__file__).parents[4] / "shared" / "data" / "docx" / "bad"


def read(data: bytes, name: str, settings: Settings = SETTINGS) -> Document:
    return read_document(data, name, settings)


def refusal(data: bytes, name: str, settings: Settings = SETTINGS) -> str:
    with pytest.raises(BadDocument) as caught:
        read_document(data, name, settings)
    return caught.value.message


@pytest.mark.parametrize(
    ("data", "name", "media_type"),
    [
        (docx("Some words."), "a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (pdf([PdfPage().lines(72, 700, "Some words.")]), "a.pdf", "application/pdf"),
        (b"<html><body><p>Some words.</p></body></html>", "a.html", "text/html"),
        (b"Some words.", "a.md", "text/markdown"),
        (b"Some words.", "a.txt", "text/plain"),
        (b"Some words.", "a.py", "text/x-source"),
    ],
)
def test_every_format_gives_the_same_record(data: bytes, name: str, media_type: str) -> None:
    document = read(data, name)
    assert document.text == "Some words."
    assert document.media_type == media_type
    assert document.parser_version == parser_versions()[media_type]
    assert document.document_id == ids.document_id(data, document.parser_version)
    assert document.sha256 == hashlib.sha256(data).hexdigest()
    assert (document.name, document.byte_size) == (name, len(data))
    assert document.token_count == tokens.count("Some words.") == 3
    assert document.visible_characters == document.kept_characters == 10
    assert document.node_counts["paragraph"] == 1
    assert timedelta(0) <= datetime.now(UTC) - document.created_at < timedelta(hours=1)


def test_the_same_bytes_are_the_same_document_under_every_name() -> None:
    assert read(b"x", "a.txt").document_id == read(b"x", "b.txt").document_id
    assert read(b"x", "a.txt").document_id != read(b"y", "a.txt").document_id


def test_names_are_data() -> None:
    assert read(b"x", "../../etc/\u202egnp.txt").name == "\\u202egnp.txt"


def test_special_token_text_is_ordinary() -> None:
    assert read(b"<|endoftext|>", "a.txt").token_count == tokens.count("<|endoftext|>") > 1


def test_upload_limits() -> None:
    assert refusal(b"", "a.docx").startswith("a.docx is empty (0 bytes).")
    assert "more than the 1 MB allowed" in refusal(b"x" * 1_100_000, "a.txt", Settings(_env_file=None, max_upload_mb=1))


def test_a_zip_bomb_in_word_clothes_is_refused() -> None:
    parts = docx_parts("text") | {"word/media/image.bin": b"\0" * (30 * 1024 * 1024)}
    assert "as in a zip bomb" in refusal(zipped(parts), "bomb.docx")


def test_entities_in_a_word_document_are_refused() -> None:
    laughs = '<!DOCTYPE a [<!ENTITY b "ha">]>'
    assert "declares its own XML entities (DOCTYPE)" in refusal(docx("text &b;", prologue=laughs), "a.docx")


def test_a_pdf_named_docx_is_refused_and_nothing_guesses() -> None:
    data = pdf([PdfPage().text(72, 700, "x")])
    assert refusal(data, "x.docx") == (
        "x.docx is a PDF, not a Word document. Nothing was stored. Rename it to .pdf and upload it again."
    )


def results(found: list[FileRead]) -> list[tuple[str, str]]:
    return [(each.path, each.document.text if each.document else f"refused: {each.error}"[:30]) for each in found]


def test_a_zip_is_read_file_by_file_and_one_bad_file_does_not_stop_the_rest() -> None:
    archive = zipped(
        {
            "b/notes.md": "notes",
            "a.txt": "first",
            "broken.docx": "PK broken",
            "inner.zip": zipped({"x.txt": "x"}),
            "__MACOSX/._a.txt": "litter",
            ".DS_Store": "litter",
            "~$a.docx": "litter",
        }
    )
    found = list(read_many(archive, "all.zip", SETTINGS))
    assert results(found) == [
        ("a.txt", "first"),
        ("b/notes.md", "notes"),
        ("broken.docx", "refused: broken.docx is damage"),
        ("inner.zip", "refused: inner.zip is a zip of"),
    ]
    assert found[0].data == b"first"
    assert isinstance(found[2].error, UserError)


def test_a_member_with_a_wrong_checksum_is_one_bad_file() -> None:
    archive = bytearray(zipped({"a.txt": "words of a", "b.txt": "words of b"}, method=0))
    archive[archive.index(b"words of a")] ^= 1
    first, second = read_many(bytes(archive), "all.zip", SETTINGS)
    assert "is damaged" in str(first.error)
    assert second.document is not None


def test_an_archive_that_breaks_a_limit_is_refused_whole() -> None:
    with pytest.raises(BadDocument, match="leads out of the archive"):
        list(read_many(zipped({"../a.txt": "x"}), "all.zip", SETTINGS))


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("two")
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("no")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    found = list(read_many(tmp_path, "folder", SETTINGS))
    assert results(found) == [
        ("a.txt", "one"),
        ("empty.txt", "refused: empty.txt is empty (0"),
        ("sub/b.md", "two"),
    ]


def test_several_files_are_read_at_once_and_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 2)
    met, last_read = threading.Barrier(2), threading.Event()
    real = documents.read_document

    def read(data: bytes, name: str, settings: Settings) -> Document:
        # Nobody passes alone, and the first waits until the second is done.
        met.wait(60)
        document = real(data, name, settings)
        last_read.set() if name == "b.txt" else last_read.wait(60)
        return document

    monkeypatch.setattr(documents, "read_document", read)
    first, second = read_many(zipped({"a.txt": "one", "b.txt": "two"}), "all.zip", SETTINGS)
    assert results([first, second]) == [("a.txt", "one"), ("b.txt", "two")]
    assert first.seconds > 0


def test_files_are_dated_in_their_order_and_not_as_fast_as_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 2)
    last_read = threading.Event()
    real = documents.read_document

    def read(data: bytes, name: str, settings: Settings) -> Document:
        if name == "a.txt":
            last_read.wait(60)
        document = real(data, name, settings)
        if name == "b.txt":
            last_read.set()
        return document

    monkeypatch.setattr(documents, "read_document", read)
    found = list(read_many(zipped({"a.txt": "one", "b.txt": "two"}), "all.zip", SETTINGS))
    dates = [each.document.created_at for each in found if each.document is not None]
    assert len(dates) == 2
    assert dates[0] <= dates[1]


def test_whoever_stops_taking_files_leaves_the_rest_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 2)
    begun: list[str] = []
    real = documents.read_document

    def read(data: bytes, name: str, settings: Settings) -> Document:
        begun.append(name)
        return real(data, name, settings)

    monkeypatch.setattr(documents, "read_document", read)
    files = read_many(zipped({f"{number:02}.txt": f"text {number}" for number in range(20)}), "all.zip", SETTINGS)
    assert results([next(files)]) == [("00.txt", "text 0")]
    files.close()
    assert len(begun) <= 4


def test_a_single_file_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    assert results(list(read_many(path, "a.txt", SETTINGS))) == [("a.txt", "one")]
    with pytest.raises(NotFound, match="was not found"):
        list(read_many(tmp_path / "none", "none", SETTINGS))


def test_supported_types_name_every_extension() -> None:
    types = supported_types()
    assert types[".docx"] == "a Word document"
    assert {".pdf", ".html", ".md", ".txt", ".py", ".js", ".ts", ".java", ".go", ".rs", ".c", ".cpp"} <= set(types)


def test_the_worker_can_be_closed_and_starts_again() -> None:
    read(b"x", "a.txt")
    close_worker()
    assert pool().process_ids() == ()
    assert read(b"x", "a.txt").text == "x"


BAD_FILES = {
    "encrypted.docx": "is password-protected. Nothing was stored. Remove the password and upload it again.",
    "legacy.doc": "is in the old Word format (.doc). Nothing was stored. Save it as .docx and upload that.",
    "truncated.docx": "is damaged (not a complete .docx). Nothing was stored.",
    "truncated-2.docx": "is damaged (not a complete .docx). Nothing was stored.",
    "external-entity.docx": "declares its own XML entities (DOCTYPE)",
}


@pytest.mark.skipif(not BAD.exists(), reason="../shared/data is not there")
@pytest.mark.parametrize("name", BAD_FILES)
def test_real_bad_files_are_refused_in_words(name: str) -> None:
    assert BAD_FILES[name] in refusal((BAD / name).read_bytes(), name)


@pytest.mark.skipif(not BAD.exists(), reason="../shared/data is not there")
@pytest.mark.parametrize("name", ["macro.docm", "external-refs.docx", "altchunk-html.docx", "zero-length.docx"])
def test_real_odd_files_are_read(name: str) -> None:
    document = read((BAD / name).read_bytes(), name)
    assert document.kept_characters == document.visible_characters
