"""Delivery: parents once, windows inside a budget."""

from __future__ import annotations

from datetime import UTC, datetime

from engine import tokens
from engine.index.base import Hit
from engine.models import Chunk, Document, Node, NodeKind, Span, Structure
from engine.retrieve import deliver

TEXT = "Article 1. The fee is due in May. It is paid once.\n\nArticle 2. The fine is due in June. It is paid twice."
FIRST, SECOND = Span(0, 50), Span(52, 105)


def document() -> Document:
    return Document(
        document_id="d",
        name="law.md",
        media_type="text/markdown",
        byte_size=len(TEXT),
        sha256="0",
        parser_version="1",
        structure=Structure(rule="test", confidence="high"),
        visible_characters=0,
        kept_characters=0,
        token_count=0,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        text=TEXT,
        tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(TEXT))),
    )


def chunk(chunk_id: str, span: Span, parent: Span | None = None) -> Chunk:
    text = span.slice(TEXT)
    return Chunk(
        chunk_id=chunk_id,
        document_id="d",
        document_name="law.md",
        strategy_name="parent_child",
        spec_id="s",
        chunk_index=0,
        total_chunks=1,
        text=text,
        span=span,
        token_count=tokens.count(text),
        character_count=len(text),
        word_count=len(text.split()),
        content_hash="h",
        parent_span=parent,
    )


def delivered(chunks: list[Chunk], context_tokens: int = 1000):
    hits = [Hit(c.chunk_id, "d", 1.0 - i / 10) for i, c in enumerate(chunks)]
    known = {c.chunk_id: c for c in chunks}
    return deliver(hits, lambda ids: {i: known[i] for i in ids}, lambda _: document(), context_tokens)


def test_a_chunk_without_parent_delivers_itself() -> None:
    (hit,) = delivered([chunk("a", Span(11, 33))])
    assert hit.delivered_text == "The fee is due in May."
    assert (hit.rank, hit.note) == (1, None)


def test_a_parent_is_delivered_once_and_the_second_child_says_where() -> None:
    first, second, other = delivered(
        [chunk("a", Span(11, 33), FIRST), chunk("b", Span(34, 50), FIRST), chunk("c", Span(63, 87), SECOND)]
    )
    assert first.delivered_span == FIRST
    assert (second.delivered_span, second.note) == (None, "delivered with hit 1")
    assert other.delivered_text.startswith("Article 2.")


def test_a_parent_over_the_budget_is_a_window_that_holds_the_child_and_says_so() -> None:
    child = Span(63, 87)
    (hit,) = delivered([chunk("c", child, Span(0, len(TEXT)))], context_tokens=15)
    assert hit.delivered_span is not None
    assert hit.delivered_span.start <= child.start
    assert hit.delivered_span.end >= child.end
    assert tokens.count(hit.delivered_text) <= 15
    assert hit.note == f"shortened from {tokens.count(TEXT)} tokens to fit the budget"


def test_a_child_over_the_budget_is_cut_at_its_end() -> None:
    (hit,) = delivered([chunk("a", FIRST)], context_tokens=4)
    assert TEXT.startswith(hit.delivered_text)
    assert 0 < tokens.count(hit.delivered_text) <= 4


def test_nothing_is_delivered_once_the_budget_is_full() -> None:
    budget = tokens.count(FIRST.slice(TEXT))
    first, second = delivered([chunk("a", FIRST), chunk("b", SECOND)], context_tokens=budget)
    assert first.delivered_span == FIRST
    assert (second.delivered_span, second.note) == (None, "not delivered: the budget is full")


def test_no_document_is_opened_for_whole_chunks_and_none_once_the_budget_is_full() -> None:
    first, second = chunk("a", Span(11, 33)), chunk("b", Span(63, 87))
    opened: list[str] = []

    def open_document(document_id: str) -> Document:
        opened.append(document_id)
        return document()

    hits = [Hit(each.chunk_id, "d", 1.0) for each in (first, second)]
    fits, over = deliver(hits, lambda _: {"a": first, "b": second}, open_document, first.token_count)
    assert (fits.delivered_text, over.note) == (first.text, "not delivered: the budget is full")
    assert not opened
