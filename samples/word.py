"""Blocks of the sample markup as a Word document: heading styles, automatic numbering, fields, merged cells, footnotes.

Word's own means are used throughout, so that a reader of the file has to compute what Word computes. The bytes are the
same in every build: fixed dates, fixed order, entries stored without compression (whose output differs between zlib versions).
"""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime
from itertools import count

import docx
from docx.document import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Pt
from docx.table import Table as WordTable
from docx.text.paragraph import Paragraph
from lxml import etree

from samples.markup import Block, Footnote, Inline, Line, Reference, Table, Text

WRITTEN = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
"""The date every build writes into the file."""

STYLES = {
    "title": "Title",
    "subtitle": "Subtitle",
    "chapter": "Heading 1",
    "section": "Heading 2",
    "article": "Heading 3",
    "annex": "Annex",
    "part": "Annex Part",
    "annex point": "Annex Point",
    "text": "Normal",
    "paragraph": "Numbered Paragraph",
    "point": "Point",
    "subpoint": "Subpoint",
    "item": "List Item",
    "caption": "Caption",
    "footnote": "Footnote Text",
}
_BASES = {"Annex": "Heading 1", "Annex Part": "Heading 2"}
_ENACTING, _ITEMS, _ANNEXES = 1, 2, 3

_LEVELS = {
    _ENACTING: (
        ("chapter", "upperRoman", "Chapter %1", 0, None),
        ("section", "decimal", "Section %2", 0, None),
        ("article", "decimal", "Article %3", 0, 0),
        ("paragraph", "decimal", "%4.", 360, None),
        ("point", "lowerLetter", "(%5)", 720, None),
        ("subpoint", "lowerRoman", "(%6)", 1080, None),
    ),
    _ITEMS: (("item", "decimal", "(%1)", 360, None),),
    _ANNEXES: (
        ("annex", "upperRoman", "Annex %1", 0, None),
        ("part", "upperLetter", "Part %2", 0, None),
        ("annex point", "lowerLetter", "(%3)", 720, None),
    ),
}
"""(style, number format, level text, indent in twips, lvlRestart) of each level. Articles never restart: they count through all chapters."""

_FOOTNOTES_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
_UNUSED_PARTS = ("stylesWithEffects", "thumbnail", "customXml")
"""What python-docx's template carries along and nothing refers to: two thirds of the file."""


def write(blocks: list[Block], *, title: str, header: str) -> bytes:
    """The document as the bytes of a .docx file."""
    document = docx.Document()
    _properties(document, title)
    _styles(document)
    lists = {block.list_id for block in blocks if isinstance(block, Line) and block.list_id}
    _numbering(document, sorted(lists))
    document.sections[0].header.paragraphs[0].text = header
    bookmarks = count(1)
    notes: dict[int, str] = {}
    for block in blocks:
        if isinstance(block, Table):
            _table(document, block)
        else:
            _line(document, block, bookmarks, notes)
    _footnotes(document, notes)
    _drop_unused_parts(document)
    saved = io.BytesIO()
    document.save(saved)
    return _repacked(saved.getvalue())


def _properties(document: Document, title: str) -> None:
    core = document.core_properties
    core.title, core.author, core.last_modified_by, core.comments = title, "Chunkscope", "Chunkscope", ""
    core.created = core.modified = WRITTEN.replace(tzinfo=None)
    core.revision, core.language = 1, "en-GB"


def _styles(document: Document) -> None:
    styles = document.styles
    for name in STYLES.values():
        if name not in styles:
            styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH).base_style = styles[_BASES.get(name, "Normal")]
    styles["Footnote Text"].font.size = Pt(9)
    styles["Normal"].font.name, styles["Normal"].font.size = "Calibri", Pt(11)
    for number, levels in _LEVELS.items():
        for level, (key, *_) in enumerate(levels):
            if number == _ITEMS:
                continue
            numbering = styles[STYLES[key]].element.get_or_add_pPr().get_or_add_numPr()
            numbering.get_or_add_ilvl().val = level
            numbering.get_or_add_numId().val = number
    used = {styles[name].style_id for name in STYLES.values()}
    used |= {"Header", "Footer", "TableGrid", "TableNormal", "DefaultParagraphFont", "NoList"}
    for style in list(styles):
        base = style.element.find(qn("w:basedOn"))
        if style.style_id in used and base is not None:
            used.add(base.get(qn("w:val")))
    for style in list(styles):
        link = style.element.find(qn("w:link"))
        if link is not None:
            style.element.remove(link)
        if style.style_id not in used:
            style.element.getparent().remove(style.element)


def _numbering(document: Document, lists: list[int]) -> None:
    root = document.part.numbering_part.element
    for child in list(root):
        root.remove(child)
    for number, levels in _LEVELS.items():
        kind = "singleLevel" if len(levels) == 1 else "multilevel"
        xml = [f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{number}"><w:multiLevelType w:val="{kind}"/>']
        for level, (key, form, text, indent, restart) in enumerate(levels):
            style = document.styles[STYLES[key]].style_id
            linked = "" if number == _ITEMS else f'<w:pStyle w:val="{style}"/>'
            again = "" if restart is None else f'<w:lvlRestart w:val="{restart}"/>'
            space = '<w:suff w:val="space"/>' if indent == 0 else ""
            xml.append(
                f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{again}{linked}{space}'
                f'<w:lvlText w:val="{text}"/><w:lvlJc w:val="left"/>'
                f'<w:pPr><w:ind w:left="{indent}" w:hanging="{min(indent, 360)}"/></w:pPr></w:lvl>'
            )
        root.append(parse_xml("".join([*xml, "</w:abstractNum>"])))
    for number in _LEVELS:
        root.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>'))
    for list_id in lists:
        root.append(
            parse_xml(
                f'<w:num {nsdecls("w")} w:numId="{_list_number(list_id)}"><w:abstractNumId w:val="{_ITEMS}"/>'
                '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>'
            )
        )


def _list_number(list_id: int) -> int:
    return 10 + list_id


def _line(document: Document, line: Line, bookmarks: count[int], notes: dict[int, str]) -> None:
    paragraph = document.add_paragraph(style=STYLES[line.style])
    if line.list_id:
        numbering = paragraph._p.get_or_add_pPr().get_or_add_numPr()
        numbering.get_or_add_ilvl().val = 0
        numbering.get_or_add_numId().val = _list_number(line.list_id)
    mark = next(bookmarks) if line.key else None
    if mark is not None:
        _bookmark(paragraph, "Start", mark, line.key)
    if line.style == "caption":
        paragraph.add_run("Table ")
        _field(paragraph, "SEQ Table \\* ARABIC", line.label.removeprefix("Table "))
        if mark is not None:
            _bookmark(paragraph, "End", mark)
            mark = None
        paragraph.add_run(": ")
    for part in line.content:
        _inline(paragraph, part, notes)
    if mark is not None:
        _bookmark(paragraph, "End", mark)


def _inline(paragraph: Paragraph, part: Inline, notes: dict[int, str]) -> None:
    match part:
        case Text(text):
            paragraph.add_run(text)
        case Reference(key, label):
            switches = "\\h" if label.startswith("Table") else "\\r \\h"
            _field(paragraph, f"REF {_bookmark_name(key)} {switches}", label)
        case Footnote(number, body):
            notes[number] = body
            run = paragraph.add_run()
            run.font.superscript = True
            reference = OxmlElement("w:footnoteReference")
            reference.set(qn("w:id"), str(number))
            run._r.append(reference)


def _bookmark_name(key: str) -> str:
    return "_Ref_" + key.replace("-", "_")


def _bookmark(paragraph: Paragraph, edge: str, mark: int, key: str | None = None) -> None:
    element = OxmlElement(f"w:bookmark{edge}")
    element.set(qn("w:id"), str(mark))
    if key is not None:
        element.set(qn("w:name"), _bookmark_name(key))
    paragraph._p.append(element)


def _field(paragraph: Paragraph, instruction: str, result: str) -> None:
    """A complex field with the result Word would show."""

    def part(kind: str) -> None:
        char = OxmlElement("w:fldChar")
        char.set(qn("w:fldCharType"), kind)
        paragraph.add_run()._r.append(char)

    part("begin")
    code = OxmlElement("w:instrText")
    code.set(qn("xml:space"), "preserve")
    code.text = f" {instruction} "
    paragraph.add_run()._r.append(code)
    part("separate")
    paragraph.add_run(result)
    part("end")


def _table(document: Document, table: Table) -> None:
    rows, columns = len(table.cells), len(table.cells[0])
    word: WordTable = document.add_table(rows, columns, style="Table Grid")
    for r, row in enumerate(table.cells):
        for c, cell in enumerate(row):
            if cell is None:
                continue
            target = word.cell(r, c)
            if cell.rows > 1 or cell.columns > 1:
                target = target.merge(word.cell(r + cell.rows - 1, c + cell.columns - 1))
            run = target.paragraphs[0].add_run(cell.text)
            run.bold = True if r < table.header_rows else None
    for r in range(table.header_rows):
        word.rows[r]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
    document.add_paragraph()


def _footnotes(document: Document, notes: dict[int, str]) -> None:
    style = document.styles[STYLES["footnote"]].style_id
    root = etree.fromstring(
        f"<w:footnotes {nsdecls('w')}>"
        '<w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>'
        '<w:footnote w:type="continuationSeparator" w:id="0"><w:p><w:r><w:continuationSeparator/></w:r></w:p></w:footnote>'
        "</w:footnotes>"
    )
    for number, body in sorted(notes.items()):
        note = etree.fromstring(
            f'<w:footnote {nsdecls("w")} w:id="{number}"><w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>'
            '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteRef/></w:r>'
            '<w:r><w:t xml:space="preserve"> </w:t></w:r><w:r><w:t/></w:r></w:p></w:footnote>'
        )
        note.findall(".//" + qn("w:t"))[-1].text = body
        root.append(note)
    blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    part = Part(PackURI("/word/footnotes.xml"), _FOOTNOTES_TYPE, blob, document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)


def _drop_unused_parts(document: Document) -> None:
    for part in (document.part.package, document.part):
        for rel_id, rel in list(part.rels.items()):
            if not rel.is_external and any(name in rel.target_part.partname for name in _UNUSED_PARTS):
                del part.rels[rel_id]


def _repacked(saved: bytes) -> bytes:
    packed = io.BytesIO()
    stamp = WRITTEN.timetuple()[:6]
    with zipfile.ZipFile(io.BytesIO(saved)) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, stamp)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            target.writestr(entry, source.read(name))
    return packed.getvalue()
