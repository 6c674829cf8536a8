"""Specs in an address."""

from __future__ import annotations

from app import specs
from engine import Workbench


def test_only_what_differs_from_the_defaults_is_written_and_read_back() -> None:
    with Workbench.open() as workbench:
        chosen = [
            workbench.spec("recursive", {"size": 256, "overlap": 32}),
            workbench.spec("sentence"),
            workbench.spec("semantic", {"mode": "percentile", "percentile": 40.5}),
        ]
        line = specs.encode(workbench, chosen)
        assert line == "recursive:size=256,overlap=32;sentence;semantic:mode=percentile,percentile=40.5"
        assert specs.decode(workbench, line) == chosen


def test_what_anyone_wrote_into_an_address_is_left_out_where_it_does_not_fit() -> None:
    with Workbench.open() as workbench:
        found = specs.decode(workbench, "recursive:size=-1;nonsense;;sentence:unknown=1;paragraph;<script>")
        assert [spec.strategy_name for spec in found] == ["paragraph"]
