"""Finding the object a chat model was asked for in what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.providers.vectors import well_formed

_OPENING = re.compile(r"[{\[]")
_MOST_FAILURES = 500
"""Brackets that open no JSON before the rest of a text is given up: bounds the time a hostile answer takes."""


class Parsed(NamedTuple):
    """The object, or in words why there is none."""

    data: Any
    problem: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem


def last_valid(text: str, schema: Mapping[str, Any]) -> Parsed:
    """The last JSON object or array in `text` that follows the schema.

    Models think aloud, repeat themselves and put answers in code fences; what they wrote last is their answer. An object that is
    cut off at the end of the text makes the answer incomplete: what stands inside it does not count.
    """
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    validator = Draft202012Validator(dict(schema))
    found, cut_off = _candidates(text)
    problem = "holds no JSON object"
    for value in reversed(found):
        error = next(iter(validator.iter_errors(value)), None)
        if error is None:
            return Parsed(value)
        problem = f"does not follow the schema ({error.validator} at {error.json_path})"
    return Parsed(None, "is JSON that is cut off" if cut_off and not found else problem)


def _candidates(text: str) -> tuple[list[Any], bool]:
    """Outermost objects and arrays in order, and whether the text ends inside one."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: list[Any] = []
    failed = 0
    end = len(text.rstrip())
    opening = _OPENING.search(text)
    while opening is not None and failed < _MOST_FAILURES:
        try:
            value, after = decoder.raw_decode(text, opening.start())
            found.append(_storable(value))
        except json.JSONDecodeError as error:
            if error.pos >= end or error.msg.startswith("Unterminated"):
                return found, True
            failed, after = failed + 1, opening.end()
        except (ValueError, RecursionError):
            failed, after = failed + 1, opening.end()
        opening = _OPENING.search(text, after)
    return found, False


def _storable(value: Any) -> Any:
    """The value with lone surrogates replaced: JSON can spell them (`\\ud800`), and nothing can store them."""
    written = json.dumps(value, ensure_ascii=False)
    return value if well_formed(written) == written else json.loads(well_formed(written))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAI's strict mode takes the schema: every object lists all its properties as required and allows no others."""
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    nested = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if isinstance(schema.get("items"), Mapping):
        nested.append(schema["items"])
    return all(is_strict(part) for part in nested if isinstance(part, Mapping))
