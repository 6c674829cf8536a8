"""A running app and a real browser. Every module gets its own process on a free port, with its own data folder."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from engine.settings import Settings
from tests.conftest import ROOT

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PATIENCE_MS = 240_000
"""How long to wait for something visible, on a busy machine."""


def need_browser() -> None:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is absent: no browser to drive")


class App:
    """The app as a process of its own, as a user starts it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """`settings`: environment variables beside the data folder and the port."""
        need_browser()
        self._folder = folder
        self._settings = settings
        shutil.copytree(ROOT / ".streamlit", folder / ".streamlit")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def write_secrets(self, text: str) -> None:
        """The secrets.toml of the next start."""
        (self._folder / ".streamlit" / "secrets.toml").write_text(text, encoding="utf-8")

    def start(self) -> None:
        """Start and wait until it is ready."""
        names = {name.upper() for name in Settings.model_fields}
        environment = {name: value for name, value in os.environ.items() if name.upper() not in names}
        environment |= {"DATA_DIR": str(self._folder / "data"), "PORT": str(self._port), "PYTHONPATH": str(ROOT)}
        environment |= self._settings
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app"], cwd=self._folder, env=environment, stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE_MS / 1000
        while not self._ready():
            assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
            assert time.monotonic() < end, "the app did not become ready"
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    running = App(tmp_path_factory.mktemp("app"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield chromium
        chromium.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(app: App, browser: Browser) -> Iterator[Visit]:
    """Opens a page of the app in a browser context of its own. A request to any other host fails the test, and so does a script error."""
    elsewhere: list[str] = []
    broken: list[str] = []
    contexts = []

    def open_it(path: str = "", dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": 1400, "height": 1000}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on("request", lambda request: note(request.url))
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(path if path.startswith("http") else f"{app.url}/{path}")
        page.locator("h1").wait_for()
        return page

    def note(url: str) -> None:
        if not url.startswith((app.url, "data:", "blob:")):
            elsewhere.append(url)

    yield open_it
    for context in contexts:
        context.close()
    assert elsewhere == []
    assert broken == []


def settled(page: Page) -> None:
    """Wait until the page has no run in flight and nothing on it moves: what is drawn is drawn from the last change, and stays where it is.

    A button that moves between press and release, as in a section that is still opening, is not clicked at all.
    """
    page.wait_for_function(
        """() => new Promise(resolve => {
            let calm = 0;
            const look = () => {
                const busy = document.querySelector('[data-testid="stStatusWidget"], [data-stale="true"]');
                const moves = document.getAnimations().some(
                    each => each.playState === 'running' && each.effect.getComputedTiming().iterations !== Infinity);
                calm = busy || moves ? 0 : calm + 1;
                calm > 10 ? resolve(true) : requestAnimationFrame(look);
            };
            look();
        })"""
    )


def link(page: Page) -> str:
    """The address of the view, as a reader would copy it."""
    return re.sub(r"#.*", "", page.url)
