"""Word documents: every visible character in reading order, with the numbers Word prints."""

from engine.documents.docx.reader import READER, DocxReader

__all__ = ["READER", "DocxReader"]
