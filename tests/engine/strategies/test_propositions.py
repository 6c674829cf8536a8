from __future__ import annotations

from typing import Any

import pytest

from engine import tokens
from engine.errors import ModelCallFailed, NeedsModel
from engine.models import ChunkSet, Span
from engine.providers.base import ChatReply, ChatRequest, Models
from engine.strategies.propositions import Propositions, is_grounded, paragraph_spans
from tests.engine.strategies.doubles import ScriptedChat, saying, source

STRATEGY = Propositions()
FEE, TERM = "The fee is 40 EUR and is due in March.\n\n", "The board meets twice a year."


def cut(chat: ScriptedChat, text: str = FEE + TERM, **values: Any) -> ChunkSet:
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), Models(chat=chat))


def by_paragraph(answers: dict[str, list[str]]) -> ScriptedChat:
    """Answers a request by the paragraph it holds."""

    def answer(request: ChatRequest) -> ChatReply:
        user = request.messages[1]["content"]
        return ChatReply("ok", data={"statements": next(s for text, s in answers.items() if text in user)})

    return ScriptedChat(answer)


def test_each_statement_is_tied_to_its_paragraph() -> None:
    chunks = cut(by_paragraph({FEE: ["The fee is 40 EUR.", "The fee is due in March."], TERM: [TERM]})).chunks
    assert [(c.text, c.span, c.source_span) for c in chunks] == [
        ("The fee is 40 EUR.", None, Span(0, len(FEE))),
        ("The fee is due in March.", None, Span(0, len(FEE))),
        (TERM, None, Span(len(FEE), len(FEE + TERM))),
    ]
    assert [chunk.token_count for chunk in chunks] == [tokens.count(chunk.text) for chunk in chunks]
    assert len({chunk.chunk_id for chunk in chunks}) == 3
    assert all(chunk.flags == () for chunk in chunks)
    assert all(chunk.attributes == {"prompt": "propositions/1"} for chunk in chunks)


def test_statements_about_something_else_are_marked_and_kept() -> None:
    chunks = cut(
        by_paragraph({FEE: ["Bananas grow in Ecuador.", "The fee is 50 EUR.", "The fee is 40 EUR."], TERM: [TERM]})
    )
    assert [chunk.flags for chunk in chunks.chunks] == [("unverified",), ("unverified",), (), ()]


@pytest.mark.parametrize(
    ("statement", "grounded"),
    [
        ("The fees are due.", True),
        ("The sun is in the sky.", False),
        ("Die Gebühr beträgt nichts.", False),
        ("The fee of 40 EUR is due.", True),
        ("The fee of 4 EUR is due.", False),
        ("It is so.", True),
        ("", False),
    ],
)
def test_what_counts_as_grounded(statement: str, grounded: bool) -> None:
    assert is_grounded(statement, "The fee is 40 EUR; the fees fall due in March, and it is so.") is grounded


def test_a_number_of_the_heading_path_is_known() -> None:
    assert is_grounded("Under Article 5 the fee is due.", "The fee is due.", "Chapter II > Article 5")
    assert not is_grounded("Under Article 6 the fee is due.", "The fee is due.", "Chapter II > Article 5")


def test_grounding_in_scripts_without_spaces() -> None:
    assert is_grounded("会员缴纳会费。", "会员应当在每年三月缴纳会费。")
    assert not is_grounded("香蕉生长于厄瓜多尔。", "会员应当在每年三月缴纳会费。")


def test_duplicates_within_a_paragraph_are_removed() -> None:
    chunks = cut(by_paragraph({FEE: ["The fee is due.", " the  fee is DUE.", ""], TERM: [TERM, TERM]})).chunks
    assert [chunk.text for chunk in chunks] == ["The fee is due.", TERM]


def test_a_paragraph_without_statements_stands_for_itself() -> None:
    chunks = cut(by_paragraph({FEE: [], TERM: [TERM]}))
    assert chunks.chunks[0].text == FEE
    assert chunks.chunks[0].span == Span(0, len(FEE))
    assert chunks.chunks[0].flags == ("no_statements",)
    assert chunks.uncovered == ()


def test_a_heading_is_read_with_the_paragraph_below_it() -> None:
    given = source("\n\n# Fees\n\nThe fee is due.\n\nPay it.\n\n")
    assert [span.slice(given.text) for span in paragraph_spans(given)] == [
        "\n\n# Fees\n\nThe fee is due.\n\n",
        "Pay it.\n\n",
    ]


def test_a_long_paragraph_is_asked_about_in_parts() -> None:
    chat = saying(data={"statements": []})
    chunks = cut(chat, "The tax is due today. " * 20, paragraph_tokens=16).chunks
    assert len(chat.requests) == len(chunks) > 1
    assert all(tokens.count(chunk.text) <= 16 for chunk in chunks)


def test_the_answer_is_asked_for_by_schema() -> None:
    chat = saying(data={"statements": ["The board meets."]})
    cut(chat)
    assert [request.schema_name for request in chat.requests] == ["statements"] * 2
    assert chat.requests[0].schema is not None
    assert chat.requests[0].schema["required"] == ["statements"]
    assert list(STRATEGY.requests(source(FEE + TERM), STRATEGY.parse({}))) == chat.requests


def test_a_failed_call_and_a_missing_model() -> None:
    with pytest.raises(ModelCallFailed) as failure:
        cut(ScriptedChat(lambda request: ChatReply("invalid_output", detail="The answer is not JSON.")))
    assert failure.value.cause == "invalid_output"
    with pytest.raises(ModelCallFailed):
        cut(saying("prose in place of statements"))
    with pytest.raises(NeedsModel):
        STRATEGY.chunk(source(FEE), STRATEGY.parse({}), Models())


def test_empty_and_blank_texts_ask_nothing() -> None:
    chat = saying(data={"statements": []})
    assert cut(chat, "").chunks == ()
    assert [chunk.flags for chunk in cut(chat, " ").chunks] == [("blank",)]
    assert chat.requests == []


def test_nobody_is_asked_about_white_space() -> None:
    chat = saying(data={"statements": []})
    chunks = cut(chat, "\n" * 400 + "Body." + " \n" * 400, paragraph_tokens=16).chunks
    assert len(chat.requests) == len(chunks)
    assert all(chunk.text.strip() for chunk in chunks)
