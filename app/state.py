"""What this reader has chosen, as ids and plain values. Everything else is in the store.

A linked value lives in the session and in the address, so that a copied address opens the same view.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.models import DocumentInfo

DOCUMENT = "document"
"""Id of the document the pages look at."""
STRATEGIES = "strategies"
"""The specs on the panes of the Chunk Inspector, as `specs.encode` writes them."""
CHUNK = "chunk"
"""Id of the chunk chosen in the Chunk Inspector."""
REQUEST = "request"
"""Request id of the answers shown on Ask."""
EXPERIMENT = "experiment"
"""Id of the experiment the pages look at."""


def linked(name: str) -> str | None:
    """A linked value: what the address brings when that is new, else what this session chose last."""
    address = st.query_params.get(name)
    if address is not None and address != st.session_state.get(_seen(name)):
        st.session_state[_seen(name)] = address
        st.session_state[name] = address
    value = st.session_state.get(name)
    return None if value is None else str(value)


def choose(name: str, value: str | None) -> None:
    """Change a linked value; the address follows with the next `publish` of the page."""
    st.session_state[name] = value


def publish(*names: str) -> None:
    """Write linked values to the address; call it on the pages that use them."""
    for name in names:
        value = st.session_state.get(name)
        st.session_state[_seen(name)] = value
        if value is None:
            if name in st.query_params:
                del st.query_params[name]
        elif st.query_params.get(name) != value:
            st.query_params[name] = str(value)


def _seen(name: str) -> str:
    return f"address.{name}"


def chosen_document(documents: Sequence[DocumentInfo]) -> DocumentInfo | None:
    """The document chosen in the sidebar or by the address; the newest when none is chosen."""
    by_id = {document.document_id: document for document in documents}
    return by_id.get(linked(DOCUMENT) or "") or (documents[0] if documents else None)


def distinct_names(documents: Sequence[DocumentInfo]) -> dict[str, str]:
    """Names by document id; documents of one name get the beginning of their id."""
    names = [document.name for document in documents]
    return {
        each.document_id: each.name if names.count(each.name) == 1 else f"{each.name} ({each.document_id[:6]})"
        for each in documents
    }
