"""Sign-in without a browser: what is configured wrongly lets nobody in and says why; who a signed-in reader is."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.runtime.secrets import secrets_singleton
from streamlit.testing.v1 import AppTest

from app import __main__ as server
from app import runtime, sign_in
from engine import Workbench, keys
from engine.errors import BadSetting
from engine.settings import load_settings
from tests.conftest import ROOT
from tests.pages.conftest import Open, words

SHARED = {"redirect_uri": "http://localhost:8501/oauth2callback", "cookie_secret": "s"}
ONE = {"client_id": "i", "client_secret": "c", "server_metadata_url": "http://localhost/x"}
Configure = Callable[[dict[str, Any]], AppTest]


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    """What is read once for a process is read anew by each test."""
    read = sign_in.providers
    read.cache_clear()
    yield
    read.cache_clear()


@pytest.fixture
def configured(workbench: Workbench) -> Configure:
    def with_section(section: dict[str, Any]) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
        app.secrets["auth"] = section
        app.run()
        assert not app.exception
        assert "Upload" not in words(app)
        return app

    return with_section


def test_without_its_library_it_says_what_to_install(configured: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def found(name: str, *more: Any) -> ModuleSpec | None:
        return None if name == "authlib" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    (error,) = configured({**SHARED, **ONE}).error
    assert "its library is not installed, so nobody is let in" in unescaped(error.value)
    assert "pip install -r requirements.txt" in unescaped(error.value)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (SHARED, "lacks `client_id`, `client_secret`, `server_metadata_url`"),
        ({**ONE, "redirect_uri": SHARED["redirect_uri"]}, "lacks `cookie_secret`"),
        ({**SHARED, "corp": {"client_id": "i", "client_secret": "c"}}, "lacks `server_metadata_url` of [auth.corp]"),
        ({**SHARED, "my_corp": ONE}, "contains an underscore"),
        ({**SHARED, **ONE, "redirect_uri": "http://localhost:8501"}, "does not end in /oauth2callback"),
    ],
)
def test_what_is_incomplete_is_named(configured: Configure, section: dict[str, Any], said: str) -> None:
    (error,) = configured(section).error
    assert said in unescaped(error.value)
    assert "so nobody is let in" in error.value


def test_there_is_a_button_for_each_provider(configured: Configure) -> None:
    one = configured({**SHARED, **ONE})
    assert [button.label for button in one.button] == ["Sign in"]
    sign_in.providers.cache_clear()
    two = configured({**SHARED, "corp": ONE, "partner": ONE})
    assert [button.label for button in two.button] == ["Sign in with corp", "Sign in with partner"]


def test_a_provider_that_does_not_answer_is_said_where_one_can_try_again(configured: Configure) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        app = configured({**SHARED, **ONE, "server_metadata_url": address})
        app.button[0].click().run()
    assert not app.exception
    assert "does not answer" in app.error[0].value
    assert [button.label for button in app.button] == ["Sign in"]


def test_a_file_that_cannot_be_read_does_not_switch_sign_in_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text('[auth]\ncookie_secret = "very-secret\n')
    monkeypatch.setattr(st, "get_option", lambda name: [str(path)])
    monkeypatch.setattr("streamlit.config.get_option", lambda name: [str(path)])
    monkeypatch.setattr(secrets_singleton, "_secrets", None)
    assert server.main([]) == 1
    said = capsys.readouterr().err
    assert "cannot be read as TOML, so nobody is let in" in said
    assert "very-secret" not in said


def test_a_section_that_is_removed_while_the_app_runs_does_not_let_everyone_in(configured: Configure) -> None:
    configured({**SHARED, **ONE})
    later = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
    later.run()
    assert [button.label for button in later.button] == ["Sign in"]


def test_the_app_does_not_start_with_an_api_beside_it_that_anyone_may_call(monkeypatch: pytest.MonkeyPatch) -> None:
    server.check_sign_in(load_settings())
    monkeypatch.setattr(sign_in, "providers", lambda: {"default": "http://localhost/x"})
    with pytest.raises(BadSetting, match="python -m engine api-key NAME"):
        server.check_sign_in(load_settings())
    server.check_sign_in(load_settings(api_keys=f"team:{keys.fingerprint('cs_key')}"))
    server.check_sign_in(load_settings(api_user_header="X-Forwarded-User"))


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "u-1", "email": "ann@example.org"}, "ann@example.org"),
        ({"sub": "u-1", "email": "ann@example.org", "email_verified": True}, "ann@example.org"),
        ({"sub": "u-1", "email": "ann@example.org", "email_verified": False}, "u-1"),
        ({"sub": "u-1", "email": "ann@example.org", "email_verified": "false"}, "u-1"),
        ({"sub": "u-1"}, "u-1"),
        ({"sub": "u-1", "provider": "default"}, "u-1"),
        ({"sub": "u-1", "provider": "okta"}, "okta:u-1"),
        ({"sub": "ann@example.org", "provider": "okta"}, "okta:ann@example.org"),
        ({"sub": "u-1", "email": "ann@example.org", "provider": "okta"}, "ann@example.org"),
    ],
)
def test_an_address_that_nobody_verified_is_no_name(
    claims: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Known:
        def to_dict(self) -> dict[str, Any]:
            return claims

    monkeypatch.setattr(sign_in, "providers", lambda: {"default": "http://localhost/x"})
    monkeypatch.setattr(st, "user", Known())
    assert sign_in.user() == name


def test_answers_that_are_still_in_memory_are_shown_to_who_asked_alone(
    open_page: Open, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = workbench.acting_as("ann")
    ann.add_document(b"# Fees\n\nThe annual fee is 300 euros.\n", "fees.md")
    workbench.acting_as("ben").add_document(b"# Pens\n\nPens are blue.\n", "pens.md")
    live = ann.start_asking("How high is the fee?", [ann.spec("recursive")])
    live.wait()
    runtime.asking.keep(("ann", live.request_id), live)
    monkeypatch.setattr(sign_in, "user", lambda: "ann")
    assert "300 euros" in words(open_page("ask", request=live.request_id))
    monkeypatch.setattr(sign_in, "user", lambda: "ben")
    page = words(open_page("ask", request=live.request_id))
    assert "300 euros" not in page
    assert "are not in this installation" in page


def unescaped(markdown: str) -> str:
    """What a reader sees of text that is shown as it is."""
    return markdown.replace("\\", "").replace("\u2060", "")
