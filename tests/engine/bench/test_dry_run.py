from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Workbench
from engine.bench.dry_run import Range
from engine.bench.spending import Spending
from engine.errors import BadRequest, BudgetExceeded
from engine.judge.calibration import cases
from engine.records import Plan
from tests.engine.bench.killing import LAW, QUESTIONS, calls, environment, plan, variables
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fixture import fake_openai

__all__ = ["fake_openai"]

CASES = len(cases())


@pytest.fixture
def served(fake_openai: FakeOpenAI, tmp_path: Path) -> Iterator[Workbench]:
    with environment(variables(fake_openai, tmp_path / "served")), Workbench.open() as opened:
        yield opened


def exact(value: float) -> Range:
    return Range(low=value, expected=value, high=value)


def local_plan(workbench: Workbench, **options: object) -> Plan:
    workbench.add_document(LAW.encode(), "law.md")
    questions = workbench.add_question_set(QUESTIONS, "questions.json")
    return workbench.plan(questions.question_set_id, [workbench.spec("sentence")], **options)


def test_nothing_is_called_and_the_estimate_is_what_the_run_then_calls(
    served: Workbench, fake_openai: FakeOpenAI
) -> None:
    chosen = plan(served)
    estimate = served.dry_run(chosen)
    assert calls(fake_openai) == 0
    assert served.index_states() == []
    served.benchmark(chosen)
    contexts = served.dry_run(chosen.model_copy(update={"judge": False}))
    # 6 questions under 3 strategies, each answered and judged once; the server's verdicts are usable at once.
    assert estimate.stage("answers").calls == exact(18)
    assert estimate.stage("judge").calls == Range(low=18, expected=18, high=36)
    assert (estimate.cells, estimate.questions) == (18, 6)
    written = estimate.stage("context").calls.expected
    assert estimate.stage("calibration").calls == Range(low=CASES, expected=CASES, high=2 * CASES)
    assert fake_openai.calls("chat") == written + 18 + 18 + CASES
    # One call embeds the questions, one the chunks of each strategy.
    assert estimate.stage("embedding").calls == exact(4)
    assert fake_openai.calls("embeddings") == 4
    assert estimate.estimated_calls == calls(fake_openai)
    assert contexts.estimated_calls == 0


def test_tokens_and_dollars_are_those_of_the_run(served: Workbench, fake_openai: FakeOpenAI) -> None:
    chosen = plan(served)
    estimate = served.dry_run(chosen)
    experiment = served.benchmark(chosen)
    answered = sum(result.usage_by_purpose["answer"].input_tokens for result in experiment.results)
    stage = estimate.stage("answers")
    assert stage.input_tokens.low <= answered <= 1.1 * stage.input_tokens.high
    spent = sum(result.usage.cost_usd or 0.0 for result in experiment.results)
    assert estimate.high_cost_usd is not None
    assert experiment.calibration is not None
    spent += experiment.calibration.usage.cost_usd or 0.0
    assert 0 < spent <= estimate.high_cost_usd
    assert estimate.estimated_cost_usd is not None
    assert 0.9 <= estimate.estimated_cost_usd / spent <= 1.1
    assert experiment.estimated_cost_usd == estimate.estimated_cost_usd


def test_what_the_cache_answers_costs_nothing(served: Workbench) -> None:
    chosen = plan(served)
    served.benchmark(chosen)
    again = served.dry_run(chosen)
    assert (again.estimated_calls, again.estimated_cost_usd) == (0, 0.0)
    assert again.stage("answers").cached_calls == 18
    assert again.stage("judge").cached_calls == 18
    assert all(spec.indexed for spec in again.specs)
    assert f"{36 + CASES} calls are answered from the cache and cost nothing." in again.notes
    more = served.dry_run(chosen.model_copy(update={"repeats": 2}))
    assert more.stage("answers").calls == exact(18)


def test_answers_of_the_closed_book_are_named_with_calls_and_cost(served: Workbench, fake_openai: FakeOpenAI) -> None:
    chosen = plan(served).model_copy(update={"closed_book": True, "repeats": 2})
    without = served.dry_run(chosen.model_copy(update={"closed_book": False}))
    assert without.closed_book is None
    assert without.answers_in_words() == "36 answers to 6 questions under 3 strategies"
    estimate = served.dry_run(chosen)
    book = estimate.closed_book
    assert book is not None
    assert (book.answers, book.calls) == (12, Range(low=24, expected=24, high=36))
    assert estimate.estimated_calls == without.estimated_calls + 24
    assert book.cost_usd is not None
    assert estimate.estimated_cost_usd == pytest.approx((without.estimated_cost_usd or 0.0) + book.cost_usd)
    said = f"under 3 strategies, and 12 closed-book answers without documents (24 calls, {book.cost_usd:.4f} USD)"
    assert estimate.answers_in_words().endswith(said)
    alone = served.dry_run(chosen.model_copy(update={"answers": False, "judge": False, "repeats": 1}))
    assert alone.estimated_calls == alone.stage("embedding").calls.expected + alone.stage("context").calls.expected + 6
    # Answers that are the closed book's alone are priced as well.
    assert alone.stage("answers").model == "gpt-4o-mini"
    cost = alone.stage("answers").cost_usd
    assert alone.closed_book is not None
    assert cost is not None
    assert alone.closed_book.cost_usd == cost.expected > 0


def test_local_models_cost_nothing_and_say_so() -> None:
    with Workbench.open() as workbench:
        estimate = workbench.dry_run(local_plan(workbench, repeats=3, judge=True))
    assert (estimate.estimated_calls, estimate.estimated_cost_usd, estimate.high_cost_usd) == (0, 0.0, 0.0)
    assert estimate.cells == 6
    notes = " ".join(estimate.notes)
    for said in ("computed on this machine", "extractive", "no judge model", "asked once"):
        assert said in notes


def test_a_strategy_that_lacks_its_model_is_named() -> None:
    with Workbench.open() as workbench:
        chosen = local_plan(workbench)
        chosen = chosen.model_copy(update={"specs": (*chosen.specs, workbench.spec("propositions"))})
        estimate = workbench.dry_run(chosen)
        chunks = len(workbench.chunk(chosen.document_ids[0], chosen.specs[0]).chunks)
    assert [spec.problem is None for spec in estimate.specs] == [True, False]
    assert estimate.specs[0].chunks == chunks
    assert estimate.specs[1].chunks is None
    assert any(note.startswith("propositions 512 will fail: ") for note in estimate.notes)


def test_an_unknown_price_is_said_and_a_budget_cannot_be_kept(
    fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_MODEL", "own-model")
    monkeypatch.setenv("EMBEDDING_MODEL", "wordllama")
    with environment(variables(fake_openai, tmp_path / "served")), Workbench.open() as workbench:
        chosen = plan(workbench).model_copy(update={"judge": False, "budget_usd": 1.0})
        estimate = workbench.dry_run(chosen)
        assert estimate.estimated_cost_usd is None
        assert any("price of own-model (answers) is not known" in note for note in estimate.notes)
        with pytest.raises(BadRequest, match="price of a model it would call is unknown"):
            workbench.benchmark(chosen)
        assert workbench.experiments() == []


def test_plans_that_cannot_give_a_result_are_refused() -> None:
    with Workbench.open() as workbench:
        chosen = local_plan(workbench)
        for change, words in (
            ({"specs": ()}, "at least one strategy"),
            ({"specs": chosen.specs * 2}, "twice"),
            ({"baseline": "nobody"}, "baseline"),
            ({"repeats": 0}, "at least 1"),
            ({"budget_usd": -1.0}, "0 dollars or more"),
        ):
            with pytest.raises(BadRequest, match=words):
                workbench.dry_run(chosen.model_copy(update=change))


def test_spending_reserves_what_the_dearest_unit_cost() -> None:
    spending = Spending(0.0, 1.0)
    with spending.unit("ask", 0.3):
        spending.add("ask", 0.4)
    assert spending.spent_usd == 0.4
    with spending.unit("ask"), pytest.raises(BudgetExceeded, match="stopped at its budget"), spending.unit("ask"):
        pass
    with spending.unit("ask"):
        spending.add("ask", 0.4)
    with pytest.raises(BudgetExceeded, match=r"\$0\.8000 of \$1\.0000"), spending.unit("ask"):
        pass


def test_spending_with_an_unknown_price_stops_a_budget_and_nothing_else() -> None:
    free = Spending(0.0, None)
    free.add("ask", None)
    with free.unit("ask"):
        assert free.spent_usd is None
    limited = Spending(0.0, 1.0)
    limited.add("ask", None)
    with pytest.raises(BudgetExceeded, match="price of a model it calls is unknown"), limited.unit("ask"):
        pass
