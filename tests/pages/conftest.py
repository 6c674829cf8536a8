"""An app per test module: its own data folder, one open Workbench, pages run without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app import figures, runtime
from engine import Workbench
from engine.settings import Settings
from tests.conftest import ROOT

Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """The Workbench the pages of this module use; empty at first."""
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(name.upper(), raising=False)
        patch.setitem(Settings.model_config, "env_file", None)
        runtime.close()
        yield runtime.workbench(Settings(data_dir=tmp_path_factory.mktemp("data")))
        runtime.close()


@pytest.fixture(autouse=True)
def valid_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chart that is not valid Vega-Lite fails the test that draws it."""
    monkeypatch.setattr(figures, "VALIDATE", True)


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A page that met a bug fails the test, although it says so in a line and goes on."""
    yield
    assert [record for record in caplog.get_records("call") if record.name == "app.states"] == []


@pytest.fixture
def open_page(workbench: Workbench) -> Open:
    """Opens a page in a new session, with session values and query parameters."""

    def open_it(page: str, session: dict[str, object] | None = None, **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app" / "streamlit_app.py"), default_timeout=120)
        for key, value in (session or {}).items():
            app.session_state[key] = value
        for key, value in query.items():
            app.query_params[key] = value
        app.run()
        if page != "upload":
            for key, value in query.items():
                app.query_params[key] = value
            app.switch_page(str(Path("..") / "pages" / f"{page}.py")).run()
        assert not app.exception, app.exception[0].message
        assert not any("Something went wrong" in error.value for error in app.error)
        return app

    return open_it


def words(app: AppTest) -> str:
    """Everything a reader can read on the page, as one text."""
    groups = (app.title, app.header, app.subheader, app.markdown, app.caption, app.text, app.error, app.warning)
    more = (app.info, app.success)
    return "\n".join(str(element.value) for group in (*groups, *more) for element in group)
