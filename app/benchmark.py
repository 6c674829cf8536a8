"""Setting up a benchmark: the choices of the form as a plan, and whether the dry run on the page is still that of the plan."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import forms, money
from app.text import counted, plain
from engine import Workbench
from engine.bench.dry_run import DryRun
from engine.models import DocumentInfo, StrategySpec
from engine.records import Plan
from engine.store import QuestionSetInfo
from engine.workbench import FIRST_STRATEGIES

DRY_RUN = "benchmark.dry_run"
"""Session key: `(plan as JSON, dry run as JSON, what its options cost, in words)`."""


def plan_form(workbench: Workbench, sets: list[QuestionSetInfo], documents: list[DocumentInfo]) -> Plan | None:
    """The widgets of the set-up and the plan they make; None while no strategy is chosen."""
    titles = {each.question_set_id: f"{each.name} ({counted(each.question_count, 'question')})" for each in sets}
    left, right = st.columns(2)
    question_set = left.selectbox(
        "Question set",
        list(titles),
        format_func=lambda each: titles[each],
        key="benchmark.set",
        persist_state="session",
    )
    names = {document.document_id: document.name for document in documents}
    only = right.multiselect(
        "Documents",
        list(names),
        format_func=lambda each: names[each],
        placeholder="all documents",
        key="benchmark.documents",
        persist_state="session",
    )
    specs = _specs(workbench)
    options = _options(workbench, specs)
    if not specs or question_set is None:
        st.caption("Choose at least one strategy.")
        return None
    return workbench.plan(question_set, specs, only or None, **options)


def _specs(workbench: Workbench) -> list[StrategySpec]:
    strategies = {strategy.name: strategy for strategy in workbench.strategies()}
    if "benchmark.strategies" not in st.session_state:
        st.session_state["benchmark.strategies"] = list(FIRST_STRATEGIES)
    titles = forms.strategy_titles(workbench)
    chosen = st.pills(
        "Strategies",
        list(titles),
        selection_mode="multi",
        format_func=lambda name: titles[name],
        key="benchmark.strategies",
        persist_state="session",
    )
    specs: list[StrategySpec] = []
    with st.popover("Parameters and grid", icon=":material/tune:"):
        st.caption("Several values of a parameter make one run per combination.")
        for name in chosen:
            st.markdown(f"**{strategies[name].title}**")
            found, left_out = forms.grid_form(workbench, strategies[name], "benchmark")
            specs += found
            for reason in left_out:
                st.caption(f"Left out: {plain(reason)}")
    st.caption(f"{counted(len(specs), 'run')}: {plain(', '.join(spec.label for spec in specs))}")
    return specs


def _options(workbench: Workbench, specs: list[StrategySpec]) -> dict[str, object]:
    labels = {spec.spec_id: spec.label for spec in specs}
    first, second, third, fourth = st.columns(4)
    top_k = first.number_input(
        "Chunks retrieved", 1, 100, workbench.settings.top_k, key="benchmark.top_k", persist_state="session"
    )
    retriever = second.selectbox(
        "Search",
        ["vector", "lexical", "hybrid"],
        key="benchmark.retriever",
        persist_state="session",
        help="Vector: similar meaning. Lexical: the words themselves (BM25). Hybrid: both rankings fused.",
    )
    baseline = third.selectbox(
        "Baseline",
        list(labels),
        format_func=lambda each: labels[each],
        key="benchmark.baseline",
        persist_state="session",
        help="The strategy all others are compared with.",
    )
    name = fourth.text_input(
        "Name", placeholder="the question set's name", key="benchmark.name", persist_state="session"
    )
    has_chat, has_judge = workbench.models.chat is not None, workbench.models.judge is not None
    # Switches wrap on a narrow page; in columns their names would be cut.
    switches = st.container(horizontal=True, gap="medium")
    fifth, sixth, _ = st.columns([1, 1, 2])
    answers = switches.toggle("Answer each question", True, key="benchmark.answers", persist_state="session")
    judge = switches.toggle(
        "Judge the answers",
        False,
        key="benchmark.judge",
        persist_state="session",
        disabled=not (has_judge and has_chat),
        help="Scores generated answers." if has_judge and has_chat else "Needs a chat model and a judge model.",
    )
    closed_book = switches.toggle(
        "Closed book",
        False,
        key="benchmark.closed_book",
        persist_state="session",
        disabled=not has_chat,
        help="Also asks the model every question without documents. Where it answers as well, the documents add nothing."
        if has_chat
        else "Needs a chat model.",
    )
    batch = switches.toggle(
        "Overnight",
        False,
        key="benchmark.batch",
        persist_state="session",
        disabled=not has_chat,
        help="Answers and verdicts go through the provider's batch endpoint: cheaper, and each of the two takes up to a day. "
        "The dry run shows the price."
        if has_chat
        else "Needs a chat model.",
    )
    repeats = fifth.number_input(
        "Repeats",
        1,
        20,
        1,
        key="benchmark.repeats",
        persist_state="session",
        disabled=not has_chat,
        help="How often each question is answered, to see the spread of a model."
        if has_chat
        else "Needs a chat model.",
    )
    budget = sixth.number_input(
        "Budget in dollars",
        0.0,
        None,
        None,
        0.5,
        key="benchmark.budget",
        persist_state="session",
        placeholder="no limit",
        help="The run stops before it would cost more. What is finished is kept.",
    )
    return {
        "top_k": int(top_k),
        "retriever": retriever,
        "baseline": baseline,
        "name": name.strip() or None,
        "answers": answers,
        "judge": judge and (answers or closed_book) and has_judge and has_chat,
        "closed_book": closed_book and has_chat,
        "batch": batch and (answers or closed_book) and has_chat,
        "repeats": int(repeats) if has_chat else 1,
        "budget_usd": budget,
    }


def shown_dry_run(plan: Plan) -> tuple[DryRun | None, bool]:
    """The dry run on the page, and whether it is that of this plan."""
    kept = st.session_state.get(DRY_RUN)
    if kept is None:
        return None, False
    return DryRun.model_validate_json(kept[1]), kept[0] == plan.model_dump_json()


def keep_dry_run(plan: Plan, dry_run: DryRun, options: Sequence[str] = ()) -> None:
    st.session_state[DRY_RUN] = (plan.model_dump_json(), dry_run.model_dump_json(), tuple(options))


def options_in_words() -> tuple[str, ...]:
    """What the options of the dry run on the page cost."""
    return tuple(st.session_state[DRY_RUN][2])


def options_apart(workbench: Workbench, plan: Plan, whole: DryRun) -> list[str]:
    """What the judge and the repeats of a plan cost: the dry run with and without each."""
    without = {
        "The judge": (plan.judge, {"judge": False}),
        f"Answering {plan.repeats} times": (plan.repeats > 1 and workbench.models.chat is not None, {"repeats": 1}),
    }
    found = []
    for name, (is_on, update) in without.items():
        if is_on:
            less = workbench.dry_run(plan.model_copy(update=update))
            calls = whole.estimated_calls - less.estimated_calls
            costs = whole.estimated_cost_usd, less.estimated_cost_usd
            dollars = None if None in costs else max(0.0, (costs[0] or 0.0) - (costs[1] or 0.0))
            found.append(f"{name} adds about {counted(calls, 'call')}: {money.dollars(dollars)}.")
    return found


def in_words(dry_run: DryRun) -> str:
    return f"{dry_run.answers_in_words()}. {money.in_short(dry_run)}{_overnight(dry_run)}"


def _overnight(dry_run: DryRun) -> str:
    """What the same would cost overnight, where that is less."""
    now, night = dry_run.estimated_cost_usd, dry_run.overnight_cost_usd
    return f" Overnight about {money.dollars(night)}." if now and night is not None and night < now else ""
