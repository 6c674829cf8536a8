"""Optional sign-in: on when an `[auth]` section stands in `.streamlit/secrets.toml`, else the app is open to whoever reaches it."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from app.text import plain
from engine.errors import BadSetting

logger = logging.getLogger(__name__)

DEFAULT = "default"
"""What Streamlit calls the provider that has no section of its own."""
_SHARED = ("redirect_uri", "cookie_secret")
_OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")
_CALLBACK = "/oauth2callback"
_PATIENCE_SECONDS = 10.0

_WANTED = "chunkscope.wanted"
_REMEMBER = f"<script>sessionStorage.setItem('{_WANTED}', location.pathname + location.search)</script>"
_RETURN = f"""<script>
const wanted = sessionStorage.getItem('{_WANTED}');
sessionStorage.removeItem('{_WANTED}');
if (wanted && wanted !== location.pathname + location.search) location.replace(location.origin + wanted);
</script>"""
"""Providers send everyone back to the first page. The tab itself knows which link it was opened with."""


@functools.cache
def providers() -> Mapping[str, str]:
    """The providers one can sign in with, and where each describes itself; none where sign-in is not configured. Raises BadSetting.

    It is read once: a file that is broken or removed while the app runs must not let everyone in.
    """
    section = _section()
    if section is None:
        return {}
    sections: dict[str, Mapping[str, Any]] = {
        name: value for name, value in section.items() if isinstance(value, Mapping) and set(value) & {*_OF_A_PROVIDER}
    }
    if not sections or set(section) & {*_OF_A_PROVIDER}:
        sections = {DEFAULT: section, **sections}
    missing = [f"`{name}`" for name in _SHARED if not section.get(name)]
    for provider, values in sections.items():
        of_whom = "" if provider == DEFAULT else f" of [auth.{provider}]"
        missing += [f"`{name}`{of_whom}" for name in _OF_A_PROVIDER if not values.get(name)]
    if missing:
        raise BadSetting(
            f"Sign-in is configured, but [auth] in .streamlit/secrets.toml lacks {', '.join(missing)}, so nobody is let in. "
            "Add it and start Chunkscope again."
        )
    if any("_" in provider for provider in sections):
        raise BadSetting(
            "Sign-in is configured, but the name of a provider in .streamlit/secrets.toml contains an underscore, which Streamlit cannot use, so "
            "nobody is let in. Rename it and start Chunkscope again."
        )
    if not str(section["redirect_uri"]).endswith(_CALLBACK):
        raise BadSetting(
            f"Sign-in is configured, but `redirect_uri` in .streamlit/secrets.toml does not end in {_CALLBACK}, so nobody is let in. "
            f"Make it the address of the app followed by {_CALLBACK}, and start Chunkscope again."
        )
    if importlib.util.find_spec("authlib") is None:
        raise BadSetting(
            "Sign-in is configured, but its library is not installed, so nobody is let in. "
            "Run `pip install -r requirements.txt` and start Chunkscope again."
        )
    return {provider: str(values["server_metadata_url"]) for provider, values in sections.items()}


def _section() -> Mapping[str, Any] | None:
    """The `[auth]` section, None where there is none. Raises BadSetting for a file that is there and cannot be read."""
    try:
        section = st.secrets.get("auth")
    except (StreamlitSecretNotFoundError, OSError, ValueError) as error:
        there = [path for path in map(Path, st.get_option("secrets.files")) if path.exists()]
        if not there:
            return None
        # What the parser says may quote a secret.
        raise BadSetting(
            f"{there[0].name} is there and cannot be read as TOML, so nobody is let in. Mend or remove it, and start Chunkscope again."
        ) from error
    if section is not None and not isinstance(section, Mapping):
        raise BadSetting(
            "`auth` in .streamlit/secrets.toml is no section, so nobody is let in. Write [auth] and start Chunkscope again."
        )
    return section


def user() -> str | None:
    """Who is signed in, by e-mail address or else by the provider's id; None where sign-in is not configured.

    An address that the provider says it has not verified is no one's name: anybody could have typed it. An id stands behind the name of a
    provider that has one, because another provider may give the same id to somebody else.
    """
    if not providers():
        return None
    known = st.user.to_dict()
    unverified = str(known.get("email_verified", True)).lower() == "false"
    if known.get("email") and not unverified:
        return str(known["email"])
    provider = known.get("provider", DEFAULT)
    return str(known["sub"]) if provider == DEFAULT else f"{provider}:{known['sub']}"


def require() -> None:
    """Stop the run until the reader has signed in, where sign-in is configured."""
    try:
        found = providers()
    except BadSetting as error:
        st.error(plain(error.message), icon=":material/lock:")
        st.stop()
    if not found:
        return
    if not st.user.get("is_logged_in"):
        st.title("Chunkscope")
        st.write("Sign in to see the documents and experiments of this installation.")
        for provider in found:
            label = "Sign in" if len(found) == 1 else f"Sign in with {plain(provider)}"
            st.button(
                label,
                key=f"sign_in.{provider}",
                type="primary",
                icon=":material/login:",
                on_click=_sign_in,
                args=(provider,),
            )
        st.html(_REMEMBER, unsafe_allow_javascript=True)
        st.stop()


def _sign_in(provider: str) -> None:
    """Lead to the provider; when it does not answer, say so here, as there would be no way back from there."""
    try:
        httpx2.get(providers()[provider], timeout=_PATIENCE_SECONDS, follow_redirects=True).raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL):
        logger.warning("the provider %s of [auth] does not answer", provider)
        st.error(
            "The provider that signs people in does not answer. Try again in a minute, or ask whoever runs this installation.",
            icon=":material/cloud_off:",
        )
    else:
        st.login(provider)


def account() -> None:
    """Who is signed in, and the way out. Draws nothing where sign-in is not configured."""
    name = user()
    if name is None:
        return
    st.text(f"Signed in as {name}")
    st.button("Sign out", key="sign_in.out", icon=":material/logout:", on_click=st.logout)
    st.html(_RETURN, unsafe_allow_javascript=True)
