"""What chunks carry besides their text, and what they are stored under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from engine import Workbench, indexing
from engine.errors import NeedsModel
from engine.models import Chunk, StrategySpec
from engine.providers.base import ChatReply, ChatRequest, Embedded, TextKind
from engine.strategies import registry
from tests.engine.strategies.doubles import KeywordEmbedder, ScriptedChat

TEXT = "The annual fee is due on the first day of May.\n\nThe fine for a late report is set by the supervisor."


class SplittingEmbedder(KeywordEmbedder):
    """Says that it embedded every text about the fine in parts."""

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        split = tuple(place for place, text in enumerate(texts) if "fine" in text)
        return super().embed(texts, kind)._replace(split=split)


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


def indexed(workbench: Workbench) -> tuple[str, StrategySpec]:
    document_id = workbench.add_document(TEXT.encode(), "fees.txt").document.document_id
    spec = workbench.spec("paragraph", {"size": 16})
    workbench.index([document_id], [spec])
    return document_id, spec


def known(document_id: str, spec: StrategySpec, workbench: Workbench) -> tuple[Chunk, ...]:
    found = workbench.known_chunks(document_id, spec)
    assert found is not None
    assert len(found.chunks) == 2
    return found.chunks


def test_chunks_name_their_language(workbench: Workbench) -> None:
    assert [chunk.language for chunk in known(*indexed(workbench), workbench)] == ["en", "en"]


def test_a_text_embedded_in_parts_is_flagged_in_the_stored_chunk() -> None:
    with Workbench.open() as workbench:
        workbench.models = replace(workbench.models, embedder=SplittingEmbedder("fee", "fine"))
        document_id, spec = indexed(workbench)
    with Workbench.open() as workbench:
        flags = [chunk.flags for chunk in known(document_id, spec, workbench)]
        assert flags == [(), (indexing.EMBEDDED_IN_PARTS,)]
        workbench.rebuild_index()
        workbench.index([document_id], [spec])  # with the bundled model, which reads texts of any length
    with Workbench.open() as workbench:
        assert [chunk.flags for chunk in known(document_id, spec, workbench)] == [(), ()]


def test_summaries_are_kept_with_the_chunks_and_leave_the_index_as_it_is() -> None:
    def answer(request: ChatRequest) -> ChatReply:
        about = "fine" if "fine" in request.messages[-1]["content"] else "fee"
        return ChatReply("ok", data={"summary": f"About the {about}.", "keywords": [about]})

    with Workbench.open() as workbench:
        document_id, spec = indexed(workbench)
        with pytest.raises(NeedsModel, match="need a chat model"):
            workbench.enrich(document_id, spec)
        workbench.models = replace(workbench.models, chat=ScriptedChat(answer))
        workbench.enrich(document_id, spec)
        assert [state.ready for state in workbench.index_states()] == [True]
    with Workbench.open() as workbench:
        found = known(document_id, spec, workbench)
        assert [(chunk.summary, chunk.keywords) for chunk in found] == [
            ("About the fee.", ("fee",)),
            ("About the fine.", ("fine",)),
        ]
        assert workbench.index([document_id], [spec])[0].reused


@pytest.mark.parametrize("name", [each.name for each in registry.STRATEGIES if each.prompts])
def test_a_changed_prompt_is_not_served_old_chunks(
    name: str, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = indexing.chunked_with(workbench.spec(name), workbench.models)
    changed = indexing.prompt
    monkeypatch.setattr(indexing, "prompt", lambda of: changed(of)._replace(version="999"))
    assert "/999" in indexing.chunked_with(workbench.spec(name), workbench.models)
    assert "/999" not in before


def test_every_strategy_that_writes_with_a_model_names_its_prompts() -> None:
    from engine.strategies.base import Need

    assert {each.name for each in registry.STRATEGIES if Need.CHAT in each.needs} == {
        each.name for each in registry.STRATEGIES if each.prompts
    }
