"""Ask: one question, several strategies, answers side by side."""

from __future__ import annotations

import streamlit as st

from app import answers, forms, money, runtime, state, trust
from app.states import bench, guard, heading, no_documents, stale
from app.text import plain, shortened
from app.theme import titled
from engine import UserError
from engine.live import LiveAsk
from engine.models import StrategySpec
from engine.questions.edit import rows as question_rows
from engine.records import Query, Question

DEFAULT = ["recursive", "parent_child"]

workbench = bench()

heading(
    "Ask",
    "Ask the documents one question and compare what each strategy finds.",
    [
        "Each strategy answers in its own column, from the chunks it found; answers are stored as they come.",
        "Click a citation to see the quoted passage in the document, with the chunk around it.",
        "The rank matrix shows which places each strategy found, and in which order.",
    ],
    [("Enter", "ask, in the question box")],
)

documents = workbench.documents()
if not documents:
    no_documents("Ask")

strategies = {strategy.name: strategy for strategy in workbench.strategies()}
if "ask.strategies" not in st.session_state:
    st.session_state["ask.strategies"] = DEFAULT
titles = forms.strategy_titles(workbench)
chosen = st.pills(
    "Strategies",
    list(titles),
    selection_mode="multi",
    format_func=lambda name: titles[name],
    key="ask.strategies",
    persist_state="session",
)
suggestions: dict[str, Question] = {
    question.question_id: question
    for info in workbench.question_sets()
    for question in workbench.question_set(info.question_set_id).questions
}


def take_suggestion() -> None:
    suggestion = suggestions.get(st.session_state["ask.suggestion"] or "")
    if suggestion is not None:
        st.session_state["ask.question"] = suggestion.question


# Wraps where the window is narrow.
options = st.container(horizontal=True, vertical_alignment="bottom")
specs: list[StrategySpec] = []
with options.popover("Parameters", icon=":material/tune:"):
    for name in chosen:
        st.markdown(f"**{strategies[name].title}**")
        try:
            specs.append(forms.spec_form(workbench, strategies[name], "ask"))
        except UserError as error:
            st.error(plain(error.message), icon=":material/error:")
names = state.distinct_names(documents)
only = options.multiselect(
    "Documents",
    list(names),
    format_func=lambda document_id: names[document_id],
    placeholder="all documents",
    key="ask.documents",
    persist_state="session",
    width=260,
)
top_k = options.number_input(
    "Chunks retrieved", 1, 100, workbench.settings.top_k, key="ask.top_k", persist_state="session", width=150
)
options.selectbox(
    "Take a question from a question set",
    [None, *suggestions],
    format_func=lambda each: shortened(suggestions[each].question, 70) if each else "none",
    key="ask.suggestion",
    on_change=take_suggestion,
    disabled=not suggestions,
    width=440,
)
with st.form("ask.form", border=False):
    question = st.text_input(
        "Question", key="ask.question", persist_state="session", placeholder="What do you want to know?"
    )
    submitted = st.form_submit_button("Ask", type="primary", icon=":material/send:", disabled=not specs)
if workbench.models.chat is None and workbench.settings.resolved_embedding_model == "wordllama":
    st.caption("Nothing is called over the network: no cost.")
else:
    with guard():
        st.caption(plain(money.in_short(workbench.dry_run_question(question, specs, only or None, int(top_k)))))

if submitted:
    with guard():
        started = workbench.start_asking(question, specs, only or None, int(top_k))
        runtime.asking.keep((workbench.user, started.request_id), started)
        state.choose(state.REQUEST, started.request_id)
        st.session_state.pop(answers.PLACE, None)

request_id = state.linked(state.REQUEST)
state.publish(state.REQUEST)
if request_id is None:
    st.stop()


def watch(live: LiveAsk) -> None:
    """The answers as they are written."""

    @st.fragment(run_every=0.4)
    @guard()
    def columns_live() -> None:
        if live.done:
            st.rerun()
        for column, progress in zip(st.columns(len(live.progress())), live.progress(), strict=True):
            with column:
                st.markdown(f"**{plain(progress.spec.label)}**")
                if progress.query is not None:
                    answers.answer(progress.query)
                else:
                    with st.container(border=True):
                        st.text(progress.text or "Indexing what is new, searching, writing the answer …")

    columns_live()


live = runtime.asking.get((workbench.user, request_id))
if live is not None and not live.done:
    watch(live)
    st.stop()

with guard():
    found = live.wait() if live is not None else []
    stored = {query.query_id: query for query in workbench.queries(50, request_id)}
    queries: list[Query] = [stored.get(query.query_id, query) for query in found] or list(reversed(stored.values()))
    if not queries:
        st.info("The answers of this link are not in this installation. Ask the question again.")
        st.stop()

asked = next((each for each in suggestions.values() if each.question == queries[0].question), None)
st.subheader("Answers")
st.text(queries[0].question)
if submitted is False and {spec.spec_id for spec in specs} != {query.spec.spec_id for query in queries}:
    stale(
        plain(f"Shown for {', '.join(query.spec.label for query in queries)}. Ask again for the strategies chosen now.")
    )
if asked is not None and asked.answer:
    st.caption("Expected answer")
    st.text(asked.answer)
failed = [query for query in queries if query.status == "failed"]
if failed and len(failed) < len(queries):
    st.caption(f"{len(failed)} of {len(queries)} strategies failed; the others stay.")
warning = workbench.judge_warning()
if warning:
    st.caption(plain(warning))

labels = titled([query.spec for query in queries])
for column, label, query in zip(st.columns(len(queries)), labels, queries, strict=True):
    with column, guard():
        st.markdown(f"**{plain(label)}**")
        answers.answer(query)
judges = {query.query_id: query.judgement.judge_model for query in queries if query.judgement is not None}
calibrations = {query_id: trust.calibration_of(workbench, model) for query_id, model in judges.items()}
for column, query in zip(st.columns(len(queries)), queries, strict=True):
    with column, guard():
        answers.judge_button(workbench, query, asked.answer if asked else None)
        answers.judged(query, calibrations.get(query.query_id))
        answers.rating(workbench, query)
        answers.hits(query)

judge = workbench.models.judge
if judge is not None and any(judges[each] == judge.model and calibrations[each] is None for each in judges):
    trust.calibrate_button(workbench, "ask.calibrate")

st.subheader("In the document")
with guard():
    place = st.session_state.get(answers.PLACE)
    gold = [g.span for g in asked.gold if place and g.document_id == place[1]] if asked else []
    answers.evidence_pane(workbench, queries, gold)

if any(query.retrieved for query in queries):
    st.subheader("Rank matrix")
    st.caption("Best rank of each strategy per article or section; empty where it was not among the retrieved chunks.")
    st.dataframe(
        answers.rank_matrix(queries, labels, asked),
        hide_index=True,
        placeholder="",
        alt="Places by strategy with the best rank there",
    )


@st.dialog("Add to a question set")
@guard()
def add_question(sets: dict[str, str]) -> None:
    target = st.selectbox("Question set", list(sets), format_func=lambda each: sets[each])
    text = st.text_input("Question", queries[0].question)
    best = next((query for query in queries if query.answered), queries[0])
    expected = st.text_area("Expected answer", best.answer)
    quotes = [citation.quote for citation in best.citations if citation.span is not None]
    evidence = st.text_area("Evidence, one quote per line", "\n".join(" ".join(quote.split()) for quote in quotes))
    if st.button("Add", type="primary", key="ask.add.confirm"):
        with guard():
            row = {
                "question": text,
                "answer": expected,
                "evidence": [line.strip() for line in evidence.splitlines() if line.strip()],
            }
            workbench.edit_question_set(target, [*question_rows(workbench.question_set(target)), row])
            st.rerun()


sets = {info.question_set_id: f"{info.name} ({info.question_count} questions)" for info in workbench.question_sets()}
if sets and st.button("Add to a question set", key="ask.add", icon=":material/playlist_add:"):
    add_question(sets)
