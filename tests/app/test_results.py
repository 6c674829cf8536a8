"""What the pages draw of an experiment, without pages."""

from __future__ import annotations

from typing import Any

import pytest

from app import results


class Counted:
    """A Workbench of one user that counts what is read."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.read: list[str] = []

    def experiment(self, experiment_id: str, *, queries: bool) -> str:
        assert not queries
        self.read.append(experiment_id)
        return f"{experiment_id} of {self.user}, read {len(self.read)} times"


def test_a_running_experiment_is_read_once_for_all_sessions_of_a_user_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(results.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(results, "so_far", lambda experiment: experiment)
    anna: Any = Counted("anna")
    bert: Any = Counted("bert")
    looks: list[Any] = [results.partial(anna, "one") for _ in range(3)]
    assert looks == ["one of anna, read 1 times"] * 3
    assert results.partial(bert, "one") == "one of bert, read 1 times"
    now[0] += results.PARTIAL_SECONDS
    assert results.partial(anna, "one") == "one of anna, read 2 times"


def test_a_large_running_experiment_is_read_in_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [500.0]

    def slow(experiment: Any) -> Any:
        now[0] += 4.0
        return experiment

    monkeypatch.setattr(results.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(results, "so_far", slow)
    reader: Any = Counted("carla")
    results.partial(reader, "large")
    now[0] += 35.9
    results.partial(reader, "large")
    assert len(reader.read) == 1
    now[0] += 0.1
    results.partial(reader, "large")
    assert len(reader.read) == 2
