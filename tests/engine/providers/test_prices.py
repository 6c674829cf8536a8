import json
import re
from pathlib import Path

import pytest

from engine.errors import BadSetting
from engine.providers.base import Usage
from engine.providers.prices import AS_OF, load_prices

PRICES = load_prices()


def test_a_million_tokens_of_each_direction() -> None:
    assert PRICES.cost("text-embedding-3-small", 1_000_000) == pytest.approx(0.02)
    assert PRICES.cost("gpt-4o-mini", 1_000_000, 1_000_000) == pytest.approx(0.75)
    # Half of the input had been cached: 0.5 x 0.15 + 0.5 x 0.075.
    assert PRICES.cost("gpt-4o-mini", 1_000_000, 0, 500_000) == pytest.approx(0.1125)
    assert PRICES.cost("gpt-4o-mini", 1_000_000, batch=True) == pytest.approx(0.075)


def test_unknown_stays_unknown_and_local_is_free() -> None:
    assert PRICES.price("someone/elses-model") is None
    assert PRICES.cost("someone/elses-model", 5) is None
    assert PRICES.priced("someone/elses-model", Usage(5)).cost_usd is None
    assert Usage(5, cost_usd=None).plus(Usage(5, cost_usd=0.1)).cost_usd is None
    assert PRICES.cost("wordllama", 5) == 0.0
    assert PRICES.cost("local:any", 5) == 0.0


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    assert PRICES.price("gpt-4o-mini-2024-07-18") == PRICES.price("gpt-4o-mini")


def test_the_table_is_dated() -> None:
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", AS_OF)
    assert PRICES.as_of == AS_OF


def test_a_file_replaces_and_extends(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    entry = {"as_of": "2030-01-01", "models": {"gpt-4o-mini": {"input": 1.0, "output": 2}, "mine": {"input": 0}}}
    file.write_text(json.dumps(entry))
    prices = load_prices(file)
    assert prices.as_of == "2030-01-01"
    assert prices.cost("gpt-4o-mini", 1_000_000, 1_000_000, 1_000_000) == pytest.approx(3.0)
    assert prices.cost("mine", 7) == 0.0
    assert prices.price("gpt-4o") == PRICES.price("gpt-4o")


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        "{}",
        '{"models": {"m": {}}}',
        '{"models": {"m": {"input": -1}}}',
        '{"models": {"m": {"input": "x"}}}',
        '{"models": {"m": {"input": 1, "ouput": 2}}}',
        '{"models": {"m": {"input": NaN}}}',
        '{"models": ["m"]}',
    ],
)
def test_a_file_of_another_shape_is_refused_in_words(tmp_path: Path, content: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(content)
    with pytest.raises(BadSetting, match=r"PRICES_FILE prices.json is not a price table"):
        load_prices(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"PRICES_FILE gone.json cannot be read"):
        load_prices(tmp_path / "gone.json")
