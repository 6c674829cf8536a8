"""Paragraph: paragraphs between blank lines, short neighbours merged."""

from __future__ import annotations

from pydantic import Field

from engine.providers.base import Models
from engine.strategies.base import Cut, Params, Strategy
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, TokenRuler, pack, pieces
from engine.strategies.sentences import sentence_starts
from engine.strategies.source import Source


class ParagraphParams(Params):
    size: int = Field(
        512, ge=1, le=100_000, description="Most tokens in a chunk. A longer paragraph is cut between sentences."
    )


class Paragraph(Strategy[ParagraphParams]):
    name = "paragraph"
    title = "Paragraph"
    rule = "Paragraphs between blank lines, merged with their neighbours up to a token limit."
    best_for = "Prose whose author used paragraphs with care: articles, guides, contracts, minutes."
    avoid_when = "Blank lines mean nothing: text out of PDF pages, logs, transcripts, one long line."
    cost = "No model. About the time of counting the tokens."
    params_type = ParagraphParams

    def _cut(self, source: Source, params: ParagraphParams, models: Models) -> Cut:
        measure = TokenRuler(source.tokens)
        seams = Seams(source.text, source.headings)
        levels = [
            Level("blank line", between(seams.kept(source.paragraphs))),
            Level("sentence", lambda start, end: seams.kept(sentence_starts(source.text, start, end))),
        ]
        return Cut(pieces(pack(0, len(source.text), levels, measure, params.size), measure))
