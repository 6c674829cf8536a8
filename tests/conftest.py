"""What every test gets: no settings of the user, no network keys, a data folder of its own; and the rule about skipped tests."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from engine.settings import Settings

pytest_plugins = ["tests.fake_openai.fixture", "tests.qdrant_server.fixture"]

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

hypothesis.settings.register_profile("chunkscope", deadline=None, derandomize=True, database=None, max_examples=50)
hypothesis.settings.load_profile("chunkscope")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no `.env` of the person who runs the tests reaches them; child processes inherit the same."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    monkeypatch.setitem(Settings.model_config, "env_file", None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def samples(root: Path) -> Path:
    """The folder of the sample documents and their questions."""
    return root / "samples"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public files kept beside the repository, for tests on real documents."""
    if not SHARED_DATA.is_dir():
        pytest.skip("../shared/data is absent")
    return SHARED_DATA


def _accepted(reason: str) -> bool:
    """Parts that a test machine need not have: public files, a Qdrant server, and models, which are installed apart."""
    absent = {
        "../shared/data": not SHARED_DATA.is_dir(),
        "QDRANT_TEST_URL": "QDRANT_TEST_URL" not in os.environ,
        "requirements-local": importlib.util.find_spec("torch") is None,
    }
    return any(part in reason and missing for part, missing in absent.items())


def _refused_skips(config: pytest.Config) -> Iterator[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for report in reporter.stats.get("skipped", ()) if reporter else ():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not _accepted(reason):
            yield f"{report.nodeid}: {reason}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-skip", action="store_true", help="fail when a test was skipped because a part is missing here"
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    asked = session.config.getoption("--fail-on-skip") and session.exitstatus == pytest.ExitCode.OK
    if asked and any(True for _ in _refused_skips(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--fail-on-skip"):
        return
    refused = sorted(_refused_skips(config))
    if refused:
        terminalreporter.section("skipped tests that count as failures", sep="=", red=True)
        for line in refused:
            terminalreporter.line(line)
