"""Upload: empty, with the sample, with bad files, with edited and drafted questions."""

from __future__ import annotations

import json

import pytest

from engine import Workbench
from tests.pages.conftest import Open, words

HOSTILE = "<img src=x onerror=alert(1)> **bold** :material/delete: $x^2$ [link](http://example.com)"


def test_empty_page_says_what_to_do(open_page: Open) -> None:
    app = open_page("upload")
    assert app.title[0].value == "Upload"
    assert "No documents yet" in words(app)
    assert [button.label for button in app.button if "sample" in button.label] == [
        "Load the sample",
        "Run the sample benchmark",
    ]


def test_a_damaged_file_is_refused_in_words_and_the_good_one_is_stored(open_page: Open, workbench: Workbench) -> None:
    app = open_page("upload")
    good = b"# Fees\n\nThe annual fee is 300 euros.\n"
    app.file_uploader(key="upload.documents").set_value(
        [("law.md", good, "text/markdown"), ("broken.docx", b"PK\x03\x04nothing", "application/zip")]
    ).run()
    assert [document.name for document in workbench.documents()] == ["law.md"]
    assert len(app.error) == 1
    assert "broken" in app.error[0].value
    assert "law" in app.success[0].value
    assert not app.exception


def test_many_files_are_counted_and_those_that_could_not_be_read_are_one_block(
    open_page: Open, workbench: Workbench
) -> None:
    workbench.add_document(b"The fee of 1 is due.\n", "good1.txt")
    app = open_page("upload")
    files = [(f"good{number}.txt", f"The fee of {number} is due.\n".encode(), "text/plain") for number in range(1, 7)]
    files += [(f"bad{number}.docx", b"PK\x03\x04nothing", "application/zip") for number in range(5)]
    app.file_uploader(key="upload.documents").set_value(files).run()
    assert len(app.error) == len(app.success) == 1
    assert app.error[0].value.startswith("5 files could not be read:")
    assert sum(line.startswith("- bad") for line in app.error[0].value.splitlines()) == 5
    stored, known = app.success[0].value.split("\n\n")
    assert stored.startswith("5 documents stored")
    assert "good6" in stored
    assert known.startswith("1 document already present")
    assert "good1" in known


def test_a_text_without_structure_says_so_once(open_page: Open, workbench: Workbench) -> None:
    added = workbench.add_document(b"A line without any heading.\n", "plain.txt")
    app = open_page("upload", document=added.document.document_id)
    table = app.dataframe[0].value
    assert table[table["name"] == "plain.txt"]["structure"].tolist() == ["none"]
    assert "No structure found." in words(app)


def test_the_sample_comes_with_one_click(open_page: Open, workbench: Workbench) -> None:
    app = open_page("upload")
    next(button for button in app.button if button.label == "Load the sample").click().run()
    assert not app.exception
    assert {"regulation.docx", "manual.md"} <= {document.name for document in workbench.documents()}
    assert "quotes found in the documents" in words(app)
    table = app.dataframe[0].value
    assert set(table["name"]) >= {"regulation.docx", "manual.md"}
    chosen = next(document for document in workbench.documents() if document.name == "regulation.docx")
    assert app.query_params["document"] == chosen.document_id


@pytest.mark.parametrize("view", ["Proportions", "Canonical text", "Original"])
def test_every_view_of_a_document(open_page: Open, workbench: Workbench, view: str) -> None:
    workbench.load_samples()
    app = open_page("upload", {"upload.view": view})
    assert app.segmented_control(key="upload.view").value == view


def test_deleting_names_the_consequences_first(open_page: Open, workbench: Workbench) -> None:
    added = workbench.add_document(b"# Old\n\nTo be deleted.\n", "old.md")
    app = open_page("upload", {"upload.view": "Original"}, document=added.document.document_id)
    app.button(key="upload.delete").click().run()
    assert "old.md and its original are removed." in words(app)
    assert added.document.document_id in {document.document_id for document in workbench.documents()}
    app.button(key="upload.delete.confirm").click().run()
    assert added.document.document_id not in {document.document_id for document in workbench.documents()}


def test_questions_are_read_and_lost_evidence_is_named(open_page: Open, workbench: Workbench) -> None:
    workbench.add_document(b"# Fees\n\nThe annual fee is 300 euros.\n", "law.md")
    rows = [
        {"question": "How high is the fee?", "answer": "300 euros", "evidence": ["The annual fee is 300 euros."]},
        {"question": HOSTILE, "evidence": ["Nothing of this kind stands anywhere in the text at all"]},
    ]
    app = open_page("upload")
    app.file_uploader(key="upload.questions").upload("hostile.json", json.dumps(rows).encode()).run()
    assert "2 questions stored." in words(app)
    assert "1 of 2 quotes found in the documents." in words(app)
    assert not app.exception


def test_evidence_whose_document_is_gone_is_said_with_what_to_do(open_page: Open, workbench: Workbench) -> None:
    text = b"# Dues\n\nThe due is 70 euros.\n\n# Rates\n\nThe rate is 5 percent.\n\nThe rate is 5 percent.\n"
    workbench.add_document(b"# Fees\n\nThe annual fee is 300 euros.\n", "law.md")
    gone = workbench.add_document(text, "dues.md").document.document_id
    rows = [
        {"question": "How high is the due?", "evidence": ["The due is 70 euros.", "Nobody wrote this."]},
        {"question": "How high is the rate?", "evidence": ["The rate is 5 percent."]},
    ]
    added = workbench.add_question_set(json.dumps(rows).encode(), "dues.json", [gone])
    app = open_page("upload", {"upload.set": added.question_set_id})
    assert "2 of 3 quotes found in the documents." in words(app)
    workbench.delete_document(gone)
    app = open_page("upload", {"upload.set": added.question_set_id})
    assert not app.error
    advice = "document that was deleted or read again: upload it, then look for the evidence again."
    assert f"0 of 3 quotes found in the documents. 2 quotes stood in a {advice}" in words(app)
    editor = next(each.value for each in app.dataframe if "state" in each.value)
    again = "upload it, then look for the evidence again"
    assert editor["state"].tolist() == [
        f"document deleted or read again (1 of 2 quotes): {again}; "
        "not found (1 of 2 quotes): correct the quote, or upload its document",
        f"document deleted or read again: {again}",
    ]
    findings = next(each.value for each in app.dataframe if "finding" in each.value)
    assert sum("so no strategy can find it" in each for each in findings["finding"]) == 2
    radio = f"upload.copy.{added.question_set_id}.{added.questions[1].question_id}.0"
    assert "a document that was deleted or read again" in app.radio(key=radio).options[1]
    workbench.add_document(text, "dues.md")
    app = open_page("upload", {"upload.set": added.question_set_id})
    app.button(key="upload.resolve").click().run()
    assert "2 of 3 quotes found in the documents." in words(app)
    workbench.delete_question_set(added.question_set_id)
    workbench.delete_document(gone)


def test_a_question_file_of_the_wrong_shape_is_refused_by_row(open_page: Open, workbench: Workbench) -> None:
    workbench.load_samples()
    app = open_page("upload")
    app.file_uploader(key="upload.questions").upload("bad.json", b'[{"answer": "x"}]').run()
    assert "row 1" in app.error[0].value.replace("\\", "")


def test_drafted_questions_wait_for_review(open_page: Open, workbench: Workbench) -> None:
    workbench.load_samples()
    regulation = next(document for document in workbench.documents() if document.name == "regulation.docx")
    app = open_page("upload", document=regulation.document_id)
    app.button(key="upload.draft").click().run()
    drafted = workbench.question_set(app.selectbox(key="upload.set").value)
    assert drafted.name == "Drafted from regulation.docx"
    assert not any(question.reviewed for question in drafted.questions)
    app.button(key="upload.save").click().run()
    assert not app.exception
    assert not app.error


def test_the_tour_is_dismissed_once(open_page: Open) -> None:
    app = open_page("upload")
    app.button(key="Upload.tour.close").click().run()
    assert "Upload.tour.close" not in {button.key for button in app.button}


def test_questions_are_checked_again_only_when_they_or_the_documents_change(
    open_page: Open, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = workbench.add_document(b"# Toll\n\nThe toll is 12 euros.\n", "toll.md").document.document_id
    rows = [{"question": "How high is the toll of 1987?", "evidence": ["The toll is 12 euros."]}]
    question_set = workbench.add_question_set(json.dumps(rows).encode(), "toll.json", [added])
    checked = []
    check = Workbench.check_question_set
    monkeypatch.setattr(
        Workbench, "check_question_set", lambda *given: (checked.append(len(checked)), check(*given))[1]
    )
    app = open_page("upload", {"upload.set": question_set.question_set_id})
    app.run()
    assert len(checked) == 1
    workbench.add_document(b"# Other\n\nAnother text.\n", "other.md")
    app.run()
    assert len(checked) == 2
    assert not app.exception
