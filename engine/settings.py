"""Every setting of Chunkscope, read from the environment and from `.env`.

`SETTINGS_TABLE` is the documentation: README and docs show it, and a test compares them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from engine import keys
from engine.errors import BadSetting

_SECRET = ("_key", "_keys")
"""Endings of settings whose values are shown nowhere."""
_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")
"""User and password of an address."""

BUNDLED = "wordllama"
"""EMBEDDING_MODEL value of the embeddings that ship with Chunkscope."""


class Settings(BaseSettings):
    """One field per variable; the variable is the field's name in capitals."""

    model_config = SettingsConfigDict(
        env_file=".env", env_file_encoding="utf-8", env_ignore_empty=True, extra="ignore", frozen=True
    )

    openai_api_key: SecretStr | None = Field(
        None, description="Key for OpenAI or a compatible server. Without it everything runs on bundled parts."
    )
    openai_base_url: str | None = Field(
        None, description="Address of an OpenAI-compatible server, such as http://localhost:11434/v1."
    )
    embedding_api_key: SecretStr | None = Field(
        None, description="Key for embeddings when it differs from OPENAI_API_KEY."
    )
    embedding_base_url: str | None = Field(
        None, description="Server for embeddings when it differs from OPENAI_BASE_URL."
    )
    judge_api_key: SecretStr | None = Field(None, description="Key for the judge when it differs from OPENAI_API_KEY.")
    judge_base_url: str | None = Field(None, description="Server for the judge when it differs from OPENAI_BASE_URL.")
    embedding_model: str | None = Field(
        None,
        description="`wordllama` (bundled), an OpenAI model name, or `local:NAME` for sentence-transformers. Default: text-embedding-3-small with a key, else wordllama.",
    )
    embedding_dimension: int | None = Field(
        None,
        ge=1,
        le=8192,
        description="Vector size asked of models that can shorten their vectors. Default: the model's own.",
    )
    llm_model: str | None = Field(
        None,
        description="Chat model for answers and contexts. Default: gpt-4o-mini with a key, else none (extractive answers).",
    )
    judge_model: str | None = Field(None, description="Chat model that scores answers. Default: LLM_MODEL.")
    top_k: int = Field(5, ge=1, le=100, description="Chunks retrieved for a question.")
    temperature: float = Field(0.0, ge=0.0, le=2.0, description="Sampling temperature of the chat models.")
    max_tokens: int = Field(1024, ge=1, le=128_000, description="Longest answer, in tokens.")
    context_tokens: int = Field(
        8000, ge=256, le=1_000_000, description="Most tokens of retrieved text given to the chat model."
    )
    chunk_size: int = Field(512, ge=1, le=100_000, description="Default chunk size, in tokens.")
    chunk_overlap: int = Field(50, ge=0, le=25_000, description="Default overlap of neighbouring chunks, in tokens.")
    semantic_threshold: float = Field(
        0.3, ge=-1.0, le=1.0, description="Cosine below which the semantic strategy cuts between two sentences."
    )
    semantic_min_chunk_size: int = Field(3, ge=1, le=1000, description="Fewest sentences in a semantic chunk.")
    request_timeout: float = Field(60.0, gt=0, le=3600, description="Seconds before a model call counts as timed out.")
    max_retries: int = Field(5, ge=0, le=20, description="Tries after a model call that failed for a passing reason.")
    batch_poll_seconds: float = Field(
        60.0, gt=0, le=3600, description="Seconds between two looks at an overnight batch."
    )
    concurrency: int = Field(16, ge=1, le=256, description="Model calls in flight at once.")
    requests_per_minute: int | None = Field(None, ge=1, description="Most model requests a minute. Default: no limit.")
    tokens_per_minute: int | None = Field(None, ge=1, description="Most model tokens a minute. Default: no limit.")
    long_input: Literal["fail", "split"] = Field(
        "fail",
        description="Text longer than the embedding model reads: `fail`, or `split` and average the parts.",
    )
    prices_file: Path | None = Field(
        None, description="JSON file with prices that replace or extend the built-in table."
    )
    data_dir: Path = Field(
        Path("data"), description="Folder for originals, the embedded index and the SQLite database."
    )
    database_url: str | None = Field(
        None,
        repr=False,
        description="PostgreSQL address, such as postgresql+psycopg://user:password@host/name. Default: SQLite in DATA_DIR.",
    )
    database_connections: int = Field(
        32, ge=2, le=500, description="Most connections of one process to PostgreSQL; more requests wait for one."
    )
    qdrant_url: str | None = Field(
        None,
        description="Qdrant server, such as http://localhost:6333; 6333 is the port where none is named. Default: the embedded index in DATA_DIR.",
    )
    qdrant_api_key: SecretStr | None = Field(None, description="Key of the Qdrant server.")
    qdrant_shard_number: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Parts a new collection of a Qdrant cluster is split into, over its nodes. Default: what the server is set to, else one for each node.",
    )
    qdrant_replication_factor: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Nodes of a Qdrant cluster that keep a copy of each part of a new collection. Default: what the server is set to, else 1.",
    )
    qdrant_write_consistency_factor: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Copies that must have stored a write before it counts as done; with fewer nodes at work, writes fail. Default: what the server is set to, else 1.",
    )
    qdrant_on_disk: bool = Field(
        False,
        description="Whether a new collection of a Qdrant server keeps vectors and payload on disk instead of in memory.",
    )
    qdrant_quantization: Literal["none", "scalar", "binary"] = Field(
        "none",
        description="How a new collection of a Qdrant server shrinks its vectors for `hnsw` searches: `scalar` to a quarter, `binary` to a thirty-second.",
    )
    qdrant_search: Literal["exact", "hnsw"] = Field(
        "exact",
        description="How a Qdrant server searches: `exact`, or `hnsw`, faster on large collections and approximate; `python -m engine vectors recall` measures how much it misses.",
    )
    qdrant_writes: int = Field(
        4, ge=1, le=64, description="Batches of vectors on their way to the Qdrant server at once; more wait."
    )
    dask_scheduler_address: str | None = Field(
        None,
        description="Dask scheduler, such as tcp://localhost:8786, whose workers carry out benchmarks. Needs DATABASE_URL, QDRANT_URL and requirements-scale.txt. Default: this process.",
    )
    max_upload_mb: int = Field(25, ge=1, le=2048, description="Largest upload, in MB.")
    max_archive_members: int = Field(
        2000, ge=1, description="Most files inside one upload that is a zip archive (DOCX is one)."
    )
    max_unpacked_mb: int = Field(200, ge=1, description="Most unpacked data in one upload, in MB.")
    max_part_mb: int = Field(64, ge=1, description="Largest unpacked part of an upload, in MB.")
    max_compression_ratio: int = Field(100, ge=1, description="Highest compression ratio of a part above 1 MB.")
    max_paragraphs: int = Field(200_000, ge=1, description="Most paragraphs in one document.")
    parse_timeout: float = Field(30.0, gt=0, description="Seconds one document may take to parse.")
    parse_memory_mb: int = Field(1024, ge=128, description="Memory one document may take to parse, in MB.")
    cutting_processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Most processes in which documents are cut and cuts measured for an index or a benchmark, started once there is much to cut, 130 to 270 MB each and more with documents of many MB; 0: that is done in the app. Default: one per core, at most 4, and 0 on a single core.",
    )
    queue_limit: int = Field(100, ge=1, description="Most benchmarks that wait or run at once.")
    spend_per_day_usd: float | None = Field(
        None, ge=0, description="Most dollars a signed-in user may spend in a day (UTC). Default: no limit."
    )
    spend_per_month_usd: float | None = Field(
        None, ge=0, description="Most dollars a signed-in user may spend in a month (UTC). Default: no limit."
    )
    queue_limit_per_user: int = Field(20, ge=1, description="Most benchmarks of one user that wait or run at once.")
    benchmarks_at_once: int = Field(
        2,
        ge=1,
        le=64,
        description="Benchmarks that run at once in one process; more wait. Overnight ones do not count.",
    )
    job_lease_seconds: float = Field(
        60.0,
        ge=3,
        le=3600,
        description="Seconds after which an app process that is silent counts as dead, and another that shares its PostgreSQL takes over its benchmarks.",
    )
    host: str = Field("127.0.0.1", description="Address the app listens on.")
    port: int = Field(8501, ge=1, le=65535, description="Port the app listens on.")
    api_keys: SecretStr | None = Field(
        None,
        description="Keys of the REST API as `name:sha256`, separated by commas; `python -m engine api-key NAME` makes one. Required unless HOST is a loopback address and nobody signs in.",
    )
    api_user_header: str | None = Field(
        None,
        pattern="^[A-Za-z0-9-]{1,64}$",
        description="Header in which a trusted proxy names the signed-in user of an API request, such as X-Forwarded-User. Only behind a proxy that always sets it. Default: none, everyone is the local user.",
    )
    api_requests_per_minute: int = Field(600, ge=1, description="Most API requests a minute for each key.")
    api_concurrency: int = Field(16, ge=1, le=1024, description="Most API requests at once for each key.")
    api_cors_origins: str | None = Field(
        None,
        description="Web origins whose pages may call the API, separated by commas, such as https://tools.example.org. Default: none.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least severe messages that are logged."
    )

    @field_validator("api_keys")
    @classmethod
    def _keys_are_readable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            keys.parse(value.get_secret_value())
        return value

    @cached_property
    def known_api_keys(self) -> tuple[keys.ApiKey, ...]:
        return () if self.api_keys is None else keys.parse(self.api_keys.get_secret_value())

    @cached_property
    def is_local(self) -> bool:
        """Whether only this machine reaches HOST."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @cached_property
    def has_key(self) -> bool:
        """Whether a chat model can be reached: a key, or a server that may need none."""
        return self.openai_api_key is not None or self.openai_base_url is not None

    @cached_property
    def resolved_embedding_model(self) -> str:
        if self.embedding_model:
            return self.embedding_model
        return (
            "text-embedding-3-small" if self.has_key or self.embedding_api_key or self.embedding_base_url else BUNDLED
        )

    @cached_property
    def resolved_llm_model(self) -> str | None:
        return (self.llm_model or "gpt-4o-mini") if self.has_key else None

    @cached_property
    def resolved_judge_model(self) -> str | None:
        if not (self.has_key or self.judge_api_key or self.judge_base_url):
            return None
        return self.judge_model or self.resolved_llm_model or "gpt-4o-mini"

    @cached_property
    def resolved_database_url(self) -> str:
        if self.database_url:
            return self.database_url
        return f"sqlite:///{(self.data_dir / 'chunkscope.db').absolute()}"

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_login(value)

    def snapshot(self) -> dict[str, Any]:
        """Every setting without secrets, for the record of an experiment. Keys become true or false, logins in addresses `***`."""
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr) or name.endswith(_SECRET):
                values[name] = value is not None
            elif name == "database_url":
                values[name] = None if value is None else value.split("://", 1)[0]
            else:
                values[name] = str(value) if isinstance(value, Path) else _without_login(value)
        return values


def _without_login(value: Any) -> Any:
    return _LOGIN.sub("***@", value) if isinstance(value, str) else value


SETTINGS_TABLE: tuple[tuple[str, str, str], ...] = tuple(
    (name.upper(), "" if field.default is None else str(field.default), field.description or "")
    for name, field in Settings.model_fields.items()
)
"""(variable, default, what it does) of every setting."""


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment and `.env`; `overrides` win. Raises BadSetting that names variable, value and what is allowed."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "?"
        secret = name.endswith(_SECRET)
        value = "(hidden)" if secret else repr(_without_login(first.get("input")))
        raise BadSetting(
            f"{name.upper()} is {value}. {first['msg']}. Change it in the environment or in .env, then start again."
        ) from None
