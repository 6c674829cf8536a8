"""Every reader, in one list. Adding a format = one module with a `Reader` + one line here + its type in sniff.py."""

from __future__ import annotations

import importlib

from engine.documents.base import Reader
from engine.documents.sniff import FileType

_MODULES = {
    FileType.DOCX: "engine.documents.docx",
    FileType.PDF: "engine.documents.pdf",
    FileType.HTML: "engine.documents.html",
    FileType.MARKDOWN: "engine.documents.markdown",
    FileType.TEXT: "engine.documents.text",
    FileType.CODE: "engine.documents.code",
}


def reader(kind: FileType) -> Reader:
    """The reader of a type. Imported when first asked for: parsers are heavy and one process seldom needs all."""
    module = importlib.import_module(_MODULES[kind])
    return module.READER  # type: ignore[no-any-return]
