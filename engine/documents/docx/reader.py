"""The DOCX reader: package, walk, structure, canonical text, and the count of what was kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.documents.base import Block, Parsed
from engine.documents.decode import clean_value
from engine.documents.docx.notes import Notes
from engine.documents.docx.numbering import Numbering
from engine.documents.docx.package import WordPackage, open_package
from engine.documents.docx.styles import StyleSheet
from engine.documents.docx.tally import Tally
from engine.documents.docx.visible import count_text, visible_segments
from engine.documents.docx.walker import Walker
from engine.documents.docx.xml import W
from engine.documents.limits import check_paragraphs
from engine.documents.patterns import assign
from engine.documents.tree import build
from engine.models import NodeKind
from engine.settings import Settings

_CORE = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "created": "created",
    "modified": "modified",
    "language": "language",
    "lastModifiedBy": "last_modified_by",
}
_HEADINGS = (NodeKind.SECTION, NodeKind.ARTICLE)
_PAGE_NUMBER = re.compile(r"[\W\d_]*")


class DocxReader:
    """Word documents: .docx, .docm, .dotx and .dotm, transitional and strict."""

    media_type = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    version = "docx-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument, in words, for damaged files, entities, broken limits and too many paragraphs."""
        tally = Tally()
        package = open_package(data, name, settings, tally)
        check_paragraphs(sum(1 for _ in package.body.iter(W + "p")), name, settings)
        styles = StyleSheet(package.related_root("/styles"))
        numbering = Numbering(package.related_root("/numbering"), styles)
        notes = Notes(package, tally)
        walker = Walker(package, styles, numbering, notes, tally, name)
        items = walker.walk(package.body)
        assigned = assign([item.block for item in items], [item.hint for item in items])
        built = build(_notes_after_articles(assigned.blocks))
        stories = [package.body, *notes.opened(), *walker.diagrams]
        count = count_text((line for story in stories for line in visible_segments(story, styles)), built.text)
        tally.add("empty", not built.text)
        tally.add("lost", count.visible - count.kept)
        return Parsed(
            text=built.text,
            tree=built.tree,
            structure=assigned.structure,
            visible_characters=count.visible + walker.inserted.visible_characters,
            kept_characters=count.kept + walker.inserted.kept_characters,
            warnings=tuple(tally.notices()),
            metadata=_metadata(package, walker, styles, tally),
        )


READER = DocxReader()


def _notes_after_articles(blocks: Iterable[Block]) -> Iterator[Block]:
    """Notes stand at the end of the article or section that refers to them."""
    waiting: list[Block] = []
    for block in blocks:
        if block.kind is NodeKind.NOTE:
            waiting.append(block)
            continue
        if block.kind in _HEADINGS:
            yield from waiting
            waiting.clear()
        yield block
    yield from waiting


def _metadata(package: WordPackage, walker: Walker, styles: StyleSheet, tally: Tally) -> dict[str, Any]:
    """Title, author and dates, unique texts of headers and footers, and how many tracked changes there are."""
    found: dict[str, Any] = {}
    core = package.core_properties()
    for element in core if core is not None else ():
        key = _CORE.get(element.tag.rsplit("}", 1)[-1]) if isinstance(element.tag, str) else None
        text = clean_value(element.text or "")
        if key and text:
            found[key] = text
    if walker.title:
        found.setdefault("title", clean_value(walker.title))
    for key, kind in (("headers", "/header"), ("footers", "/footer")):
        texts = [_running_text(root, styles) for root in package.all_roots(kind)]
        unique = list(dict.fromkeys(text for text in texts if text))
        if unique:
            found[key] = unique
    changes = {kind: tally[kind] for kind in ("inserted", "deleted", "moved") if tally[kind]}
    if changes:
        found["tracked_characters"] = changes
    return found


def _running_text(root: Any, styles: StyleSheet) -> str:
    """Text of a header or footer without lines that only number pages."""
    lines = (" ".join("".join(pieces).split()) for pieces in visible_segments(root, styles))
    return clean_value(" | ".join(line for line in lines if not _PAGE_NUMBER.fullmatch(line)))
