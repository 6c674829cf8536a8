"""Upload: documents in, their structure shown; question sets in, their evidence found."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import state, tables
from app.states import bench, empty, guard
from engine import UserError
from engine.documents import supported_types

workbench = bench()
settings = workbench.settings

st.title("Upload")
st.write("Add regulations and question sets. Every document is read once, completely, and its structure is kept.")

files = st.file_uploader(
    f"Documents ({', '.join(supported_types())}), up to {settings.max_upload_mb} MB each",
    accept_multiple_files=True,
    max_upload_size=settings.max_upload_mb,
    key="upload.documents",
)
for file in files:
    with st.status(f"Reading {file.name}", expanded=False) as status:
        try:
            for read in workbench.add_files(file.getvalue(), file.name):
                if read.added is None:
                    st.error(read.error or "", icon=":material/error:")
                else:
                    word = "already present" if read.added.existed else "stored"
                    st.text(f"{read.path}: {word}, {read.added.document.token_count:,} tokens")
            status.update(label=f"{file.name}: read", state="complete")
        except UserError as error:
            status.update(label=error.message, state="error")

if st.button("Load the sample regulation and its questions", icon=":material/science:", key="upload.samples"):
    with guard(), st.spinner("Reading the samples"):
        workbench.load_samples()
        st.rerun()

documents = workbench.documents()
if not documents:
    empty("No documents yet", "Upload a Word document above, or load the sample regulation to look around first.")
    st.stop()

st.subheader("Documents")
picked = st.dataframe(
    tables.documents(documents),
    hide_index=True,
    on_select="rerun",
    selection_mode="single-row",
    key="upload.table",
    alt="Documents with their tokens, sections, tables and warnings",
)
rows = picked.selection.rows
if rows:
    state.choose_document(documents[rows[0]].document_id)
current = state.chosen_document(documents)
if current is not None:
    document = workbench.document(current.document_id)
    st.markdown("**Structure**")
    st.caption(
        f"Built by {document.structure.rule}, confidence {document.structure.confidence}. {tables.kept_in_words(document)}"
    )
    for notice in document.warnings:
        st.text(f"{notice.message} ({notice.count})" if notice.count > 1 else notice.message)
    tree, text = st.tabs(["Tree", "Canonical text"])
    with tree:
        st.dataframe(
            tables.tree(document), hide_index=True, height=420, alt="Tree of the document with tokens per node"
        )
    with text:
        st.text_area(
            "Canonical text",
            document.text,
            height=420,
            disabled=True,
            label_visibility="collapsed",
            key=f"upload.text.{document.document_id}",
        )

    @st.dialog("Delete this document?")
    def confirm_deletion() -> None:
        deletion = workbench.deletion(current.document_id)
        st.text(
            f"{deletion.document.name}: {deletion.chunks} chunks in {len(deletion.collections)} collections go with it."
        )
        st.text(f"{deletion.experiments} experiments used it; they stay readable.")
        if st.button("Delete", type="primary", key="upload.delete.confirm"):
            with guard():
                workbench.delete_document(current.document_id)
                st.rerun()

    if st.button("Delete document", icon=":material/delete:", key="upload.delete"):
        confirm_deletion()

st.subheader("Question sets")
question_file = st.file_uploader(
    "Questions (JSON, JSONL or CSV)", type=["json", "jsonl", "csv"], key="upload.questions"
)
if question_file is not None:
    with guard():
        added = workbench.add_question_set(question_file.getvalue(), question_file.name)
        st.success(f"{len(added.questions)} questions stored.")
sets = workbench.question_sets()
if not sets:
    st.caption("No question set yet.")
else:
    names = {each.question_set_id: f"{each.name} ({each.question_count} questions)" for each in sets}
    chosen = st.selectbox("Question set", list(names), format_func=lambda each: names[each], key="upload.set")
    if chosen:
        rows_of_set = tables.questions(workbench.question_set(chosen))
        missing = int((rows_of_set["evidence"] == "not found").sum())
        if missing:
            st.warning(f"{missing} questions have evidence that was not found in the documents.")
        st.dataframe(
            pd.DataFrame(rows_of_set), hide_index=True, height=320, alt="Questions with the state of their evidence"
        )
