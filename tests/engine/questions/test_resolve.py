from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import ids
from engine.models import Document, Node, NodeKind, Span
from engine.questions import parse_rows, resolve
from engine.questions.normalise import Normalised
from engine.questions.resolve import changes, choose, count_every_copy, resolve_among
from engine.records import Evidence
from tests.engine.metrics.examples import document

TEXT = (
    "## Article 1\n\nThe **operator** shall notify the “Authority” within 30 days of any ma\u00adjor incident — in writing.\n\n"
    "- first, keep the records;\n- second, show them.\n\n| Fee | Amount |\n|---|---|\n| basic | 100 |\n\n"
    "Records are kept. Records are kept.\n"
)


def found(evidence: Any, *documents: Document, **fields: Any) -> Evidence:
    rows = parse_rows([{"question": "?", "evidence": evidence, **fields}], "set")
    return resolve(rows, documents or (document(TEXT),)).questions[0].evidence[0]


def gold_text(item: Evidence, text: str = TEXT) -> list[str]:
    return [gold.span.slice(text) for gold in item.gold]


def test_an_exact_quote() -> None:
    item = found("second, show them.")
    assert (item.method, item.score, gold_text(item)) == ("exact", 1.0, ["second, show them."])
    assert item.gold[0].text_hash == ids.content_hash("second, show them.")


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        (
            'The operator shall notify the "Authority" within 30',
            "The **operator** shall notify the “Authority” within 30",
        ),
        ("the  'authority'".replace("'", '"'), "the “Authority”"),
        ("any major incident - in writing", "any ma\u00adjor incident — in writing"),
        ("first, keep the records; second, show them.", "first, keep the records;\n- second, show them."),
        ("Fee Amount basic 100", "Fee | Amount |\n|---|---|\n| basic | 100"),
    ],
)
def test_a_quote_is_found_through_spaces_quotes_hyphens_and_markup(quote: str, text: str) -> None:
    item = found(quote)
    assert item.method == "normalised"
    assert gold_text(item) == [text]


def test_a_quote_with_typing_errors_is_aligned_and_scored() -> None:
    item = found("The operater shal notify the Authority within 30 days of any major incident in writing")
    assert item.method == "aligned"
    assert 0.85 <= item.score < 1
    assert gold_text(item)[0].startswith("The **operator** shall notify")


def test_a_long_quote_with_typing_errors_is_aligned_by_its_two_ends() -> None:
    sentences = [f"Claim {n} is recorded for {n + 3} months and shown to members who ask." for n in range(30)]
    text = "An opening line.\n\n" + " ".join(sentences) + "\n\nA closing line.\n"
    passage = " ".join(sentences)
    item = found(passage.replace("recorded", "recoded"), document(text))
    assert len(passage) > 1500
    assert (item.method, gold_text(item, text)) == ("aligned", [passage])
    assert 0.95 < item.score < 1


def test_other_numbers_are_another_statement() -> None:
    item = found("The operator shall notify the Authority within 60 days of any major incident in writing")
    assert (item.method, item.gold) == ("not_found", ())
    assert item.nearest is not None
    assert "within 30 days" in item.nearest


def test_what_is_not_there_is_not_found_and_the_nearest_text_is_shown() -> None:
    item = found("The operator shall publish the prices of all goods every year")
    assert (item.method, item.gold) == ("not_found", ())
    assert item.score < 0.85
    assert item.nearest
    nothing = found("zebra")
    assert (nothing.method, nothing.nearest, nothing.score) == ("not_found", None, 0.0)


def test_several_places_are_all_shown_and_the_first_counts() -> None:
    item = found("Records are kept.")
    assert len(item.candidates) == 2
    assert item.gold == item.candidates[:1]
    every = found("Records are kept.", every_copy=True)
    assert every.gold == every.candidates


def test_a_person_chooses_another_place_and_it_stays_chosen() -> None:
    rows = parse_rows([{"question": "?", "evidence": "Records are kept."}], "set")
    resolved = resolve(rows, [document(TEXT)])
    chosen = choose(resolved.questions[0], 0, 1)
    assert chosen.evidence[0].gold == chosen.evidence[0].candidates[1:]
    again = resolve(resolved.model_copy(update={"questions": (chosen,)}), [document(TEXT)])
    assert again.questions[0] == chosen
    assert len(count_every_copy(chosen, True).gold) == 2
    assert len(count_every_copy(chosen, False).gold) == 1


def test_only_the_named_document_is_searched() -> None:
    one, two = (
        document("Same words here.", document_id="1", name="one.md"),
        document("Same words here.", document_id="2", name="Two.docx"),
    )
    for name in ("Two.docx", "two", "2", "folder/Two.docx"):
        item = found("Same words here.", one, two, document=name)
        assert [gold.document_id for gold in item.gold] == ["2"]
        assert item.candidates == ()
    assert found("Same words here.", one, two, document="three.md").method == "not_found"
    both = found("Same words here.", one, two)
    assert [gold.document_id for gold in both.candidates] == ["1", "2"]


def test_offsets_are_checked_against_the_text() -> None:
    start = TEXT.rindex("Records are kept.")
    right = found({"quote": "Records are kept.", "start": start, "end": start + 17})
    assert (right.method, right.gold[0].span, right.candidates) == ("offsets", Span(start, start + 17), ())
    bare = found({"start": start, "end": start + 17})
    assert (bare.method, bare.quote) == ("offsets", "Records are kept.")
    wrong = found({"quote": "Records are kept.", "start": start + 3, "end": start + 20})
    assert (wrong.method, wrong.gold[0].span.start) == ("exact", start)
    outside = found({"start": 10_000, "end": 10_010})
    assert (outside.method, outside.gold) == ("not_found", ())


def test_gold_knows_its_article() -> None:
    text = "Preamble of the act, with some words.\n\nArticle 1\n\nShort rule.\n\nArticle 2\n\nOther rule.\n"
    second = text.index("Article 2")
    first = text.index("Article 1")
    tree = [
        Node(kind=NodeKind.ARTICLE, span=Span(first, second), label="Article 1"),
        Node(kind=NodeKind.ARTICLE, span=Span(second, len(text)), label="Article 2"),
    ]
    assert found("Other rule.", document(text, *tree)).gold[0].unit == "Article 2"
    assert found("Preamble of the act", document(text, *tree)).gold[0].unit is None


def test_a_second_reading_of_the_document_lists_what_moved() -> None:
    rows = parse_rows(
        [
            {"question": "a", "evidence": "Short rule."},
            {"question": "b", "evidence": "Long rule."},
            {"question": "c", "evidence": "Kept."},
        ],
        "set",
    )
    before = resolve(rows, [document("Short rule. Long rule. Kept.")])
    after = resolve(before, [document("New start. *Short*  rule. Kept. Kept.", document_id="e")])
    assert [change.message for change in changes(before, after)] == [
        "now stands in other text (normalised, score 1.00)",
        "was found before and is not found now",
        "stood in one place and stands in 2 places now",
    ]
    assert changes(before, resolve(before, [document("Short rule. Long rule. Kept.")])) == ()


def test_the_set_keeps_its_id_and_resolving_twice_changes_nothing() -> None:
    rows = parse_rows([{"question": "?", "evidence": ["Records are kept.", "secnd, show them now"]}], "set")
    once = resolve(rows, [document(TEXT)])
    assert once.question_set_id == rows.question_set_id
    assert resolve(once, [document(TEXT)]) == once


@given(st.text(alphabet="aB -*_#|“”'’\n\u00ad数é0", max_size=60))
def test_normalised_offsets_point_at_the_original(text: str) -> None:
    normalised = Normalised(text)
    for place, character in enumerate(normalised.text):
        span = normalised.origin(place, place + 1)
        assert 0 <= span.start < span.end <= len(text)
        if character.isalnum():
            assert span.slice(text).lower() == character


@given(st.data())
def test_every_slice_of_a_document_is_found_as_it_stands(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TEXT) - 2))
    end = data.draw(st.integers(start + 1, len(TEXT)))
    quote = TEXT[start:end].strip()
    if quote:
        item = found(quote)
        assert item.method == "exact"
        assert all(gold.span.slice(TEXT) == quote for gold in item.gold)
        assert any(gold.span.start <= start + 2 for gold in item.gold)


def test_few_documents_are_open_at_once_and_a_better_match_in_a_later_one_counts() -> None:
    count = 40
    documents = {
        f"d{number}": document(
            f"Rule {number} holds. The records of class {number} are kept.", document_id=f"d{number}"
        )
        for number in range(count)
    }
    opened: list[str] = []
    trees: list[weakref.ref[Node]] = []
    most = 0

    def open_document(document_id: str) -> Document:
        nonlocal most
        opened.append(document_id)
        copy = documents[document_id].model_copy(deep=True)
        trees.append(weakref.ref(copy.tree))
        most = max(most, sum(tree() is not None for tree in trees))
        return copy

    rows = parse_rows(
        [
            {"question": "exact?", "evidence": f"Rule {count - 1} holds."},
            {"question": "normalised?", "evidence": f"RULE  {count - 1}  HOLDS."},
            {"question": "aligned?", "evidence": f"The recods of class {count - 2} are kept"},
            {"question": "named?", "evidence": "Rule 7 holds.", "document": "d7"},
            {"question": "not there?", "evidence": "Nothing of the kind 123"},
        ],
        "set",
    )
    found = resolve_among(rows, list(documents.values()), open_document)
    assert found == resolve(rows, list(documents.values()))
    golds = [[gold.document_id for gold in question.gold] for question in found.questions]
    assert golds == [["d39"], ["d39"], ["d38"], ["d7"], []]
    assert max(Counter(opened).values()) <= 3
    assert most <= 20
