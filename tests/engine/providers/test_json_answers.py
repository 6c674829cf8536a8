import pytest

from engine.providers.json_answers import is_strict, last_valid

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "maximum": 9}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here it is:\n```json\n{"a": 2}\n```\nAnything else?', {"a": 2}),
        ('{"a": 1} no, rather {"a": 3}', {"a": 3}),
        ('{"a": 4} and some {"b": 5} afterwards', {"a": 4}),
        ('a set {x | x > 0} and {"a": 5}', {"a": 5}),
        ('{"a": 1}' + "{" * 50, {"a": 1}),
    ],
)
def test_the_last_valid_object_counts(text: str, data: object) -> None:
    assert last_valid(text, SCHEMA) == (data, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no JSON object"),
        ("just words", "holds no JSON object"),
        ('{"a": "1"}', "does not follow the schema (type at $.a)"),
        ('{"a": 10}', "does not follow the schema (maximum at $.a)"),
        ('{"a": NaN}', "holds no JSON object"),
        ('{"b": {"a": 1}}', "does not follow the schema (required at $)"),
        ('{"b": {"a": 1}', "is JSON that is cut off"),
        ('{"list": [{"a": 1}, {"a": 2', "is JSON that is cut off"),
    ],
)
def test_why_there_is_none(text: str, problem: str) -> None:
    parsed = last_valid(text, SCHEMA)
    assert not parsed.ok
    assert parsed.problem == problem


def test_brackets_that_open_nothing_are_passed_over_up_to_a_bound() -> None:
    assert last_valid("{ " * 400 + '{"a": 1}', SCHEMA).data == {"a": 1}
    assert last_valid("{ " * 100_000 + '{"a": 1}', SCHEMA).problem == "holds no JSON object"
    assert last_valid("[" * 100_000, SCHEMA).problem == "holds no JSON object"


def test_strict_schemas() -> None:
    assert is_strict(SCHEMA)
    assert not is_strict({**SCHEMA, "required": []})
    assert not is_strict({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}})
    nested = {**SCHEMA, "properties": {"a": {"type": "array", "items": SCHEMA}}}
    assert is_strict(nested)
    assert not is_strict({**SCHEMA, "properties": {"a": {"type": "object", "properties": {"b": {}}}}})
