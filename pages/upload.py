"""Upload: documents in, their structure shown; question sets in, their evidence found."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import charts, figures, money, sharing, state, tables, uploads
from app.states import bench, empty, guard, heading
from app.text import counted, plain
from engine.documents import supported_types
from engine.models import Document
from engine.questions.edit import rows as question_rows
from engine.records import QuestionSet
from engine.workbench import Deletion

TEXT_PAGE = 100_000

workbench = bench()
settings = workbench.settings

heading(
    "Upload",
    "Add regulations and question sets. Every document is read once, completely, and its structure is kept.",
    [
        "Drop Word, PDF, HTML, Markdown or text documents here; each is stored as soon as it is read, and the table says what was kept.",
        "Choose a row to see the tree that strategies cut by, with the tokens of every part.",
        "Add a question set with quotes as evidence, and strategies can be measured on the Benchmark page.",
    ],
)

documents = workbench.documents()


def load_samples() -> QuestionSet | None:
    with guard(), st.spinner("Reading the sample regulation and its questions"):
        loaded = workbench.load_samples()
        state.choose(state.DOCUMENT, loaded.questions[0].gold[0].document_id)
        return loaded
    return None


with st.container(horizontal=True):
    with_documents = st.button(
        "Load the sample",
        type="secondary" if documents else "primary",
        icon=":material/science:",
        key="upload.samples",
        help="A regulation written for Chunkscope, with questions and their evidence.",
    )
    with_benchmark = st.button(
        "Run the sample benchmark",
        icon=":material/leaderboard:",
        key="upload.sample_benchmark",
        help="Loads the sample and measures a first set of strategies on it. Takes a few seconds with bundled models.",
    )
if with_documents and load_samples() is not None:
    st.rerun()
if with_benchmark:
    question_set = load_samples()
    if question_set is not None:
        with guard():
            job = workbench.submit(workbench.sample_plan(question_set))
            state.choose(state.EXPERIMENT, job.job_id)
            st.switch_page("../pages/benchmark.py", query_params={state.EXPERIMENT: job.job_id})

files = st.file_uploader(
    "Documents",
    accept_multiple_files=True,
    max_upload_size=settings.max_upload_mb,
    key="upload.documents",
    help=f"Word, PDF, HTML, Markdown, text, source code, or a zip of them. Endings: {', '.join(supported_types())}.",
)
with guard():
    uploads.receive(workbench, files)
uploads.show_outcomes()

if not documents:
    empty("No documents yet", "Drop a document above, or load the sample regulation to look around first.")
    st.stop()

st.subheader("Documents")
current = state.chosen_document(documents)
order = [document.document_id for document in documents]
st.session_state["upload.table"] = {
    "selection": {"rows": [order.index(current.document_id)] if current else [], "columns": [], "cells": []}
}


def choose_row() -> None:
    chosen = st.session_state["upload.table"]["selection"]["rows"]
    if chosen:
        state.choose(state.DOCUMENT, order[chosen[0]])


st.dataframe(
    tables.documents(documents),
    hide_index=True,
    on_select=choose_row,
    selection_mode="single-row",
    key="upload.table",
    alt="Documents with their tokens, headings, tables, structure, kept text and warnings",
    column_config={
        "tokens": st.column_config.NumberColumn("tokens", format="localized"),
        "added": st.column_config.DatetimeColumn("added", format="YYYY-MM-DD HH:mm"),
    },
)


def delete(document_id: str) -> None:
    with guard():
        workbench.delete_document(document_id)
        state.choose(state.DOCUMENT, None)


@st.dialog("Delete this document?")
@guard()
def confirm_deletion(deletion: Deletion) -> None:
    st.text(f"{deletion.document.name} and its original are removed.")
    st.text(
        f"{counted(deletion.chunks, 'indexed chunk')} in {counted(len(deletion.collections), 'collection')} go with it."
    )
    st.text(f"{counted(deletion.experiments, 'experiment')} used it. They stay readable.")
    if st.button(
        "Delete", type="primary", key="upload.delete.confirm", on_click=delete, args=(deletion.document.document_id,)
    ):
        st.rerun()


def structure(document: Document) -> None:
    found = document.structure
    by = (
        "No structure found."
        if found.confidence == "none"
        else f"Structure found by {found.rule}, confidence {found.confidence}."
    )
    st.text(f"{by} {tables.kept_in_words(document)}")
    for notice in document.warnings:
        st.text(f"• {notice.message} ({notice.count})" if notice.count > 1 else f"• {notice.message}")
    rows = tables.tree(document, workbench.tokens(document.document_id))
    most = int(rows["tokens"].max()) if len(rows) else 1
    if not len(rows):
        st.caption("No headings, articles or tables were found: strategies that follow structure treat it as prose.")
        return
    st.dataframe(
        rows,
        hide_index=True,
        height=420 if len(rows) > 11 else "content",
        alt="Tree of the document with tokens per part",
        column_config={
            "part": st.column_config.TextColumn("Part", width="large"),
            "tokens": st.column_config.ProgressColumn("Tokens", format="localized", min_value=0, max_value=most),
        },
    )


def text_of(document: Document) -> None:
    pages = max(1, -(-len(document.text) // TEXT_PAGE))
    number = st.pagination(pages, key=f"upload.text.page.{document.document_id}") if pages > 1 else 1
    st.text_area(
        "Canonical text",
        document.text[(number - 1) * TEXT_PAGE : number * TEXT_PAGE],
        height=420,
        disabled=True,
        label_visibility="collapsed",
        key=f"upload.text.{document.document_id}.{number}",
    )


if current is not None:
    with guard():
        document = workbench.document(current.document_id)
        st.subheader("Structure")
        view = st.segmented_control(
            "View",
            ["Tree", "Proportions", "Canonical text", "Original"],
            default="Tree",
            required=True,
            label_visibility="collapsed",
            key="upload.view",
            persist_state="session",
        )
        if view == "Tree":
            structure(document)
        elif view == "Proportions":
            figures.draw(
                ("icicle", document.document_id),
                lambda: charts.icicle(document),
                alt_text="Parts of the document by length and depth",
            )
            with st.expander("As a table"):
                st.dataframe(charts.icicle_frame(document), hide_index=True, alt="Parts of the document with offsets")
        elif view == "Canonical text":
            text_of(document)
        else:
            st.dataframe(
                tables.original(document), hide_index=True, alt="The original and what the file says of itself"
            )
            with st.container(horizontal=True, vertical_alignment="center"):
                st.download_button(
                    "Download the original",
                    lambda: workbench.original(document.document_id),
                    document.name,
                    on_click="ignore",
                    key="upload.original",
                    icon=":material/download:",
                )
                if st.button(
                    "Delete document",
                    icon=":material/delete:",
                    key="upload.delete",
                    disabled=not sharing.may_change(workbench, "document", document.document_id),
                ):
                    confirm_deletion(workbench.deletion(document.document_id))
                sharing.switch(workbench, "document", document.document_id)


st.subheader("Question sets")
file = st.file_uploader(
    "Questions with their evidence",
    type=["json", "jsonl", "csv"],
    key="upload.questions",
    max_upload_size=settings.max_upload_mb,
    help="Fields: question, answer, evidence (quotes from a document), document, tags, answerable.",
)
if file is not None and st.session_state.get("upload.questions.seen") != file.file_id:
    with guard():
        added = workbench.add_question_set(file.getvalue(), file.name)
        st.session_state["upload.set.next"] = added.question_set_id
        st.success(f"{counted(len(added.questions), 'question')} stored.", icon=":material/check:")
    st.session_state["upload.questions.seen"] = file.file_id

sets = workbench.question_sets()
names = {
    each.question_set_id: f"{each.name} ({counted(each.question_count, 'question')}, {each.created_at:%Y-%m-%d %H:%M})"
    for each in sets
}
row = st.container(horizontal=True, vertical_alignment="bottom")
picker = row.container(width=520) if sets else row
if row.button(
    "Draft questions from the chosen document",
    key="upload.draft",
    icon=":material/edit_note:",
    help="Rules find definitions, deadlines, amounts and table rows. No model is called. You review every question.",
    disabled=current is None,
):
    with guard():
        drafted = workbench.draft_question_set([current.document_id])  # type: ignore[union-attr]
        st.session_state["upload.set.next"] = drafted.question_set_id
        st.rerun()
if workbench.models.chat is not None and current is not None:
    cost = workbench.draft_estimate([current.document_id])
    offer, price = st.columns([2, 3], vertical_alignment="center")
    if cost is not None:
        price.caption(
            plain(money.calls_in_short(cost))
            if cost.calls or cost.cached_calls
            else "No article is of a size to ask about."
        )
    if offer.button(
        "Draft questions with the model",
        key="upload.draft_with_model",
        icon=":material/auto_awesome:",
        help="The model writes questions from articles and quotes its evidence; quotes that do not stand in the text are refused. You review every question.",
    ):
        with guard(), st.spinner("The model drafts questions"):
            by_model = workbench.draft_with_model([current.document_id])
            st.session_state["upload.set.next"] = by_model.question_set.question_set_id
            st.rerun()
if not sets:
    st.caption("No question set yet. Upload one, draft one, or load the sample.")
    st.stop()
saved = st.session_state.pop("upload.set.next", None)
if saved in names:
    st.session_state["upload.set"] = saved
elif st.session_state.get("upload.set") not in names:
    st.session_state["upload.set"] = sets[0].question_set_id
chosen = picker.selectbox(
    "Question set", list(names), format_func=lambda each: names[each], key="upload.set", persist_state="session"
)


def editor(question_set: QuestionSet) -> None:
    """The questions as a table to edit; saving looks the evidence up again."""
    frame = pd.DataFrame(question_rows(question_set))
    frame.insert(1, "state", [tables.evidence_state(question, order) for question in question_set.questions])
    changed = st.data_editor(
        frame,
        num_rows="dynamic",
        hide_index=True,
        height=360,
        key=f"upload.editor.{question_set.question_set_id}",
        column_config={
            "question": st.column_config.TextColumn("Question", width="large", required=True),
            "answer": st.column_config.TextColumn("Expected answer", width="medium"),
            "evidence": st.column_config.ListColumn("Evidence quotes", width="large"),
            "state": st.column_config.TextColumn(
                "Evidence found", width="medium", disabled=True, help="Looked up when the set was stored."
            ),
            "document": st.column_config.TextColumn("Document"),
            "answerable": st.column_config.CheckboxColumn("Answerable", default=True),
            "every_copy": st.column_config.CheckboxColumn("Every copy", help="Every copy of a repeated quote counts."),
            "tags": st.column_config.ListColumn("Tags"),
            "reviewed": st.column_config.CheckboxColumn("Reviewed", default=True),
            "id": st.column_config.TextColumn("Id"),
        },
        alt="Questions, editable",
    )
    fixed = not sharing.may_change(workbench, "question set", question_set.question_set_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Save changes", type="primary", key="upload.save", icon=":material/save:", disabled=fixed):
            with guard():
                saved = workbench.edit_question_set(question_set.question_set_id, tables.edited_rows(changed))
                st.session_state["upload.set.next"] = saved.question_set_id
                st.rerun()
        if st.button(
            "Look for the evidence again", key="upload.resolve", icon=":material/find_in_page:", disabled=fixed
        ):
            with guard():
                workbench.resolve_question_set(question_set.question_set_id)
                st.rerun()
        if st.button("Delete question set", key="upload.set.delete", icon=":material/delete:", disabled=fixed):
            confirm_set_deletion(question_set.question_set_id, question_set.name)
        sharing.switch(workbench, "question set", question_set.question_set_id)


def delete_set(question_set_id: str) -> None:
    with guard():
        workbench.delete_question_set(question_set_id)


def copies(question_set: QuestionSet) -> None:
    """Quotes that stand in several places: the reader says which one is meant."""
    repeated = uploads.repeated_quotes(question_set)
    if not repeated:
        return
    with st.expander(f"{counted(len(repeated), 'quote')} in several places: choose which one counts"):
        place = st.selectbox(
            "Quote",
            range(len(repeated)),
            format_func=lambda number: repeated[number].label,
            key=f"upload.copies.{question_set.question_set_id}",
        )
        quote = repeated[place]
        options = uploads.places(workbench, quote)
        key = f"upload.copy.{question_set.question_set_id}.{quote.question_id}.{quote.evidence}"
        st.session_state[key] = quote.chosen
        # A short quote may stand in many places; the list of them scrolls, and the questions below stay in reach.
        with st.container(height=360 if len(options) > 6 else "content", border=False):
            st.radio(
                "Where the evidence stands",
                [None, *range(len(options))],
                format_func=lambda copy: "Every copy counts" if copy is None else options[copy],
                key=key,
                on_change=lambda: choose_copy(question_set.question_set_id, quote, st.session_state[key]),
            )


def choose_copy(question_set_id: str, quote: uploads.RepeatedQuote, copy: int | None) -> None:
    with guard():
        workbench.choose_copy(question_set_id, quote.question_id, quote.evidence, copy)


@st.dialog("Delete this question set?")
@guard()
def confirm_set_deletion(question_set_id: str, name: str) -> None:
    st.text(f"{name} is removed. Experiments that used it keep their own copy of the questions.")
    if st.button(
        "Delete",
        type="primary",
        key="upload.set.delete.confirm",
        on_click=delete_set,
        args=(question_set_id,),
    ):
        st.rerun()


with guard():
    question_set = workbench.question_set(chosen)
    findings = uploads.findings(workbench, question_set, documents)
    st.text(tables.evidence_in_words(question_set, order))
    if findings:
        serious = sum(finding.severity == "error" for finding in findings)
        label = f"Checked: {counted(serious, 'error')}, {counted(len(findings) - serious, 'remark')}"
        with st.expander(label, expanded=serious > 0):
            st.dataframe(
                tables.findings(question_set, findings), hide_index=True, alt="What to know about these questions"
            )
    copies(question_set)
    editor(question_set)
