"""Opens the bytes of a Word file as a python-docx package, through a repaired copy in memory.

Word opens files that python-docx refuses: strict Open XML, macro and template types, relationships that lead nowhere.
The copy is made of what the reader needs; macros, pictures and other media are left out of it.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from typing import Any
from urllib.parse import unquote

import docx
from lxml import etree

from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import R
from engine.documents.limits import Archive, damaged, parse_xml
from engine.documents.names import shown
from engine.errors import BadDocument
from engine.settings import Settings

_TYPES = "[Content_Types].xml"
_CT = "{http://schemas.openxmlformats.org/package/2006/content-types}"
_PR = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_MAIN_VARIANTS = re.compile(
    rb"application/vnd\.(?:ms-word\.(?:document|template)\.macroEnabled(?:Template)?\.main\+xml"
    rb"|openxmlformats-officedocument\.wordprocessingml\.template\.main\+xml"
    rb"|ms-word\.document\.macroEnabled\.main\+xml|ms-word\.template\.macroEnabledTemplate\.main\+xml)"
)
_STRICT = (
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    (b"http://purl.oclc.org/ooxml/officeDocument/relationships", b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"),
    (b"http://purl.oclc.org/ooxml/officeDocument/math", b"http://schemas.openxmlformats.org/officeDocument/2006/math"),
    (b"http://purl.oclc.org/ooxml/drawingml/main", b"http://schemas.openxmlformats.org/drawingml/2006/main"),
    (b"http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing", b"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
    (b"http://purl.oclc.org/ooxml/officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
)  # fmt: skip
_STRICT_MARK = b"http://purl.oclc.org/ooxml/"
_MARKUP = (".xml", ".rels")
_CHUNKS = (".html", ".htm", ".xhtml", ".txt", ".mht", ".rtf", ".docx", ".docm")
_MACROS = ("vbaproject.bin", "vbadata.xml")
_FETCHED = {
    "image": "picture",
    "attachedTemplate": "template",
    "subDocument": "subdocument",
    "aFChunk": "inserted file",
    "oleObject": "linked object",
    "frame": "frame",
    "video": "video",
    "audio": "sound",
}


class WordPackage:
    """The parts of a Word file that the reader uses."""

    def __init__(self, document: Any, name: str) -> None:
        self._part = document.part
        self._name = name
        self.body = document.element.body

    def related(self, suffix: str, part: Any | None = None) -> Any | None:
        """The first internal part whose relationship type ends with `suffix`, such as "/styles"."""
        for relation in (part or self._part).rels.values():
            if relation.reltype.endswith(suffix) and not relation.is_external:
                return relation.target_part
        return None

    def by_id(self, relation_id: str | None, part: Any | None = None) -> Any | None:
        """The internal part a relationship id names."""
        relation = (part or self._part).rels.get(relation_id) if relation_id else None
        return None if relation is None or relation.is_external else relation.target_part

    def root(self, part: Any | None) -> Any | None:
        """Root element of an XML part; None without a part. Raises BadDocument when it is not well formed."""
        if part is None:
            return None
        element = getattr(part, "element", None)
        return element if element is not None else parse_xml(part.blob, self._name)

    def all_roots(self, suffix: str) -> list[Any]:
        """Roots of all internal parts whose relationship type ends with `suffix`."""
        parts = {
            str(relation.target_part.partname): relation.target_part
            for relation in self._part.rels.values()
            if relation.reltype.endswith(suffix) and not relation.is_external
        }
        return [self.root(parts[path]) for path in sorted(parts)]

    def related_root(self, suffix: str) -> Any | None:
        return self.root(self.related(suffix))

    def core_properties(self) -> Any | None:
        """Root of the part with title, author and dates."""
        for relation in self._part.package.rels.values():
            if relation.reltype.endswith("/core-properties") and not relation.is_external:
                return parse_xml(relation.target_part.blob, self._name)
        return None


def open_package(data: bytes, name: str, settings: Settings, tally: Tally) -> WordPackage:
    """The package in `data`; what had to be repaired or passed over goes to `tally`. Raises BadDocument, in words, for damaged files, entities and broken limits."""
    archive = Archive(data, settings, name)
    parts: dict[str, bytes] = {}
    for member in archive.members:
        path = member.filename
        if path.endswith("/"):
            continue
        needed = path.lower().endswith((*_MARKUP, *_CHUNKS))
        if needed:
            parts[path] = archive.read(member)
        else:
            # Inflated all the same, so that a bomb in a picture is found, and dropped at once.
            for _ in archive.inflate(member):
                pass
            parts[path] = b""
    if _TYPES not in parts or "_rels/.rels" not in parts:
        raise damaged(name)
    copy = _Repair(parts, name, tally).run()
    try:
        document = docx.Document(io.BytesIO(copy))
        body = document.element.body
    except BadDocument:
        raise
    except Exception:
        # python-docx raises a dozen kinds of error on files that are not whole; all mean the same here.
        raise damaged(name) from None
    if body is None:
        raise damaged(name)
    return WordPackage(document, name)


class _Repair:
    """Rewrites parts so that python-docx opens what Word opens."""

    def __init__(self, parts: dict[str, bytes], name: str, tally: Tally) -> None:
        self._parts = parts
        self._name = name
        self._by_lower = {path.lower(): path for path in parts}
        self._tally = tally
        tally.add("macros", any(path.lower().endswith(_MACROS) for path in parts))

    def run(self) -> bytes:
        """The repaired copy as an uncompressed zip."""
        for path, blob in self._parts.items():
            if not path.lower().endswith(_MARKUP):
                continue
            _refuse_entities(blob, self._name)
            if _STRICT_MARK in blob:
                self._tally.add("strict")
                for strict, transitional in _STRICT:
                    blob = blob.replace(strict, transitional)
                self._parts[path] = blob
        for path in [path for path in self._parts if path.endswith(".rels")]:
            self._parts[path] = self._relationships(path)
        self._parts[_TYPES] = self._content_types()
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for path, blob in self._parts.items():
                archive.writestr(path, blob)
        return stream.getvalue()

    def _relationships(self, path: str) -> bytes:
        """The relationships of a part without those that lead nowhere; targets outside the file are noted."""
        root = parse_xml(self._parts[path], self._name)
        folder = posixpath.dirname(posixpath.dirname(path))
        for relation in list(root.iterchildren(_PR + "Relationship")):
            target, kind = relation.get("Target") or "", relation.get("Type") or ""
            if kind and relation.get("TargetMode") == "External":
                if not kind.endswith("/hyperlink"):
                    short = kind.rsplit("/", 1)[-1]
                    self._tally.outside(_FETCHED.get(short, "other content"), target)
                continue
            found = self._find(folder, target)
            if found is None or not kind or relation.get("Id") is None:
                self._tally.add("dangling", not kind.endswith("/hyperlink"))
                root.remove(relation)
            else:
                relation.set("Target", "/" + found)
        return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)

    def _find(self, folder: str, target: str) -> str | None:
        """The member a target names: relative or absolute, escaped or not, in any case."""
        target = target.split("#", 1)[0].replace("\\", "/")
        for candidate in (target, unquote(target)):
            absolute = candidate.lstrip("/") if candidate.startswith("/") else posixpath.join(folder, candidate)
            found = self._by_lower.get(posixpath.normpath(absolute).lower())
            if found is not None:
                return found
        return None

    def _content_types(self) -> bytes:
        """Content types with the main part as an ordinary document, and one for every part."""
        blob, changed = _MAIN_VARIANTS.subn(_MAIN.encode(), self._parts[_TYPES])
        self._tally.add("template", changed > 0 and not self._tally["macros"])
        root = parse_xml(blob, self._name)
        overrides = {(item.get("PartName") or "").lower() for item in root.iterchildren(_CT + "Override")}
        defaults = {(item.get("Extension") or "").lower() for item in root.iterchildren(_CT + "Default")}
        for path in self._parts:
            extension = posixpath.splitext(path)[1].lstrip(".").lower()
            if f"/{path}".lower() not in overrides and extension not in defaults and path != _TYPES:
                override = etree.SubElement(root, _CT + "Override")
                override.set("PartName", f"/{path}")
                override.set("ContentType", "application/octet-stream")
        return etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)


def _refuse_entities(blob: bytes, name: str) -> None:
    """Raises BadDocument for a document type declaration, which every attack with entities needs."""
    declares = b"<!DOCTYPE" in blob
    if not declares and b"\0" in blob[:64]:
        declares = any("<!DOCTYPE".encode(encoding) in blob for encoding in ("utf-16-le", "utf-16-be"))
    if declares:
        raise BadDocument(
            f"{shown(name)} declares its own XML entities (DOCTYPE), which a document has no use for and attacks rely on. "
            "Nothing was stored. Save it again with Word and upload that copy."
        )


def relation_id(element: Any, name: str = "id") -> str | None:
    """The `r:id` of an element."""
    found: str | None = element.get(R + name)
    return found
