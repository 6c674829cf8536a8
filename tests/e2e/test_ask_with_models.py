"""Ask in a real browser with a chat model and a judge: streamed, stored, cited, judged, rated, and failing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import App, Visit, settled
from tests.fake_openai.server import FakeOpenAI

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
QUESTION = "Within which time must an initial notification be submitted?"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture(scope="module")
def app(server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    running = App(
        tmp_path_factory.mktemp("app"),
        EMBEDDING_MODEL="wordllama",
        OPENAI_API_KEY="any",
        OPENAI_BASE_URL=server.url,
        MAX_RETRIES="0",
        REQUEST_TIMEOUT="300",
    )
    running.start()
    yield running
    running.stop()


def test_a_generated_answer_from_the_question_to_its_rating(visit: Visit, server: FakeOpenAI) -> None:
    """One reader, one page; each step is a function below."""
    page = visit()
    page.get_by_role("button", name="Load the sample").click()
    expect(page.get_by_role("heading", name="Question sets")).to_be_visible()
    settled(page)
    page.get_by_role("link", name="Ask").click()
    streamed(page, server)
    cited(page)
    judged(page)
    rated(page)
    page.reload()
    expect(page.get_by_text("Rated 9 of 10")).to_be_visible()
    expect(page.get_by_text("faithfulness: ")).to_be_visible()
    one_column_fails(page, server)


def ask(page: Page, question: str) -> None:
    box = page.get_by_label("Question", exact=True)
    box.fill(question)
    box.press("Enter")


def streamed(page: Page, server: FakeOpenAI) -> None:
    """The server holds back the rest of its answers until their beginning has been seen."""
    go_on = threading.Event()
    sent: list[Any] = []

    def hold(event: dict[str, Any]) -> None:
        sent.append(event)
        if len(sent) > 20:
            go_on.wait(240)

    server.bend = hold
    ask(page, QUESTION)
    expect(page.get_by_text("Where the cause").first).to_be_visible()
    expect(page.get_by_role("heading", name="Rank matrix")).to_have_count(0)
    go_on.set()
    expect(page.get_by_role("heading", name="Rank matrix")).to_be_visible()
    server.bend = lambda event: None
    settled(page)


def cited(page: Page) -> None:
    page.locator("[class*=st-key-cite] button").first.click()
    passage = page.locator("span.evidence").filter(has_text="cause has not been established")
    expect(passage.first).to_be_visible()


def judged(page: Page) -> None:
    page.get_by_role("button", name="Judge this answer").first.click()
    expect(page.get_by_text("is not calibrated")).to_be_visible()
    expect(page.get_by_text("The judge's quote").first).to_be_visible()
    page.get_by_role("button", name="Calibrate the judge").click()
    expect(page.get_by_text("of 15 cases whose verdict is known")).to_be_visible()
    settled(page)


def rated(page: Page) -> None:
    page.get_by_role("button", name="Rate", exact=False).first.click()
    slider = page.get_by_role("slider").first
    for _ in range(4):
        slider.press("ArrowRight")
    settled(page)
    page.get_by_role("button", name="Save rating").first.click()
    expect(page.get_by_text("Rated 9 of 10")).to_be_visible()


def one_column_fails(page: Page, server: FakeOpenAI) -> None:
    server.fault("server_error", path="chat", times=1)
    ask(page, "Which penalties may be imposed?")
    expect(page.get_by_text("1 of 2 strategies failed; the others stay.")).to_be_visible()
    settled(page)
    assert page.get_by_test_id("stAlert").filter(has_text="500").count() == 1
    assert page.get_by_role("button", name="Judge this answer").count() == 1
