"""The provider refuses what a real one refuses, so that a client which is let in has done it right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.oidc.server import CLIENT_ID, Provider, Refused, challenge

VERIFIER = "v" * 43


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider("http://127.0.0.1:1") as running:
        yield running


def asked(provider: Provider, **changed: str) -> dict[str, str]:
    return {
        "client_id": CLIENT_ID,
        "redirect_uri": provider.redirect_uri,
        "response_type": "code",
        "scope": "openid email",
        "state": "s",
        "nonce": "n",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
        "user": "u-1",
        **changed,
    }


def form(provider: Provider, **changed: str) -> dict[str, str]:
    code = provider.chosen(asked(provider)).split("code=")[1].split("&")[0]
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": provider.redirect_uri,
        "client_id": CLIENT_ID,
        "client_secret": provider.client_secret,
        "code_verifier": VERIFIER,
        **changed,
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "x"},
        {"redirect_uri": "http://evil.example/oauth2callback"},
        {"scope": "email"},
        {"code_challenge_method": "plain"},
        {"state": ""},
        {"user": "u-9"},
    ],
)
def test_a_wrong_request_gets_no_code(provider: Provider, changed: dict[str, str]) -> None:
    with pytest.raises(Refused):
        provider.chosen(asked(provider, **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"client_secret": "x"},
        {"code": "x"},
        {"code_verifier": "w" * 43},
        {"redirect_uri": "http://evil.example/oauth2callback"},
        {"grant_type": "password"},
    ],
)
def test_a_wrong_exchange_gets_no_token(provider: Provider, changed: dict[str, str]) -> None:
    with pytest.raises(Refused):
        provider.token(form(provider, **changed), "")


def test_a_code_is_good_for_one_token_signed_with_the_published_key(provider: Provider) -> None:
    once = form(provider)
    answer = provider.token(once, "")
    claims = jwt.decode(answer["id_token"], KeySet.import_key_set(provider.jwks()), algorithms=["RS256"]).claims
    assert {name: claims[name] for name in ("iss", "aud", "sub", "email", "nonce")} == {
        "iss": provider.url,
        "aud": CLIENT_ID,
        "sub": "u-1",
        "email": "alice@example.org",
        "nonce": "n",
    }
    with pytest.raises(Refused, match="used"):
        provider.token(once, "")
