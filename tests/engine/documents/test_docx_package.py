"""Word files that are damaged, hostile or unusual: opened where Word opens them, refused in words where not."""

from __future__ import annotations

import io
import zipfile

import pytest

from engine.documents.assemble import assemble
from engine.documents.docx.package import open_package
from engine.documents.docx.tally import Tally
from engine.errors import BadDocument
from tests.engine.documents.word import SETTINGS, W_NS, notices, p, read, relation, style, word


def rewritten(data: bytes, change: dict[str, bytes | None]) -> bytes:
    """A copy of a zip with members replaced, added, or (None) left out."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.namelist():
            if member not in change:
                target.writestr(member, source.read(member))
        for member, content in change.items():
            if content is not None:
                target.writestr(member, content)
    return stream.getvalue()


def test_strict_open_xml_opens() -> None:
    plain = word(p("text", style="H1"), styles=style("H1", "heading 1"))
    strict: dict[str, bytes | None] = {}
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        for member in archive.namelist():
            content = archive.read(member).replace(W_NS.encode(), b"http://purl.oclc.org/ooxml/wordprocessingml/main")
            old = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
            strict[member] = content.replace(old, b"http://purl.oclc.org/ooxml/officeDocument/relationships")

    parsed = read(rewritten(plain, strict))

    assert parsed.text == "# text"
    assert "strict" in notices(parsed)


@pytest.mark.parametrize(
    "main_type",
    [
        "application/vnd.ms-word.document.macroEnabled.main+xml",
        "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
    ],
)
def test_templates_and_files_with_macros_open_without_them(main_type: str) -> None:
    parsed = read(word(p("text"), main_type=main_type))
    with_macro = read(word(p("text"), main_type=main_type, parts={"word/vbaProject.bin": b"\xd0\xcf"}))

    assert parsed.text == with_macro.text == "text"
    assert notices(parsed) == {"template": 1}
    assert notices(with_macro) == {"macros": 1}


def test_a_relationship_without_a_type_does_not_stop_opening() -> None:
    parsed = read(word(p("text"), relations='<Relationship Id="a" Target="document.xml"/>'))

    assert parsed.text == "text"
    assert notices(parsed) == {"dangling": 1}


def test_relationships_that_lead_nowhere_do_not_stop_opening() -> None:
    parsed = read(
        word(
            p("text"),
            relations=relation("a", "image", "NULL")
            + relation("b", "hyperlink", "#_top")
            + relation("c", "header", "gone.xml"),
        )
    )

    assert parsed.text == "text"
    assert notices(parsed) == {"dangling": 2}


def test_parts_without_a_content_type_and_targets_in_another_case_open() -> None:
    parsed = read(
        word(
            p("text"),
            relations=relation("a", "image", "media/A.PNG") + relation("h", "header", "/word/HEADER1.xml"),
            parts={"word/media/a.png": b"\x89PNG", "word/header1.xml": f'<w:hdr xmlns:w="{W_NS}">{p("Law 7")}</w:hdr>'},
        )
    )

    assert parsed.text == "text"
    assert parsed.metadata["headers"] == ["Law 7"]


def test_a_document_without_section_properties_styles_or_text_opens() -> None:
    assert read(word(p("text"))).text == "text"
    empty = read(word(p("")))
    assert (empty.text, empty.visible_characters, notices(empty)) == ("", 0, {"empty": 1})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(encoding: str) -> None:
    bomb = '<!DOCTYPE w [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    document = f'<?xml version="1.0" encoding="{encoding}"?>{bomb}<w:document xmlns:w="{W_NS}"><w:body>{p("&b;")}</w:body></w:document>'

    with pytest.raises(BadDocument, match="DOCTYPE"):
        read(rewritten(word(p("x")), {"word/document.xml": document.encode(encoding)}))


@pytest.mark.parametrize("part", ["word/styles.xml", "word/_rels/document.xml.rels", "[Content_Types].xml"])
def test_entities_in_any_part_are_refused(part: str) -> None:
    data = word(p("x"), styles=style("a", "a"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = archive.read(part)

    with pytest.raises(BadDocument, match="DOCTYPE"):
        read(rewritten(data, {part: b'<!DOCTYPE x [<!ENTITY a "a">]>' + content}))


def test_damaged_files_are_refused_in_words() -> None:
    data = word(p("some text " * 200))

    broken = [
        data[: len(data) // 2],
        b"",
        b"PK\x03\x04",
        rewritten(data, {"[Content_Types].xml": None}),
        rewritten(data, {"word/document.xml": None}),
        rewritten(data, {"word/document.xml": b"<w:document"}),
        rewritten(data, {"word/document.xml": b"<html/>"}),
        rewritten(data, {"_rels/.rels": b"<Relationships/>"}),
    ]
    for content in broken:
        with pytest.raises(BadDocument, match="damaged"):
            read(content)


def test_broken_side_parts_are_refused_in_words() -> None:
    data = word(p("x"), footnotes="<w:footnote w:id='2'/>")

    with pytest.raises(BadDocument, match="damaged"):
        read(rewritten(data, {"word/footnotes.xml": b"<w:footnotes"}))


def test_too_many_paragraphs_are_refused_before_any_work() -> None:
    few = SETTINGS.model_copy(update={"max_paragraphs": 10})

    with pytest.raises(BadDocument, match="more than 10 paragraphs"):
        assemble(word("<w:p/>" * 11), "many.docx", few)


def test_media_are_not_loaded() -> None:
    data = word(
        p("x"),
        relations=relation("a", "image", "media/a.png"),
        parts={"word/media/a.png": bytes(range(256)) * 4},
    )
    package = open_package(data, "x.docx", SETTINGS, Tally())

    part = package.by_id("a")
    assert part is not None
    assert part.blob == b""
