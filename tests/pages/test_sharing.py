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
    page.toggle(key=switch).set_value(True).run()
    assert not page.exception
    assert workbench.ownership("document", document_id).shared
    as_user(monkeypatch, "ben")
    page = open_page("upload", session)
    assert "Shared with you to read." in words(page)
    assert switch not in {toggle.key for toggle in page.toggle}
    as_user(monkeypatch, None)
    page = open_page("upload", session)
    assert "Shared with you to read." not in words(page)
    assert switch not in {toggle.key for toggle in page.toggle}
