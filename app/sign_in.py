"""Optional sign-in: on when an `[auth]` section stands in `.streamlit/secrets.toml`, else the app is open to whoever reaches it."""

from __future__ import annotations

import importlib.util

import streamlit as st


def _is_configured() -> bool:
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def user() -> str | None:
    """Who is signed in, by e-mail address or else by the provider's id; None where sign-in is not configured."""
    if not _is_configured():
        return None
    known = st.user.to_dict()
    return str(known.get("email") or known["sub"])


def require() -> None:
    """Stop the run until the reader has signed in, where sign-in is configured."""
    if not _is_configured():
        return
    if importlib.util.find_spec("authlib") is None:
        st.error(
            "Sign-in is configured, but its library is not installed, so nobody is let in. "
            "Run `pip install streamlit[auth]` and start Chunkscope again.",
            icon=":material/lock:",
        )
        st.stop()
    if not st.user.is_logged_in:
        st.title("Chunkscope")
        st.write("Sign in to see the documents and experiments of this installation.")
        st.button("Sign in", type="primary", icon=":material/login:", on_click=st.login)
        st.stop()
    with st.sidebar:
        st.button("Sign out", icon=":material/logout:", on_click=st.logout)
