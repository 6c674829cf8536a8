"""A benchmark in a real browser: from one click to a comparison, after a restart, in the dark, for four readers at once."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.e2e.conftest import App, Visit, link, settled

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_from_the_sample_to_a_comparison(visit: Visit, app: App) -> None:
    """One reader, one page after the other; each step is a function below."""
    page = visit()
    sample_and_its_benchmark_in_two_clicks(page)
    address = link(page)
    ask_and_open_the_source(page)
    from_the_form_to_results(page)
    compare_two_experiments(page)

    app.stop()
    app.start()
    dark = visit(address, dark=True)
    results(dark)
    chart_is_readable_in_the_dark(dark)
    four_readers_at_once(visit, address)


def results(page: Page) -> None:
    expect(page.get_by_text("What may be concluded")).to_be_visible()
    expect(page.get_by_role("heading", name="Can these numbers be trusted?")).to_be_visible()


def sample_and_its_benchmark_in_two_clicks(page: Page) -> None:
    page.get_by_role("button", name="Load the sample").click()
    expect(page.get_by_role("heading", name="Question sets")).to_be_visible()
    page.get_by_role("button", name="Run the sample benchmark").click()
    results(page)
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
    settled(page)


def ask_and_open_the_source(page: Page) -> None:
    page.get_by_role("link", name="Ask").click()
    question = page.get_by_label("Question", exact=True)
    question.fill("Within which time must an initial notification be submitted?")
    question.press("Enter")
    expect(page.get_by_role("heading", name="Rank matrix")).to_be_visible()
    settled(page)
    page.locator("[data-testid=stExpander]").first.click()
    settled(page)
    page.get_by_role("button", name="Show in the document").first.click()
    expect(page.locator("span.evidence").first).to_be_visible()


def from_the_form_to_results(page: Page) -> None:
    page.get_by_role("link", name="Benchmark").click()
    page.get_by_text("Set up a benchmark").click()
    settled(page)
    for name in ("Fixed size", "Recursive", "Semantic", "Markdown structure", "Parent and child"):
        page.get_by_role("button", name=name, exact=True).click()
        settled(page)
    expect(page.get_by_text("2 runs:")).to_be_visible()
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("No model is called over the network")).to_be_visible()
    page.get_by_role("button", name="Run benchmark").click()
    expect(page.get_by_text("sentence 5/1 (baseline)")).to_be_attached()
    results(page)


def compare_two_experiments(page: Page) -> None:
    page.get_by_role("link", name="History").click()
    expect(page.get_by_placeholder("name, document, strategy")).to_be_visible()
    settled(page)
    box = page.locator("[data-testid=stDataFrame] canvas").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 15, box["y"] + 15)
    expect(page.get_by_text("90 common questions.")).to_be_visible()


def chart_is_readable_in_the_dark(page: Page) -> None:
    chart = page.locator("[data-testid=stVegaLiteChart]").nth(1)
    chart.scroll_into_view_if_needed()
    settled(page)
    gray = np.asarray(Image.open(io.BytesIO(chart.screenshot())).convert("L")).astype(float)
    assert np.median(gray) < 60
    assert (gray > 110).mean() > 0.001


def four_readers_at_once(visit: Visit, address: str) -> None:
    """Each does something of their own before any looks at what came of it; none sees what another did."""
    inspector, asker, analyst, historian = (visit(path) for path in ("chunk_inspector", "ask", address, "history"))
    readers = (inspector, asker, analyst, historian)
    for page in readers:
        settled(page)
    inspector.get_by_role("button", name="Next difference").click()
    question = asker.get_by_label("Question", exact=True)
    question.fill("Who keeps the register?")
    question.press("Enter")
    analyst.get_by_text("Set up a benchmark").click()
    settled(analyst)
    analyst.get_by_role("button", name="Dry run").click()
    find = historian.get_by_placeholder("name, document, strategy")
    find.fill("zebra")
    find.press("Enter")

    expect(inspector.locator(".pane").first).to_be_visible()
    expect(asker.get_by_role("heading", name="Rank matrix")).to_be_visible()
    expect(analyst.get_by_text("No model is called over the network")).to_be_visible()
    expect(historian.get_by_text("No experiment fits this search.")).to_be_visible()
    results(analyst)
    for page in readers:
        settled(page)
        assert page.get_by_text("Something went wrong").count() == 0
        assert page.get_by_text("Who keeps the register?").count() == (1 if page is asker else 0)
        assert page.get_by_text("No model is called over the network").count() == (1 if page is analyst else 0)
    assert visit("history").get_by_text("No experiment fits this search.").count() == 0
