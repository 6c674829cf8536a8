"""Presets: sizes and overlaps for kinds of documents, with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import BadParameter
from engine.models import StrategySpec
from engine.strategies import registry

_SIZE_FIELDS = ("size", "max_tokens", "child_tokens", "paragraph_tokens")
"""What strategies call their most tokens in a chunk."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Starting values for one kind of document. A benchmark decides whether they hold."""

    name: str
    title: str
    strategy_name: str
    """The strategy to try first."""
    size: int
    """Most tokens in a chunk."""
    overlap: int
    """Tokens a chunk repeats of the one before, in strategies that overlap by tokens."""
    sentences: int
    """Sentences in a chunk, in strategies that count sentences."""
    sentence_overlap: int
    reason: str

    def params(self, strategy_name: str) -> dict[str, Any]:
        """The preset's values for the parameters that strategy has. Raises BadParameter for an unknown strategy."""
        fields = registry.strategy(strategy_name).params_type.model_fields
        values: dict[str, Any] = {field: self.size for field in _SIZE_FIELDS if field in fields}
        if "sentences" in fields:
            values |= {"sentences": self.sentences, "overlap": self.sentence_overlap}
        elif "overlap" in fields:
            values["overlap"] = self.overlap
        return values

    def spec(self, strategy_name: str | None = None) -> StrategySpec:
        """The spec of a strategy, by default the preset's own, with the preset's values."""
        name = strategy_name or self.strategy_name
        return registry.spec(name, self.params(name))


PRESETS: tuple[Preset, ...] = (
    Preset(
        "faq",
        "FAQ",
        "paragraph",
        size=128,
        overlap=0,
        sentences=3,
        sentence_overlap=0,
        reason="A question and its answer are short and complete: small chunks hold one pair each, and overlap would mix neighbours.",
    ),
    Preset(
        "technical",
        "Technical documentation",
        "markdown_structure",
        size=512,
        overlap=50,
        sentences=6,
        sentence_overlap=1,
        reason="Sections answer one task each: whole sections up to 512 tokens keep steps, tables and code together; a tenth of overlap bridges what is cut.",
    ),
    Preset(
        "legal",
        "Legal text and regulations",
        "parent_child",
        size=512,
        overlap=64,
        sentences=5,
        sentence_overlap=1,
        reason="A question hits one clause, and its conditions stand elsewhere in the article: clauses are searched and the article is delivered; an eighth of overlap keeps a condition with its rule where windows are used.",
    ),
    Preset(
        "academic",
        "Academic papers",
        "markdown_structure",
        size=768,
        overlap=96,
        sentences=8,
        sentence_overlap=2,
        reason="An argument runs over several paragraphs of long sentences: larger chunks keep claim and evidence together; an eighth of overlap bridges them.",
    ),
    Preset(
        "chat",
        "Chats and transcripts",
        "recursive",
        size=256,
        overlap=48,
        sentences=8,
        sentence_overlap=2,
        reason="Turns are short and lean on the turn before: small chunks of whole lines, with almost a fifth of overlap so that an answer keeps its question.",
    ),
    Preset(
        "code",
        "Source code",
        "code_aware",
        size=512,
        overlap=0,
        sentences=5,
        sentence_overlap=0,
        reason="Functions and classes are the units and carry their own context: none is repeated, so the overlap is 0.",
    ),
    Preset(
        "fiction",
        "Fiction and long prose",
        "recursive",
        size=1024,
        overlap=128,
        sentences=12,
        sentence_overlap=2,
        reason="Scenes unfold over pages and nothing marks where a topic ends: large chunks, with an eighth of overlap.",
    ),
)

_BY_NAME = {preset.name: preset for preset in PRESETS}


def preset(name: str) -> Preset:
    """The preset of that name. Raises BadParameter that lists the names there are."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise BadParameter(f"There is no preset {name!r}. Choose one of: {', '.join(_BY_NAME)}.") from None
