import io
import struct
import zipfile

import pytest

from engine.documents.limits import MB, Archive, check_paragraphs, check_upload, parse_xml
from engine.errors import BadDocument
from engine.settings import Settings
from tests.engine.documents.files import docx, zipped


def settings(**values: int) -> Settings:
    return Settings(_env_file=None, **values)


def check_zip(data: bytes, limits: Settings) -> None:
    archive = Archive(data, limits, "x.docx")
    for member in archive.members:
        archive.read(member)


def refusal(data: bytes, **values: int) -> str:
    with pytest.raises(BadDocument) as caught:
        check_zip(data, settings(**values))
    return caught.value.message


def test_an_ordinary_file_passes() -> None:
    check_zip(docx("Text"), settings())


def test_uploads_are_limited_in_size_and_not_empty() -> None:
    check_upload(25 * MB, "x.docx", settings())
    with pytest.raises(BadDocument, match=r"^x.docx has 25.1 MB, more than the 25 MB allowed. Nothing was stored."):
        check_upload(25 * MB + MB // 10, "x.docx", settings())
    with pytest.raises(BadDocument, match=r"^x.docx is empty \(0 bytes\). Nothing was stored."):
        check_upload(0, "x.docx", settings())


def test_paragraphs_are_limited() -> None:
    check_paragraphs(10, "x", settings(max_paragraphs=10))
    with pytest.raises(BadDocument, match="more than 10 paragraphs"):
        check_paragraphs(11, "x", settings(max_paragraphs=10))


def test_members_are_limited() -> None:
    data = zipped({f"{i}.txt": "" for i in range(11)})
    assert "holds more than 10 parts" in refusal(data, max_archive_members=10)


def test_a_directory_that_would_fill_the_memory_is_not_read() -> None:
    assert "holds more than 100,000 parts" in refusal(b"PK\x01\x02" * 100_001)


def test_a_zip_bomb_is_refused_by_its_ratio() -> None:
    bomb = zipped({"word/document.xml": b" " * (20 * MB)})
    assert len(bomb) < 30_000
    assert "compressed more than 100 times, as in a zip bomb" in refusal(bomb)


def test_high_ratios_below_one_megabyte_are_ordinary() -> None:
    check_zip(zipped({"a.xml": b" " * (MB - 1)}), settings())


def test_a_large_part_is_refused() -> None:
    data = zipped({"a.xml": b" " * (3 * MB)})
    assert "unpacks to a part of more than 2 MB" in refusal(data, max_part_mb=2, max_compression_ratio=5000)


def test_many_parts_together_are_refused() -> None:
    data = zipped({f"{i}.xml": b" " * MB for i in range(5)})
    assert "unpacks to more than 4 MB" in refusal(data, max_unpacked_mb=4, max_compression_ratio=5000)


def test_bytes_are_counted_while_inflating_not_as_declared() -> None:
    data = bytearray(zipped({"a.xml": b" " * (3 * MB)}))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        directory = archive.start_dir
    # Both headers say ten bytes; the member unpacks to three million.
    data[22:26] = struct.pack("<I", 10)
    data[directory + 24 : directory + 28] = struct.pack("<I", 10)
    message = refusal(bytes(data))
    assert "is damaged" in message


def test_duplicate_names_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.xml", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.xml", "2")
    assert "two parts of the same name" in refusal(buffer.getvalue())


@pytest.mark.parametrize("name", ["../a.xml", "a/../../b.xml", "/etc/passwd", "C:/a.xml", "..\\a.xml", "\\a.xml"])
def test_names_that_lead_out_are_refused(name: str) -> None:
    assert "leads out of the archive" in refusal(zipped({name: "x"}))


def test_names_with_dots_inside_are_ordinary() -> None:
    check_zip(zipped({"a..b/c.xml": "x", "...": "y"}), settings())


def test_encrypted_members_are_refused() -> None:
    data = bytearray(zipped({"a.xml": "x"}))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        directory = archive.start_dir
    data[directory + 8] |= 1
    assert "protected by a password" in refusal(bytes(data))


def test_unusual_compression_is_refused() -> None:
    assert "only stored and deflated are" in refusal(zipped({"a.xml": "x" * 100}, zipfile.ZIP_LZMA))


def test_a_wrong_checksum_is_damage() -> None:
    data = bytearray(zipped({"a.xml": "some text"}, zipfile.ZIP_STORED))
    data[data.index(b"some text")] ^= 1
    assert refusal(bytes(data)).startswith("x.docx is damaged (not a complete .docx). Nothing was stored.")


def test_an_archive_gives_its_members() -> None:
    archive = Archive(zipped({"a.txt": "one", "b.txt": "two"}), settings(), "x.zip")
    assert [archive.read(member) for member in archive.members] == [b"one", b"two"]


def test_declared_entities_are_refused_and_never_expanded() -> None:
    laughs = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
    external = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>'
    for xml in (laughs, external, '<!DOCTYPE a SYSTEM "a.dtd"><a/>', laughs.encode("utf-16")):
        data = xml.encode() if isinstance(xml, str) else xml
        with pytest.raises(BadDocument, match="declares its own XML entities"):
            parse_xml(data, "x.docx")


def test_broken_and_deep_xml_are_refused_in_words() -> None:
    with pytest.raises(BadDocument, match="not well-formed XML"):
        parse_xml(b"<a><b></a>", "x.docx")
    with pytest.raises(BadDocument, match="nests its content too deeply"):
        parse_xml(b"<a>" * 300 + b"</a>" * 300, "x.docx")
    assert parse_xml(b"<a>ok</a>", "x.docx").text == "ok"
