"""Quotas: every method of the Workbench that calls a model is checked before and counted after, and no other calls one."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine import Workbench
from engine.errors import BadRequest, BudgetExceeded, NotAllowed
from engine.providers.base import ChatReply, ChatRequest
from engine.providers.totals import totals
from engine.records import Plan
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI

USER = "ann@example.org"
LAW = killing.law(6).encode()
RULES = (
    b"# Rules\n\n"
    b"The member shall notify the registrar of every change of address within 14 days. Late notice costs 30 euros a week.\n\n"
    b"Those who leave owe the dues of the year in which they do, and the keys go back to the registrar on the last day.\n"
)
QUESTIONS = json.dumps(
    [
        {
            "question": "What does late notice cost?",
            "answer": "30 euros",
            "evidence": ["Late notice costs 30 euros a week."],
        }
    ]
).encode()


@pytest.fixture
def ann(fake_openai: FakeOpenAI, tmp_path: Path) -> Iterator[Workbench]:
    """A signed-in user of paid models, with two documents, a question set, a benchmark and an answer."""
    with killing.environment({**killing.variables(fake_openai, tmp_path / "paid"), "SPEND_PER_DAY_USD": "1"}):
        everyone = Workbench.open()
    with everyone:
        ann = everyone.acting_as(USER)
        ann.add_document(LAW, "law.md")
        ann.add_document(RULES, "rules.md")
        ann.add_question_set(QUESTIONS, "questions.json")
        ann.benchmark(planned(ann))
        ann.ask("Who is told of a change?", [ann.spec("sentence")])
        yield ann


def planned(ann: Workbench) -> Plan:
    return ann.plan(ann.question_sets()[-1].question_set_id, [ann.spec("sentence")], name="kept")


def limit(workbench: Workbench, usd: float) -> None:
    workbench.settings = workbench.settings.model_copy(update={"spend_per_day_usd": usd})


def charged_usd() -> float:
    """What the servers have charged this process for."""
    return sum(total.cost_usd for total in totals())


def rules_id(ann: Workbench) -> str:
    return next(info.document_id for info in ann.documents() if info.name == "rules.md")


def experiment_id(ann: Workbench) -> str:
    return ann.experiments()[0].experiment_id


def ended(ann: Workbench, job_id: str) -> None:
    killing.wait(ann, job_id)


Work = Callable[[Workbench], object]

PAID: dict[str, Work] = {
    "ask": lambda ann: ann.ask("What is owed?", [ann.spec("recursive"), ann.spec("propositions")]),
    "start_asking": lambda ann: ann.start_asking("Which keys go back?", [ann.spec("sentence")]).wait(),
    "judge": lambda ann: ann.judge(ann.queries()[0].query_id, "the registrar"),
    "calibrate_judge": lambda ann: ann.calibrate_judge(),
    "repeat_judge": lambda ann: ann.repeat_judge(experiment_id(ann), 2, 1),
    "index": lambda ann: ann.index([rules_id(ann)], [ann.spec("contextual_retrieval")]),
    "chunk": lambda ann: ann.chunk(rules_id(ann), ann.spec("semantic")),
    "preview": lambda ann: ann.preview(LAW + RULES, "both.md", ann.spec("semantic")),
    "enrich": lambda ann: ann.enrich(rules_id(ann), ann.spec("sentence")),
    "draft_with_model": lambda ann: ann.draft_with_model([rules_id(ann)], 1),
    "benchmark": lambda ann: ann.benchmark(planned(ann).model_copy(update={"repeats": 2})),
    "submit": lambda ann: ended(ann, ann.submit(planned(ann).model_copy(update={"repeats": 2})).job_id),
    "rerun": lambda ann: ended(ann, ann.rerun(experiment_id(ann), {"repeats": 2}).job_id),
}
"""Methods that call a model, each with work that no cache knows."""

FREE: dict[str, Work] = {
    "acting_as": lambda ann: ann.acting_as("ben"),
    "add_document": lambda ann: ann.add_document(RULES + b"More.", "more.md"),
    "add_files": lambda ann: list(ann.add_files(RULES, "rules.md")),
    "add_question_set": lambda ann: ann.add_question_set(QUESTIONS, "questions.json"),
    "annotate": lambda ann: ann.annotate(experiment_id(ann), note="noted"),
    "cache_sizes": lambda ann: ann.cache_sizes(),
    "cell": lambda ann: ann.cell(experiment_id(ann), ann.spec("sentence").spec_id, "q1"),
    "check": lambda ann: ann.check(experiment_id(ann), experiment_id(ann), "recall@5", 0.1),
    "check_question_set": lambda ann: ann.check_question_set(
        ann.question_sets()[0].question_set_id, [ann.spec("recursive"), ann.spec("semantic")]
    ),
    "choose_copy": lambda ann: ann.choose_copy(
        (found := ann.question_set(ann.question_sets()[0].question_set_id)).question_set_id,
        found.questions[0].question_id,
        0,
        None,
    ),
    "chunk_estimate": lambda ann: ann.chunk_estimate(rules_id(ann), ann.spec("propositions")),
    "collections": lambda ann: ann.collections(),
    "compare": lambda ann: ann.compare([experiment_id(ann), experiment_id(ann)]),
    "cutting_may_cost": lambda ann: ann.cutting_may_cost(ann.spec("semantic")),
    "deletion": lambda ann: ann.deletion(rules_id(ann)),
    "document": lambda ann: ann.document(rules_id(ann)),
    "documents": lambda ann: ann.documents(),
    "draft_estimate": lambda ann: ann.draft_estimate([rules_id(ann)]),
    "draft_question_set": lambda ann: ann.draft_question_set([info.document_id for info in ann.documents()]),
    "dry_run": lambda ann: ann.dry_run(planned(ann)),
    "dry_run_question": lambda ann: ann.dry_run_question("What is owed?", [ann.spec("propositions")]),
    "edit_question_set": lambda ann: ann.edit_question_set(
        ann.question_sets()[0].question_set_id, [{"question": "What is owed?"}]
    ),
    "enrich_estimate": lambda ann: ann.enrich_estimate(rules_id(ann), ann.spec("recursive")),
    "experiment": lambda ann: ann.experiment(experiment_id(ann)),
    "experiment_summary": lambda ann: ann.experiment_summary(experiment_id(ann)),
    "experiments": lambda ann: ann.experiments("kept"),
    "export": lambda ann: ann.export(experiment_id(ann)),
    "health": lambda ann: ann.health(),
    "index_states": lambda ann: ann.index_states(),
    "job_counts": lambda ann: ann.job_counts(),
    "jobs": lambda ann: ann.jobs(),
    "judge_agreement": lambda ann: ann.judge_agreement(),
    "judge_warning": lambda ann: ann.judge_warning(),
    "known_chunks": lambda ann: ann.known_chunks(rules_id(ann), ann.spec("semantic")),
    "longest_wait": lambda ann: ann.longest_wait(),
    "mark_baseline": lambda ann: ann.mark_baseline(experiment_id(ann)),
    "measure_recall": lambda ann: ann.measure_recall(2, 2),
    "original": lambda ann: ann.original(rules_id(ann)),
    "orphans": lambda ann: ann.orphans(experiment_id(ann), ann.spec("sentence").spec_id),
    "outdated_documents": lambda ann: ann.outdated_documents(),
    "ownership": lambda ann: ann.ownership("document", rules_id(ann)),
    "plan": planned,
    "quality": lambda ann: ann.quality(ann.chunk(rules_id(ann), ann.spec("recursive"))),
    "queries": lambda ann: ann.queries(),
    "query": lambda ann: ann.query(ann.queries()[0].query_id),
    "question_set": lambda ann: ann.question_set(ann.question_sets()[0].question_set_id),
    "question_sets": lambda ann: ann.question_sets(),
    "rate": lambda ann: ann.rate(ann.queries()[0].query_id, 5),
    "recommended": lambda ann: ann.recommended(rules_id(ann)),
    "reread": lambda ann: ann.reread(rules_id(ann)),
    "resolve_question_set": lambda ann: ann.resolve_question_set(ann.question_sets()[0].question_set_id),
    "sample_plan": lambda ann: ann.sample_plan(ann.load_samples()),
    "load_samples": lambda ann: ann.load_samples(),
    "share": lambda ann: ann.share("document", rules_id(ann)),
    "spec": lambda ann: ann.spec("sentence"),
    "spending": lambda ann: ann.spending(),
    "strategies": lambda ann: ann.strategies(),
    "strategy_infos": lambda ann: ann.strategy_infos(),
    "tokens": lambda ann: ann.tokens(rules_id(ann)),
    "written_spec": lambda ann: ann.written_spec("sentence"),
    "written_specs": lambda ann: ann.written_specs(["sentence"]),
}
"""Methods that never call a model."""

LOCAL_ONLY = {"probe_models", "prune_caches", "rebuild_index", "renew_collections"}
"""Refused to signed-in users, whatever they cost."""

ELSEWHERE = {"cancel", "close", "delete_document", "delete_experiment", "delete_question_set", "job", "open"}
"""Of no use to the rest; they end or remove things."""

RESUMED = {"resume", "retry_failed"}
"""Admitted with what the whole benchmark is expected to cost; see `test_owners`."""


def test_every_method_is_known_to_call_models_or_not() -> None:
    public = {name for name, _ in inspect.getmembers(Workbench, inspect.isroutine) if not name.startswith("_")}
    assert public == {*PAID, *FREE, *LOCAL_ONLY, *ELSEWHERE, *RESUMED}


@pytest.mark.parametrize("name", sorted(PAID))
def test_what_calls_a_model_is_refused_before_and_counted_after(
    ann: Workbench, fake_openai: FakeOpenAI, name: str
) -> None:
    if name == "repeat_judge":
        ann.benchmark(planned(ann).model_copy(update={"judge": True}))
    spent, calls = ann.spending()[0].usd, killing.calls(fake_openai)
    assert spent > 0
    limit(ann, spent)
    with pytest.raises(BudgetExceeded, match=r"0\.0000 USD are left"):
        PAID[name](ann)
    assert killing.calls(fake_openai) == calls
    assert ann.spending()[0].usd == spent

    limit(ann, 1.0)
    charged = charged_usd()
    PAID[name](ann)
    cost = charged_usd() - charged
    assert cost > 0
    assert ann.spending()[0].usd == pytest.approx(spent + cost)

    limit(ann, ann.spending()[0].usd)
    if name in ("start_asking", "calibrate_judge", "judge", "chunk", "enrich", "index", "draft_with_model"):
        calls = killing.calls(fake_openai)
        PAID[name](ann)
        assert killing.calls(fake_openai) == calls, "what is known costs nothing, and is not refused"


def test_what_calls_no_model_is_free_when_nothing_is_left(ann: Workbench, fake_openai: FakeOpenAI) -> None:
    spent, calls = ann.spending()[0].usd, killing.calls(fake_openai)
    limit(ann, spent)
    for name, work in FREE.items():
        with suppress(BadRequest):
            work(ann)
        assert killing.calls(fake_openai) == calls, name
    for name in LOCAL_ONLY:
        with pytest.raises(NotAllowed):
            getattr(ann, name)(*([0] if name == "prune_caches" else []))
    assert killing.calls(fake_openai) == calls
    assert ann.spending()[0].usd == spent


def test_what_is_under_way_counts_as_it_is_expected_to_cost(ann: Workbench, fake_openai: FakeOpenAI) -> None:
    spent = ann.spending()[0].usd
    question, specs = "What do late members owe the registrar?", [ann.spec("sentence")]
    expected = ann.dry_run_question(question, specs).estimated_cost_usd
    assert expected is not None
    limit(ann, spent + 1.5 * expected)
    first_is_asked, go_on = threading.Event(), threading.Event()
    chat = ann.models.chat
    assert chat is not None
    stream = chat.stream

    def held(request: ChatRequest) -> Generator[str, None, ChatReply]:
        first_is_asked.set()
        go_on.wait(killing.PATIENCE)
        return stream(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "stream", held)
        live = ann.start_asking(question, specs)
        assert first_is_asked.wait(killing.PATIENCE)
        assert ann.spending()[0].usd == pytest.approx(spent + expected)
        with pytest.raises(BudgetExceeded):
            ann.ask("What do early members owe the registrar?", specs)
        go_on.set()
        (query,) = live.wait()
    assert ann.spending()[0].usd == pytest.approx(spent + (query.usage.cost_usd or 0.0))


def test_what_was_paid_before_a_call_failed_is_counted(ann: Workbench, fake_openai: FakeOpenAI) -> None:
    spent, charged = ann.spending()[0].usd, charged_usd()
    fake_openai.fault("bad_request", path="chat")
    (query,) = ann.ask("What do late members owe the registrar?", [ann.spec("sentence")])
    assert query.status == "failed"
    assert charged_usd() > charged, "the question was embedded"
    assert ann.spending()[0].usd == pytest.approx(spent + charged_usd() - charged)


def test_work_of_an_unknown_price_is_refused_where_there_is_a_quota(fake_openai: FakeOpenAI, tmp_path: Path) -> None:
    unknown = {"LLM_MODEL": "some-model", "EMBEDDING_MODEL": "wordllama"}
    variables = {**killing.variables(fake_openai, tmp_path / "unpriced"), **unknown}
    with killing.environment(variables), Workbench.open() as everyone:
        ann = everyone.acting_as(USER)
        document_id = ann.add_document(RULES, "rules.md").document.document_id
        question, specs = "What is owed?", [ann.spec("sentence")]
        assert ann.ask(question, specs)[0].status == "ok"
        limit(ann, 1.0)
        calls = killing.calls(fake_openai)
        with pytest.raises(BudgetExceeded, match="an unknown sum"):
            ann.ask("Who is told?", specs)
        with pytest.raises(BudgetExceeded, match="an unknown sum"):
            ann.enrich(document_id, specs[0])
        ann.ask(question, specs)
        assert killing.calls(fake_openai) == calls


def test_chunks_whose_sentences_are_embedded_already_are_free(ann: Workbench, fake_openai: FakeOpenAI) -> None:
    ann.chunk(rules_id(ann), ann.spec("semantic"))
    asked = fake_openai.calls("embeddings")
    limit(ann, 0.0)
    assert ann.chunk(rules_id(ann), ann.spec("semantic", {"threshold": 0.9})).chunks
    assert fake_openai.calls("embeddings") == asked
    with pytest.raises(BudgetExceeded):
        ann.preview(RULES + b"Another sentence is not known.", "more.md", ann.spec("semantic"))
