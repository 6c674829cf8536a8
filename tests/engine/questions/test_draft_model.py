from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.models import Document, Node, NodeKind, Span
from engine.providers.base import ChatReply, ChatRequest, Usage
from engine.questions.draft_model import Outcome, draft_with_model, plan
from tests.engine.metrics.examples import document

WORDS = "The party named in this article keeps all of the records it needs to show that it meets the duties of the act, and shows them to any person who asks."


def act(articles: int = 10) -> Document:
    parts = [f"Article {i}\n\n{WORDS} Rule {i} costs {i} coins.\n\n" for i in range(1, articles + 1)]
    starts = [sum(map(len, parts[:i])) for i in range(articles)]
    nodes = [
        Node(kind=NodeKind.ARTICLE, span=Span(start, start + len(part)), label=f"Article {i}")
        for i, (start, part) in enumerate(zip(starts, parts, strict=True), start=1)
    ]
    return document("".join(parts), *nodes)


class Writer:
    """A chat model that answers each request with `reply(request)`: an object, or the cause of a failure."""

    model = "writer"

    def __init__(self, reply: Callable[[ChatRequest], Any]) -> None:
        self.reply = reply
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        found = self.reply(request)
        usage = Usage(input_tokens=100, output_tokens=10, calls=1, cost_usd=0.01)
        return ChatReply(status=found) if isinstance(found, str) else ChatReply(status="ok", data=found, usage=usage)

    def complete_many(
        self, requests: Sequence[ChatRequest], cancelled: Callable[[], bool] = lambda: False, **_: Any
    ) -> list[ChatReply]:
        return [ChatReply(status="cancelled") if cancelled() else self.complete(request) for request in requests]


def rules(request: ChatRequest) -> list[str]:
    """The sentences about coins in the passages of a request."""
    text = request.messages[-1]["content"]
    return (
        [part.split(" coins.")[0] + " coins." for part in text.split("it. ")[1:]]
        if "it. " in text
        else ["Rule" + part.split(" coins.")[0] + " coins." for part in text.split("Rule")[1:]]
    )


def honest(request: ChatRequest) -> dict[str, Any]:
    quotes = rules(request)
    return {
        "question": f"Price of {quotes[0].split()[1] * 3} and {quotes[-1].split()[1] * 3}?",
        "answer": "Coins.",
        "quotes": quotes,
    }


def test_the_plan_is_seeded_and_holds_both_special_kinds() -> None:
    items = plan([act(12)], 10, seed=1)
    assert items == plan([act(12)], 10, seed=1)
    tasks = [item.task for item in items]
    assert tasks.count("multi") == 2
    assert tasks.count("unanswerable") == 1
    spans = [span for item in items for span in item.units]
    assert len(spans) == len(set(spans)) == 12


def test_quotes_are_verified_and_questions_marked() -> None:
    done = draft_with_model([act()], Writer(honest), 8, seed=1)
    questions = done.questions
    assert len(questions) == len(done.outcomes)
    for question in questions:
        assert (question.origin, question.reviewed) == ("drafted", False)
        assert question.answerable == bool(question.evidence)
        assert len(question.gold) == (2 if "multi" in question.tags else 1 if question.answerable else 0)
    assert {question.tags[1] for question in questions} == {"multi", "single", "unanswerable"}
    assert done.input_tokens == 100 * len(done.outcomes)
    assert done.cost_usd is not None


def test_a_quote_that_is_not_in_the_passage_costs_the_question() -> None:
    def invented(request: ChatRequest) -> dict[str, Any]:
        return {**honest(request), "quotes": ["Rule 99 costs nothing at all."]}

    done = draft_with_model([act()], Writer(invented), 5)
    assert all(question.tags == ("drafted", "unanswerable") for question in done.questions)
    assert done.rejected["quote_not_found"] == len(done.outcomes) - len(done.questions)


def test_a_question_over_two_articles_must_quote_both() -> None:
    def half(request: ChatRequest) -> dict[str, Any]:
        answer = honest(request)
        return {**answer, "quotes": answer["quotes"][:1]}

    done = draft_with_model([act()], Writer(half), 8, seed=1)
    assert done.rejected == {"passage_not_quoted": sum(item.task == "multi" for item in plan([act()], 8, seed=1))}


def test_near_duplicates_and_empty_questions_are_dropped() -> None:
    def same(request: ChatRequest) -> dict[str, Any]:
        return {**honest(request), "question": "What does the rule cost?"}

    done = draft_with_model([act()], Writer(same), 5)
    assert len(done.questions) == 1
    assert done.rejected == {"near_duplicate": len(done.outcomes) - 1}
    blank = draft_with_model([act()], Writer(lambda request: {"question": " ", "answer": "", "quotes": []}), 3)
    assert blank.rejected == {"empty": 3}


def test_a_failed_call_costs_its_own_question_and_is_asked_again() -> None:
    failing = Writer(lambda request: "timeout" if len(failing.requests) == 2 else honest(request))
    first = draft_with_model([act()], failing, 5, seed=2)
    assert first.rejected == {"timeout": 1}
    again = Writer(honest)
    second = draft_with_model([act()], again, 5, seed=2, done={o.item_id: o for o in first.outcomes})
    assert len(again.requests) == 1
    assert second.rejected == {}
    assert set(first.questions) < set(second.questions)


def test_a_run_that_was_stopped_goes_on_where_it_stopped() -> None:
    stored: list[Outcome] = []
    whole = draft_with_model([act(40)], Writer(honest), 30, seed=4)
    stopped = draft_with_model(
        [act(40)], Writer(honest), 30, seed=4, on_outcome=stored.append, cancelled=lambda: len(stored) >= 16
    )
    assert 0 < len(stopped.outcomes) < len(whole.outcomes)
    rest = Writer(honest)
    resumed = draft_with_model([act(40)], rest, 30, seed=4, done={outcome.item_id: outcome for outcome in stored})
    assert resumed.outcomes == whole.outcomes
    assert len(rest.requests) == len(whole.outcomes) - len(stored)


def test_document_text_is_marked_as_data() -> None:
    writer = Writer(honest)
    draft_with_model([act()], writer, 3)
    for request in writer.requests:
        system, user = request.messages
        tag = user["content"].split("<", 1)[1].split(">", 1)[0]
        assert f"<{tag}>" in system["content"]
        assert user["content"].count(f"</{tag}>") >= 2


def test_nothing_to_ask_about() -> None:
    assert draft_with_model([document("Short.")], Writer(honest), 5).outcomes == ()
    assert draft_with_model([], Writer(honest), 5).outcomes == ()
