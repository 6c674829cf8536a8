"""The frame of every page: navigation, sidebar, and what runs in the background."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import state
from app.states import bench, guard

PAGES = Path(__file__).resolve().parents[1] / "pages"

st.set_page_config(page_title="Chunkscope", page_icon=":material/content_cut:", layout="wide")

page = st.navigation(
    [
        st.Page(PAGES / "upload.py", title="Upload", icon=":material/upload_file:", default=True),
        st.Page(
            PAGES / "chunk_inspector.py",
            title="Chunk Inspector",
            icon=":material/content_cut:",
            url_path="chunk_inspector",
        ),
        st.Page(PAGES / "ask.py", title="Ask", icon=":material/forum:", url_path="ask"),
        st.Page(PAGES / "benchmark.py", title="Benchmark", icon=":material/leaderboard:", url_path="benchmark"),
        st.Page(PAGES / "history.py", title="History", icon=":material/history:", url_path="history"),
    ],
    position="top",
)

workbench = bench()


@st.fragment(run_every=2.0)
def running() -> None:
    """The benchmark that runs, on every page."""
    for job in workbench.jobs():
        stages = job.progress.get("stages", {})
        asked = [stage.get("ask", {}) for stage in stages.values()]
        done = sum(each.get("done", 0) for each in asked)
        total = sum(each.get("total", 0) for each in asked)
        st.progress(done / total if total else 0.0, text=f"Benchmark {job.state}: {done} of {total or '?'} answers")


with st.sidebar:
    st.markdown("### Chunkscope")
    with guard():
        documents = workbench.documents()
        if documents:
            names = {document.document_id: document.name for document in documents}
            current = state.chosen_document(documents)
            choice = st.selectbox(
                "Document",
                list(names),
                index=list(names).index(current.document_id) if current else 0,
                format_func=lambda document_id: names[document_id],
                help="The document the Chunk Inspector shows.",
            )
            if choice and (current is None or choice != current.document_id):
                state.choose_document(choice)
        else:
            st.caption("No documents yet.")
        embedder, chat = workbench.models.embedder, workbench.models.chat
        st.caption(f"Embeddings: {embedder.model if embedder else 'none'}")
        st.caption(f"Answers: {chat.model}" if chat else "Answers: extractive, no LLM. Bundled models, no key.")
        running()

page.run()
