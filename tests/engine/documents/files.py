"""Small files of every format, written byte by byte for the tests."""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass, field

CONTENT_TYPES = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONSHIPS = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def zipped(parts: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def docx_parts(*paragraphs: str, prologue: str = "") -> dict[str, bytes | str]:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    document = f'{prologue}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return {
        "[Content_Types].xml": CONTENT_TYPES,
        "_rels/.rels": RELATIONSHIPS,
        "word/document.xml": document,
    }


def docx(*paragraphs: str, prologue: str = "") -> bytes:
    return zipped(docx_parts(*paragraphs, prologue=prologue))


@dataclass
class PdfPage:
    """Marks on one page, in points from the bottom left corner of a page of 595 x 842."""

    marks: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, size: float = 11, bold: bool = False) -> PdfPage:
        escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        self.marks.append(f"BT /{'F2' if bold else 'F1'} {size} Tf {x} {y} Td ({escaped}) Tj ET")
        return self

    def lines(self, x: float, y: float, *texts: str, size: float = 11) -> PdfPage:
        for index, text in enumerate(texts):
            self.text(x, y - index * size * 1.2, text, size)
        return self

    def grid(self, x: float, y: float, rows: list[list[str]], width: float = 100, height: float = 20) -> PdfPage:
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                left, bottom = x + column * width, y - (row + 1) * height
                self.marks.append(f"{left} {bottom} {width} {height} re S")
                self.text(left + 4, bottom + 6, cell, 10)
        return self


def pdf(
    pages: list[PdfPage], outline: list[tuple[str, int]] | None = None, info: dict[str, str] | None = None
) -> bytes:
    """A PDF with the given pages, a flat outline of (title, page from 1) and document information."""
    entries = outline or []
    first_page = 5
    first_entry = first_page + 2 * len(pages)
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R" + (f" /Outlines {first_entry} 0 R" if entries else "") + " >>",
        2: f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{first_page + 2 * i} 0 R' for i in range(len(pages)))}] >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    }
    for index, page in enumerate(pages):
        number = first_page + 2 * index
        stream = "\n".join(page.marks)
        objects[number] = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> "
            f"/Contents {number + 1} 0 R >>"
        )
        objects[number + 1] = f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream"
    if entries:
        last = first_entry + len(entries)
        objects[first_entry] = (
            f"<< /Type /Outlines /First {first_entry + 1} 0 R /Last {last} 0 R /Count {len(entries)} >>"
        )
        for index, (title, page_number) in enumerate(entries):
            number = first_entry + 1 + index
            links = (f" /Prev {number - 1} 0 R" if index else "") + (
                f" /Next {number + 1} 0 R" if number < last else ""
            )
            objects[number] = (
                f"<< /Title ({title}) /Parent {first_entry} 0 R /Dest [{first_page + 2 * (page_number - 1)} 0 R /Fit]{links} >>"
            )
    information = len(objects) + 1
    objects[information] = "<< " + " ".join(f"/{key} ({value})" for key, value in (info or {}).items()) + " >>"
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number in range(1, information + 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("cp1252")
    table = len(out)
    out += f"xref\n0 {information + 1}\n0000000000 65535 f \n".encode()
    out += "".join(f"{offset:010d} 00000 n \n" for offset in offsets).encode()
    out += f"trailer\n<< /Size {information + 1} /Root 1 0 R /Info {information} 0 R >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(out)


def ole(*streams: str) -> bytes:
    """An OLE file, the container of old Office formats and of encrypted ones, with empty streams of the given names."""
    none, end = 0xFFFFFFFF, 0xFFFFFFFE
    header = struct.pack(
        "<8s16sHHHHH6sIIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", 0x3E, 3, 0xFFFE, 9, 6, b"", 0, 1, 1, 0, 4096, end, 0, end, 0, 0,
    )  # fmt: skip
    header += struct.pack("<I", none) * 108
    allocation = struct.pack("<128I", 0xFFFFFFFD, end, *[none] * 126)
    entries = [("Root Entry", 5, none, 1)]
    entries += [(name, 2, i + 2 if i + 1 < len(streams) else none, none) for i, name in enumerate(streams)]
    directory = b"".join(
        struct.pack(
            "<64sHBBIII16sI16sIQ",
            name.encode("utf-16-le"), 2 * len(name) + 2, kind, 1, none, right, child, b"", 0, b"", end, 0,
        )
        for name, kind, right, child in entries
    )  # fmt: skip
    return header + allocation + directory.ljust(512, b"\0")
