"""Files that arrive: each is read and stored once, at once, and what became of it stays on the page. And quotes in several places."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict, dataclass
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


NAMED_EACH = 4
"""So many files that were stored, or that were not, have a line each; of more the page says how many, with their names in one block."""


_findings: Recent[tuple[str, ...], tuple[Finding, ...]] = Recent(32)


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    words: str
    stored: bool
    existed: bool = False


def receive(workbench: Workbench, files: Sequence[UploadedFile]) -> None:
    """Store every file not seen before, with progress, and forget files that were taken off the list."""
    known: dict[str, list[dict[str, Any]]] = st.session_state.setdefault(OUTCOMES, {})
    fresh = [file for file in files if file.file_id not in known]
    if fresh:
        bar = st.progress(0.0)
        threads = ThreadPoolExecutor(processes.MOST, "upload")
        becoming = [threads.submit(copy_context().run, _store, workbench, file) for file in fresh]
        try:
            for number, (file, outcomes) in enumerate(zip(fresh, becoming, strict=True)):
                bar.progress(number / len(fresh), text=f"Reading {plain(file.name)}, {number + 1} of {len(fresh)}")
                outcomes.result()
        finally:
            # Whoever leaves the page does not wait for files that nobody has begun to read; those begun are stored, and known as stored.
            threads.shutdown(cancel_futures=True)
            for file, outcomes in zip(fresh, becoming, strict=True):
                if not outcomes.cancelled() and outcomes.exception() is None:
                    known[file.file_id] = [asdict(each) for each in outcomes.result()]
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
                outcomes.append(Outcome(read.path, f"{word}, {tokens}", True, read.added.existed))
    except UserError as error:
        outcomes.append(Outcome(file.name, error.message, False))
    return outcomes


def show_outcomes() -> None:
    """What became of the files of this upload."""
    found = [Outcome(**each) for outcomes in st.session_state.get(OUTCOMES, {}).values() for each in outcomes]
    bad = [each for each in found if not each.stored]
    good = [each for each in found if each.stored]
    if len(bad) <= NAMED_EACH:
        for each in bad:
            st.error(plain(each.words), icon=":material/error:")
    else:
        lines = "\n".join(f"- {plain(each.words)}" for each in bad)
        st.error(f"{counted(len(bad), 'file')} could not be read:\n\n{lines}", icon=":material/error:")
    if good:
        st.success(_stored_in_words(good), icon=":material/check:")


def _stored_in_words(good: Sequence[Outcome]) -> str:
    """Markdown."""
    if len(good) <= NAMED_EACH:
        return plain(", ".join(f"{each.name} ({each.words})" for each in good))
    new, known = ([each.name for each in good if each.existed is existed] for existed in (False, True))
    parts = [f"{counted(len(new), 'document')} stored: {', '.join(new)}."] if new else []
    parts += [f"{counted(len(known), 'document')} already present: {', '.join(known)}."] if known else []
    return "\n\n".join(plain(part) for part in parts)


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
