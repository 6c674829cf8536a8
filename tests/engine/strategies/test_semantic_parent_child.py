from __future__ import annotations

from typing import Any

import pytest

from engine import tokens
from engine.errors import BadParameter, NeedsModel
from engine.models import ChunkSet, Span
from engine.providers.base import Models
from engine.strategies.semantic_parent_child import SemanticParentChild
from tests.engine.strategies.doubles import KeywordEmbedder, source

STRATEGY = SemanticParentChild()
TAX, LAW = "A tax is due. Pay the tax.\n\n", "The law says so.\n\n"


def cut(text: str, embedder: KeywordEmbedder | None = None, **values: Any) -> ChunkSet:
    models = Models(embedder=embedder or KeywordEmbedder("tax", "law"))
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), models)


def test_paragraphs_are_children_and_topics_are_parents() -> None:
    chunks = cut(TAX + TAX + LAW).chunks
    first, second = Span(0, 2 * len(TAX)), Span(2 * len(TAX), 2 * len(TAX) + len(LAW))
    assert [(c.text, c.parent_span) for c in chunks] == [(TAX, first), (TAX, first), (LAW, second)]
    assert chunks[0].parent_id == chunks[1].parent_id != chunks[2].parent_id


def test_a_cosine_at_the_threshold_joins() -> None:
    assert len({c.parent_id for c in cut(TAX + LAW, threshold=0.0).chunks}) == 1
    assert len({c.parent_id for c in cut(TAX + LAW, threshold=0.01).chunks}) == 2


def test_the_curve_shows_paragraph_boundaries() -> None:
    curve = cut(TAX + TAX + LAW).curve
    assert curve is not None
    assert curve.positions == (len(TAX), 2 * len(TAX))
    assert curve.values == pytest.approx((1.0, 0.0))


def test_a_topic_longer_than_a_parent_gives_several() -> None:
    chunks = cut(TAX * 20, child_tokens=40, parent_tokens=40).chunks
    parents = {c.parent_span for c in chunks}
    assert len(parents) > 1
    assert all(tokens.count((TAX * 20)[p.start : p.end]) <= 40 for p in parents if p)
    assert all(c.span and c.parent_span and c.parent_span.overlap(c.span) == c.span.length for c in chunks)


def test_a_paragraph_longer_than_a_child_is_cut_between_sentences_under_one_parent() -> None:
    chunks = cut("A tax is due now. " * 30, child_tokens=24).chunks
    assert len(chunks) > 1
    assert all(tokens.count(c.text) <= 24 and c.text.endswith("now. ") for c in chunks)
    assert len({c.parent_id for c in chunks}) == 1


def test_children_are_embedded_as_they_are_stored() -> None:
    embedder = KeywordEmbedder("tax")
    chunks = cut(TAX + LAW, embedder).chunks
    assert embedder.calls == [tuple(c.embed_text for c in chunks)]


def test_one_paragraph_and_none() -> None:
    assert [c.text for c in cut("Just this.").chunks] == ["Just this."]
    assert cut("").chunks == ()
    assert [c.flags for c in cut("\n").chunks] == [("blank",)]


def test_refusals_are_in_words() -> None:
    with pytest.raises(BadParameter, match="child_tokens 600 must not be larger than parent_tokens 500"):
        STRATEGY.parse({"child_tokens": 600, "parent_tokens": 500})
    with pytest.raises(NeedsModel):
        STRATEGY.chunk(source(TAX), STRATEGY.parse({}), Models())
