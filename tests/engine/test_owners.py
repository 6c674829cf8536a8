"""Owners: everybody sees their own and what is shared, and changes only their own; quotas per user."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine import Workbench
from engine import documents as reading
from engine.errors import BudgetExceeded, Busy, NotAllowed, NotFound
from engine.models import Document
from engine.records import Experiment, Plan
from engine.settings import Settings, load_settings
from engine.store.owned import OwnedStore
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI

LAW = b"# Fees\n\n## Article 1\n\nThe annual fee is 300 euros.\n\n## Article 2\n\nA late fee of 45 euros is due.\n"
RULES = b"# Rules\n\n## Article 1\n\nEvery member pays a fee in May.\n"
QUESTIONS = json.dumps(
    [{"question": "How high is the annual fee?", "answer": "300", "evidence": ["The annual fee is 300 euros."]}]
).encode()


@pytest.fixture
def everyone() -> Iterator[Workbench]:
    with Workbench.open() as workbench:
        yield workbench


@pytest.fixture
def ann(everyone: Workbench) -> Workbench:
    return everyone.acting_as("ann@example.org")


@pytest.fixture
def ben(everyone: Workbench) -> Workbench:
    return everyone.acting_as("ben@example.org")


def planned(workbench: Workbench) -> Plan:
    workbench.add_document(LAW, "law.md")
    questions = workbench.add_question_set(QUESTIONS, "questions.json")
    return workbench.plan(questions.question_set_id, [workbench.spec("sentence")])


def test_without_sign_in_everything_is_the_local_users(everyone: Workbench) -> None:
    experiment = everyone.benchmark(planned(everyone))
    assert everyone.user == "local"
    assert not everyone.ownership("experiment", experiment.experiment_id).owners
    everyone.delete_experiment(experiment.experiment_id)
    assert everyone.spending() == ()


@pytest.mark.parametrize("name", ["", "local"])
def test_nobody_signs_in_as_the_local_user(everyone: Workbench, name: str) -> None:
    with pytest.raises(NotAllowed, match="Nobody can be signed in as"):
        everyone.acting_as(name)


def test_nothing_of_somebody_else_is_seen(ann: Workbench, ben: Workbench, everyone: Workbench) -> None:
    experiment = ann.benchmark(planned(ann))
    document_id = ann.documents()[0].document_id
    set_id = ann.question_sets()[0].question_set_id
    ann.ask("How high is the fee?", [ann.spec("sentence")])
    (query,) = ann.queries()

    assert (ben.documents(), ben.question_sets(), ben.experiments(), ben.queries()) == ([], [], [], [])
    hidden: list[Callable[[], object]] = [
        lambda: ben.document(document_id),
        lambda: ben.original(document_id),
        lambda: ben.tokens(document_id),
        lambda: ben.chunk(document_id, ben.spec("sentence")),
        lambda: ben.delete_document(document_id),
        lambda: ben.question_set(set_id),
        lambda: ben.delete_question_set(set_id),
        lambda: ben.query(query.query_id),
        lambda: ben.rate(query.query_id, 10),
        lambda: ben.experiment(experiment.experiment_id),
        lambda: ben.export(experiment.experiment_id),
        lambda: ben.rerun(experiment.experiment_id),
        lambda: ben.resume(experiment.experiment_id),
        lambda: ben.cancel(experiment.experiment_id),
        lambda: ben.share("experiment", experiment.experiment_id),
        lambda: everyone.share("document", "0" * 64),
    ]
    for reach in hidden:
        with pytest.raises(NotFound):
            reach()
    assert len(everyone.documents()) == len(everyone.experiments()) == 1


def test_what_is_shared_can_be_read_and_used_and_not_changed(ann: Workbench, ben: Workbench) -> None:
    experiment = ann.benchmark(planned(ann))
    document_id = ann.documents()[0].document_id
    set_id = ann.question_sets()[0].question_set_id
    ann.share("document", document_id)
    ann.share("question set", set_id)
    ann.share("experiment", experiment.experiment_id)

    assert ben.document(document_id).name == "law.md"
    assert ben.experiment(experiment.experiment_id).cells == ann.experiment(experiment.experiment_id).cells
    own = ben.benchmark(ben.plan(set_id, [ben.spec("recursive")]))
    assert own.status == "finished"
    assert [each.experiment_id for each in ann.experiments()] == [experiment.experiment_id]
    refused: list[Callable[[], object]] = [
        lambda: ben.delete_document(document_id),
        lambda: ben.delete_question_set(set_id),
        lambda: ben.delete_experiment(experiment.experiment_id),
        lambda: ben.annotate(experiment.experiment_id, note="mine"),
        lambda: ben.mark_baseline(experiment.experiment_id),
        lambda: ben.resume(experiment.experiment_id),
        lambda: ben.cancel(experiment.experiment_id),
        lambda: ben.share("document", document_id, False),
        lambda: ben.reread(document_id),
    ]
    for change in refused:
        with pytest.raises(NotAllowed, match="only its owner may change it"):
            change()

    ann.share("document", document_id, False)
    with pytest.raises(NotFound):
        ben.document(document_id)


def test_what_is_shared_is_refused_before_it_is_paid_for(limited: Workbench, fake_openai: FakeOpenAI) -> None:
    ann, ben = limited.acting_as("ann"), limited.acting_as("ben")
    document_id = ann.add_document(LAW, "law.md").document.document_id
    (query,) = ann.ask("How high is the late fee?", [ann.spec("sentence")])
    ann.share("document", document_id)
    ann.share("query", query.query_id)
    calls = fake_openai.calls("chat")
    for work in (lambda: ben.enrich(document_id, ben.spec("sentence")), lambda: ben.judge(query.query_id)):
        with pytest.raises(NotAllowed, match="only its owner may change it"):
            work()
    assert fake_openai.calls("chat") == calls


def test_what_belongs_to_all_users_is_only_the_local_users_to_change(
    everyone: Workbench, ann: Workbench, ben: Workbench
) -> None:
    document_id = ann.add_document(LAW, "law.md").document.document_id
    ann.index([document_id], [ann.spec("sentence")])
    refused: list[Callable[[], object]] = [
        ben.rebuild_index,
        ben.renew_collections,
        lambda: ben.prune_caches(0),
    ]
    for change in refused:
        with pytest.raises(NotAllowed, match="only whoever runs this installation"):
            change()
    assert ben.index_states() == []
    assert [state.document_id for state in ann.index_states()] == [document_id]
    assert everyone.rebuild_index() == 1


def test_own_and_shared_experiments_are_compared_and_exported_and_no_others(ann: Workbench, ben: Workbench) -> None:
    plan = planned(ann)
    first = ann.benchmark(plan).experiment_id
    second = ann.benchmark(plan.model_copy(update={"top_k": 1})).experiment_id
    compared = ann.compare([first, second])
    assert (compared.experiment_ids, compared.common_questions) == ((first, second), 1)
    ann.share("question set", plan.question_set_id)
    ann.share("document", plan.document_ids[0])
    own = ben.benchmark(plan).experiment_id
    with pytest.raises(NotFound):
        ben._store.read_cells(ann.experiment(first, cells=False))
    for pair in ([first, own], [own, first]):
        with pytest.raises(NotFound, match=first):
            ben.compare(pair)
    ann.share("experiment", first)
    for pair in ([first, own], [own, first]):
        assert ben.compare(pair).experiment_ids == tuple(pair)
    assert ben.export(first, "json").data == ann.export(first, "json").data
    with pytest.raises(NotFound, match=second):
        ben.compare([first, second])


def test_two_owners_of_the_same_file_do_not_notice_each_other(ann: Workbench, ben: Workbench) -> None:
    document = ann.add_document(LAW, "law.md").document
    ann.index([document.document_id], [ann.spec("sentence")])
    added = ben.add_document(LAW, "law.md")
    assert added.document.document_id == document.document_id
    assert not added.existed
    ben.delete_document(document.document_id)
    assert ben.documents() == []
    assert ann.original(document.document_id) == LAW
    assert ann.ask("How high is the fee?", [ann.spec("sentence")])[0].retrieved
    ann.delete_document(document.document_id)
    assert ann.documents() == []


def test_the_same_questions_of_two_owners_have_their_evidence_in_their_own_documents(
    ann: Workbench, ben: Workbench
) -> None:
    ann.add_document(LAW, "law.md")
    ben.add_document(RULES, "rules.md")
    of_ann = ann.add_question_set(QUESTIONS, "questions.json")
    of_ben = ben.add_question_set(QUESTIONS, "questions.json")
    assert of_ann.question_set_id != of_ben.question_set_id
    assert [len(each.gold) for each in ann.question_set(of_ann.question_set_id).questions] == [1]
    assert [len(each.gold) for each in ben.question_set(of_ben.question_set_id).questions] == [0]


@pytest.mark.parametrize("first", ["local", "ben"])
def test_what_the_local_user_added_too_stays_when_another_owner_gives_it_up(
    everyone: Workbench, ben: Workbench, first: str
) -> None:
    order = [everyone, ben] if first == "local" else [ben, everyone]
    (document_id,) = {each.add_document(LAW, "law.md").document.document_id for each in order}
    ben.delete_document(document_id)
    assert everyone.document(document_id).name == "law.md"
    assert everyone.original(document_id) == LAW
    with pytest.raises(NotFound):
        ben.document(document_id)
    everyone.delete_document(document_id)
    assert everyone.documents() == []


def test_question_sets_of_the_local_user_are_not_written_over(everyone: Workbench, ben: Workbench) -> None:
    everyone.add_document(LAW, "law.md")
    ben.add_document(RULES, "rules.md")
    of_local = everyone.add_question_set(QUESTIONS, "questions.json")
    of_ben = ben.add_question_set(QUESTIONS, "questions.json")
    assert of_ben.question_set_id != of_local.question_set_id
    ben.delete_question_set(of_ben.question_set_id)
    assert everyone.question_set(of_local.question_set_id) == of_local
    with pytest.raises(NotFound):
        ben._store.save_question_set(of_local)


def test_the_local_user_does_not_write_over_the_question_sets_of_others(everyone: Workbench, ann: Workbench) -> None:
    ann.add_document(LAW, "law.md")
    of_ann = ann.add_question_set(QUESTIONS, "questions.json")
    everyone.add_document(RULES, "rules.md")
    rules = [info.document_id for info in everyone.documents() if info.name == "rules.md"]
    of_local = everyone.add_question_set(QUESTIONS, "questions.json", rules)
    assert [len(each.gold) for each in of_local.questions] == [0]
    assert of_local.question_set_id != of_ann.question_set_id
    assert ann.question_set(of_ann.question_set_id) == of_ann
    again = everyone.add_question_set(QUESTIONS, "questions.json", rules)
    assert again.question_set_id == of_local.question_set_id
    assert len(everyone.question_sets()) == 2

    everyone.resolve_question_set(of_ann.question_set_id)
    assert ann.question_set(of_ann.question_set_id).questions == of_ann.questions
    ann.delete_question_set(of_ann.question_set_id)
    assert everyone.add_question_set(QUESTIONS, "questions.json", rules).question_set_id == of_local.question_set_id


def test_what_others_call_the_same_file_is_not_told(everyone: Workbench, ann: Workbench, ben: Workbench) -> None:
    for workbench, name in ((ann, "dismissals.md"), (ben, "fees.md"), (everyone, "law.md")):
        added = workbench.add_document(LAW, name)
        assert not added.existed
        assert workbench.document(added.document.document_id).name == name
        assert workbench.add_document(LAW, name).existed
        assert workbench.original(added.document.document_id) == LAW
        (query,) = workbench.ask(
            "How high is the annual fee?", [workbench.spec("sentence")], [added.document.document_id]
        )
        assert {hit.chunk.document_name for hit in query.retrieved} == {name}
    assert [info.name for info in ann.documents()] == ["dismissals.md"]
    assert [info.name for info in ben.documents()] == ["fees.md"]
    assert sorted(info.name for info in everyone.documents()) == ["dismissals.md", "fees.md", "law.md"]

    (document_id,) = (info.document_id for info in ann.documents())
    ann.delete_document(document_id)
    assert ben.add_document(LAW, "fees.md").existed
    assert len(ben.documents()) == 1
    assert ben.original(ben.documents()[0].document_id) == LAW
    (document_id,) = (info.document_id for info in ben.documents())
    assert ben.reread(document_id).document.document_id == document_id


def test_a_document_counts_from_when_its_owner_added_it(everyone: Workbench, ann: Workbench, ben: Workbench) -> None:
    ann.add_document(LAW, "law.md")
    ben.add_document(RULES, "rules.md")
    ben.add_document(LAW, "law.md")
    (first,) = ann.documents()
    assert [info.name for info in ben.documents()] == ["law.md", "rules.md"]
    assert ben.documents()[0].document_id == first.document_id
    assert ben.documents()[0].created_at > first.created_at


def test_what_the_local_user_reads_again_stays_its_owners(
    everyone: Workbench, ann: Workbench, ben: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (ann, ben):
        each.add_document(LAW, "law.md")
        each.add_question_set(QUESTIONS, "questions.json")
    (before,) = ann.documents()
    ann.share("document", before.document_id)
    read = reading.read_document

    def read_later(data: bytes, name: str, settings: Settings) -> Document:
        return read(data, name, settings).model_copy(update={"document_id": "1" * 32, "parser_version": "later"})

    monkeypatch.setattr(reading, "read_document", read_later)
    everyone.reread(before.document_id)
    (after,) = {info.document_id for each in (ann, ben) for info in each.documents()}
    assert after != before.document_id
    assert everyone.ownership("document", after) == (frozenset({ann.user, ben.user}), True)
    for each in (ann, ben):
        (info,) = each.question_sets()
        assert [gold.document_id for gold in each.question_set(info.question_set_id).questions[0].gold] == [after]
    assert len(everyone.question_sets()) == 2


def test_a_queued_benchmark_is_its_owners(ann: Workbench, ben: Workbench) -> None:
    job = ann.submit(planned(ann))
    killing.wait(ann, job.job_id)
    assert job.owner == "ann@example.org"
    assert ann.experiment(job.job_id).status == "finished"
    with pytest.raises(NotFound):
        ben.job(job.job_id)


def test_a_user_may_have_so_many_benchmarks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workbench.open(load_settings(queue_limit_per_user=1)) as everyone:
        monkeypatch.setattr(everyone._jobs, "start", lambda: None)
        ann, ben = everyone.acting_as("ann"), everyone.acting_as("ben")
        ann.submit(planned(ann))
        with pytest.raises(Busy, match="QUEUE_LIMIT_PER_USER"):
            ann.submit(planned(ann))
        assert len(ann.experiments()) == 1
        assert ben.submit(planned(ben)).state == "queued"


def test_a_quota_of_dollars_refuses_what_does_not_fit(
    fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = killing.variables(fake_openai, tmp_path / "paid")
    with killing.environment({**variables, "SPEND_PER_DAY_USD": "0.001", "SPEND_PER_MONTH_USD": "1"}):
        everyone = Workbench.open()
    with everyone:
        ann, ben = everyone.acting_as("ann"), everyone.acting_as("ben")
        assert [(each.period, each.usd, each.left_usd) for each in ann.spending()] == [
            ("day", 0.0, 0.001),
            ("month", 0.0, 1.0),
        ]
        plan = planned(ann)
        first = finished(ann, plan)
        (query,) = ann.ask("How high is the late fee?", [ann.spec("sentence")])
        paid = _cost(first) + (query.usage.cost_usd or 0.0)
        assert paid > 0
        assert ann.spending()[0].usd == pytest.approx(paid)
        assert ben.spending()[0].usd == 0.0
        monkeypatch.setattr(everyone._jobs, "start", lambda: None)
        waiting = ann.submit(plan.model_copy(update={"repeats": 2}))
        expected = ann.experiment(waiting.job_id).estimated_cost_usd
        assert expected is not None
        assert expected > 0
        assert ann.spending()[0].usd == pytest.approx(paid + expected)
        dear = plan.model_copy(update={"repeats": 100})
        with pytest.raises(BudgetExceeded, match=r"Of your 0.00 USD a day \(SPEND_PER_DAY_USD\) 0.00\d\d USD are left"):
            ann.submit(dear)
        assert len(ann.experiments()) == 2
        everyone.submit(dear.model_copy(update={"repeats": 1}))


@pytest.fixture
def limited(fake_openai: FakeOpenAI, tmp_path: Path) -> Iterator[Workbench]:
    """A Workbench with paid models and a quota that tests set."""
    variables = killing.variables(fake_openai, tmp_path / "limited")
    with killing.environment({**variables, "SPEND_PER_DAY_USD": "1"}):
        everyone = Workbench.open()
    with everyone:
        yield everyone


def limit(workbench: Workbench, usd: float) -> None:
    workbench.settings = workbench.settings.model_copy(update={"spend_per_day_usd": usd})


def test_what_was_deleted_stays_spent(limited: Workbench) -> None:
    ann = limited.acting_as("ann")
    experiment = finished(ann, planned(ann))
    paid = ann.spending()[0].usd
    assert paid > 0
    ann.delete_experiment(experiment.experiment_id)
    assert ann.spending()[0].usd == paid


def test_benchmarks_and_verdicts_outside_of_the_queue_are_counted_and_refused(
    limited: Workbench, fake_openai: FakeOpenAI
) -> None:
    ann = limited.acting_as("ann")
    plan = planned(ann).model_copy(update={"judge": True})
    experiment = ann.benchmark(plan)
    paid = ann.spending()[0].usd
    assert paid >= _cost(experiment) > 0
    (query,) = ann.ask("How high is the late fee?", [ann.spec("sentence")])
    verdict = ann.judge(query.query_id).judgement
    assert verdict is not None
    paid += (query.usage.cost_usd or 0.0) + (verdict.usage.cost_usd or 0.0)
    assert ann.spending()[0].usd == pytest.approx(paid)
    ann.repeat_judge(experiment.experiment_id, 2, 1)
    assert ann.spending()[0].usd > paid + (verdict.usage.cost_usd or 0.0)

    limit(ann, ann.spending()[0].usd + 1e-9)
    calls = fake_openai.calls("chat")
    refused: list[Callable[[], object]] = [
        lambda: ann.benchmark(plan.model_copy(update={"repeats": 2})),
        lambda: ann.repeat_judge(experiment.experiment_id, 3, 1),
    ]
    for work in refused:
        with pytest.raises(BudgetExceeded):
            work()
    limit(ann, ann.spending()[0].usd)
    with pytest.raises(BudgetExceeded):
        ann.judge(query.query_id, "another answer than before")
    known = ann.judge(query.query_id).judgement
    assert known is not None
    assert known.claims == verdict.claims
    assert known.usage.calls == 0
    assert fake_openai.calls("chat") == calls


def test_a_benchmark_is_resumed_where_the_rest_of_it_fits(limited: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited._jobs, "start", lambda: None)
    ann = limited.acting_as("ann")
    job = ann.submit(planned(ann))
    expected = ann.experiment(job.job_id).estimated_cost_usd
    assert expected is not None
    ann.cancel(job.job_id)
    assert ann.spending()[0].usd == 0.0
    limit(ann, expected * 0.9)
    with pytest.raises(BudgetExceeded):
        ann.resume(job.job_id)
    limit(ann, expected * 1.1)
    assert ann.resume(job.job_id).state == "queued"
    assert ann.spending()[0].usd == pytest.approx(expected)


def test_of_benchmarks_submitted_at_once_only_those_that_fit_are_queued(
    limited: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited._jobs, "start", lambda: None)
    ann = limited.acting_as("ann")
    plan = planned(ann)
    expected = ann.dry_run(plan).estimated_cost_usd
    assert expected is not None
    limit(ann, expected * 1.5)
    together = threading.Barrier(4)

    def submit(_: int) -> str:
        together.wait()
        try:
            return ann.submit(plan).state
        except BudgetExceeded:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(submit, range(4))) == ["queued", "refused", "refused", "refused"]


def finished(workbench: Workbench, plan: Plan) -> Experiment:
    job = workbench.submit(plan)
    killing.wait(workbench, job.job_id)
    return workbench.experiment(job.job_id)


def _cost(experiment: Experiment) -> float:
    return sum(result.usage.cost_usd or 0.0 for result in experiment.results)


@pytest.mark.parametrize("moment", ["disclaim", "document_ids_of"])
def test_what_one_user_adds_while_another_deletes_it_is_there_afterwards(
    ann: Workbench, ben: Workbench, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    document_id = ann.add_document(LAW, "law.md").document.document_id
    adding = threading.Thread(target=ben.add_document, args=(LAW, "law.md"))
    before = getattr(OwnedStore, moment)

    def while_another_adds(store: OwnedStore, *what: str) -> object:
        found = before(store, *what)
        if adding.ident is None:
            adding.start()
            adding.join(0.5)
        return found

    monkeypatch.setattr(OwnedStore, moment, while_another_adds)
    ann.delete_document(document_id)
    adding.join()
    (kept,) = ben.documents()
    assert ben.original(kept.document_id) == LAW
    assert not ann.documents()
