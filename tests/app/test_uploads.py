import threading
from types import SimpleNamespace
from typing import Any

import pytest

from app import uploads
from engine import processes
from engine.workbench import Workbench


class LeftThePage(BaseException):
    """What the page's own server raises in a script that is to stop."""


def file(name: str, text: str) -> Any:
    return SimpleNamespace(file_id=name, name=name, getvalue=lambda: text.encode())


def page(monkeypatch: pytest.MonkeyPatch, progress: Any) -> dict[str, Any]:
    """Stands in for the page's server. Returns the state of the session."""
    state: dict[str, Any] = {}
    bar = SimpleNamespace(progress=progress, empty=lambda: None)
    server = SimpleNamespace(session_state=state, progress=lambda _: bar, rerun=lambda: None)
    monkeypatch.setattr(uploads, "st", server)
    return state


def test_what_was_stored_when_the_reader_left_is_known_as_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 2)
    files, pause = [file("a.txt", "one"), file("b.txt", "two")], threading.Event()
    with Workbench.open() as workbench:

        def progress(share: float, text: str) -> None:
            if share > 0:
                while len(workbench.documents()) < 2:
                    pause.wait(0.01)
                raise LeftThePage

        state = page(monkeypatch, progress)
        with pytest.raises(LeftThePage):
            uploads.receive(workbench, files)
    known = state[uploads.OUTCOMES]
    assert {name: [each["words"].split(",")[0] for each in outcomes] for name, outcomes in known.items()} == {
        "a.txt": ["stored"],
        "b.txt": ["stored"],
    }


def test_the_same_file_twice_in_one_upload_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 2)
    with Workbench.open() as workbench:
        state = page(monkeypatch, lambda share, text: None)
        uploads.receive(workbench, [file("a.txt", "the same"), file("b.txt", "the same")])
        assert len(workbench.documents()) == 1
    words = [each["words"].split(",")[0] for outcomes in state[uploads.OUTCOMES].values() for each in outcomes]
    assert sorted(words) == ["already present", "stored"]
