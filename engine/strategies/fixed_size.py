"""Fixed size: windows of equal length that overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from engine.providers.base import Models
from engine.strategies.base import Cut, SizedParams, Strategy
from engine.strategies.packing import CHARACTER, Part, Ruler, pieces, ruler, whole_character
from engine.strategies.source import Source


class FixedSizeParams(SizedParams):
    size: int = Field(512, ge=1, le=100_000, description="Length of a window, in `unit`. Never exceeded.")
    overlap: int = Field(
        50,
        ge=0,
        le=25_000,
        description="Length that a window repeats of the one before, in `unit`; at most 25 % of size.",
    )
    unit: Literal["tokens", "characters"] = Field("tokens", description="What size and overlap count.")

    @property
    def short(self) -> str:
        return f"{self.size}/{self.overlap}" + (" characters" if self.unit == "characters" else "")


class FixedSize(Strategy[FixedSizeParams]):
    name = "fixed_size"
    title = "Fixed size"
    rule = "Windows of a fixed number of tokens; each repeats the end of the one before."
    best_for = "A baseline to compare against, and text without any structure: logs, transcripts, scanned pages."
    avoid_when = "The text has sentences, headings or tables worth keeping whole: windows cut through all of them."
    cost = "No model. The fastest strategy."
    params_type = FixedSizeParams

    def _cut(self, source: Source, params: FixedSizeParams, models: Models) -> Cut:
        measure = ruler(source, params.unit)
        return Cut(pieces(_windows(measure, params.size, params.overlap), measure))


def _windows(measure: Ruler, size: int, overlap: int) -> Iterator[Part]:
    text = measure.text
    start, length = 0, len(text)
    while True:
        window = _window(measure, start, size)
        yield window
        if window.end == length:
            return
        following = max(measure.back(window.end, overlap), start + 1) if overlap else window.end
        start = min(whole_character(text, start + 1, following), window.end)


def _window(measure: Ruler, start: int, size: int) -> Part:
    """The longest window from `start` that is within `size` on its own; a single character at least."""
    text = measure.text
    end = max(whole_character(text, start, measure.reach(start, size)), start + 1)
    units = measure.exact(start, end)
    while units > size and end > start + 1:
        end = min(end - 1, measure.back(end, units - size))
        end = max(whole_character(text, start, end), start + 1)
        units = measure.exact(start, end)
    return Part(start, end, units, CHARACTER, units > size)
