"""Settings: all documented, wrong values refused in words, secrets kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.errors import BadSetting
from engine.settings import BUNDLED, SETTINGS_TABLE, Settings, load_settings

_ROW = re.compile(r"\| `([A-Z_]+)` \| (?:`(.*?)`)? ?\| (.+) \|")


def test_every_setting_is_documented(root: Path) -> None:
    text = (root / "docs" / "SETTINGS.md").read_text(encoding="utf-8")
    table = text.split("| --- | --- | --- |", 1)[1].split("\n\n", 1)[0]
    documented = tuple((name, default or "", words) for name, default, words in _ROW.findall(table))
    assert documented == SETTINGS_TABLE


def test_defaults_named_by_the_product(tmp_path: Path) -> None:
    settings = load_settings()
    assert (settings.top_k, settings.temperature, settings.max_tokens) == (5, 0.0, 1024)
    assert (settings.chunk_size, settings.chunk_overlap) == (512, 50)
    assert (settings.semantic_threshold, settings.semantic_min_chunk_size) == (0.3, 3)
    assert settings.host == "127.0.0.1"
    assert settings.resolved_database_url == f"sqlite:///{tmp_path / 'data' / 'chunkscope.db'}"


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("TOP_K", "0", "greater than or equal to 1"),
        ("TOP_K", "five", "integer"),
        ("TEMPERATURE", "2.5", "less than or equal to 2"),
        ("MAX_TOKENS", "-1", "greater than or equal to 1"),
        ("CHUNK_SIZE", "0", "greater than or equal to 1"),
        ("CHUNK_OVERLAP", "-5", "greater than or equal to 0"),
        ("SEMANTIC_THRESHOLD", "1.5", "less than or equal to 1"),
        ("SEMANTIC_MIN_CHUNK_SIZE", "0", "greater than or equal to 1"),
        ("LONG_INPUT", "cut", "'fail' or 'split'"),
        ("LOG_LEVEL", "LOUD", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("PORT", "70000", "less than or equal to 65535"),
        ("REQUEST_TIMEOUT", "0", "greater than 0"),
    ],
)
def test_a_wrong_value_names_variable_value_and_what_is_allowed(
    variable: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadSetting) as caught:
        load_settings()
    assert caught.value.message.startswith(f"{variable} is '{value}'.")
    assert allowed in caught.value.message


def test_empty_variables_count_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("TOP_K", "")
    settings = load_settings()
    assert not settings.has_key
    assert settings.top_k == 5


def test_dotenv_is_read_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("TOP_K=7\nMAX_TOKENS=99\nPOSTGRES_PASSWORD=other\n", encoding="utf-8")
    monkeypatch.setitem(Settings.model_config, "env_file", ".env")
    monkeypatch.setenv("TOP_K", "9")
    settings = load_settings()
    assert (settings.top_k, settings.max_tokens) == (9, 99)


def test_secrets_are_in_no_text_of_the_settings() -> None:
    secret = "sk-do-not-show"
    keys = {name: secret for name in Settings.model_fields if name.endswith("_key")}
    assert set(keys) == {"openai_api_key", "embedding_api_key", "judge_api_key", "qdrant_api_key"}
    settings = load_settings(**keys, database_url=f"postgresql+psycopg://someone:{secret}@db/chunkscope")
    snapshot = settings.snapshot()
    assert secret not in repr(settings) + str(settings) + repr(snapshot)
    assert all(snapshot[name] is True for name in keys)
    assert snapshot["database_url"] == "postgresql+psycopg"
    assert load_settings().snapshot()["openai_api_key"] is False


def test_logins_in_addresses_are_in_no_text_of_the_settings() -> None:
    addresses = {
        name: f"https://someone:pa@ss-do-not-show@{name}.example:8443/v1?a=b@c"
        for name in Settings.model_fields
        if name.endswith("_url") and name != "database_url"
    }
    assert len(addresses) == 4
    settings = load_settings(**addresses, llm_model="a@b")
    snapshot = settings.snapshot()
    assert {name: snapshot[name] for name in addresses} == {
        name: f"https://***@{name}.example:8443/v1?a=b@c" for name in addresses
    }
    assert "do-not-show" not in repr(settings) + str(settings) + repr(snapshot)
    assert snapshot["llm_model"] == "a@b"
    assert load_settings(qdrant_url="http://localhost:6333").snapshot()["qdrant_url"] == "http://localhost:6333"


def test_a_refused_key_is_not_repeated() -> None:
    with pytest.raises(BadSetting) as caught:
        load_settings(openai_api_key=["sk-do-not-show"])
    assert "sk-do-not-show" not in caught.value.message
    assert caught.value.message.startswith("OPENAI_API_KEY is (hidden).")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().top_k = 3


@pytest.mark.parametrize(
    ("given", "embedding", "answers", "judge"),
    [
        ({}, BUNDLED, None, None),
        ({"openai_api_key": "k"}, "text-embedding-3-small", "gpt-4o-mini", "gpt-4o-mini"),
        ({"openai_api_key": "k", "embedding_model": BUNDLED, "llm_model": "m"}, BUNDLED, "m", "m"),
        ({"openai_base_url": "http://localhost:1/v1", "llm_model": "m", "judge_model": "j"}, None, "m", "j"),
        ({"judge_api_key": "k"}, BUNDLED, None, "gpt-4o-mini"),
    ],
)
def test_models_follow_from_what_is_set(
    given: dict[str, str], embedding: str | None, answers: str | None, judge: str | None
) -> None:
    settings = load_settings(**given)
    if embedding is not None:
        assert settings.resolved_embedding_model == embedding
    assert settings.resolved_llm_model == answers
    assert settings.resolved_judge_model == judge
