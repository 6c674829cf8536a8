"""The switch that shares what one owns with everyone else. Not drawn without sign-in, where there is nobody to share with."""

from __future__ import annotations

import streamlit as st

from engine import Workbench
from engine.store.owners import LOCAL, Kind


def switch(workbench: Workbench, kind: Kind, item_id: str) -> None:
    """A toggle for the owner; for others a line that says whose it is to change."""
    if workbench.user == LOCAL:
        return
    found = workbench.ownership(kind, item_id)
    if workbench.user not in found.owners:
        st.caption("Shared with you to read.")
        return
    key = f"sharing.{kind}.{item_id}"
    shared = st.toggle(
        "Shared", found.shared, key=key, help="Everyone who signs in can read it; only you can change it."
    )
    if shared != found.shared:
        workbench.share(kind, item_id, shared)
