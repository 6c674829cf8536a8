"""Files that arrive: each is read and stored once, at once, and what became of it stays on the page. And quotes in several places."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app.text import counted, plain, shortened
from engine import UserError, Workbench, ids, processes
from engine.errors import NotFound
from engine.models import DocumentInfo
from engine.questions import Finding
from engine.recent import Recent
from engine.records import Gold, QuestionSet

OUTCOMES = "upload.outcomes"
"""Session key: what became of each uploaded file, by the file's id."""


_findings: Recent[tuple[str, ...], tuple[Finding, ...]] = Recent(32)


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    words: str
    stored: bool


def receive(workbench: Workbench, files: Sequence[UploadedFile]) -> None:
    """Store every file not seen before, with progress, and forget files that were taken off the list."""
    known: dict[str, list[dict[str, Any]]] = st.session_state.setdefault(OUTCOMES, {})
    fresh = [file for file in files if file.file_id not in known]
    if fresh:
        bar = st.progress(0.0)
        with ThreadPoolExecutor(processes.MOST, "upload") as threads:
            becoming = [threads.submit(copy_context().run, _store, workbench, file) for file in fresh]
            try:
                for number, (file, outcomes) in enumerate(zip(fresh, becoming, strict=True)):
                    bar.progress(number / len(fresh), text=f"Reading {plain(file.name)}, {number + 1} of {len(fresh)}")
                    known[file.file_id] = [
                        {"name": each.name, "words": each.words, "stored": each.stored} for each in outcomes.result()
                    ]
            finally:
                # Whoever leaves the page does not wait for files that nobody has begun to read.
                for outcomes in becoming:
                    outcomes.cancel()
        bar.empty()
        st.rerun()
    for gone in set(known) - {file.file_id for file in files}:
        del known[gone]


def _store(workbench: Workbench, file: UploadedFile) -> list[Outcome]:
    outcomes = []
    try:
        for read in workbench.add_files(file.getvalue(), file.name):
            if read.added is None:
                outcomes.append(Outcome(read.path, read.error or "Nothing was stored.", False))
            else:
                tokens = counted(read.added.document.token_count, "token")
                word = "already present" if read.added.existed else "stored"
                outcomes.append(Outcome(read.path, f"{word}, {tokens}", True))
    except UserError as error:
        outcomes.append(Outcome(file.name, error.message, False))
    return outcomes


def show_outcomes() -> None:
    """One line per file of this upload."""
    found = [each for outcomes in st.session_state.get(OUTCOMES, {}).values() for each in outcomes]
    good = [each for each in found if each["stored"]]
    for each in found:
        if not each["stored"]:
            st.error(plain(each["words"]), icon=":material/error:")
    if good:
        names = ", ".join(f"{each['name']} ({each['words']})" for each in good)
        st.success(plain(names), icon=":material/check:")


@dataclass(frozen=True, slots=True)
class RepeatedQuote:
    """A quote that stands in several places."""

    question_id: str
    evidence: int
    """Which quote of the question, from 0."""
    label: str
    candidates: tuple[Gold, ...]
    chosen: int | None
    """The place that counts; None when all of them do."""


def repeated_quotes(question_set: QuestionSet) -> list[RepeatedQuote]:
    return [
        RepeatedQuote(
            question.question_id,
            number,
            f"{shortened(item.quote, 60)} ({shortened(question.question, 60)})",
            item.candidates,
            item.candidates.index(item.gold[0]) if len(item.gold) == 1 and item.gold[0] in item.candidates else None,
        )
        for question in question_set.questions
        for number, item in enumerate(question.evidence)
        if len(item.candidates) > 1
    ]


def places(workbench: Workbench, quote: RepeatedQuote) -> list[str]:
    """Where each copy stands, with the words around it, as Markdown that shows them as they are."""
    found = []
    for gold in quote.candidates:
        try:
            document = workbench.document(gold.document_id)
        except NotFound:
            found.append(f"a document that was deleted or read again, character {gold.span.start:,}")
            continue
        around = document.text[max(0, gold.span.start - 60) : gold.span.end + 60]
        where = " · ".join(filter(None, (document.name, gold.unit, f"character {gold.span.start:,}")))
        found.append(plain(f"{where}: … {shortened(around, 220)} …"))
    return found


def findings(workbench: Workbench, question_set: QuestionSet, documents: Sequence[DocumentInfo]) -> tuple[Finding, ...]:
    """What to know about a question set, looked for once for the same questions and documents: the page shows it in every run."""
    key = (ids.digest(question_set.model_dump_json()), *(document.document_id for document in documents))
    return _findings.get_or_make(key, lambda: workbench.check_question_set(question_set.question_set_id))
