"""One look per strategy: specs that share a colour are told apart by their dashes."""

from __future__ import annotations

from engine.report.charts import lines
from engine.report.palette import dashes, strategy_color, strategy_shape
from engine.strategies import registry


def test_every_strategy_has_a_look_of_its_own() -> None:
    looks = {(strategy_color(name), strategy_shape(name)) for name in registry.names()}
    assert len(looks) == len(registry.names())


def test_lines_of_one_colour_have_different_dashes() -> None:
    found = dashes(["recursive", "sentence", "recursive", "recursive"])
    assert found[0] == found[1]
    assert len({found[0], found[2], found[3]}) == 3


def test_a_line_has_the_colour_of_its_strategy_whatever_stands_before_it() -> None:
    names = {"a": "paragraph", "b": "sentence"}
    rows = [{"label": label, "x": x, "y": 0.5} for label in names for x in (500, 1000)]
    drawn = lines(rows, "token budget", "recall", names)
    assert drawn is not None
    assert all(f'stroke="{strategy_color(name)}"' in drawn for name in names.values())
    assert strategy_color("fixed_size") not in drawn
