"""Recursive: cut at the coarsest separator that gives parts small enough, finer only where a part is still too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import Field

from engine.providers.base import Models
from engine.strategies.base import Cut, SizedParams, Strategy
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, Part, Ruler, cut_words, pack, pieces, ruler
from engine.strategies.sentences import sentence_starts
from engine.strategies.source import Source


class RecursiveParams(SizedParams):
    size: int = Field(512, ge=1, le=100_000, description="Longest chunk, in `unit`, overlap included. Never exceeded.")
    overlap: int = Field(
        50,
        ge=0,
        le=25_000,
        description="Most that a chunk repeats of the text before it, in `unit`, whole words; at most 25 % of size.",
    )
    unit: Literal["tokens", "characters"] = Field("tokens", description="What size and overlap count.")

    @property
    def short(self) -> str:
        return f"{self.size}/{self.overlap}" + (" characters" if self.unit == "characters" else "")


class Recursive(Strategy[RecursiveParams]):
    name = "recursive"
    title = "Recursive"
    rule = "Cut at headings; where a part is too long at blank lines, then lines, sentences, words; merge neighbours up to the size."
    best_for = (
        "Most documents, and the first choice when nothing is known about one: it follows whatever structure there is."
    )
    avoid_when = "Every article or section must stay one unit: short neighbours are merged into one chunk."
    cost = "No model. About the time of counting the tokens."
    params_type = RecursiveParams

    def _cut(self, source: Source, params: RecursiveParams, models: Models) -> Cut:
        measure = ruler(source, params.unit)
        seams = Seams(source.text, source.headings)
        room = params.size - params.overlap
        # With overlap a part's own length is not the chunk's, so that it is enough to count exactly at the end.
        rough = measure.rough() if params.overlap else measure
        parts = pack(0, len(source.text), levels(source, seams), rough, room)
        if params.overlap:
            parts = overlapped(parts, measure, params.size, params.overlap)
        return Cut(pieces(parts, measure, with_separators=True))


def levels(source: Source, seams: Seams) -> list[Level]:
    """Kinds of separators, coarsest first; words and characters come after the last."""
    text = source.text
    return [
        Level("heading", between(seams.headings())),
        Level("blank line", between(seams.kept(source.paragraphs))),
        Level("line", seams.lines),
        Level("sentence", lambda start, end: seams.kept(sentence_starts(text, start, end))),
    ]


def overlapped(parts: Iterable[Part], measure: Ruler, size: int, overlap: int) -> Iterator[Part]:
    """Each part begun earlier by at most `overlap` units of the text before it, at the start of a word, within `size`."""
    earliest = 0
    for part in parts:
        begin = _begin(measure, max(earliest, measure.back(part.start, overlap)), part.start)
        units = measure.exact(begin, part.end)
        while units > size and begin < part.start:
            begin = _begin(measure, begin + 1, part.start)
            units = measure.exact(begin, part.end)
        if units <= size:
            yield Part(begin, part.end, units, part.level, own=part.start)
            earliest = begin + 1
        else:
            for cut in cut_words(begin, part.end, measure, size):
                yield cut
                earliest = cut.start + 1


def _begin(measure: Ruler, place: int, stop: int) -> int:
    """The first start of a word at or after `place`, before `stop`; else `stop`."""
    text = measure.text
    if place == 0 or (place < stop and text[place - 1].isspace() and not text[place].isspace()):
        return place
    while place < stop and not text[place].isspace():
        place += 1
    while place < stop and text[place].isspace():
        place += 1
    return min(place, stop)
