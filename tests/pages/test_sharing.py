"""Pages on behalf of who is signed in: their own, what is shared, and the switch that shares."""

from __future__ import annotations

import pytest

from app import sign_in
from engine import Workbench
from tests.pages.conftest import Open, words

LAW = b"# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n"


def as_user(monkeypatch: pytest.MonkeyPatch, user: str | None) -> None:
    monkeypatch.setattr(sign_in, "user", lambda: user)


def test_a_document_is_seen_by_others_when_its_owner_shares_it(
    open_page: Open, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_id = workbench.acting_as("ann").add_document(LAW, "law.md").document.document_id
    session = {"upload.view": "Original"}
    switch = f"sharing.document.{document_id}"
    as_user(monkeypatch, "ben")
    assert "law.md" not in words(open_page("upload", session))
    as_user(monkeypatch, "ann")
    page = open_page("upload", session)
    assert not page.button(key="upload.delete").disabled
    page.toggle(key=switch).set_value(True).run()
    assert not page.exception
    assert workbench.ownership("document", document_id).shared
    workbench.acting_as("ann").share("document", document_id, False)
    page.run()
    assert not workbench.ownership("document", document_id).shared, "what was drawn before was written again"
    page.toggle(key=switch).set_value(True).run()
    as_user(monkeypatch, "ben")
    page = open_page("upload", session)
    assert "Shared with you to read." in words(page)
    assert page.button(key="upload.delete").disabled
    assert switch not in {toggle.key for toggle in page.toggle}
    as_user(monkeypatch, None)
    page = open_page("upload", session)
    assert "Shared with you to read." not in words(page)
    assert switch not in {toggle.key for toggle in page.toggle}


QUESTIONS = b'[{"question": "How high is the annual fee?", "answer": "300 euros", "evidence": ["The annual fee is 300 euros."]}]'
CHANGING = ("upload.save", "upload.resolve", "upload.set.delete", "history.delete")


def test_who_only_reads_is_not_offered_to_change(
    open_page: Open, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = workbench.acting_as("ann")
    ann.add_document(LAW, "law.md")
    questions = ann.add_question_set(QUESTIONS, "questions.json")
    plan = ann.plan(questions.question_set_id, [ann.spec("sentence")])
    experiment = ann.benchmark(plan)
    ann.share("question set", questions.question_set_id)
    ann.share("experiment", experiment.experiment_id)
    for user, offered in (("ann", True), ("ben", False)):
        as_user(monkeypatch, user)
        seen: dict[str, bool] = {}
        for page in (
            open_page("upload", {"upload.set": questions.question_set_id}),
            open_page("history", {"history.table": {"selection": {"rows": [0], "columns": [], "cells": []}}}),
        ):
            seen |= {button.key: not button.disabled for button in page.button if button.key in CHANGING}
        assert seen == dict.fromkeys(CHANGING, offered), user
