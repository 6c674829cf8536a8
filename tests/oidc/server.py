"""The provider: discovery, a page to pick a user on, codes, tokens, keys, sign-out. What a client does wrong is refused and noted."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CODE_SECONDS = 60
TOKEN_SECONDS = 3600
CLIENT_ID = "chunkscope"


class User(NamedTuple):
    """Claims of one person."""

    sub: str
    email: str
    email_verified: bool = True


USERS = (User("u-1", "alice@example.org"), User("u-2", "bob@example.org"))


class Grant(NamedTuple):
    """What a code stands for until it is exchanged."""

    user: User
    nonce: str
    redirect_uri: str
    code_challenge: str
    expires: float


class Refused(Exception):
    """An error answer, with the code that the specifications give it."""

    def __init__(self, code: str, detail: str, status: int = 400) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status


class Provider:
    """`with Provider("http://127.0.0.1:8501") as provider:` serves the app at that origin; `provider.secrets()` is its secrets.toml."""

    def __init__(self, app: str, port: int = 0, users: tuple[User, ...] = USERS) -> None:
        self.redirect_uri = f"{app}/oauth2callback"
        self.users = users
        self.client_secret = secrets.token_urlsafe(16)
        self.refused: list[str] = []
        """What clients did wrong, in order."""
        self.exchanged = 0
        """Codes that became tokens."""
        self.signed_out = 0
        self._key = RSAKey.generate_key(2048, {"kid": "tests", "use": "sig", "alg": "RS256"}, private=True)
        self._grants: dict[str, Grant] = {}
        self._lock = threading.Lock()
        provider = self

        class Handler(_Handler):
            served = provider

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="oidc", daemon=True)

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def secrets(self) -> str:
        """The `.streamlit/secrets.toml` of the app."""
        return (
            "[auth]\n"
            f'redirect_uri = "{self.redirect_uri}"\n'
            f'cookie_secret = "{secrets.token_hex(32)}"\n'
            f'client_id = "{CLIENT_ID}"\n'
            f'client_secret = "{self.client_secret}"\n'
            f'server_metadata_url = "{self.url}/.well-known/openid-configuration"\n'
        )

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "end_session_endpoint": f"{self.url}/sign-out",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "scopes_supported": ["openid", "email", "profile"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
        }

    def jwks(self) -> dict[str, Any]:
        return dict(KeySet([self._key]).as_dict(private=False))

    def authorize(self, asked: dict[str, str]) -> str:
        """The page with the users; each leads back to `chosen`. Raises Refused."""
        expected = {"client_id": CLIENT_ID, "redirect_uri": self.redirect_uri, "response_type": "code"}
        for name, value in expected.items():
            if asked.get(name) != value:
                raise Refused("invalid_request", f"{name} is not {value}")
        if "openid" not in asked.get("scope", "").split():
            raise Refused("invalid_scope", "scope lacks openid")
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            raise Refused("invalid_request", "no S256 code challenge")
        for name in ("state", "nonce"):
            if not asked.get(name):
                raise Refused("invalid_request", f"no {name}")
        links = "".join(
            f'<li><a href="/chosen?{html.escape(urlencode({**asked, "user": user.sub}))}">{html.escape(user.email)}</a></li>'
            for user in self.users
        )
        return f'<!doctype html><meta charset="utf-8"><title>Pick a user</title><h1>Pick a user</h1><ul>{links}</ul>'

    def chosen(self, asked: dict[str, str]) -> str:
        """The address of the app that takes the code. Raises Refused."""
        self.authorize(asked)
        user = next((user for user in self.users if user.sub == asked.get("user")), None)
        if user is None:
            raise Refused("access_denied", "no such user")
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._grants[code] = Grant(
                user, asked["nonce"], asked["redirect_uri"], asked["code_challenge"], time.time() + CODE_SECONDS
            )
        return f"{self.redirect_uri}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        """Tokens for a code, once. Raises Refused."""
        kind, _, value = authorization.partition(" ")
        if kind.lower() == "basic":
            client_id, _, secret = base64.b64decode(value).decode().partition(":")
            client = unquote(client_id), unquote(secret)
        else:
            client = form.get("client_id", ""), form.get("client_secret", "")
        if client != (CLIENT_ID, self.client_secret):
            raise Refused("invalid_client", "wrong client id or secret", 401)
        if form.get("grant_type") != "authorization_code":
            raise Refused("unsupported_grant_type", "grant_type is not authorization_code")
        with self._lock:
            grant = self._grants.pop(form.get("code", ""), None)
        if grant is None or grant.expires < time.time():
            raise Refused("invalid_grant", "this code is unknown, used or expired")
        if form.get("redirect_uri") != grant.redirect_uri:
            raise Refused("invalid_grant", "another redirect_uri than the code was made for")
        if challenge(form.get("code_verifier", "")) != grant.code_challenge:
            raise Refused("invalid_grant", "the code verifier does not fit the challenge")
        now = int(time.time())
        claims = {
            **grant.user._asdict(),
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "nonce": grant.nonce,
        }
        self.exchanged += 1
        return {
            "access_token": secrets.token_urlsafe(24),
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "id_token": jwt.encode({"alg": "RS256", "kid": self._key.kid}, claims, self._key),
        }

    def sign_out(self, asked: dict[str, str]) -> str:
        """Where to go after signing out here. Raises Refused."""
        if asked.get("client_id") != CLIENT_ID or asked.get("post_logout_redirect_uri") != self.redirect_uri:
            raise Refused("invalid_request", "another client or address than is registered")
        self.signed_out += 1
        return self.redirect_uri


def challenge(verifier: str) -> str:
    """The S256 code challenge of RFC 7636, section 4.2."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class _Handler(BaseHTTPRequestHandler):
    served: Provider

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(address.query).items()}
        try:
            match address.path:
                case "/.well-known/openid-configuration":
                    self._json(self.served.configuration())
                case "/jwks":
                    self._json(self.served.jwks())
                case "/authorize":
                    self._answer(200, self.served.authorize(asked).encode(), {"Content-Type": "text/html"})
                case "/chosen":
                    self._answer(302, b"", {"Location": self.served.chosen(asked)})
                case "/sign-out":
                    self._answer(302, b"", {"Location": self.served.sign_out(asked)})
                case _:
                    self._json({"error": "not_found"}, 404)
        except Refused as error:
            self._refuse(error)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {name: values[-1] for name, values in parse_qs(body).items()}
        try:
            if self.path != "/token":
                raise Refused("not_found", f"nothing is posted to {self.path}", 404)
            self._json(self.served.token(form, self.headers.get("Authorization", "")))
        except Refused as error:
            self._refuse(error)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what matters is noted by the provider."""

    def _refuse(self, error: Refused) -> None:
        self.served.refused.append(str(error))
        self._json({"error": error.code, "error_description": str(error)}, error.status)

    def _json(self, value: dict[str, Any], status: int = 200) -> None:
        self._answer(
            status, json.dumps(value).encode(), {"Content-Type": "application/json", "Cache-Control": "no-store"}
        )

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
