"""The test server itself: what it answers depends on the request and follows its schema."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from engine.answer import SCHEMA as ANSWER
from engine.judge.judge import SCHEMA as JUDGEMENT
from engine.questions.draft_model import _SCHEMA as DRAFT
from tests.fake_openai import FakeOpenAI, answers
from tests.fake_openai.embeddings import embed

MESSAGES = [
    {"role": "system", "content": "Judge the answer."},
    {
        "role": "user",
        "content": "Question:\n<t>\nHow long are records kept?\n</t>\n\n"
        "Answer:\n<t>\nRecords are kept for five years. Records are kept for 9 years. Whales sing at night.\n</t>\n\n"
        "Chunk 1:\n<t>\nBananas ripen in 5 days.\n</t>\n\nChunk 2:\n<t>\nRecords are kept for five years.\n</t>",
    },
]
VERDICTS = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "claim": {"type": "string"},
                    "verdict": {"enum": ["supported", "contradicted", "not_found"]},
                    "quote": {"type": "string"},
                    "chunk": {"type": "integer", "minimum": 1},
                },
                "required": ["claim", "verdict", "quote", "chunk"],
            },
        },
        "score": {"type": "integer", "minimum": 1, "maximum": 10},
    },
    "required": ["claims", "score"],
}


def test_verdicts_follow_the_evidence() -> None:
    answer = json.loads(answers.instance(VERDICTS, MESSAGES))
    assert [claim["verdict"] for claim in answer["claims"]] == ["supported", "contradicted", "not_found"]
    assert answer["claims"][0]["quote"] == "Records are kept for five years."
    assert answer["claims"][0]["chunk"] == 2


def test_an_answer_a_judgement_and_a_draft() -> None:
    found = json.loads(answers.instance(ANSWER, MESSAGES))
    assert found["answered"]
    assert found["citations"] == [{"passage": 2, "quote": "Records are kept for five years."}]
    judged = json.loads(answers.instance(JUDGEMENT, MESSAGES))
    assert [claim["quote"] for claim in judged["claims"]] == ["Records are kept for five years."] * 2 + [""]
    # "records" and "kept" of "long", "records" and "kept" are in the second passage: 2/3 of 5 is 3.
    assert judged["relevance"] == [{"passage": 1, "score": 0}, {"passage": 2, "score": 3}]
    assert judged["similarity"] is None
    passages = "Chunk 1:" + MESSAGES[1]["content"].split("Chunk 1:")[1]
    draft = json.loads(answers.instance(DRAFT, [{"role": "user", "content": passages}]))
    assert draft["quotes"] == ["Bananas ripen in 5 days.", "Records are kept for five years."]
    assert draft["question"].startswith("What is said about ")


@pytest.mark.parametrize(
    "schema",
    [
        VERDICTS,
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "boolean"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"const": 3}}},
        {"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}, {"type": "number", "minimum": 2}]}}},
        {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 8, "maxItems": 9},
        {"type": "object", "properties": {"keywords": {"type": "array", "items": {"type": "string"}}}},
    ],
)
def test_answers_follow_the_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(json.loads(answers.instance(schema, MESSAGES)))


def test_prose_cites_or_says_that_nothing_answers() -> None:
    assert answers.prose(MESSAGES) == "Records are kept for five years. [2]"
    nothing = [{"role": "user", "content": "Question:\n<t>\nWho sings?\n</t>\n\nChunk 1:\n<t>\nBananas ripen.\n</t>"}]
    assert answers.prose(nothing) == answers.NOT_ANSWERED


def test_similar_texts_have_similar_vectors() -> None:
    records, same, other = (
        embed(text, 256) for text in ("records are kept", "the records he keeps", "whales sing at night")
    )
    assert records @ same > 0.4
    assert abs(records @ other) < 0.2
    np.testing.assert_array_equal(embed("records are kept", 256), records)


def test_errors_of_the_protocol() -> None:
    with FakeOpenAI() as server:
        for body, status in (
            ({"model": "m", "input": [""]}, 400),
            ({"model": "m", "input": ["word " * 9000]}, 400),
            ({"model": "missing", "input": ["a"]}, 404),
        ):
            request = urllib.request.Request(f"{server.url}/embeddings", json.dumps(body).encode())
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request)
            with caught.value as answer:
                assert answer.status == status
                assert "error" in json.load(answer)


def test_serving_by_hand(root: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fake_openai", "--port", "0"], stdout=subprocess.PIPE, text=True, cwd=root
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[1].rstrip(".")
        with urllib.request.urlopen(f"{url}/models") as answer:
            assert "gpt-4o-mini" in {model["id"] for model in json.load(answer)["data"]}
        control = url.removesuffix("/v1") + "/control"
        urllib.request.urlopen(f"{control}/faults", json.dumps({"kind": "server_error"}).encode()).close()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/embeddings", json.dumps({"model": "m", "input": "a"}).encode())
        caught.value.close()
        assert caught.value.code == 500
        with urllib.request.urlopen(f"{control}/counters") as answer:
            assert json.load(answer)["calls"] == {"embeddings": 1}
    finally:
        server.terminate()
        server.communicate()
