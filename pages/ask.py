"""Ask: one question, several strategies, answers side by side."""

from __future__ import annotations

import streamlit as st

from app.states import bench, empty, guard
from engine.records import Query

workbench = bench()

st.title("Ask")
st.write("Ask the documents one question and compare what each strategy finds.")

if not workbench.documents():
    empty("No documents yet", "Upload a document, or load the samples, on the Upload page.")
    st.page_link("../pages/upload.py", label="Go to Upload", icon=":material/upload_file:")
    st.stop()

strategies = {strategy.name: strategy for strategy in workbench.strategies()}
with st.form("ask.form"):
    question = st.text_input("Question", key="ask.question")
    chosen = st.pills(
        "Strategies",
        list(strategies),
        selection_mode="multi",
        default=["recursive", "parent_child"],
        format_func=lambda name: strategies[name].title,
        key="ask.strategies",
    )
    top_k = st.number_input("Chunks retrieved", 1, 100, workbench.settings.top_k, key="ask.top_k")
    submitted = st.form_submit_button("Ask", type="primary", icon=":material/send:")

if submitted:
    with guard(), st.spinner("Searching"):
        queries = workbench.ask(question, [workbench.spec(name) for name in chosen or []], top_k=int(top_k))
        st.session_state["ask.queries"] = [query.query_id for query in queries]


def show(query: Query) -> None:
    st.markdown(f"**{query.spec.label}**")
    if query.status == "failed":
        st.error(query.error or "", icon=":material/error:")
        return
    st.caption("extractive, no LLM" if query.answer_kind == "extractive" else query.model or "")
    with st.container(border=True):
        st.text(query.answer if query.answered else "The documents do not answer this.")
    st.caption(f"{1000 * query.seconds.get('total', 0.0):.0f} ms")
    for hit in query.retrieved:
        with st.expander(f"{hit.rank}. score {hit.score:.3f}"):
            st.caption(" > ".join(hit.chunk.heading_path) or hit.chunk.document_name)
            st.text(hit.delivered_text or hit.chunk.text)
            if hit.note:
                st.caption(hit.note)


stored = st.session_state.get("ask.queries", [])
if stored:
    for column, query_id in zip(st.columns(len(stored)), stored, strict=True):
        with column, guard():
            show(workbench.query(query_id))
