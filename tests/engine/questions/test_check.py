from __future__ import annotations

from typing import Any

from engine.models import Document
from engine.questions import check, parse_rows, questions_needed, resolve
from engine.questions.check import Finding
from engine.records import QuestionSet
from tests.engine.metrics.examples import chunk_set, document

TEXT = "The operator shall notify the Authority within 30 days. Records are kept for five years. Records are kept for five years."


def findings(rows: list[dict[str, Any]], *documents: Document, **options: Any) -> list[Finding]:
    documents = documents or (document(TEXT),)
    return checked(resolve(parse_rows(rows, "set"), documents), *documents, **options)


def checked(question_set: QuestionSet, *documents: Document, **options: Any) -> list[Finding]:
    opened: list[str] = []

    def open_document(document_id: str) -> Document:
        opened.append(document_id)
        return next(each for each in documents if each.document_id == document_id)

    found = list(check(question_set, documents, open_document, **options))
    assert len(opened) == len(set(opened)), "a document is opened once"
    return found


def kinds(found: list[Finding]) -> list[str]:
    return [finding.kind for finding in found if finding.question_id is not None]


def test_a_good_question_has_no_finding_of_its_own() -> None:
    row = {
        "question": "How soon must the regulator hear of it?",
        "answer": "Within 30 days.",
        "evidence": "within 30 days",
    }
    assert kinds(findings([row])) == []


def test_equal_and_nearly_equal_questions() -> None:
    long = "When must the operator of a plant tell the Authority about a major incident in writing"
    found = findings(
        [{"question": "Why so?"}, {"question": "  why SO"}, {"question": long}, {"question": long + " today"}]
    )
    assert [f.kind for f in found if "duplicate" in f.kind] == ["duplicate", "near_duplicate"]
    assert "question 1" in next(f.message for f in found if f.kind == "duplicate")
    assert "question 3" in next(f.message for f in found if f.kind == "near_duplicate")


def test_evidence_that_cannot_be_used() -> None:
    assert kinds(findings([{"question": "a?", "evidence": "nothing of the kind"}])) == ["evidence_not_found"]
    missing = findings([{"question": "a?", "evidence": "within 30 days", "document": "other.docx"}])
    assert kinds(missing) == ["unknown_document"]
    assert [finding.severity for finding in missing[:1]] == ["error"]
    assert kinds(findings([{"question": "a?", "evidence": "within 30 days", "document": "Rules"}])) == []


def test_evidence_in_a_document_that_is_gone() -> None:
    old, new = document(TEXT), document("Another text. It holds nothing.").model_copy(update={"document_id": "new"})
    resolved = resolve(parse_rows([{"question": "a?", "evidence": "within 30 days"}], "set"), [old])
    (gone,) = [each for each in checked(resolved, new) if each.question_id]
    assert (gone.kind, gone.severity) == ("evidence_orphaned", "error")
    # A document that is only left out of the check is not gone.
    assert kinds(checked(resolved, new, stored=["new", old.document_id])) == []


def test_evidence_a_person_should_look_at() -> None:
    repeated = findings([{"question": "a?", "evidence": "Records are kept for five years."}])
    assert kinds(repeated) == ["evidence_repeated"]
    assert "2 places" in repeated[0].message
    assert (
        kinds(findings([{"question": "a?", "evidence": "Records are kept for five years.", "every_copy": True}])) == []
    )
    assert kinds(
        findings([{"question": "a?", "evidence": "The operater shal notify the Authority within 30 days"}])
    ) == ["evidence_aligned"]


def test_questions_without_evidence_and_unanswerable_ones_with_it() -> None:
    assert kinds(findings([{"question": "a?"}])) == ["no_evidence"]
    assert kinds(findings([{"question": "a?", "answerable": False}])) == []
    assert kinds(findings([{"question": "a?", "answerable": False, "evidence": "within 30 days"}])) == [
        "unanswerable_with_evidence"
    ]


def test_an_answer_that_is_not_in_the_evidence() -> None:
    wrong = {"question": "a?", "answer": "Within 60 days.", "evidence": "within 30 days"}
    assert kinds(findings([wrong])) == ["answer_not_in_evidence"]
    unrelated = {"question": "a?", "answer": "Only suppliers from abroad.", "evidence": "within 30 days"}
    assert kinds(findings([unrelated])) == ["answer_not_in_evidence"]


def test_a_question_that_repeats_the_text() -> None:
    row = {
        "question": "The operator shall notify the Authority within how many days?",
        "evidence": "The operator shall notify the Authority within 30 days.",
    }
    assert kinds(findings([row])) == []
    row["question"] = "The operator shall notify the Authority within?"
    assert kinds(findings([row])) == ["repeats_the_text"]


def test_evidence_longer_than_any_chunk_and_a_document_of_one_chunk() -> None:
    row = {"question": "a?", "evidence": "The operator shall notify the Authority within 30 days."}
    small = findings([row], chunk_sets=[chunk_set(TEXT, (0, 20), (20, len(TEXT)), tokens=[4, 5])])
    assert kinds(small) == ["evidence_longer_than_any_chunk"]
    whole = findings([row], chunk_sets=[chunk_set(TEXT, (0, len(TEXT)), tokens=[30])])
    assert "document_shorter_than_chunk" in [finding.kind for finding in whole]


def test_without_strategies_the_usual_chunk_size_tells() -> None:
    row = {"question": "a?", "evidence": "The operator shall notify the Authority within 30 days."}
    assert kinds(findings([row], chunk_size=5)) == ["evidence_longer_than_any_chunk"]
    whole = findings([row], chunk_size=100)
    assert "document_shorter_than_chunk" in [finding.kind for finding in whole]


def test_too_few_questions_says_what_can_be_found_and_what_it_would_take() -> None:
    """One question: 2.80 x 0.35 = 98 points; 5 points need (0.98 / 0.05)^2 = 385."""
    found = findings([{"question": "a?", "evidence": "within 30 days"}])
    few = next(finding for finding in found if finding.kind == "too_few_questions")
    assert "1 independent question" in few.message
    assert "98 points" in few.message
    assert "385" in few.message
    assert questions_needed(0.05) == 385
    assert questions_needed(0.1, deviation=0.2) == 32
    assert findings([{"question": "a?", "evidence": "within 30 days"}], looked_for=0.99) == []


def test_drafted_questions_are_named_until_reviewed() -> None:
    rows = resolve(parse_rows([{"question": "a?", "evidence": "within 30 days"}], "set"), [document(TEXT)])
    drafted = rows.model_copy(update={"questions": (rows.questions[0].model_copy(update={"reviewed": False}),)})
    assert "not_reviewed" in [finding.kind for finding in checked(drafted, document(TEXT))]
