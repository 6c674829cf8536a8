"""Session state: what this reader has chosen, as ids and plain values. Everything else is in the store."""

from __future__ import annotations

import streamlit as st

from engine.models import DocumentInfo

DOCUMENT = "document"
"""Session key and query parameter: id of the document the pages look at."""
EXPERIMENT = "experiment"
"""Session key and query parameter: id of the experiment the pages look at."""


def chosen_document(documents: list[DocumentInfo]) -> DocumentInfo | None:
    """The document chosen in the sidebar or by the address; the newest when none is chosen."""
    chosen = st.session_state.get(DOCUMENT) or st.query_params.get(DOCUMENT)
    by_id = {document.document_id: document for document in documents}
    return by_id.get(chosen) or (documents[0] if documents else None)


def choose_document(document_id: str) -> None:
    st.session_state[DOCUMENT] = document_id
    st.query_params[DOCUMENT] = document_id


def chosen_experiment() -> str | None:
    return st.query_params.get(EXPERIMENT) or st.session_state.get(EXPERIMENT)


def choose_experiment(experiment_id: str) -> None:
    st.session_state[EXPERIMENT] = experiment_id
    st.query_params[EXPERIMENT] = experiment_id
