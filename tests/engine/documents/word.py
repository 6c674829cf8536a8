"""Small Word files for tests, written part by part."""

from __future__ import annotations

import io
import zipfile

from engine.documents.base import Parsed
from engine.documents.docx import READER
from engine.models import Node
from engine.settings import Settings

W_NS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
NAMESPACES = (
    f'xmlns:w="{W_NS}" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
)
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
SETTINGS = Settings(_env_file=None)  # type: ignore[call-arg]


def word(
    body: str,
    *,
    styles: str = "",
    numbering: str = "",
    footnotes: str = "",
    endnotes: str = "",
    main_type: str = MAIN,
    relations: str = "",
    parts: dict[str, str | bytes] | None = None,
) -> bytes:
    """A .docx with this body. The other parts hold what stands inside their root elements."""
    inner = {"styles": styles, "numbering": numbering, "footnotes": footnotes, "endnotes": endnotes}
    files: dict[str, str | bytes] = {
        "word/document.xml": f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    }
    types = [f'<Override PartName="/word/document.xml" ContentType="{main_type}"/>']
    links = []
    for name, content in inner.items():
        if content:
            files[f"word/{name}.xml"] = f"<w:{name} {NAMESPACES}>{content}</w:{name}>"
            types.append(f'<Override PartName="/word/{name}.xml" ContentType="{_WORD}.{name}+xml"/>')
            links.append(f'<Relationship Id="{name}" Type="{_RELATIONS}/{name}" Target="{name}.xml"/>')
    files["[Content_Types].xml"] = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="html" ContentType="text/html"/>' + "".join(types) + "</Types>"
    )
    relationships = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    files["_rels/.rels"] = (
        f'{relationships}<Relationship Id="r1" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/>'
        "</Relationships>"
    )
    files["word/_rels/document.xml.rels"] = f"{relationships}{''.join(links)}{relations}</Relationships>"
    files.update(parts or {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return stream.getvalue()


def relation(relation_id: str, kind: str, target: str, *, external: bool = False) -> str:
    mode = ' TargetMode="External"' if external else ""
    return f'<Relationship Id="{relation_id}" Type="{_RELATIONS}/{kind}" Target="{target}"{mode}/>'


def run(text: str, properties: str = "") -> str:
    """A run; `properties` stand inside its `w:rPr`."""
    inside = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{inside}<w:t xml:space="preserve">{text}</w:t></w:r>'


def p(*content: str, properties: str = "", style: str = "") -> str:
    """A paragraph of runs; plain strings become runs, `properties` stand inside its `w:pPr`."""
    inside = (f'<w:pStyle w:val="{style}"/>' if style else "") + properties
    runs = "".join(part if part.startswith("<") else run(part) for part in content)
    return f"<w:p><w:pPr>{inside}</w:pPr>{runs}</w:p>"


def numbered(text: str, num_id: int = 1, level: int = 0, properties: str = "") -> str:
    number = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{num_id}"/></w:numPr>'
    return p(*([text] if text else []), properties=number + properties)


def cell(*paragraphs: str, properties: str = "") -> str:
    content = "".join(part if part.startswith("<") else p(part) for part in paragraphs) or p()
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content}</w:tc>"


def table(*rows: list[str], properties: str = "") -> str:
    lines = "".join(f"<w:tr>{''.join(cells)}</w:tr>" for cells in rows)
    return f"<w:tbl><w:tblPr>{properties}</w:tblPr><w:tblGrid/>{lines}</w:tbl>"


def style(style_id: str, name: str, inside: str = "", based_on: str = "", kind: str = "paragraph") -> str:
    base = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
    return f'<w:style w:type="{kind}" w:styleId="{style_id}"><w:name w:val="{name}"/>{base}{inside}</w:style>'


def level(index: int, text: str, fmt: str = "decimal", start: int | None = 1, more: str = "") -> str:
    """A `w:lvl`; `more` stands between its start and its text."""
    begin = "" if start is None else f'<w:start w:val="{start}"/>'
    return f'<w:lvl w:ilvl="{index}">{begin}<w:numFmt w:val="{fmt}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'


def abstract(abstract_id: int, *levels: str) -> str:
    return f'<w:abstractNum w:abstractNumId="{abstract_id}">{"".join(levels)}</w:abstractNum>'


def num(num_id: int, abstract_id: int, overrides: str = "") -> str:
    return f'<w:num w:numId="{num_id}"><w:abstractNumId w:val="{abstract_id}"/>{overrides}</w:num>'


def read(data: bytes, name: str = "test.docx") -> Parsed:
    return READER.read(data, name, SETTINGS)


def read_body(body: str, **parts: str) -> Parsed:
    return read(word(body, **parts))  # type: ignore[arg-type]


def labels(parsed: Parsed) -> list[str]:
    """Labels that Word numbers, in document order."""
    return [node.label or "" for node in numbered_nodes(parsed)]


def numbered_nodes(parsed: Parsed) -> list[Node]:
    return [node for node in parsed.tree.walk() if node.label and "list" in node.attributes]


def notices(parsed: Parsed) -> dict[str, int]:
    """Counts of the warnings by kind."""
    counts: dict[str, int] = {}
    for notice in parsed.warnings:
        counts[notice.kind] = counts.get(notice.kind, 0) + notice.count
    return counts
