"""Limits on what an upload may hold, checked while its bytes are inflated: declared sizes can lie."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator

from lxml import etree

from engine.documents.names import shown
from engine.errors import BadDocument
from engine.settings import Settings

MB = 1024 * 1024
RATIO_FLOOR = MB
"""Unpacked bytes of a member from which its compression ratio counts; small parts of real files compress very well."""

MAX_ENTRIES = 100_000
"""Directory entries, those of archives inside included, above which a directory is not even read."""

_ENTRY_MARK = b"PK\x01\x02"
_STEP = 256 * 1024
_ENCRYPTED_FLAG = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, NotImplementedError, KeyError)


def check_upload(size: int, name: str, settings: Settings) -> None:
    """Raises BadDocument when a file of `size` bytes is empty or larger than the upload limit."""
    if size == 0:
        raise BadDocument(f"{shown(name)} is empty (0 bytes). Nothing was stored. Upload the file again.")
    if size > settings.max_upload_mb * MB:
        raise BadDocument(
            f"{shown(name)} has {size / MB:.1f} MB, more than the {settings.max_upload_mb} MB allowed. "
            "Nothing was stored. Split the file, or raise MAX_UPLOAD_MB."
        )


def check_paragraphs(count: int, name: str, settings: Settings) -> None:
    """Raises BadDocument when a document has more paragraphs than `settings.max_paragraphs`."""
    if count > settings.max_paragraphs:
        raise BadDocument(
            f"{shown(name)} has more than {settings.max_paragraphs:,} paragraphs. "
            "Nothing was stored. Split the file, or raise MAX_PARAGRAPHS."
        )


def open_zip(data: bytes, name: str) -> zipfile.ZipFile:
    """The archive with its directory read. Raises BadDocument when it is damaged or its directory alone would fill the memory."""
    if data.count(_ENTRY_MARK) > MAX_ENTRIES:
        raise BadDocument(
            f"{shown(name)} holds more than {MAX_ENTRIES:,} parts. Nothing was stored. Pack fewer files into one archive."
        )
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _DAMAGE:
        raise damaged(name) from None


class Archive:
    """A zip archive whose members are read under the limits of `settings`.

    The directory is checked at once: number of members, duplicate, absolute and escaping names, encryption, compression
    method. Raises BadDocument.
    """

    def __init__(self, data: bytes, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._unpacked = 0
        self._zip = open_zip(data, name)
        self.members = self._zip.infolist()
        self._check_directory()

    def inflate(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """The bytes of a member in pieces. Raises BadDocument as soon as a limit is passed."""
        size = 0
        settings = self._settings
        try:
            with self._zip.open(member) as stream:
                while piece := stream.read(_STEP):
                    size += len(piece)
                    self._unpacked += len(piece)
                    if size > settings.max_part_mb * MB:
                        raise self._refused(
                            f"unpacks to a part of more than {settings.max_part_mb} MB", "Raise MAX_PART_MB"
                        )
                    if self._unpacked > settings.max_unpacked_mb * MB:
                        raise self._refused(
                            f"unpacks to more than {settings.max_unpacked_mb} MB", "Raise MAX_UNPACKED_MB"
                        )
                    if size > RATIO_FLOOR and size > settings.max_compression_ratio * max(1, member.compress_size):
                        raise self._refused(
                            f"holds a part compressed more than {settings.max_compression_ratio} times, as in a zip bomb",
                            "Raise MAX_COMPRESSION_RATIO",
                        )
                    yield piece
        except RuntimeError:
            raise self._encrypted() from None
        except _DAMAGE:
            raise damaged(self._name) from None

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """All bytes of a member, under the limits."""
        return b"".join(self.inflate(member))

    def _check_directory(self) -> None:
        limit = self._settings.max_archive_members
        if len(self.members) > limit:
            raise self._refused(f"holds more than {limit:,} parts", "Raise MAX_ARCHIVE_MEMBERS")
        seen: set[str] = set()
        for member in self.members:
            path = member.orig_filename
            if member.flag_bits & _ENCRYPTED_FLAG:
                raise self._encrypted()
            if _escapes(path):
                raise self._refused("holds a part whose name leads out of the archive")
            if path in seen:
                raise self._refused("holds two parts of the same name")
            if member.compress_type not in _METHODS:
                raise self._refused("holds a part packed in a way that is not read here (only stored and deflated are)")
            seen.add(path)

    def _refused(self, reason: str, setting: str | None = None) -> BadDocument:
        remedy = "Save it again with the program that made it and upload that copy"
        if setting:
            remedy = f"{setting} if you trust the file"
        return BadDocument(f"{shown(self._name)} {reason}. Nothing was stored. {remedy}.")

    def _encrypted(self) -> BadDocument:
        return BadDocument(
            f"{shown(self._name)} holds parts protected by a password. Nothing was stored. "
            "Remove the password and upload it again."
        )


def damaged(name: str) -> BadDocument:
    """The error for a zip-based file that is cut off or broken."""
    kind = (
        "a complete .docx" if name.lower().endswith((".docx", ".docm", ".dotx", ".dotm")) else "a complete zip archive"
    )
    return BadDocument(
        f"{shown(name)} is damaged (not {kind}). Nothing was stored. Get a whole copy of the file and upload that."
    )


def parse_xml(data: bytes, name: str) -> etree._Element:
    """The root of an XML part. Entities are never expanded and nothing is fetched.

    Raises BadDocument for a document type declaration (where entities hide), for XML that is not well formed and for
    elements nested deeper than libxml2 allows (256).
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if "memory" in str(error).lower():
            raise MemoryError from None
        if b"<!DOCTYPE" in data[: 64 * 1024]:
            raise _declares_entities(name) from None
        if "depth" in str(error).lower():
            raise BadDocument(
                f"{shown(name)} nests its content too deeply to be read. Nothing was stored. "
                "Save it again with the program that made it and upload that copy."
            ) from None
        raise BadDocument(
            f"{shown(name)} is damaged (a part of it is not well-formed XML). Nothing was stored. "
            "Get a whole copy of the file and upload that."
        ) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise _declares_entities(name)
    return root


def _declares_entities(name: str) -> BadDocument:
    return BadDocument(
        f"{shown(name)} declares its own XML entities (DOCTYPE), which a document has no use for and attacks rely on. "
        "Nothing was stored. Save it again with Word and upload that copy."
    )


def _escapes(path: str) -> bool:
    parts = re.split(r"[/\\]", path)
    return "\0" in path or ".." in parts or parts[0] == "" or re.match(r"[A-Za-z]:", path) is not None
