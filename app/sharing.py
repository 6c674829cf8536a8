"""Sharing what one owns with everyone else who signs in. Without sign-in everything is one's own, and there is nobody to share with."""

from __future__ import annotations

import streamlit as st

from app.states import guard
from engine import Workbench
from engine.store.owners import LOCAL, Kind


def may_change(workbench: Workbench, kind: Kind, item_id: str) -> bool:
    """Whether it is one's own. What is shared can only be read, so pages do not offer to change it."""
    return workbench.user == LOCAL or workbench.user in workbench.ownership(kind, item_id).owners


def switch(workbench: Workbench, kind: Kind, item_id: str) -> None:
    """A toggle for the owner; for others a line that says whose it is to change."""
    if workbench.user == LOCAL:
        return
    if not may_change(workbench, kind, item_id):
        st.caption("Shared with you to read.")
        return
    key = f"sharing.{kind}.{item_id}"
    # It may have been changed in another tab since this one was drawn.
    st.session_state[key] = workbench.ownership(kind, item_id).shared
    st.toggle(
        "Shared",
        key=key,
        help="Lets everyone who signs in read it; only its owner can change it.",
        on_change=_share,
        args=(workbench, kind, item_id, key),
    )
    if st.session_state[key]:
        st.caption("Everyone who signs in can read it.")


def _share(workbench: Workbench, kind: Kind, item_id: str, key: str) -> None:
    with guard():
        workbench.share(kind, item_id, st.session_state[key])
