from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from engine.errors import BadParameter, ModelCallFailed, NeedsModel
from engine.models import ChunkSet
from engine.providers.base import Models, TokenVectors, Vectors
from engine.strategies.late_chunking import LateChunking, embed_query, pooled
from engine.strategies.recursive import Recursive
from tests.engine.strategies.doubles import WordTokenEmbedder, source

STRATEGY = LateChunking()
HALF = 0.5**0.5


def cut(text: str, embedder: WordTokenEmbedder, **values: Any) -> ChunkSet:
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), Models(token_embedder=embedder))


def rows(chunks: ChunkSet) -> Vectors:
    assert chunks.vectors is not None
    return chunks.vectors.rows


class PositionEmbedder(WordTokenEmbedder):
    """Each word's vector tells in which window it was encoded: axis 0 for the first call, axis 1 for the second, ..."""

    @property
    def dimension(self) -> int:
        return 4

    def embed_tokens(self, text: str) -> TokenVectors:
        vectors = np.zeros((len(text.split()), 4), dtype=np.float32)
        vectors[:, len(self.texts)] = 1.0
        self.texts.append(text)
        return TokenVectors(vectors, self.token_offsets(text))


def test_a_chunk_is_the_mean_of_its_token_vectors_at_unit_length() -> None:
    """First paragraph: one word on axis "tax", one on axis "law". Second: two words "law"."""
    chunks = cut("tax law\n\nlaw law", WordTokenEmbedder("tax", "law"), base="paragraph", size=3)
    assert [chunk.text for chunk in chunks.chunks] == ["tax law\n\n", "law law"]
    assert rows(chunks) == pytest.approx(np.array([[HALF, HALF, 0], [0, 1, 0]]))
    assert rows(chunks).dtype == np.float32
    assert chunks.vectors is not None
    assert chunks.vectors.model == "words:tax,law"


def test_the_document_is_encoded_whole() -> None:
    embedder = WordTokenEmbedder("tax")
    text = "tax due.\n\nlaw due."
    cut(text, embedder, base="paragraph", size=3)
    assert embedder.texts == [text]


@pytest.mark.parametrize("base", ["fixed_size", "recursive", "sentence", "paragraph", "markdown_structure"])
def test_spans_are_those_of_the_base_without_overlap(base: str) -> None:
    text = "# One\n\n" + "A tax is due. " * 30 + "\n\n# Two\n\n" + "The law says so. " * 30
    chunks = cut(text, WordTokenEmbedder("tax"), base=base, size=40)
    assert "".join(chunk.text for chunk in chunks.chunks) == text
    assert rows(chunks).shape == (len(chunks.chunks), 2)
    with_tokens = [not chunk.text.isspace() for chunk in chunks.chunks]
    assert np.linalg.norm(rows(chunks)[with_tokens], axis=1) == pytest.approx(1.0)


def test_the_cut_is_the_base_strategys_own() -> None:
    text = "A tax is due. " * 60
    base = Recursive()
    expected = base.chunk(source(text), base.parse({"size": 50, "overlap": 0}), Models()).chunks
    assert [c.span for c in cut(text, WordTokenEmbedder("tax"), size=50).chunks] == [c.span for c in expected]


def test_windows_share_their_overlap_by_halves() -> None:
    """Ten words, context 6: of overlap 4 half the context, 3, is used. Shared are w3-w5 and w6-w8; the middle word goes to the later."""
    text = " ".join(f"w{i}" for i in range(10))
    embedder = PositionEmbedder(context_tokens=6)
    one_chunk_per_word = np.arange(0, len(text), 3, dtype=np.int64)
    vectors = pooled(embedder, text, one_chunk_per_word, overlap=4)
    assert embedder.texts == ["w0 w1 w2 w3 w4 w5", "w3 w4 w5 w6 w7 w8", "w6 w7 w8 w9"]
    assert vectors.argmax(axis=1).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_windows_give_what_one_pass_gives_when_context_plays_no_part() -> None:
    text = "tax law sea " * 166 + "tax law"
    starts = np.arange(0, len(text), 40, dtype=np.int64)
    whole = pooled(WordTokenEmbedder("tax", "law"), text, starts, overlap=0)
    for context, overlap in [(7, 0), (50, 10), (64, 64), (499, 3)]:
        parts = pooled(WordTokenEmbedder("tax", "law", context_tokens=context), text, starts, overlap)
        assert parts == pytest.approx(whole)


def test_a_window_that_has_more_tokens_on_its_own_is_shortened() -> None:
    """This encoder makes two tokens of a text's first word unless it begins the document."""

    class Splitting(WordTokenEmbedder):
        def token_offsets(self, text: str) -> np.ndarray:
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            if spans and text[:2] != "w0":
                start, end = spans[0]
                spans[:1] = [(start, start + 1), (start + 1, end)]
            return np.array(spans, dtype=np.int64).reshape(len(spans), 2)

    embedder = Splitting(context_tokens=5)
    text = " ".join(f"w{i}" for i in range(10))
    pooled(embedder, text, np.zeros(1, dtype=np.int64), overlap=0)
    assert embedder.texts == ["w0 w1 w2 w3 w4", "w5 w6 w7 w8", "w9"]


def test_a_token_across_two_chunks_belongs_to_the_one_with_its_last_character() -> None:
    vectors = pooled(WordTokenEmbedder("tax", "law"), "tax lawful", np.array([0, 6], dtype=np.int64), overlap=0)
    assert vectors == pytest.approx(np.array([[1, 0, 0], [0, 1, 0]]))


def test_a_chunk_without_tokens_has_a_zero_vector_and_says_so() -> None:
    class Deaf(WordTokenEmbedder):
        def token_offsets(self, text: str) -> np.ndarray:
            spans = [match.span() for match in re.finditer(r"[a-z]+", text)]
            return np.array(spans, dtype=np.int64).reshape(len(spans), 2)

    chunks = cut("tax law\n\n!!!! ???? !!!!", Deaf("tax"), base="paragraph", size=3)
    assert chunks.chunks[0].flags == ()
    assert {chunk.flags for chunk in chunks.chunks[1:]} == {("no_tokens",)}
    assert not rows(chunks)[1:].any()


def test_the_question_is_pooled_like_a_chunk() -> None:
    assert embed_query(WordTokenEmbedder("tax", "law"), "tax law") == pytest.approx(np.array([HALF, HALF, 0]))


def test_empty_and_blank() -> None:
    assert rows(cut("", WordTokenEmbedder("tax"))).shape == (0, 2)
    blank = cut(" \n", WordTokenEmbedder("tax"))
    assert [chunk.flags for chunk in blank.chunks] == [("blank",)]
    assert rows(blank).tolist() == [[0.0, 0.0]]


def test_vectors_are_not_part_of_the_stored_record() -> None:
    chunks = cut("tax law", WordTokenEmbedder("tax"))
    again = ChunkSet.model_validate_json(chunks.model_dump_json())
    assert again.vectors is None
    assert again.chunks == chunks.chunks


def test_vectors_that_do_not_fit_their_tokens_are_a_failed_call() -> None:
    class Broken(WordTokenEmbedder):
        def embed_tokens(self, text: str) -> TokenVectors:
            good = super().embed_tokens(text)
            return TokenVectors(good.vectors[1:], good.offsets)

    with pytest.raises(ModelCallFailed, match=r"shape \(1, 2\) for 2 tokens"):
        cut("tax law", Broken("tax"))


def test_refusals_are_in_words() -> None:
    with pytest.raises(NeedsModel, match=r"token embedder and none is configured\. Install"):
        STRATEGY.chunk(source("tax"), STRATEGY.parse({}), Models())
    with pytest.raises(BadParameter, match="base = 'semantic'"):
        STRATEGY.parse({"base": "semantic"})
