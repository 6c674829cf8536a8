from __future__ import annotations

import hashlib

from engine import ids


def test_a_digest_is_a_sha256_over_length_prefixed_parts() -> None:
    data = (2).to_bytes(8, "big") + b"ab" + (1).to_bytes(8, "big") + b"c"
    assert ids.digest("ab", "c") == hashlib.sha256(data).hexdigest()[:32]
    assert ids.digest("ab", "c") != ids.digest("a", "bc")


def test_digests_that_begin_alike() -> None:
    assert ids.digests("ab")("c", "d") == ids.digests("ab", "c")("d") == ids.digest("ab", "c", "d")


def test_a_chunk_id_names_document_spec_place_and_text() -> None:
    chunk = ids.chunk_id("d", "s", 0, 3, "fee")
    assert chunk == ids.chunk_ids("d", "s")(0, 3, ids.content_hash("fee"))
    assert chunk == ids.digest("chunk", "d", "s", "0:3", ids.content_hash("fee"))
    others = {ids.chunk_id(*other) for other in (("e", "s", 0, 3, "fee"), ("d", "t", 0, 3, "fee"), ("d", "s", 1, 4, "fee"), ("d", "s", 0, 3, "fed"))}  # fmt: skip
    assert len(others | {chunk}) == 5


def test_a_lone_surrogate_has_a_hash() -> None:
    assert ids.content_hash("\ud800") != ids.content_hash("?")


def test_key_order_does_not_change_a_spec_id() -> None:
    assert ids.spec_id("recursive", {"a": 1, "b": 2}) == ids.spec_id("recursive", {"b": 2, "a": 1})
    assert len(ids.spec_id("recursive", {})) == 16
