from __future__ import annotations

from typing import Any

import pytest

from engine import tokens
from engine.errors import BadParameter, NeedsModel
from engine.models import ChunkSet, Span
from engine.providers.base import Models
from engine.strategies.semantic import Semantic
from tests.engine.strategies.doubles import KeywordEmbedder, source

STRATEGY = Semantic()
TAX, LAW, SEA = "A tax is due. ", "The law says so. ", "The sea is deep. "


def cut(text: str, embedder: KeywordEmbedder | None = None, **values: Any) -> ChunkSet:
    models = Models(embedder=embedder or KeywordEmbedder("tax", "law", "sea"))
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), models)


def texts(chunks: ChunkSet) -> list[str]:
    return [chunk.text for chunk in chunks.chunks]


def test_cuts_after_the_last_sentence_of_a_topic() -> None:
    assert texts(cut(TAX * 3 + LAW * 4 + SEA * 3)) == [TAX * 3, LAW * 4, SEA * 3]


def test_the_curve_holds_every_boundary_and_the_threshold() -> None:
    curve = cut(TAX * 2 + LAW, min_sentences=1, threshold=0.25).curve
    assert curve is not None
    assert curve.positions == (len(TAX), 2 * len(TAX))
    assert curve.values == pytest.approx((1.0, 0.0))
    assert curve.threshold == 0.25


def test_a_drop_that_leaves_too_few_sentences_is_no_boundary() -> None:
    assert texts(cut(TAX * 2 + LAW * 3)) == [TAX * 2 + LAW * 3]
    assert texts(cut(TAX * 3 + LAW * 2)) == [TAX * 3 + LAW * 2]
    assert texts(cut(TAX * 2 + LAW * 2, min_sentences=2)) == [TAX * 2, LAW * 2]


def test_a_cosine_equal_to_the_threshold_is_no_drop() -> None:
    assert len(cut(TAX + LAW, min_sentences=1, threshold=0.0).chunks) == 1


def test_percentile_cuts_at_this_documents_own_weakest_places() -> None:
    """Cosines (1, sqrt(1/2), 1, 1): the 25th percentile lies three quarters of the way from the lowest to the next."""
    mixed = "The tax law is new. "
    chunks = cut(TAX * 2 + mixed * 3, mode="percentile", percentile=25, min_sentences=1)
    assert texts(chunks) == [TAX * 2, mixed * 3]
    assert chunks.curve is not None
    assert chunks.curve.threshold == pytest.approx(0.25 * 0.707107 + 0.75)


def test_the_cap_is_never_exceeded_and_cuts_between_sentences() -> None:
    chunks = cut(TAX * 5, max_tokens=11)
    assert [tokens.count(text) for text in texts(chunks)] == [c.token_count for c in chunks.chunks]
    assert max(c.token_count for c in chunks.chunks) <= 11
    assert "".join(texts(chunks)) == TAX * 5
    assert all(text.endswith(". ") for text in texts(chunks))


def test_a_sentence_longer_than_the_cap_is_cut_after_a_space() -> None:
    chunks = cut("word " * 5000 + "end.", max_tokens=100)
    assert all(tokens.count(text) <= 100 for text in texts(chunks))
    assert "".join(texts(chunks)) == "word " * 5000 + "end."
    assert all(text.endswith(" ") for text in texts(chunks)[:-1])


def test_a_character_that_alone_exceeds_the_cap_is_kept_whole_and_flagged() -> None:
    chunks = cut("\U00012345" * 3, max_tokens=1)
    assert texts(chunks) == ["\U00012345"] * 3
    assert all(chunk.flags == ("over_limit",) for chunk in chunks.chunks)


@pytest.mark.parametrize("text", ["No stop at all", "One sentence.", "One sentence. And a second."])
def test_one_and_two_sentences(text: str) -> None:
    for mode in ("threshold", "percentile"):
        assert texts(cut(text, mode=mode)) == [text]


def test_empty_and_blank() -> None:
    assert cut("").chunks == ()
    assert [chunk.flags for chunk in cut(" \n ").chunks] == [("blank",)]


def test_a_heading_stays_with_its_body() -> None:
    """ "# Law" is a sentence of its own and the text below it has another topic: the cut comes before the heading."""
    text = TAX * 3 + "\n\n# Law\n\n" + SEA * 3
    assert texts(cut(text, min_sentences=1)) == [TAX * 3 + "\n\n", "# Law\n\n" + SEA * 3]


def test_spans_tile_the_text() -> None:
    chunks = cut(TAX * 3 + LAW * 4 + SEA * 3).chunks
    assert [c.span for c in chunks] == [Span(0, 42), Span(42, 110), Span(110, 161)]


def test_sentences_are_embedded_once_per_document() -> None:
    embedder = KeywordEmbedder("tax")
    shared = source(TAX * 3 + LAW * 3)
    for threshold in (0.2, 0.8):
        STRATEGY.chunk(shared, STRATEGY.parse({"threshold": threshold}), Models(embedder=embedder))
    assert embedder.calls == [(TAX.strip(),) * 3 + (LAW.strip(),) * 3]


@pytest.mark.parametrize("text", ["\n\n" + TAX + LAW, " \r\n\r\n# Law\n\n\n" + LAW + "\n\n\n \n", "。 。\n\n\n。"])
def test_no_sentence_given_to_the_embedder_is_blank(text: str) -> None:
    embedder = KeywordEmbedder("tax")
    assert "".join(texts(cut(text, embedder))) == text
    assert all(embedder.calls[0])


def test_refusals_are_in_words() -> None:
    with pytest.raises(NeedsModel, match="none is configured"):
        STRATEGY.chunk(source(TAX), STRATEGY.parse({}), Models())
    with pytest.raises(BadParameter, match="max_tokens = 0"):
        STRATEGY.parse({"max_tokens": 0})
    with pytest.raises(BadParameter, match="mode = 'both'"):
        STRATEGY.parse({"mode": "both"})


def test_labels_tell_specs_apart() -> None:
    assert STRATEGY.spec().label == "semantic 0.5/3/512"
    assert STRATEGY.spec({"mode": "percentile"}).label == "semantic p25/3/512"
