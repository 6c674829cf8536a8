"""Sign-in in real browsers against an OpenID Connect provider: who sees what, sharing, quotas, restarts, signing out, and who gets nothing."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect

from engine import keys
from tests.e2e.conftest import PATIENCE_MS, App, settled
from tests.fake_openai.server import FakeOpenAI
from tests.oidc.server import Provider

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ALICE, BOB = "alice@example.org", "bob@example.org"
KEY = "cs_key-of-a-program"
NAME = "confidential-fees.md"
FILE: FilePayload = {
    "name": NAME,
    "mimeType": "text/markdown",
    "buffer": b"# Fees\n\n## Article 1\n\nThe fee is 300 euros.\n",
}


@pytest.fixture(scope="module")
def models() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture(scope="module")
def app(models: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Not started yet: its provider must be there first."""
    running = App(
        tmp_path_factory.mktemp("app"),
        EMBEDDING_MODEL="wordllama",
        OPENAI_API_KEY="any",
        OPENAI_BASE_URL=models.url,
        SPEND_PER_DAY_USD="0.01",
        API_KEYS=f"program:{keys.fingerprint(KEY)}",
    )
    yield running
    running.stop()


@pytest.fixture(scope="module")
def provider(app: App) -> Iterator[Provider]:
    with Provider(app.url) as running:
        app.write_secrets(running.secrets())
        app.start()
        yield running


Come = Callable[[str], Page]


@pytest.fixture
def come(provider: Provider, browser: Browser) -> Iterator[Come]:
    """Opens an address in a browser of its own: no cookie is there yet. A script error fails the test."""
    broken: list[str] = []
    contexts: list[BrowserContext] = []

    def open_it(address: str) -> Page:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(address)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert broken == []


def test_from_signing_in_to_signing_out(come: Come, app: App, provider: Provider) -> None:
    """Two readers and a stranger; each step is a function below."""
    alice = come(app.url)
    only_the_sign_in_page(alice)
    sign_in(alice, ALICE)
    alice.locator("input[type=file]").first.set_input_files(files=[FILE])
    expect(alice.get_by_role("heading", name="Structure")).to_be_visible()
    settled(alice)
    document = alice.url
    assert "document=" in document

    bob = come(document)
    only_the_sign_in_page(bob)
    sign_in(bob, BOB)
    expect(bob).to_have_url(document)
    expect(bob.get_by_text("No documents yet").first).to_be_visible()
    expect(bob.get_by_text(NAME)).to_have_count(0)

    to_original(alice)
    expect(alice.get_by_role("button", name="Delete document")).to_be_enabled()
    alice.get_by_text("Shared", exact=True).click()
    expect(alice.get_by_text("Everyone who signs in can read it.")).to_be_visible()
    bob.reload()
    expect(bob.get_by_role("heading", name="Structure")).to_be_visible()
    to_original(bob)
    expect(bob.get_by_text("Shared with you to read.")).to_be_visible()
    expect(bob.get_by_role("button", name="Delete document")).to_be_disabled()
    bob.get_by_role("radio", name="Canonical text").click()
    expect(bob.get_by_text("The fee is 300 euros.")).to_be_visible()

    a_stranger_gets_nothing(come, document, app)
    a_quota_is_refused_in_words(bob)
    an_open_tab_outlives_a_restart(bob, app)

    alice.get_by_role("button", name="Sign out").click()
    expect(alice).to_have_url(f"{app.url}/")
    only_the_sign_in_page(alice)
    alice.goto(document)
    only_the_sign_in_page(alice)
    assert (provider.signed_out, provider.exchanged, provider.refused) == (1, 2, [])


def only_the_sign_in_page(page: Page) -> None:
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    settled(page)
    assert page.get_by_role("link", name="History").count() == 0
    assert page.get_by_test_id("stSidebarContent").count() == 0
    assert NAME not in page.content()


def sign_in(page: Page, who: str) -> None:
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name=who).click()
    expect(page.get_by_text(f"Signed in as {who}")).to_be_visible()
    settled(page)


def to_original(page: Page) -> None:
    page.get_by_role("radio", name="Original").click()


def a_stranger_gets_nothing(come: Come, document: str, app: App) -> None:
    """Neither through what the page sends over its websocket, nor with a cookie of one's own making, nor through the API."""
    document_id = document.split("document=")[1]
    stranger = come("about:blank")
    frames: list[str | bytes] = []
    stranger.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame)))
    stranger.context.add_cookies(
        [{"name": "_streamlit_user", "value": '{"email":"alice@example.org","is_logged_in":true}', "url": app.url}]
    )
    stranger.goto(document)
    only_the_sign_in_page(stranger)
    sent = b"".join(frame.encode() if isinstance(frame, str) else frame for frame in frames)
    assert b"Sign in to see the documents" in sent
    assert NAME.encode() not in sent

    for path in ("/documents", f"/documents/{document_id}", "/openapi.json"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{app.url}/api/v1{path}", timeout=60)
        with refused.value:
            assert refused.value.code == 401
    request = urllib.request.Request(f"{app.url}/api/v1/documents", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert NAME.encode() in answer.read()


def a_quota_is_refused_in_words(page: Page) -> None:
    page.get_by_role("button", name="Run the sample benchmark").click()
    refusal = page.get_by_test_id("stAlert").filter(has_text="Of your 0.01 USD a day")
    expect(refusal).to_be_visible()
    expect(refusal).to_contain_text("Nothing was started.")


def an_open_tab_outlives_a_restart(page: Page, app: App) -> None:
    """It comes back by its link, still signed in, and what is clicked does something."""
    page.get_by_role("link", name="Chunk Inspector").click()
    expect(page.locator(".pane")).to_have_count(2)
    settled(page)
    address = page.url
    page.evaluate("window.drawnBefore = true")
    app.stop()
    app.start()
    page.wait_for_function("() => !window.drawnBefore")
    expect(page.locator(".pane")).to_have_count(2)
    settled(page)
    expect(page).to_have_url(address)
    page.get_by_role("radio", name="3").click()
    expect(page.locator(".pane")).to_have_count(3)
    expect(page.get_by_text(f"Signed in as {BOB}")).to_be_visible()
