"""Chunk Inspector: strategies side by side on the same text."""

from __future__ import annotations

import streamlit as st

from app import charts, forms, state, tables
from app.overlay import overlay
from app.states import bench, empty, guard

workbench = bench()

st.title("Chunk Inspector")
st.write("See where each strategy cuts the same text. Nothing is indexed or stored.")

current = state.chosen_document(workbench.documents())
if current is None:
    empty("No documents yet", "Upload a document, or load the samples, on the Upload page.")
    st.page_link("../pages/upload.py", label="Go to Upload", icon=":material/upload_file:")
    st.stop()

strategies = {strategy.name: strategy for strategy in workbench.strategies()}
chosen = st.pills(
    "Strategies",
    list(strategies),
    selection_mode="multi",
    default=["recursive", "parent_child"],
    format_func=lambda name: strategies[name].title,
    key="inspector.strategies",
    persist_state="session",
)
if not chosen:
    empty("No strategy chosen", "Choose up to four strategies above.")
    st.stop()
if len(chosen) > 4:
    st.info(f"Showing the first four of {len(chosen)}.")

document = workbench.document(current.document_id)
for column, name in zip(st.columns(min(4, len(chosen))), chosen[:4], strict=False):
    strategy = strategies[name]
    with column, guard():
        with st.popover(strategy.title, use_container_width=True):
            st.caption(strategy.rule)
            st.caption(f"Best for: {strategy.best_for} Avoid when: {strategy.avoid_when} Cost: {strategy.cost}")
            spec = forms.spec_input(workbench, strategy, "inspector")
        chunk_set = workbench.chunk(document.document_id, spec)
        lost = sum(span.length for span in chunk_set.uncovered)
        st.caption(f"{spec.label}: {len(chunk_set.chunks)} chunks, {lost} characters in no chunk")
        picked = overlay(
            document.text,
            chunk_set,
            key=f"inspector.overlay.{name}",
            label=f"{strategy.title} on {document.name}",
            selected=st.session_state.get(f"inspector.chosen.{name}"),
            group="inspector",
        )
        if picked is not None:
            chunk = chunk_set.chunks[picked]
            st.markdown(f"**Chunk {picked + 1}**")
            st.caption(" > ".join(chunk.heading_path) or "no heading")
            st.text(
                f"{chunk.token_count} tokens, {chunk.character_count} characters, {chunk.evidence_span.start}-{chunk.evidence_span.end}"
            )
            st.text_area(
                "Embedded text",
                chunk.embed_text,
                height=160,
                disabled=True,
                key=f"inspector.text.{name}.{chunk.chunk_id}",
            )
        st.altair_chart(
            charts.token_histogram(chunk_set),
            key=f"inspector.histogram.{name}",
            alt=f"Tokens per chunk of {spec.label}",
        )
        with st.expander("Chunks as a table"):
            st.dataframe(tables.chunks(chunk_set), hide_index=True, height=280, alt=f"Chunks of {spec.label}")
