"""Files that arrive: each is read and stored once, at once, and what became of it stays on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app.text import counted, plain
from engine import UserError, Workbench

OUTCOMES = "upload.outcomes"
"""Session key: what became of each uploaded file, by the file's id."""


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
        for number, file in enumerate(fresh):
            bar.progress(number / len(fresh), text=f"Reading {plain(file.name)}, {number + 1} of {len(fresh)}")
            known[file.file_id] = [
                {"name": each.name, "words": each.words, "stored": each.stored} for each in _store(workbench, file)
            ]
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
