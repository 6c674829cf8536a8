"""What models cost: one dated table, which a file can replace or extend. A price that is not known is None, never 0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import BadSetting
from engine.providers.base import Usage
from engine.settings import BUNDLED

AS_OF = "2026-05-27"
"""Day on which the table was last compared with published list prices (OpenAI, standard tier)."""

BATCH_FACTOR = 0.5
"""OpenAI's Batch API costs this share of the list price."""


class Price(NamedTuple):
    """USD for a million tokens."""

    input: float
    output: float = 0.0
    cached_input: float | None = None
    """Input the provider had cached; None: billed like other input."""


FREE = Price(0.0, 0.0, 0.0)

TABLE: Mapping[str, Price] = {
    "text-embedding-3-small": Price(0.02),
    "text-embedding-3-large": Price(0.13),
    "text-embedding-ada-002": Price(0.10),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "gpt-4o": Price(2.50, 10.00, 1.25),
    "gpt-4.1": Price(2.00, 8.00, 0.50),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "gpt-5.4": Price(2.50, 15.00, 0.25),
    "gpt-5.4-mini": Price(0.75, 4.50, 0.075),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02),
}
"""By model name. A name tells nothing about the server: where one sells or gives away a model under a name listed here, PRICES_FILE says so."""

_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True, slots=True)
class Prices:
    """A price table and the day it is from."""

    table: Mapping[str, Price]
    as_of: str
    batch_factor: float = BATCH_FACTOR

    def price(self, model: str) -> Price | None:
        """The price of a model; a dated snapshot (`gpt-4o-mini-2024-07-18`) costs what its model costs. None: unknown.

        What runs in this process (`wordllama`, `local:NAME`) costs nothing.
        """
        if model in self.table:
            return self.table[model]
        if model == BUNDLED or model.startswith("local:"):
            return FREE
        return self.table.get(_SNAPSHOT.sub("", model))

    def cost(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int = 0,
        cached_input_tokens: int = 0,
        batch: bool = False,
    ) -> float | None:
        """USD of one or many calls. `cached_input_tokens` are part of `input_tokens`. None: the price is unknown."""
        price = self.price(model)
        if price is None:
            return None
        cached = price.input if price.cached_input is None else price.cached_input
        dollars = (
            (input_tokens - cached_input_tokens) * price.input
            + cached_input_tokens * cached
            + output_tokens * price.output
        ) / 1_000_000
        return dollars * self.batch_factor if batch else dollars

    def priced(self, model: str, usage: Usage, batch: bool = False) -> Usage:
        """The usage with its cost."""
        cost = self.cost(model, usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, batch)
        return usage._replace(cost_usd=cost)


def load_prices(file: Path | None = None) -> Prices:
    """The built-in table, with the entries of `file` over it. Raises BadSetting in words when the file has the wrong shape.

    The file: `{"as_of": "2026-05-27", "batch_factor": 0.5, "models": {"NAME": {"input": 0.15, "output": 0.6, "cached_input": 0.075}}}`,
    USD for a million tokens; only `models` and each `input` are required.
    """
    if file is None:
        return Prices(TABLE, AS_OF)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        models = {str(name): _price(entry) for name, entry in data["models"].items()}
        factor = _amount(data.get("batch_factor", BATCH_FACTOR))
        return Prices({**TABLE, **models}, str(data.get("as_of", AS_OF)), factor)
    except OSError as error:
        raise BadSetting(
            f"PRICES_FILE {file.name} cannot be read ({error.strerror}). Correct the path or remove the setting."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadSetting(
            f"PRICES_FILE {file.name} is not a price table. It needs the form "
            '{"models": {"NAME": {"input": 0.15, "output": 0.6, "cached_input": 0.075}}}, in USD for a million tokens.'
        ) from None


def _price(entry: Mapping[str, Any]) -> Price:
    if unknown := set(entry) - set(Price._fields):
        raise ValueError(f"unknown fields: {unknown}")
    return Price(**{name: _amount(value) for name, value in entry.items()})


def _amount(value: Any) -> float:
    amount = float(value)
    if not 0.0 <= amount < float("inf"):
        raise ValueError("a price is a number of dollars, 0 or more")
    return amount
