"""Benchmarks give way to pages, and go on all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from engine import pace
from engine.executor import LocalExecutor
from engine.executor.base import Unit


class Opened:
    """An open spec whose questions have no answer."""

    def ask(self, *_: object) -> tuple[None, None]:
        return None, None


def ask(executor: LocalExecutor) -> int:
    """Asks one question; returns how many were answered."""
    opened: Any = Opened()
    no_question: Any = None
    unit = Unit(no_question, 0, None)
    return len(list(executor.ask(opened, [unit], lambda: False)))


def test_nobody_waits_where_no_page_is_made() -> None:
    assert pace.give_way(0)
    with pace.first():
        assert not pace.give_way(0)
    assert pace.give_way(0)


def test_a_page_that_fails_is_waited_for_no_longer() -> None:
    with suppress(ValueError), pace.first():
        raise ValueError
    assert pace.give_way(0)


def test_work_begins_when_the_last_page_is_made() -> None:
    with ThreadPoolExecutor(1) as other:
        with pace.first():
            with pace.first():
                waiting = other.submit(pace.give_way, 60)
            assert not pace.give_way(0)
            assert not waiting.done()
        assert waiting.result(60)


def test_a_benchmark_goes_on_while_pages_are_made() -> None:
    with pace.first():
        assert ask(LocalExecutor(turns=1)) == 1


@pytest.mark.parametrize(("turns", "times"), [(1, 1), (None, 0)])
def test_only_work_that_takes_turns_gives_way(monkeypatch: pytest.MonkeyPatch, turns: int | None, times: int) -> None:
    asked: list[threading.Thread] = []
    monkeypatch.setattr(pace, "give_way", lambda: asked.append(threading.current_thread()))
    assert ask(LocalExecutor(turns)) == 1
    assert len(asked) == times
