"""What a file is, decided by its content. The extension only tells Markdown, code and plain text apart."""

from __future__ import annotations

import io
import re
from enum import StrEnum

import olefile

from engine.documents.limits import damaged, open_zip
from engine.documents.names import extension, shown
from engine.errors import BadDocument


class FileType(StrEnum):
    DOCX = "docx"
    PDF = "pdf"
    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    CODE = "code"


class _Words:
    """How a type is called in a sentence, and the extensions that promise it."""

    def __init__(self, noun: str, *extensions: str) -> None:
        self.noun = noun
        self.extensions = extensions


WORDS = {
    FileType.DOCX: _Words("a Word document", ".docx", ".docm", ".dotx", ".dotm"),
    FileType.PDF: _Words("a PDF", ".pdf"),
    FileType.HTML: _Words("an HTML page", ".html", ".htm", ".xhtml"),
    FileType.MARKDOWN: _Words("Markdown", ".md", ".markdown"),
    FileType.TEXT: _Words("plain text", ".txt"),
    FileType.CODE: _Words(
        "program code", ".py", ".js", ".ts", ".java", ".go", ".rs", ".c", ".cpp", ".jsx", ".mjs", ".cjs", ".tsx", ".pyi",
        ".h", ".cc", ".cxx", ".hpp",
    ),
}  # fmt: skip

_MAGIC = (
    (b"\x89PNG", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF8", "an image (GIF)"),
    (b"RIFF", "a sound, video or image file"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"SQLite format 3", "a database (SQLite)"),
    (b"ID3", "a sound file"),
)
_OFFICE_ZIP = (
    (b"spreadsheetml", "an Excel workbook"),
    (b"presentationml", "a PowerPoint presentation"),
    (b"ms-excel", "an Excel workbook"),
    (b"ms-powerpoint", "a PowerPoint presentation"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_CONTENT_TYPES_LIMIT = 4 * 1024 * 1024
_HTML_START = re.compile(
    rb"(?:\s|<!--.*?-->|<\?xml[^>]*\?>)*<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
MAX_CONTROL_SHARE = 0.02
"""Control characters above this share of a file's start mark it as binary."""


def sniff(data: bytes, name: str) -> FileType:
    """The type of a file. Raises BadDocument, in words, for what is not read here and for an extension that promises another type."""
    found = _by_content(data, name)
    promised = _promised(name)
    strict = (FileType.DOCX, FileType.PDF)
    if promised is not None and found is not promised and (found in strict or promised in strict):
        raise _misnamed(name, found, promised)
    if found is FileType.TEXT and promised is not None:
        return promised
    return found


def is_archive(data: bytes, name: str) -> bool:
    """Whether the bytes are a zip of files, not a document that happens to be zipped. A damaged archive is none."""
    if not data.startswith(b"PK"):
        return False
    try:
        with open_zip(data, name) as archive:
            return not {"[Content_Types].xml", "mimetype"} & set(archive.namelist())
    except BadDocument:
        return False


def _promised(name: str) -> FileType | None:
    suffix = extension(name)
    return next((kind for kind, words in WORDS.items() if suffix in words.extensions), None)


def _by_content(data: bytes, name: str) -> FileType:
    if data.startswith(_OLE):
        raise _old_office(data, name)
    if data.startswith(b"PK"):
        return _zip_type(data, name)
    if b"%PDF-" in data[:1024]:
        return FileType.PDF
    if data.startswith(b"{\\rtf"):
        raise _unreadable(name, "a Rich Text file (.rtf)", "Save it as .docx and upload that")
    for magic, noun in _MAGIC:
        if data.startswith(magic):
            raise _unreadable(name, noun)
    if _looks_binary(data):
        if _promised(name) is FileType.DOCX:
            raise damaged(name)
        raise _unreadable(name, "a binary file of a type that is not known here")
    if _HTML_START.match(data[: 64 * 1024].lstrip(b"\xef\xbb\xbf")):
        return FileType.HTML
    return FileType.TEXT


def _zip_type(data: bytes, name: str) -> FileType:
    try:
        with open_zip(data, name) as archive:
            names = set(archive.namelist())
            types = b""
            if "[Content_Types].xml" in names:
                with archive.open("[Content_Types].xml") as stream:
                    types = stream.read(_CONTENT_TYPES_LIMIT)
            kind = b""
            if "mimetype" in names:
                with archive.open("mimetype") as stream:
                    kind = stream.read(100)
    except BadDocument:
        raise
    except RuntimeError:
        raise BadDocument(
            f"{shown(name)} holds parts protected by a password. Nothing was stored. Remove the password and upload it again."
        ) from None
    except Exception:
        # zipfile raises half a dozen kinds of error on broken archives; all mean the same here.
        raise damaged(name) from None
    if b"wordprocessingml" in types or b"ms-word" in types or any(part.startswith("word/") for part in names):
        return FileType.DOCX
    for mark, noun in _OFFICE_ZIP:
        if mark in types:
            raise _unreadable(name, noun, "Save it as PDF and upload that")
    if b"epub" in kind:
        raise _unreadable(name, "an e-book (EPUB)", "Save it as PDF or HTML and upload that")
    if b"opendocument" in kind:
        raise _unreadable(name, "an OpenDocument file", "Save it as .docx and upload that")
    if _promised(name) is FileType.DOCX:
        raise BadDocument(
            f"{shown(name)} is a zip archive without a Word document in it. Nothing was stored. Save the file as .docx with Word and upload that."
        )
    raise _unreadable(name, "a zip of files", "Unpack it, or upload it where several files are taken at once")


def _old_office(data: bytes, name: str) -> BadDocument:
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            streams = {entry[0] for entry in ole.listdir()}
    except Exception:
        # olefile lets index and struct errors through on broken files; the first bytes already told the family.
        streams = set()
    if "EncryptedPackage" in streams:
        return BadDocument(
            f"{shown(name)} is password-protected. Nothing was stored. Remove the password and upload it again."
        )
    if "WordDocument" in streams or (not streams and extension(name) in (".doc", ".dot")):
        return BadDocument(
            f"{shown(name)} is in the old Word format (.doc). Nothing was stored. Save it as .docx and upload that."
        )
    return _unreadable(name, "an old Office file", "Save it in a current format, as .docx or PDF, and upload that")


def _looks_binary(data: bytes) -> bool:
    """Whether the first 64 KB are not text in UTF-8, UTF-16, UTF-32 with a mark, or a one-byte or CJK encoding."""
    if data.startswith(_BOMS):
        return False
    head = data[: 64 * 1024].decode(utf16_without_mark(data) or "latin-1", "replace")
    return len(_CONTROL.findall(head)) > max(1, MAX_CONTROL_SHARE * len(head))


def utf16_without_mark(data: bytes) -> str | None:
    """The byte order of text in UTF-16 that does not begin with a mark: every other byte of Western text is 0."""
    head = data[: 4 * 1024]
    zeros = (head[0::2].count(0), head[1::2].count(0))
    if min(zeros) == 0 and max(zeros) > len(head) / 4:
        return "utf-16-le" if zeros[1] else "utf-16-be"
    return None


def _misnamed(name: str, found: FileType, promised: FileType) -> BadDocument:
    suffix = WORDS[found].extensions[0]
    return BadDocument(
        f"{shown(name)} is {WORDS[found].noun}, not {WORDS[promised].noun}. Nothing was stored. Rename it to {suffix} and upload it again."
    )


def _unreadable(
    name: str, noun: str, remedy: str = "Upload a .docx, PDF, HTML, Markdown, text or code file"
) -> BadDocument:
    return BadDocument(f"{shown(name)} is {noun}, which is not read here. Nothing was stored. {remedy}.")
