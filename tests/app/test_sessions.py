"""The sessions that `benchmarks.sessions` measures with do what a browser does, on the real app."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks import streamlit_client
from benchmarks.api_load import app
from benchmarks.streamlit_client import Session, SessionError


async def walk(folder: Path) -> None:
    async with app(str(folder)) as address, Session(address) as reader, Session(address) as other:
        await asyncio.gather(reader.open(), other.open("history"))
        assert (reader.headings(), other.headings()) == (["Upload"], ["History"])
        await reader.change({"upload.samples": True})
        assert {"Documents", "Structure", "Question sets"} <= set(reader.headings())
        await reader.go_to("chunk_inspector")
        sentences = next(each for each in reader.widget("inspector.0.strategy").proto.options if "entence" in each)
        await reader.change({"inspector.0.strategy": sentences})
        assert "sentence" in reader.query
        await reader.change({"inspector.0.overlay": {"chosen": 3}})
        assert any("Chunk 4 of" in each.body for each in reader.elements("markdown"))
        await reader.go_to("ask")
        assert not reader.has_widget("inspector.0.strategy")
        await reader.change({"ask.question": "Who issues a licence?", "FormSubmitter:ask.form-Ask": True})
        await reader.shows(lambda page: "Answers" in page.headings())
        with pytest.raises(SessionError, match="no widget nothing"):
            await reader.change({"nothing": True})
        assert reader.problems == other.problems == []


def test_a_session_walks_through_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamlit_client, "PATIENCE", 240.0)
    asyncio.run(walk(tmp_path / "data"))


def test_what_went_wrong_on_a_page_is_noticed() -> None:
    session = Session("http://127.0.0.1:1")
    error, warning, broken = ForwardMsg(), ForwardMsg(), ForwardMsg()
    error.delta.new_element.alert.body = "Something went wrong in Chunkscope."
    error.delta.new_element.alert.format = Alert.ERROR
    warning.delta.new_element.alert.format = Alert.WARNING
    broken.delta.new_element.exception.message = "no such thing"
    for message in (warning, error, broken):
        session._handle(message)
    assert [problem.rpartition(": ")[2] for problem in session.problems] == [
        "Something went wrong in Chunkscope.",
        " no such thing",
    ]


def test_a_message_that_was_kept_is_drawn_again_where_it_is_referred_to() -> None:
    session = Session("http://127.0.0.1:1")
    first = ForwardMsg(hash="h")
    first.metadata.cacheable = True
    first.metadata.delta_path.extend([0, 1])
    first.delta.new_element.heading.body = "Kept"
    again = ForwardMsg(ref_hash="h")
    again.metadata.delta_path.extend([0, 2])
    for message in (first, again):
        session._handle(message)
    assert session.headings() == ["Kept", "Kept"]
