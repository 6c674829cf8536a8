from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from engine.errors import ModelCallFailed
from engine.providers.base import ChatModel, ChatReply, ChatRequest
from engine.providers.openai import Endpoint, connect
from engine.providers.openai_chat import OpenAIChat
from engine.providers.prices import load_prices
from tests.engine.providers.conftest import MakeChat
from tests.fake_openai import FakeOpenAI

SCHEMA = {
    "type": "object",
    "properties": {"statements": {"type": "array", "items": {"type": "string"}}},
    "required": ["statements"],
    "additionalProperties": False,
}


def asked(text: str = "The operator keeps records. Records last five years.", **changes: object) -> ChatRequest:
    marked = f"Paragraph:\n<data-1>\n{text}\n</data-1>"
    messages = ({"role": "system", "content": "Break it into statements."}, {"role": "user", "content": marked})
    return ChatRequest(messages, **changes)  # type: ignore[arg-type]


QUESTION = ChatRequest(
    (
        {
            "role": "user",
            "content": "Question:\n<d>\nHow long do records last?\n</d>\n\n"
            "Passage 1:\n<d>\nBananas ripen.\n</d>\n\nPassage 2:\n<d>\nRecords last five years.\n</d>",
        },
    )
)


def test_prose_with_usage_and_cost(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    chat = make_chat()
    reply = chat.complete(QUESTION)
    assert (reply.status, reply.text) == ("ok", "Records last five years. [2]")
    sent, written = fake_openai.counters.input_tokens, fake_openai.counters.output_tokens
    assert reply.usage[:4] == (sent, written, 0, 1)
    assert reply.usage.cost_usd == pytest.approx((sent * 0.15 + written * 0.60) / 1e6)
    assert reply.seconds > 0
    assert isinstance(chat, ChatModel)


def test_cached_input_has_its_own_price(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.cached_share = 0.5
    usage = make_chat().complete(QUESTION).usage
    cached = usage.input_tokens // 2
    assert usage.cached_input_tokens == cached
    expected = (usage.input_tokens - cached) * 0.15 + cached * 0.075 + usage.output_tokens * 0.60
    assert usage.cost_usd == pytest.approx(expected / 1e6)


@pytest.mark.parametrize(
    ("said", "cached", "counted"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 900}}, 7, False),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -900}}, 0, False),
        ({"prompt_tokens": -7, "completion_tokens": 2}, 0, True),
        ({"prompt_tokens": 7, "completion_tokens": 10**30}, 0, True),
        ({"prompt_tokens": "7", "completion_tokens": None}, 0, True),
        ("none", 0, True),
    ],
    ids=str,
)
def test_numbers_that_cannot_be_are_not_believed(
    said: object, cached: int, counted: bool, fake_openai: FakeOpenAI, make_chat: MakeChat
) -> None:
    fake_openai.bend = lambda answer: answer.update(usage=said)
    usage = make_chat().complete(QUESTION).usage
    assert (usage.cached_input_tokens, usage.counted) == (cached, counted)
    assert 0 < usage.output_tokens < 100
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0


def test_letters_that_cannot_be_stored_are_replaced(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.script = lambda body: '{"statements": ["\\ud800a"]}'
    assert make_chat().complete(asked(schema=SCHEMA)).data == {"statements": ["?a"]}
    fake_openai.script = lambda body: "\ud800a"
    assert make_chat().complete(QUESTION).text == "?a"


def test_a_redirect_is_not_followed(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("redirect")
    reply = make_chat().complete(QUESTION)
    assert reply.status == "unavailable"
    assert "sends its callers to another address (HTTP 307), which was not followed" in reply.detail
    assert fake_openai.calls("chat") == 1


def test_a_server_without_tls_at_an_https_address(fake_openai: FakeOpenAI) -> None:
    connection = connect(Endpoint(fake_openai.url.replace("http:", "https:"), None))
    probe = OpenAIChat("gpt-4o-mini", connection, load_prices()).probe()
    assert "could not be reached safely" in probe.message


def test_an_object_that_follows_the_schema(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    reply = make_chat().complete(asked(schema=SCHEMA, schema_name="statements"))
    assert reply.data == {"statements": ["The operator keeps records.", "Records last five years."]}
    sent = fake_openai.counters.requests[0]["response_format"]
    assert sent["json_schema"] == {"name": "statements", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize(
    ("lacks", "formats"),
    [
        ({"json_schema"}, ["json_schema", "json_object", "json_object"]),
        ({"json_schema", "json_object"}, ["json_schema", "json_object", None, None]),
    ],
)
def test_a_server_without_schemas_is_told_in_words_and_that_is_remembered(
    fake_openai: FakeOpenAI, make_chat: MakeChat, lacks: set[str], formats: list[str | None]
) -> None:
    fake_openai.lacks = lacks
    chat = make_chat()
    for _ in range(2):
        assert chat.complete(asked(schema=SCHEMA)).data["statements"][0] == "The operator keeps records."
    assert [body.get("response_format", {}).get("type") for body in fake_openai.counters.requests] == formats


def test_a_server_that_ignores_the_schema_is_asked_once_more(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("prose", times=1)
    chat = make_chat()
    reply = chat.complete(asked(schema=SCHEMA))
    assert (reply.status, reply.usage.calls, reply.attempts) == ("ok", 2, 2)
    assert reply.usage.input_tokens == fake_openai.counters.input_tokens
    assert chat.complete(asked("Another text stands here.", schema=SCHEMA)).usage.calls == 1


def test_the_last_valid_object_counts(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.script = lambda body: (
        '<think>{"statements": ["thought"]}</think> First: {"statements": ["a"]}\n```json\n{"statements": ["b"]}\n```'
        ' and {"other": 1}'
    )
    reply = make_chat().complete(asked(schema=SCHEMA))
    assert reply.data == {"statements": ["b"]}


@pytest.mark.parametrize(
    ("name", "hidden"), [("max_tokens", "max_completion_tokens"), ("temperature", None), ("seed", None)]
)
def test_parameters_a_model_does_not_take(
    fake_openai: FakeOpenAI, make_chat: MakeChat, name: str, hidden: str | None
) -> None:
    fake_openai.lacks = {name}
    chat = make_chat()
    for _ in range(2):
        reply = chat.complete(asked(seed=7))
        assert reply.ok
    last = fake_openai.counters.requests[-1]
    assert name not in last
    assert fake_openai.calls("chat") == 3
    if hidden:
        assert last[hidden] == 1024
    else:
        assert reply.extra["dropped"] == [name]


def test_replies_come_in_order_and_are_reported_as_they_end(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.latency = 0.01
    requests = [asked(f"Sentence number {n} stands here.", schema=SCHEMA) for n in range(12)]
    here, ended = threading.get_ident(), []

    def note(place: int, reply: ChatReply) -> None:
        assert threading.get_ident() == here
        ended.append((place, reply))

    replies = make_chat(concurrency=4).complete_many(requests, on_reply=note)
    assert [reply.data["statements"] for reply in replies] == [[f"Sentence number {n} stands here."] for n in range(12)]
    assert dict(ended) == dict(enumerate(replies))
    assert 1 < fake_openai.counters.most_in_flight <= 4


def test_cancelled_calls_are_not_begun_and_those_in_flight_end(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.latency = 0.05
    ended: list[int] = []
    replies = make_chat(concurrency=2).complete_many(
        [asked(f"Number {n} is here.") for n in range(30)],
        cancelled=lambda: bool(ended),
        on_reply=lambda place, reply: ended.append(place),
    )
    done = [reply for reply in replies if reply.ok]
    assert {reply.status for reply in replies} == {"ok", "cancelled"}
    assert 1 <= len(done) < 30
    # Every call that was begun is answered and counted; nothing that was paid for is thrown away.
    assert len(done) == fake_openai.calls("chat") == fake_openai.counters.answered["chat"]
    assert replies[-1].usage.calls == 0
    assert make_chat().complete_many([asked()], cancelled=lambda: True)[0].status == "cancelled"


def test_a_call_that_waits_for_its_next_try_ends_when_cancelled(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("server_error")
    chat = make_chat(first_pause=600.0)
    (reply,) = chat.complete_many([asked()], cancelled=lambda: fake_openai.calls("chat") > 0)
    assert (reply.status, reply.attempts) == ("cancelled", 1)
    assert fake_openai.calls("chat") == 1


def drained(pieces: Generator[str, None, ChatReply]) -> tuple[list[str], ChatReply]:
    received = []
    while True:
        try:
            received.append(next(pieces))
        except StopIteration as end:
            return received, end.value


def test_a_streamed_answer_arrives_in_pieces_with_its_usage(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    pieces, reply = drained(make_chat().stream(QUESTION))
    assert pieces == ["Records ", "last ", "five ", "years. ", "[2]"]
    assert reply.text == "".join(pieces)
    assert reply.usage[:2] == (fake_openai.counters.input_tokens, fake_openai.counters.output_tokens)
    assert not reply.usage.counted


def test_a_stream_without_usage_is_counted(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.lacks = {"stream_options"}
    _, reply = drained(make_chat().stream(QUESTION))
    assert reply.usage.counted
    assert reply.usage.output_tokens > 0


def test_a_stream_that_breaks_off_says_so_and_is_not_repeated(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("cut")
    pieces = make_chat().stream(QUESTION)
    assert next(pieces) == "Records "
    with pytest.raises(ModelCallFailed) as caught:
        list(pieces)
    assert caught.value.cause == "unavailable"
    assert fake_openai.calls("chat") == 1


def test_a_stream_that_fails_before_its_first_piece_is_tried_again(
    fake_openai: FakeOpenAI, make_chat: MakeChat
) -> None:
    fake_openai.fault("server_error", times=2)
    pieces, reply = drained(make_chat().stream(QUESTION))
    assert "".join(pieces) == "Records last five years. [2]"
    assert reply.attempts == 3


def test_a_stream_without_sense_or_end_is_given_up(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.bend = lambda event: event.update(choices=[None])
    with pytest.raises(ModelCallFailed) as caught:
        list(make_chat(retries=0).stream(QUESTION))
    assert caught.value.cause == "unavailable"
    fake_openai.bend = lambda event: None
    fake_openai.script = lambda body: "word " * 1500
    with pytest.raises(ModelCallFailed, match="wrote without end"):
        list(make_chat().stream(replace(QUESTION, max_tokens=5)))


def test_a_stream_may_be_left_early(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    chat = make_chat(concurrency=1)
    pieces = chat.stream(QUESTION)
    next(pieces)
    pieces.close()
    # The only slot is free again.
    assert chat.complete(QUESTION).ok


def test_refusal_in_a_stream(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("refusal")
    with pytest.raises(ModelCallFailed) as caught:
        list(make_chat().stream(QUESTION))
    assert caught.value.cause == "refused"


def test_an_answer_cut_at_the_limit(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("truncated_json")
    reply = make_chat().complete(asked(schema=SCHEMA, max_tokens=50))
    assert reply.status == "invalid_output"
    assert "is JSON that is cut off" in reply.detail
    assert "raise MAX_TOKENS" in reply.detail
    # Asking again would be cut again.
    assert fake_openai.calls("chat") == 1
    prose = make_chat().complete(QUESTION)
    assert (prose.status, prose.extra["finish_reason"]) == ("ok", "length")


def test_probe(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    assert make_chat().probe().ok
    fake_openai.fault("hang")
    slow = make_chat(timeout=0.2).probe()
    assert (slow.ok, "did not answer within 0.2 s" in slow.message) == (False, True)
