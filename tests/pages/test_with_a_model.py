"""Upload and Chunk Inspector with a chat model: cost before the click, then what the model wrote. And quotes in several places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app import runtime
from engine import Workbench
from engine.settings import Settings
from tests.fake_openai import FakeOpenAI
from tests.pages.conftest import Open, words

SENTENCE = "The authority may shorten the period on request of the person concerned."
TEXT = "# Fees act\n\n" + "".join(
    f"## Article {number}\n\nWhoever runs a plant of class {number} pays {100 * number} euros a year. {SENTENCE} "
    + f"Payments for class {number} are due on the first day of the month that follows the decision.\n\n"
    for number in range(1, 5)
)


@contextmanager
def opened(folder: Path, server: FakeOpenAI, **settings: str) -> Iterator[Workbench]:
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(name.upper(), raising=False)
        patch.setitem(Settings.model_config, "env_file", None)
        runtime.close()
        yield runtime.workbench(
            Settings(data_dir=folder, openai_base_url=server.url, openai_api_key="sk-test", **settings)
        )
        runtime.close()


@pytest.fixture
def workbench(
    request: pytest.FixtureRequest, fake_openai: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    model = getattr(request, "param", "gpt-4o-mini")
    with opened(
        tmp_path_factory.mktemp("data"), fake_openai, llm_model=model, embedding_model="wordllama"
    ) as workbench:
        yield workbench


@pytest.fixture
def act(workbench: Workbench) -> str:
    return workbench.add_document(TEXT.encode(), "act.md").document.document_id


def test_the_cost_stands_before_the_button_that_makes_chunks(
    open_page: Open, act: str, workbench: Workbench, fake_openai: FakeOpenAI
) -> None:
    cost = workbench.chunk_estimate(act, workbench.spec("contextual_structure"))
    assert cost is not None
    assert cost.most_cost_usd is not None
    assert cost.calls > 0
    app = open_page("chunk_inspector", strategies="contextual_structure")
    info = app.info[0].value.replace("\\", "")
    assert f"{cost.calls} calls to gpt-4o-mini, at most" in info.replace("\u2060", "")
    assert fake_openai.calls("chat") == 0
    app.button(key="inspector.0.make").click().run()
    assert fake_openai.calls("chat") == cost.calls
    assert "chunks" in words(app)
    again = workbench.chunk_estimate(act, workbench.spec("contextual_structure"))
    assert again is not None
    assert (again.calls, again.cached_calls, again.most_cost_usd) == (0, cost.calls, 0.0)


@pytest.mark.parametrize("workbench", ["house-model"], indirect=True)
def test_a_model_without_a_price_has_an_unknown_cost(workbench: Workbench, act: str, open_page: Open) -> None:
    app = open_page("chunk_inspector", strategies="contextual_structure")
    assert "The price of this model is unknown" in app.info[0].value.replace("\\", "")


def test_summaries_are_written_on_request_and_shown(
    open_page: Open, act: str, workbench: Workbench, fake_openai: FakeOpenAI
) -> None:
    app = open_page("chunk_inspector", {"inspector.section": "Summaries"}, strategies="markdown_structure")
    spec = workbench.spec("markdown_structure")
    count = len(workbench.chunk(act, spec).chunks)
    assert "at most" in words(app)
    assert fake_openai.calls("chat") == 0
    app.button(key="inspector.enrich").click().run()
    assert not app.error
    assert fake_openai.calls("chat") == count
    summary = workbench.chunk(act, spec).chunks[0].summary
    assert summary is not None
    assert summary in app.dataframe[-1].value["summary"].tolist()


def test_the_model_drafts_questions_after_its_cost_was_shown(
    open_page: Open, act: str, workbench: Workbench, fake_openai: FakeOpenAI
) -> None:
    cost = workbench.draft_estimate([act])
    assert cost is not None
    app = open_page("upload", document=act)
    assert f"{cost.calls} calls to gpt" in words(app).replace("\\", "")
    assert fake_openai.calls("chat") == 0
    app.button(key="upload.draft_with_model").click().run()
    assert fake_openai.calls("chat") == cost.calls
    assert not app.error
    drafted = workbench.question_set(app.selectbox(key="upload.set").value)
    assert drafted.name == "Drafted by gpt-4o-mini from act.md"
    assert not any(question.reviewed for question in drafted.questions)


def test_the_reader_chooses_among_copies_of_a_quote(open_page: Open, act: str, workbench: Workbench) -> None:
    rows = f'[{{"question": "Who may shorten the period?", "evidence": ["{SENTENCE}"]}}]'
    added = workbench.add_question_set(rows.encode(), "copies.json")
    (question,) = added.questions
    app = open_page("upload", document=act)
    assert "1 quote in several places" in "".join(each.label for each in app.expander)
    key = f"upload.copy.{added.question_set_id}.{question.question_id}.0"
    app.radio(key=key).set_value(2).run()
    (gold,) = workbench.question_set(added.question_set_id).questions[0].gold
    places = [place for place in range(len(TEXT)) if TEXT.startswith(SENTENCE, place)]
    assert gold.span.start == places[2]
    app.radio(key=key).set_value(None).run()
    assert len(workbench.question_set(added.question_set_id).questions[0].gold) == 4
    app.radio(key=key).set_value(1).run()
    assert not app.exception
    (gold,) = workbench.question_set(added.question_set_id).questions[0].gold
    assert gold.span.start == places[1]


@pytest.fixture
def paid_embeddings(fake_openai: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with opened(tmp_path_factory.mktemp("data"), fake_openai, embedding_model="text-embedding-3-small") as workbench:
        yield workbench


def test_embeddings_that_cost_something_are_made_on_request_and_known_ones_at_once(
    open_page: Open, paid_embeddings: Workbench, fake_openai: FakeOpenAI
) -> None:
    act = paid_embeddings.add_document(TEXT.encode(), "act.md").document.document_id
    cost = paid_embeddings.chunk_estimate(act, paid_embeddings.spec("semantic"))
    assert cost is not None
    assert (cost.calls, cost.model) == (1, "text-embedding-3-small")
    assert cost.most_cost_usd is not None
    assert cost.most_cost_usd > 0
    app = open_page("chunk_inspector", strategies="semantic")
    assert "text-embedding-3-small embeds every sentence" in words(app).replace("\\", "")
    assert fake_openai.calls("embeddings") == 0
    app.button(key="inspector.0.make").click().run()
    assert fake_openai.calls("embeddings") == 1
    assert "chunks" in words(app)
    # Another threshold compares the same sentences, which cost nothing any more.
    again = paid_embeddings.spec("semantic", {"threshold": 0.5})
    known = paid_embeddings.chunk_estimate(act, again)
    assert known is not None
    assert (known.calls, known.most_cost_usd) == (0, 0.0)
    app.number_input(key="inspector.0.semantic.threshold").set_value(0.5).run()
    assert "embeds every sentence" not in words(app)
    assert fake_openai.calls("embeddings") == 1
