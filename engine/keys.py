"""Keys of the API. A key is random and shown once; the settings hold its sha256, which cannot be turned back."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_HASH = re.compile(r"[0-9a-f]{64}")


class ApiKey(NamedTuple):
    name: str
    """Who uses it: jobs are counted for this name, and logs show it."""
    sha256: str


def new_key() -> str:
    """A new key with 256 random bits."""
    return f"cs_{secrets.token_urlsafe(32)}"


def fingerprint(key: str) -> str:
    """The sha256 of a key. One round is enough: nobody can try 2^256 keys."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def parse(written: str) -> tuple[ApiKey, ...]:
    """Keys from `name:sha256,name:sha256`. Raises ValueError in words that repeat no hash."""
    keys = []
    for part in filter(None, (each.strip() for each in written.split(","))):
        name, _, sha256 = part.partition(":")
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(sha256):
            raise ValueError(
                "every key is name:sha256, with a name of letters, digits, dots, dashes and underscores, and 64 hex digits. "
                "`python -m engine api-key NAME` prints one"
            )
        keys.append(ApiKey(name, sha256))
    if len({key.name for key in keys}) < len(keys):
        raise ValueError("two keys have the same name")
    return tuple(keys)


def owner(keys: Sequence[ApiKey], presented: str) -> str | None:
    """The name of the key that was presented, or None. Takes the same time whichever key it is, and for a wrong one."""
    asked = fingerprint(presented)
    found = None
    for key in keys:
        if hmac.compare_digest(key.sha256, asked):
            found = key.name
    return found
