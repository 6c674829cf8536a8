"""Ask and Benchmark with a chat model and a judge: answers while they are written, judged, and what a failing server leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import runtime
from engine import Workbench
from engine.providers.openai import close_connections
from engine.settings import Settings
from tests.fake_openai.server import FakeOpenAI
from tests.pages.conftest import Open, words
from tests.pages.test_ask import LAW, ask, stored


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running
        close_connections()


def opened(server: FakeOpenAI, folder: Path, timeout: float) -> Workbench:
    """The Workbench of the pages, with the server for answers and verdicts, and one document."""
    runtime.close()
    made = runtime.workbench(
        Settings(
            data_dir=folder,
            embedding_model="wordllama",
            openai_api_key="any",
            openai_base_url=server.url,
            max_retries=0,
            request_timeout=timeout,
        )
    )
    made.add_document(LAW.encode(), "law.md")
    return made


@pytest.fixture(scope="module")
def workbench(server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(name.upper(), raising=False)
        patch.setitem(Settings.model_config, "env_file", None)
        yield opened(server, tmp_path_factory.mktemp("data"), 120)
        runtime.close()


@pytest.fixture(autouse=True)
def well(server: FakeOpenAI) -> Iterator[None]:
    """The server answers as it should before and after each test."""
    yield
    server.reset()
    server.bend = lambda answer: None
    server.script = lambda body: None


def until(app: AppTest, text: str) -> None:
    """Run the page until it shows a text."""
    end = monotonic() + 100
    while text not in words(app):
        assert monotonic() < end, words(app)
        sleep(0.05)
        app.run()


def test_an_answer_is_read_while_it_is_written_and_then_stored(
    open_page: Open, server: FakeOpenAI, workbench: Workbench
) -> None:
    go_on = threading.Event()
    sent: list[Any] = []

    def hold(event: dict[str, Any]) -> None:
        sent.append(event)
        if len(sent) > 8:
            go_on.wait(100)

    server.bend = hold
    app = open_page("ask", {"ask.strategies": ["recursive"]})
    app.text_input(key="ask.question").set_value("How high is the annual fee?")
    next(button for button in app.button if button.label == "Ask").click().run()
    until(app, "The annual")
    assert "300 euros. It" not in words(app)
    assert workbench.queries(50, app.query_params["request"]) == []
    go_on.set()
    live = runtime.asking.get(("local", app.query_params["request"]))
    assert live is not None
    live.wait()
    app.run()
    (query,) = stored(app, workbench)
    assert query.answer in words(app)
    assert query.citations[0].span is not None
    app.button(key=f"cite.{query.query_id}.1").click().run()
    assert "The passage is underlined" in words(app)
    assert not app.error


def test_an_answer_from_the_cache_says_so_and_what_it_cost_first(open_page: Open, workbench: Workbench) -> None:
    question = "When is the fee due?"
    first = ask(open_page("ask", {"ask.strategies": ["recursive"]}), question)
    (paid,) = stored(first, workbench)
    assert paid.usage.calls == 1
    assert "from the cache" not in words(first).split("Answers")[-1]
    again = ask(open_page("ask", {"ask.strategies": ["recursive"]}), question)
    (query,) = stored(again, workbench)
    assert (query.usage.calls, query.first_usage) == (0, paid.usage)
    line = next(caption.value for caption in again.caption if "first paid" in caption.value).replace("\\", "")
    assert "from the cache, no cost" in line
    assert f"{paid.usage.input_tokens:,} tokens in" in line


def test_a_judged_answer_has_its_reasons_and_the_accuracy_of_its_judge(open_page: Open, workbench: Workbench) -> None:
    app = ask(open_page("ask", {"ask.strategies": ["recursive", "sentence"]}), "What is charged after 30 days?")
    first, second = stored(app, workbench)
    app.button(key=f"judge.{first.query_id}").click().run()
    shown = words(app)
    assert "in 1 call" in shown
    assert "faithfulness: " in shown
    assert "**supported**" in shown
    assert "is not calibrated: calibrate it before trusting these scores" in shown.replace("\\", "")
    assert app.button(key=f"judge.{second.query_id}")
    app.button(key="ask.calibrate").click().run()
    assert not app.error
    shown = words(app)
    assert "of 15 cases whose verdict is known" in shown
    assert "not calibrated" not in shown
    assert "ask.calibrate" not in [button.key for button in app.button]


@pytest.mark.parametrize("kind", ["rate_limited", "server_error", "invalid_json"])
def test_a_failing_call_costs_one_column_a_sentence_and_leaves_the_other(
    open_page: Open, server: FakeOpenAI, workbench: Workbench, kind: str
) -> None:
    one_column_fails(open_page, server, workbench, kind)


def one_column_fails(open_page: Open, server: FakeOpenAI, workbench: Workbench, kind: str) -> None:
    server.fault(kind, path="chat", times=1)
    app = ask(open_page("ask", {"ask.strategies": ["recursive", "sentence"]}), f"What is a late fee, {kind}?")
    assert [query.status for query in sorted(stored(app, workbench), key=lambda each: each.status)] == ["failed", "ok"]
    assert len(app.error) == 1
    assert "Traceback" not in app.error[0].value
    assert "Something went wrong" not in app.error[0].value
    assert "1 of 2 strategies failed; the others stay." in words(app)


def test_a_judged_benchmark_from_its_price_to_its_scores(
    open_page: Open, server: FakeOpenAI, workbench: Workbench
) -> None:
    rows = [
        {
            "question": "How high is the annual fee?",
            "answer": "300 euros",
            "evidence": ["The annual fee is 300 euros."],
        },
        {"question": "When is it due?", "answer": "On 1 May", "evidence": ["It is due on 1 May."]},
    ]
    workbench.add_question_set(json.dumps(rows).encode(), "fees.json")
    app = open_page("benchmark", {"benchmark.strategies": ["fixed_size", "sentence"]})
    app.toggle(key="benchmark.judge").set_value(True).run()
    app.toggle(key="benchmark.closed_book").set_value(True).run()
    app.number_input(key="benchmark.repeats").set_value(2).run()
    app.button(key="benchmark.dry").click().run()
    shown = words(app).replace("\\", "")
    for option in (
        "The judge adds about",
        "4 closed-book answers without documents (8 calls, ",
        "Answering 2 times adds about",
    ):
        assert option in shown

    gate = threading.Event()

    def hold(body: dict[str, Any]) -> None:
        if "When is it due?" in json.dumps(body):
            gate.wait(100)

    server.script = hold
    app.button(key="benchmark.run").click().run()
    until(app, "Partial: what is finished so far")
    assert "nothing can be concluded yet" in words(app)
    caption = next(caption.value for caption in app.caption if "finished questions" in caption.value)
    assert "1 of 2" in caption
    assert "2 of 2" not in caption
    gate.set()
    until(app, "What may be concluded")
    assert not app.error
    assert words(app).replace("\\", "").count("Judge. Calibration: gpt-4o-mini was right on") == 2
    app.selectbox(key="benchmark.metric").set_value("judge.context_relevance").run()
    assert words(app).replace("\\", "").count("Judge. Calibration: gpt-4o-mini was right on") == 3


def test_a_call_that_hangs_costs_one_column_a_sentence_too(open_page: Open, server: FakeOpenAI, tmp_path: Path) -> None:
    one_column_fails(open_page, server, opened(server, tmp_path, 6), "hang")
