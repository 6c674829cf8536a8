"""Upload and Chunk Inspector in a real browser: hostile text, colours, hover, click, keyboard, scrolling, offsets, deep link."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.e2e.conftest import App, Visit, link, settled

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ARTICLES = "".join(
    f"## Article {number}\n\nThe fee of class {number} is {100 * number} euros. "
    + "It is due at once and is never paid back in any case. " * 6
    + "\n\n"
    for number in range(2, 40)
)
TEXT = (
    "# Fees 😀\n\n## Article 1\n\n😀😀 漢字も入る。 <script>window.hacked = 1</script> "
    '<img src=x onerror="window.hacked = 2"> **not bold** $x^2$ :material/delete:\n\n' + ARTICLES
)
NAME = "<img src=x onerror=hacked=3> **law** :material:delete: $x^2$ [a](http:b).md"


LEAST_DIFFERENCE = {"none": 40, "deuteranopia": 40, "protanopia": 40, "tritanopia": 40, "achromatopsia": 10}
"""Least distance of two neighbouring tints in RGB (0 to 255 each) per kind of colour vision. Without any colours the numbered line
at the beginning of each chunk tells them apart as well."""


def panes(page: Page) -> Locator:
    return page.locator(".pane")


def detail(page: Page, words: str) -> Locator:
    """What the server says of the chosen chunk; the line under the pane is the browser's own."""
    return page.locator("[data-testid=stMarkdownContainer]", has_text=words)


def filled(page: Page, pane: Locator, length: int) -> None:
    """Wait until the browser has drawn the blocks out of view as well. `length` in UTF-16 units."""
    page.wait_for_function("([pane, length]) => pane.textContent.length >= length", arg=[pane.element_handle(), length])


def segment(page: Page, pane: int, chunk: int) -> Locator:
    """The first segment that belongs to a chunk alone."""
    return panes(page).nth(pane).locator(f"span.covered[data-last='{chunk}']:not(.shared)").first


def test_from_upload_to_a_shared_link(visit: Visit, app: App) -> None:
    """One reader, one page after the other; each step is a function below."""
    page = visit()
    upload_a_hostile_file(page)
    page.get_by_role("link", name="Chunk Inspector").click()
    expect(panes(page)).to_have_count(2)
    settled(page)
    hostile_text_is_inert_and_complete(page)
    panes_scroll_together(page)
    another_strategy_stands_where_the_others_do(page)
    next_difference_by_its_key(page)
    chunks_are_downloaded(page)
    base = link(page).split("&strategies")[0]

    page.goto(f"{base}&strategies=fixed_size:size=64,overlap=16")
    expect(segment(page, 0, 1)).to_be_visible()
    settled(page)
    neighbours_differ_and_shared_text_is_hatched(page)
    tints_are_told_apart(page)
    click_and_keyboard(page)
    offsets_hold_beyond_emoji_and_chinese(page)
    address = link(page)
    assert "chunk=" in address

    app.stop()
    app.start()
    again = visit(address)
    expect(detail(again, "Chunk 2 of")).to_be_visible()
    expect(panes(again).first.locator("span.chosen").first).to_be_visible()


def upload_a_hostile_file(page: Page) -> None:
    expect(page.get_by_text("No documents yet").first).to_be_visible()
    file: FilePayload = {"name": NAME, "mimeType": "text/markdown", "buffer": TEXT.encode()}
    page.locator("input[type=file]").first.set_input_files(files=[file])
    expect(page.get_by_text("stored,").first).to_be_visible()
    expect(page.get_by_role("heading", name="Structure")).to_be_visible()
    settled(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x], .katex, a[href*='http:b']").count() == 0


def hostile_text_is_inert_and_complete(page: Page) -> None:
    expect(segment(page, 1, 0)).to_be_visible()
    for number in range(2):
        pane = panes(page).nth(number)
        filled(page, pane, len(TEXT.encode("utf-16-le")) // 2)
        assert pane.evaluate("pane => pane.textContent") == TEXT
        assert pane.locator("script, img, b, strong").count() == 0
    assert page.evaluate("window.hacked") is None


def panes_scroll_together(page: Page) -> None:
    panes(page).first.evaluate("pane => { pane.scrollTop = 3000; }")
    second = panes(page).nth(1).element_handle()
    page.wait_for_function("pane => pane.scrollTop > 1500", arg=second)


TOP = """pane => {
  const top = pane.getBoundingClientRect().top, range = document.createRange();
  const texts = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
  const isBelow = (node, end) => {
    range.setStart(node, 0);
    range.setEnd(node, end);
    return range.getBoundingClientRect().bottom > top + 1;
  };
  for (let before = 0; texts.nextNode();) {
    const node = texts.currentNode;
    if (isBelow(node, node.length)) {
      let first = 0, last = node.length - 1;
      while (first < last) {
        const middle = (first + last) >> 1;
        if (isBelow(node, middle + 1)) last = middle;
        else first = middle + 1;
      }
      return before + first;
    }
    before += node.length;
  }
}"""
"""The first character of the line at the top of a pane, in UTF-16 units."""


def another_strategy_stands_where_the_others_do(page: Page) -> None:
    first, second = panes(page).nth(0), panes(page).nth(1)
    first.evaluate("pane => { pane.scrollTop = 5000; }")
    place = page.wait_for_function(
        f"pane => {{ const at = ({TOP})(pane); return at > 9000 && at; }}", arg=second.element_handle()
    )
    for title, name in (("Fixed size", "fixed_size"), ("Sentence", "sentence")):
        page.get_by_role("combobox", name="Strategy").nth(1).click()
        page.get_by_role("option", name=title, exact=True).click()
        page.wait_for_url(re.compile(f"strategies=recursive%3B{name}"))
        expect(segment(page, 1, 0)).to_be_attached()
        settled(page)
        filled(page, second, len(TEXT.encode("utf-16-le")) // 2)
        # A line more or less: a pane with numbers before its chunks breaks lines elsewhere.
        assert abs(second.evaluate(TOP) - first.evaluate(TOP)) < 150
        assert abs(second.evaluate(TOP) - place.json_value()) < 150


def next_difference_by_its_key(page: Page) -> None:
    page.locator("h1").click()
    page.keyboard.press("Alt+n")
    expect(page.get_by_text("Disagreement 1 of")).to_be_visible()
    expect(panes(page).first.locator("span.here")).to_have_count(1)


def chunks_are_downloaded(page: Page) -> None:
    page.get_by_role("radio", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON Lines").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["span"][0] == 0
    assert all(json.loads(line)["text"] in TEXT for line in lines)


def neighbours_differ_and_shared_text_is_hatched(page: Page) -> None:
    tint = "element => getComputedStyle(element).backgroundColor"
    assert segment(page, 0, 0).evaluate(tint) != segment(page, 0, 1).evaluate(tint)
    shared = panes(page).first.locator("span.shared").first
    shared.hover()
    assert "repeating-linear-gradient" in shared.evaluate("element => getComputedStyle(element).backgroundImage")
    assert "Shared with chunk 1" in (shared.get_attribute("title") or "")
    segment(page, 0, 1).hover()
    assert "Chunk 2: 64 tokens" in (segment(page, 0, 1).get_attribute("title") or "")


def tints_are_told_apart(page: Page) -> None:
    """With normal colour vision and with each kind of colour blindness, as the browser simulates it."""
    session = page.context.new_cdp_session(page)
    for vision, least in LEAST_DIFFERENCE.items():
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
        first, second = (background(segment(page, 0, chunk)) for chunk in (2, 3))
        assert np.linalg.norm(first - second) > least, vision
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    line = "part => getComputedStyle(part, '::before').borderLeftWidth"
    begins = panes(page).first.locator("span.begins").nth(1)
    assert begins.evaluate(line) == "2px"
    assert begins.get_attribute("data-number") == "2"


def background(part: Locator) -> np.ndarray:
    """The most frequent colour of an element on the screen that is not the page's white. RGB, 0 to 255."""
    part.scroll_into_view_if_needed()
    pixels = np.asarray(Image.open(io.BytesIO(part.screenshot())).convert("RGB")).reshape(-1, 3)
    colors, counts = np.unique(pixels, axis=0, return_counts=True)
    tinted = colors.min(axis=1) < 250
    return colors[tinted][counts[tinted].argmax()].astype(float)


def click_and_keyboard(page: Page) -> None:
    segment(page, 0, 2).click()
    expect(panes(page).first.locator("xpath=following-sibling::*")).to_contain_text("Chunk 3 of")
    expect(detail(page, "Chunk 3 of")).to_be_visible()
    expect(segment(page, 0, 2)).to_have_class("seg covered even chosen")
    pane = panes(page).first
    pane.focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    expect(detail(page, "Chunk 8 of")).to_be_visible()
    assert pane.get_attribute("aria-activedescendant") == "chunk-7"
    page.keyboard.press("k")
    expect(detail(page, "Chunk 7 of")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Click a chunk, or move to one")).to_be_visible()
    page.keyboard.press("Home")
    expect(detail(page, "Chunk 1 of")).to_be_visible()


def offsets_hold_beyond_emoji_and_chinese(page: Page) -> None:
    """What the overlay tints as one chunk is what the page shows as its embedded text."""
    page.keyboard.press("j")
    expect(detail(page, "Chunk 2 of")).to_be_visible()
    settled(page)
    # Overlaps are hatched: chunk 2 is its own segments and those it shares with its neighbours.
    tinted = "".join(panes(page).first.locator("span.chosen").all_text_contents())
    assert "class 2" in tinted
    assert tinted in page.locator("[data-testid=stCode] code").all_text_contents()
