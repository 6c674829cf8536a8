from __future__ import annotations

import pytest

from engine.errors import NotFound
from engine.records import Evidence, Question
from engine.store import Store
from tests.engine.store.examples import query, question_set


def test_a_question_set_comes_back_as_it_was(store: Store) -> None:
    evidence = (Evidence(quote='"30 days" \x00 é', method="exact", score=1.0),)
    saved = question_set("A \x00 name").model_copy(
        update={"questions": (Question(question_id="q", question="When?", evidence=evidence),)}
    )
    store.save_question_set(saved)
    assert store.question_set(saved.question_set_id) == saved


def test_question_sets_are_listed_newest_first_and_replaced_by_id(store: Store) -> None:
    store.save_question_set(question_set("Old", 1))
    store.save_question_set(question_set("New", 2))
    renamed = question_set("New", 2).model_copy(update={"name": "Newer", "questions": ()})
    store.save_question_set(renamed)
    assert [(info.name, info.question_count) for info in store.question_sets()] == [("Newer", 0), ("Old", 2)]
    assert store.question_sets()[0].created_at == renamed.created_at


def test_a_question_set_is_deleted_once(store: Store) -> None:
    store.save_question_set(question_set())
    store.delete_question_set("set-Deadlines")
    assert store.question_sets() == []
    for call in (store.question_set, store.delete_question_set):
        with pytest.raises(NotFound, match="no question set"):
            call("set-Deadlines")


def test_a_query_comes_back_as_it_was(store: Store) -> None:
    store.save_query(query())
    assert store.query("query-1") == query()
    changed = query().model_copy(update={"answer": "Two."})
    store.save_query(changed)
    assert store.query("query-1") == changed
    with pytest.raises(NotFound, match="no query"):
        store.query("unknown")


def test_recent_queries_are_the_newest_first(store: Store) -> None:
    for number in (3, 1, 2):
        store.save_query(query(f"query-{number}", minutes=number, request_id=f"request {number % 2}"))
    assert [each.query_id for each in store.recent_queries(limit=2)] == ["query-3", "query-2"]
    assert [each.query_id for each in store.recent_queries(request_id="request 1")] == ["query-3", "query-1"]
