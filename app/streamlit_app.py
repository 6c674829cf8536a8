"""The frame of every page: navigation, sidebar, and what runs in the background."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import jobs, reconnect, sign_in, state
from app.states import bench, guard
from app.text import plain
from engine import Workbench, pace

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent / "pages"

st.set_page_config(page_title="Chunkscope", page_icon=(HERE / "icon.svg").as_posix(), layout="wide")
# Lines of a document, an answer or a question run in the direction of their own script.
st.html(
    "<style>.stMainBlockContainer { padding: 3.5rem 3rem 4rem; } "
    ".stText > span { flex: 1; } "
    ".stTextInput input { unicode-bidi: plaintext; text-align: left; } "
    ".stText > span, .stCode code, textarea { unicode-bidi: plaintext; text-align: start; }</style>"
)
sign_in.require()

page = st.navigation(
    [
        st.Page(PAGES / "upload.py", title="Upload", icon=":material/upload_file:", default=True),
        st.Page(PAGES / "chunk_inspector.py", title="Chunk Inspector", icon=":material/content_cut:"),
        st.Page(PAGES / "ask.py", title="Ask", icon=":material/forum:"),
        st.Page(PAGES / "benchmark.py", title="Benchmark", icon=":material/leaderboard:"),
        st.Page(PAGES / "history.py", title="History", icon=":material/history:"),
    ],
    position="top",
)

with st.sidebar:
    st.markdown("### Chunkscope")
    sign_in.account()

workbench = bench()


def document_picker(workbench: Workbench) -> None:
    documents = workbench.documents()
    current = state.chosen_document(documents)
    if current is None:
        st.caption("No documents yet.")
        return
    names = state.distinct_names(documents)
    st.session_state["frame.document"] = current.document_id
    st.selectbox(
        "Document",
        list(names),
        format_func=lambda document_id: names[document_id],
        help="The document that Upload and the Chunk Inspector show.",
        key="frame.document",
        on_change=lambda: state.choose(state.DOCUMENT, st.session_state["frame.document"]),
    )
    state.choose(state.DOCUMENT, current.document_id)
    state.publish(state.DOCUMENT)


def models_in_use(workbench: Workbench) -> None:
    embedder, chat, judge = workbench.models.embedder, workbench.models.chat, workbench.models.judge
    st.caption(f"Embeddings: {plain(embedder.model) if embedder else 'none'}")
    st.caption(f"Answers: {plain(chat.model) if chat else 'extractive, no LLM'}")
    st.caption(f"Judge: {plain(judge.model) if judge else 'none, needs a model'}")
    if chat is None:
        st.caption("Bundled models, no key. Set OPENAI_API_KEY for generated answers and a judge.")


with st.sidebar:
    with guard():
        document_picker(workbench)
        models_in_use(workbench)
        jobs.chip(workbench)
    reconnect.watch()

with guard(), pace.first():
    page.run()
