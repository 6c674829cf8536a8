from __future__ import annotations

import pytest

from engine import ids
from engine.errors import BadRequest, NotFound
from engine.models import Span
from engine.store import Store
from tests.engine.store.conftest import Clock
from tests.engine.store.examples import chunk_set, document, spec

MODEL = "wordllama"


def test_a_document_comes_back_as_it_was(store: Store) -> None:
    odd = document("odd \x00 name.txt", 'NUL \x00, quote ", line\nend, é, 😀, </script>')
    assert store.add_document(odd)
    assert store.document(odd.document_id) == odd
    assert store.document_info(odd.document_id) == odd.info


def test_the_same_document_is_stored_once(store: Store) -> None:
    first = document()
    assert store.add_document(first)
    assert not store.add_document(first.model_copy(update={"name": "renamed.docx"}))
    assert [info.name for info in store.documents()] == ["law.docx"]


def test_documents_are_listed_newest_first(store: Store) -> None:
    for name, minutes in (("second", 2), ("third", 3), ("first", 1)):
        store.add_document(document(name, minutes=minutes))
    assert [info.name for info in store.documents()] == ["third", "second", "first"]


def test_originals_are_known_by_their_hash(store: Store) -> None:
    one = document()
    reparsed = one.model_copy(update={"document_id": ids.digest("parser 2"), "parser_version": "2"})
    store.add_document(one)
    store.add_document(reparsed)
    assert store.document_ids_of(one.sha256) == sorted([one.document_id, reparsed.document_id])
    assert store.originals() == {one.sha256}
    store.delete_document(one.document_id)
    assert store.document_ids_of(one.sha256) == [reparsed.document_id]


def test_an_unknown_document_is_not_found(store: Store) -> None:
    for call in (store.document, store.document_info, store.delete_document):
        with pytest.raises(NotFound, match="no document"):
            call("unknown")
    with pytest.raises(NotFound, match="no document"):
        store.save_chunk_set(chunk_set(document(), spec(), Span(0, 4)))


def test_a_chunk_set_comes_back_as_it_was(store: Store) -> None:
    of, under = document(), spec()
    saved = chunk_set(of, under, Span(0, 4), Span(5, 9))
    store.add_document(of)
    store.save_chunk_set(saved)
    assert store.chunk_set(of.document_id, under) == saved
    assert store.chunk_set(of.document_id, spec(size=2)) is None
    assert store.chunk_set("unknown", under) is None


def test_an_empty_chunk_set_is_known(store: Store) -> None:
    of, under = document(text=""), spec()
    store.add_document(of)
    store.save_chunk_set(chunk_set(of, under))
    found = store.chunk_set(of.document_id, under)
    assert found is not None
    assert found.chunks == ()


def test_a_chunk_set_made_with_other_models_is_not_taken(store: Store) -> None:
    of, under = document(), spec("semantic")
    store.add_document(of)
    store.save_chunk_set(chunk_set(of, under, Span(0, 4)), made_with="embedder: a")
    assert store.chunk_set(of.document_id, under, "embedder: b") is None
    store.save_chunk_set(chunk_set(of, under, Span(0, 9)), made_with="embedder: b")
    assert store.chunk_set(of.document_id, under, "embedder: a") is None
    found = store.chunk_set(of.document_id, under, "embedder: b")
    assert found is not None
    assert [chunk.span for chunk in found.chunks] == [Span(0, 9)]


def test_chunks_are_found_by_id_whatever_their_set(store: Store) -> None:
    of = document()
    store.add_document(of)
    one, two = chunk_set(of, spec(), Span(0, 4), Span(5, 9)), chunk_set(of, spec(size=2), Span(0, 9))
    for each in (one, two):
        store.save_chunk_set(each)
    wanted = [one.chunks[1], two.chunks[0]]
    asked = [*(chunk.chunk_id for chunk in wanted), "unknown", wanted[0].chunk_id]
    assert store.chunks(asked) == {chunk.chunk_id: chunk for chunk in wanted}
    assert store.chunks([]) == {}


def test_more_ids_than_one_statement_takes_are_found(store: Store) -> None:
    of = document(text="ab" * 700)
    store.add_document(of)
    many = chunk_set(of, spec(), *(Span(2 * place, 2 * place + 2) for place in range(700)))
    store.save_chunk_set(many)
    found = store.chunks([chunk.chunk_id for chunk in many.chunks])
    assert len(found) == 700
    assert found[many.chunks[699].chunk_id] == many.chunks[699]


def test_an_index_is_ready_only_when_it_was_finished(store: Store) -> None:
    one, two, under = document("one"), document("two"), spec()
    store.begin_index(one.document_id, under, MODEL)
    store.begin_index(two.document_id, under, MODEL)
    store.finish_index(two.document_id, under, MODEL, points=3)
    both = [one.document_id, two.document_id, "unknown"]
    assert store.ready_documents(both, under.spec_id, MODEL) == {two.document_id}
    assert store.ready_documents(both, under.spec_id, "another model") == set()
    assert [state.document_id for state in store.unfinished_index()] == [one.document_id]
    state = store.index_state(two.document_id, under.spec_id, MODEL)
    assert state is not None
    assert (state.ready, state.points, state.strategy_name) == (True, 3, "sentence")
    store.begin_index(two.document_id, under, MODEL)
    assert len(store.unfinished_index()) == 2
    assert store.forget_index(document_id=one.document_id) == 1
    assert [state.document_id for state in store.index_states()] == [two.document_id]
    assert store.forget_index() == 1


def test_where_processes_share_a_server_only_what_is_idle_is_unfinished(store: Store, clock: Clock) -> None:
    store.begin_index("doc", spec(), MODEL)
    assert store.unfinished_index(idle_seconds=600) == []
    clock.now += 601
    assert len(store.unfinished_index(idle_seconds=600)) == 1


def test_new_chunks_make_the_index_unfinished_and_the_same_chunks_do_not(store: Store) -> None:
    of, under = document(), spec()
    store.add_document(of)
    store.save_chunk_set(chunk_set(of, under, Span(0, 4)))
    store.begin_index(of.document_id, under, MODEL)
    store.finish_index(of.document_id, under, MODEL, points=1)
    store.save_chunk_set(chunk_set(of, under, Span(0, 4)))
    assert store.unfinished_index() == []
    store.save_chunk_set(chunk_set(of, under, Span(0, 9)))
    assert [state.ready for state in store.unfinished_index()] == [False]


def test_deleting_a_document_leaves_a_note_of_what_the_index_still_holds(store: Store) -> None:
    of, other, under = document("one"), document("two"), spec()
    for each in (of, other):
        store.add_document(each)
        store.save_chunk_set(chunk_set(each, under, Span(0, 4)))
        store.begin_index(each.document_id, under, MODEL)
        store.finish_index(each.document_id, under, MODEL, points=1)
    left = store.delete_document(of.document_id)
    assert [(state.document_id, state.spec_id, state.ready) for state in left] == [
        (of.document_id, under.spec_id, False)
    ]
    assert store.unfinished_index() == left
    assert store.chunk_set(of.document_id, under) is None
    assert store.chunks([chunk_set(of, under, Span(0, 4)).chunks[0].chunk_id]) == {}
    assert store.chunk_set(other.document_id, under) is not None
    assert [info.name for info in store.documents()] == ["two"]


def test_an_id_that_no_database_takes_is_no_bug(store: Store) -> None:
    with pytest.raises((NotFound, BadRequest)):
        store.document("\x00")
