"""Sign-in: configured without its library, the app lets nobody in and says what to install."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine import Workbench
from tests.conftest import ROOT
from tests.pages.conftest import words

AUTH = {"redirect_uri": "http://localhost:8501/oauth2callback", "cookie_secret": "s", "client_id": "i"}


def test_without_its_library_it_says_what_to_install(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def found(name: str, *more: Any) -> ModuleSpec | None:
        return None if name == "authlib" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    app = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
    app.secrets["auth"] = AUTH
    app.run()
    assert not app.exception
    assert [each.value for each in app.error] == [
        "Sign-in is configured, but its library is not installed, so nobody is let in. "
        "Run `pip install streamlit[auth]` and start Chunkscope again."
    ]
    assert "Upload" not in words(app)
