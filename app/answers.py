"""One query drawn: answer, citations, what was retrieved, what the judge said, what a person says."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app import money, trust
from app.overlay import WINDOW, Reveal, overlay
from app.states import guard, show_error
from app.text import counted, isolated, plain, shortened
from engine import Workbench
from engine.judge.scores import MEASURES
from engine.models import Span
from engine.records import CalibrationSummary, Judgement, Query, Question, RetrievedChunk

PLACE = "evidence.place"
"""Session key: what the evidence pane shows, as `(query id, document id, start, end, turn)`."""


def show_place(query_id: str, document_id: str, span: Span) -> None:
    """Choose what the evidence pane shows. For callbacks."""
    turn = st.session_state.get(PLACE, ("", "", 0, 0, 0))[4] + 1
    st.session_state[PLACE] = (query_id, document_id, span.start, span.end, turn)


def answer(query: Query) -> None:
    """Answer and citations, with the states "no answer" and "answer without citation" said."""
    if query.status == "failed":
        show_error(query.error or "This query failed.")
        return
    st.caption("extractive, no LLM" if query.answer_kind == "extractive" else plain(query.model or ""))
    with st.container(border=True):
        st.text(query.answer if query.answered else "The documents do not answer this.")
    if query.answer_kind == "extractive" and not query.answered:
        st.caption(
            "No sentence found is close enough to the question. A chat model may still read an answer out of the text."
        )
    if query.answered and not any(citation.span for citation in query.citations):
        st.warning("No quote of this answer was found in the retrieved text.", icon=":material/link_off:")
    with st.container(horizontal=True):
        for number, citation in enumerate(query.citations, start=1):
            key = f"cite.{query.query_id}.{number}"
            if citation.span is None or citation.document_id is None:
                st.badge(f"{number} not in the text", icon=":material/link_off:", color="orange")
            else:
                st.button(
                    f"{number}",
                    key=key,
                    help=plain(shortened(citation.quote, 160)),
                    icon=":material/format_quote:",
                    on_click=show_place,
                    args=(query.query_id, citation.document_id, citation.span),
                )
    st.caption(cost_line(query))


def cost_line(query: Query) -> str:
    """Latency, tokens and dollars, as Markdown."""
    parts = [f"{stage} {1000 * seconds:,.0f} ms" for stage, seconds in query.seconds.items()]
    if query.usage.calls:
        parts.append(f"{query.usage.input_tokens:,} tokens in, {query.usage.output_tokens:,} out")
        parts.append(money.dollars(query.usage.cost_usd))
    if query.first_usage is not None:
        paid = query.first_usage
        parts.append("answer from the cache" if query.usage.calls else "from the cache, no cost")
        parts.append(
            f"first paid: {paid.input_tokens:,} tokens in, {paid.output_tokens:,} out, {money.dollars(paid.cost_usd)}"
        )
    return plain(", ".join(parts))


def hits(query: Query) -> None:
    """The retrieved chunks, best first; with their document where they come from several."""
    several = len({hit.chunk.document_id for hit in query.retrieved}) > 1
    for hit in query.retrieved:
        place = shortened(hit.chunk.heading_path[-1] if hit.chunk.heading_path else hit.chunk.document_name, 48)
        if several and hit.chunk.heading_path:
            place = f"{shortened(hit.chunk.document_name, 32)}: {place}"
        with st.expander(f"**{hit.rank}** {isolated(plain(place))} · {hit.score:.3f}"):
            _hit(query, hit)


def _hit(query: Query, hit: RetrievedChunk) -> None:
    st.text(f"{hit.chunk.document_name}: {' > '.join(hit.chunk.heading_path)}")
    if hit.delivered_span is None:
        st.caption("A better hit already delivered this text.")
    st.text(hit.delivered_text or hit.chunk.text)
    if hit.note:
        st.caption(plain(hit.note))
    st.button(
        "Show in the document",
        key=f"hit.{query.query_id}.{hit.rank}",
        icon=":material/find_in_page:",
        on_click=show_place,
        args=(query.query_id, hit.chunk.document_id, hit.chunk.evidence_span),
    )


def judged(query: Query, calibration: CalibrationSummary | None) -> None:
    """The judge's scores with its accuracy beside them and their reasons; what has no score says why."""
    judgement = query.judgement
    if judgement is None:
        return
    with st.container(border=True, gap="xsmall"):
        st.caption(f"Judged by {plain(judgement.judge_model)} in {counted(judgement.calls, 'call')}")
        st.caption(f":material/balance: {plain(trust.in_short(judgement.judge_model, calibration))}")
        for measure in MEASURES:
            st.text(f"{measure.replace('_', ' ')}: {_score(judgement, measure)}")
        if judgement.detail:
            st.text(judgement.detail)
        if judgement.relevance:
            each = ", ".join(str(value) for _, value in sorted(judgement.relevance.items()))
            st.caption(f"Relevance of the passages, 0 to 5, first rank first: {each}")
        for claim in judgement.claims:
            st.markdown(_VERDICTS[claim.verdict])
            st.text(claim.text)
            if claim.quote:
                st.caption("The judge's quote" if claim.span else "The judge's quote, which is not in the text")
                st.text(claim.quote)
            else:
                st.caption("The judge gave no quote.")


_VERDICTS = {
    "supported": ":material/check: **supported**",
    "contradicted": ":material/close: **contradicted**",
    "not_found": ":material/question_mark: **not found in the passages**",
}


def _score(judgement: Judgement, measure: str) -> str:
    status, value = judgement.status[measure], getattr(judgement, measure)
    if status != "scored":
        return f"not scored ({status.replace('_', ' ')})"
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:.1f} of 10"


def judge_button(workbench: Workbench, query: Query, expected: str | None) -> None:
    """Judge one generated answer on request; where that cannot be, the reason."""
    if query.status == "failed":
        return
    if query.answer_kind == "extractive":
        st.caption("Judge: not applicable, the answer is the retrieved text itself.")
    elif workbench.models.judge is None:
        st.caption("Judge: needs a model. Set JUDGE_MODEL or OPENAI_API_KEY.")
    elif query.judgement is None and st.button(
        "Judge this answer", key=f"judge.{query.query_id}", icon=":material/gavel:"
    ):
        with guard(), st.spinner("Judging"):
            workbench.judge(query.query_id, expected)
            st.rerun()


def rating(workbench: Workbench, query: Query) -> None:
    """What a person thinks of an answer."""
    if query.status == "failed":
        return
    label = "Rate" if query.rating is None else f"Rated {query.rating} of 10"
    with st.popover(label, icon=":material/star:", key=f"rate.{query.query_id}.open"):
        score = st.slider("How good is this answer?", 1, 10, query.rating or 5, key=f"rate.{query.query_id}.score")
        options = {"yes": True, "no": False, "not said": None}
        said = next(word for word, value in options.items() if value is query.rated_faithful)
        faithful = st.radio(
            "Does the retrieved text support all of it?",
            list(options),
            list(options).index(said),
            key=f"rate.{query.query_id}.faithful",
            horizontal=True,
        )
        if st.button("Save rating", key=f"rate.{query.query_id}.save"):
            with guard():
                workbench.rate(query.query_id, score, options[faithful])
                st.rerun()


def evidence_pane(workbench: Workbench, queries: Sequence[Query], gold: Sequence[Span] = ()) -> None:
    """The source text at the place a citation or hit was opened at, with the chunks of its strategy."""
    place = st.session_state.get(PLACE)
    query = next((each for each in queries if place and each.query_id == place[0]), None)
    if query is None:
        st.caption("Click a citation, or open a hit, to see the passage in its document.")
        return
    _, document_id, start, end, turn = place
    document = workbench.document(document_id)
    chunk_set = workbench.known_chunks(document_id, query.spec)
    if chunk_set is None:
        st.caption("The chunks of this answer are no longer there. Ask again to make them.")
        return
    st.caption(
        f"{plain(document.name)} with the chunks of {plain(query.spec.label)}. The passage is underlined"
        + (", the expected evidence is outlined." if gold else ".")
    )
    overlay(
        document.text,
        chunk_set,
        key=f"evidence.{query.query_id}.{document_id}",
        label=f"{document.name} at the passage",
        on_choose=lambda: None,
        evidence=[Span(start, end)],
        matches=list(gold),
        height=380,
        reveal=Reveal(start, turn),
        window=_around(start, len(document.text)),
    )


def _around(offset: int, length: int) -> Span:
    """The part of a long text that is drawn for a place in it."""
    low = max(0, min(offset - WINDOW // 2, length - WINDOW))
    return Span(low, min(length, low + WINDOW))


def rank_matrix(queries: Sequence[Query], labels: Sequence[str], question: Question | None) -> pd.DataFrame:
    """Where each strategy ranks each place of the documents: rows are articles or sections, cells the best rank there.

    Places that hold expected evidence of the question are marked, and listed even when nobody found them.
    """
    ranks: dict[str, dict[str, int]] = {}
    gold: set[str] = set()
    for label, query in zip(labels, queries, strict=True):
        for hit in query.retrieved:
            place = _place(hit)
            row = ranks.setdefault(place, {})
            row[label] = min(row.get(label, hit.rank), hit.rank)
            if question is not None and any(
                item.document_id == hit.chunk.document_id and item.span.overlap(hit.chunk.evidence_span)
                for item in question.gold
            ):
                gold.add(place)
    order = sorted(ranks, key=lambda place: (place not in gold, sum(1 / rank for rank in ranks[place].values()) * -1))
    rows = [
        {"place": place, **({"evidence": "yes" if place in gold else ""} if question is not None else {})}
        | {label: ranks[place].get(label) for label in labels}
        for place in order
    ]
    return pd.DataFrame(rows)


def _place(hit: RetrievedChunk) -> str:
    path = hit.chunk.heading_path
    return f"{hit.chunk.document_name}: {path[-1] if path else 'no heading'}"
