"""Models: bundled, OpenAI and compatible servers, local weights. `build_models` makes what the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from engine.errors import BadSetting
from engine.providers.base import ChatModel, Embedder, Models, TokenEmbedder
from engine.providers.bundled import BundledEmbedder
from engine.providers.cache import CachedChat, CachedEmbedder, ReplyCache, VectorCache
from engine.providers.guide import known
from engine.providers.prices import Prices, load_prices
from engine.settings import BUNDLED, Settings

if TYPE_CHECKING:
    from engine.providers.openai import Endpoint

__all__ = ["build_models"]


def build_models(settings: Settings, vector_cache: VectorCache, reply_cache: ReplyCache) -> Models:
    """The models of these settings, behind the caches. Makes no call and loads no weights.

    Raises BadSetting for settings that cannot work, NeedsModel when the extra for local models is not installed.
    """
    prices = load_prices(settings.prices_file)
    name = settings.resolved_embedding_model
    embedder: Embedder
    token_embedder: TokenEmbedder | None = None
    _check_dimension(settings, name)
    if name == BUNDLED:
        # Faster than any cache.
        embedder = BundledEmbedder()
    elif name.startswith("local:"):
        from engine.providers.transformers import TransformerModel

        local = TransformerModel(name, settings.long_input)
        embedder, token_embedder = CachedEmbedder(local, vector_cache, local.scope), local
    else:
        embedder = _openai_embedder(settings, name, prices, vector_cache)
    return Models(
        embedder=embedder,
        chat=_openai_chat(settings, "openai", settings.resolved_llm_model, prices, reply_cache),
        judge=_openai_chat(settings, "judge", settings.resolved_judge_model, prices, reply_cache),
        token_embedder=token_embedder,
    )


def _check_dimension(settings: Settings, name: str) -> None:
    asked, entry = settings.embedding_dimension, known(name)
    if asked is None or (entry is not None and asked == entry.dimension):
        return
    if name == BUNDLED or name.startswith("local:") or (entry is not None and not entry.shortenable):
        own = "its own number of" if entry is None else str(entry.dimension)
        raise BadSetting(f"EMBEDDING_DIMENSION is {asked}, but {name} always has {own} dimensions. Remove the setting.")
    if entry is not None and asked > entry.dimension:
        raise BadSetting(
            f"EMBEDDING_DIMENSION is {asked}, but {name} has at most {entry.dimension}. Lower it or remove it."
        )


def _openai_embedder(settings: Settings, name: str, prices: Prices, cache: VectorCache) -> Embedder:
    from engine.providers.openai import connect
    from engine.providers.openai_embedder import OpenAIEmbedder

    connection = connect(_endpoint(settings, "embedding", name))
    model = OpenAIEmbedder(name, connection, prices, settings.embedding_dimension, settings.long_input)
    return CachedEmbedder(model, cache, model.scope)


def _openai_chat(
    settings: Settings, role: str, name: str | None, prices: Prices, cache: ReplyCache
) -> ChatModel | None:
    if name is None:
        return None
    from engine.providers.openai import connect
    from engine.providers.openai_chat import OpenAIChat

    model = OpenAIChat(name, connect(_endpoint(settings, role, name)), prices)
    return CachedChat(model, cache, model.scope)


def _endpoint(settings: Settings, role: str, model: str) -> Endpoint:
    """Where `role` (`openai`, `embedding`, `judge`) is served. What a role does not set itself is taken from OPENAI_*."""
    from engine.providers.openai import OPENAI_URL, Endpoint

    own_url, own_key = getattr(settings, f"{role}_base_url"), getattr(settings, f"{role}_api_key")
    key_setting = f"{role.upper()}_API_KEY" if own_key else "OPENAI_API_KEY"
    url_setting = f"{role.upper()}_BASE_URL" if own_url else "OPENAI_BASE_URL"
    endpoint = Endpoint(
        base_url=_checked_url(own_url or settings.openai_base_url or OPENAI_URL, url_setting),
        api_key=_checked_key(own_key or settings.openai_api_key, key_setting),
        key_setting=key_setting,
        timeout=settings.request_timeout,
        retries=settings.max_retries,
        concurrency=settings.concurrency,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )
    if endpoint.is_openai and endpoint.api_key is None:
        raise BadSetting(
            f"{model} runs at OpenAI, which needs a key, and none is set. Set OPENAI_API_KEY, set OPENAI_BASE_URL for a server "
            f"of your own, or set EMBEDDING_MODEL={BUNDLED} to work without."
        )
    return endpoint


def _checked_url(url: str, setting: str) -> str:
    """The address without white space around it. Raises BadSetting, which does not repeat it: it may hold a password."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good, parts = False, urlsplit("")
    if not good or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise BadSetting(
            f"{setting} is not the address of a server. It needs the form http://localhost:11434/v1 or https://host/v1, "
            "with nothing behind the path. Correct it and start again."
        )
    return url


def _checked_key(key: SecretStr | None, setting: str) -> SecretStr | None:
    """The key without white space around it; None for an empty one. Raises BadSetting for characters no key can hold."""
    value = "" if key is None else key.get_secret_value().strip()
    if not value:
        return None
    if not (value.isascii() and value.isprintable()):
        raise BadSetting(
            f"{setting} holds a line break or a letter that no key has. Copy the key again, whole and alone, and start again."
        )
    return SecretStr(value)
