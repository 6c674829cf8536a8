"""Chunk Inspector: strategies side by side on the same text."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import charts, exports, families, figures, forms, inspector, money, overlay, state, tables
from app.inspector import Pane
from app.overlay import WINDOW, Drawing, Reveal, place_in_window, send_cuts, send_text
from app.states import bench, exact_text, guard, heading, no_documents
from app.text import counted, plain, shortened
from app.theme import titled
from engine import UserError, pace
from engine.models import Document, Span, StrategySpec

workbench = bench()

heading(
    "Chunk Inspector",
    "See where each strategy cuts the same text. Nothing is indexed or stored.",
    [
        "Each column shows the document with the chunks of one strategy in alternating tints; what two chunks share is hatched, what no chunk holds is dotted.",
        "Change a parameter and the chunks follow at once; click a chunk to see the exact text that is embedded.",
        "Below the text you find sizes, quality, agreement of the strategies, and the chunks as files.",
    ],
    [
        ("Alt+N", "next place where the strategies cut differently"),
        ("↓ ↑ or j k", "next and previous chunk, in a text that has the focus"),
        ("Home End", "first and last chunk"),
        ("Esc", "choose no chunk"),
    ],
)

current = state.chosen_document(workbench.documents())
if current is None:
    no_documents("The Chunk Inspector")
document: Document = workbench.document(current.document_id)
if not document.text:
    st.info(plain(f"{document.name} holds no text, so there is nothing to cut."))
    st.stop()

found = inspector.start_specs(workbench)
if "inspector.panes" not in st.session_state:
    st.session_state["inspector.panes"] = len(found)
# Wraps where the window is narrow.
toolbar = st.container(horizontal=True, vertical_alignment="bottom")
count = toolbar.segmented_control(
    "Side by side",
    list(range(1, inspector.MOST_PANES + 1)),
    key="inspector.panes",
    required=True,
    persist_state="session",
)
marks = inspector.evidence_options(workbench)
marked = toolbar.selectbox(
    "Evidence to mark",
    [None, *marks],
    format_func=lambda choice: marks[choice] if choice else "none",
    key="inspector.evidence",
    persist_state="session",
    help="Passages that answer a question of a question set; underlined in the text.",
    width=240,
)
wanted = toolbar.text_input(
    "Search the text",
    key="inspector.search",
    persist_state="session",
    placeholder="any words",
    width=200,
)
evidence = inspector.evidence(workbench, document.document_id, marked)
matches = inspector.matches(document.text, wanted)
next_place = toolbar.container(width="content")
together = toolbar.toggle(
    "Sync", True, help="Scroll all columns together.", key="inspector.together", persist_state="session"
)

window = Span(0, len(document.text))
if len(document.text) > WINDOW:
    number = st.pagination(-(-len(document.text) // WINDOW), key=f"inspector.window.{document.document_id}")
    window = Span((number - 1) * WINDOW, min(len(document.text), number * WINDOW))


def make_pane(number: int, start: StrategySpec) -> Pane | None:
    """The pickers of one column and its chunks; None, with the reason shown, when there are none."""
    try:
        spec = forms.spec_picker(workbench, inspector.pane_key(number), start, narrow=count > 2)
    except UserError as error:
        st.error(plain(error.message), icon=":material/error:")
        return None
    chosen_specs[number] = spec
    if workbench.cutting_may_cost(spec) and workbench.known_chunks(document.document_id, spec) is None:
        cost = workbench.chunk_estimate(document.document_id, spec)
        if cost is not None and cost.calls:
            st.info(inspector.calls_in_words(spec, cost))
            if not st.button("Make the chunks", key=f"inspector.{number}.make", icon=":material/play_arrow:"):
                return None
    chunk_set = workbench.chunk(document.document_id, spec)
    st.caption(inspector.summary(chunk_set))
    return Pane(number, spec, chunk_set)


wrapper = st.container(gap=None)
sources, columns = wrapper.container(gap=None), wrapper.columns(count)
chosen_specs = dict(enumerate(inspector.more_specs(workbench, found, count)))
panes: list[Pane] = []
for number, start in list(chosen_specs.items()):
    with columns[number], guard():
        pane = make_pane(number, start)
        if pane is not None:
            panes.append(pane)
inspector.remember(workbench, list(chosen_specs.values()))
inspector.adopt_chunk(panes)
st.session_state.pop(inspector.MOVED, None)

places = inspector.places_of_disagreement(panes)
next_place.button(
    "Next difference",
    on_click=inspector.to_next_place,
    disabled=not places,
    shortcut="Alt+N",
    key="inspector.next",
    icon=":material/compare_arrows:",
    help="Scroll to the next place where one strategy cuts and another does not.",
)
turn = st.session_state.get(inspector.PLACE, -1)
difference = Reveal(places[turn % len(places)], turn) if places and turn >= 0 else None
reveal = place_in_window(document.text, difference, window)

with sources:
    text_id = send_text(document.text, document.document_id, key="inspector", window=window)
    drawings = {
        pane.number: Drawing(
            text_id,
            send_cuts(
                document.text,
                pane.chunk_set,
                key=inspector.overlay_key(pane.number),
                window=window,
                evidence=evidence,
                matches=matches,
            ),
        )
        for pane in panes
    }
notes = []
if reveal is not None and difference is not None:
    notes.append(f"Disagreement {turn % len(places) + 1} of {len(places)}, at character {difference.offset:,}.")
if marked:
    notes.append(f"{counted(len(evidence), 'passage')} of evidence in this document.")
if wanted.strip():
    notes.append(f"{counted(len(matches), 'match', 'matches')} of the search.")


def draw_pane(pane: Pane, column: DeltaGenerator) -> None:
    with column, guard():
        overlay.pane(
            drawings[pane.number],
            key=inspector.overlay_key(pane.number),
            label=f"{pane.spec.label} on {document.name}",
            on_choose=functools.partial(inspector.choose_in_overlay, pane),
            selected=pane.chosen,
            group="inspector" if together else "",
            reveal=reveal,
        )


def detail(pane: Pane) -> None:
    """The chosen chunk: what it holds, what is embedded, what stands around it."""
    chunk = pane.chunk_set.chunks[pane.chosen or 0]
    before, after = inspector.neighbours(pane.chunk_set, chunk)
    facts, text = st.columns([2, 3])
    with facts:
        st.markdown(f"**Chunk {chunk.chunk_index + 1} of {chunk.total_chunks}**, {plain(pane.spec.label)}")
        st.text(" > ".join(chunk.heading_path) or "no heading")
        span = chunk.evidence_span
        st.text(
            f"{counted(chunk.token_count, 'token')}, {counted(chunk.word_count, 'word')}, "
            f"{counted(chunk.character_count, 'character')} at {span.start:,} to {span.end:,}"
        )
        if chunk.separator:
            st.text(f"Cut at: {chunk.separator}")
        if chunk.language:
            st.text(f"Language: {chunk.language}")
        if chunk.summary:
            st.text(f"Summary: {chunk.summary}")
        if chunk.keywords:
            st.text(f"Keywords: {', '.join(chunk.keywords)}")
        if chunk.flags:
            st.text(f"Flags: {', '.join(chunk.flags)}")
        st.text(f"Id: {chunk.chunk_id}")
        with st.container(horizontal=True):
            st.button(
                "Previous",
                on_click=inspector.choose,
                args=(pane, chunk.chunk_index - 1),
                disabled=before is None,
                key="inspector.previous_chunk",
                icon=":material/arrow_upward:",
            )
            st.button(
                "Next",
                on_click=inspector.choose,
                args=(pane, chunk.chunk_index + 1),
                disabled=after is None,
                key="inspector.next_chunk",
                icon=":material/arrow_downward:",
            )
    with text:
        changed = chunk.embed_text != chunk.text
        st.caption("Embedded text, as it is sent to the model" if changed else "Embedded text: the chunk as it stands")
        exact_text(chunk.embed_text, 220)
        parent = inspector.parent_text(document, chunk)
        if parent is not None:
            st.caption(f"Parent, given to the model when this chunk is found ({len(parent):,} characters)")
            exact_text(parent, 160)
    ends, begins = st.columns(2)
    if before is not None:
        ends.caption("The chunk before ends")
        ends.text(f"… {before.text.strip()[-160:]}")
    if after is not None:
        begins.caption("The chunk after begins")
        begins.text(f"{after.text.strip()[:160]} …")


@st.fragment
@guard()
@pace.first()
def texts_and_detail() -> None:
    """The texts with their chunks, and the chosen chunk. A click draws only this part again."""
    columns = st.columns(count)
    for pane in panes:
        draw_pane(pane, columns[pane.number])
    if notes:
        st.caption(" ".join(notes))
    state.publish(state.STRATEGIES, state.CHUNK)
    with st.container(border=True), guard():
        shown = inspector.focused(panes)
        if shown is None:
            st.caption("Click a chunk, or move to one with the arrow keys, to see it here.")
        else:
            detail(shown)
    if st.session_state.get(inspector.MOVED) and st.session_state.get("inspector.section") in ("Chunks", "Parents"):
        st.rerun()


texts_and_detail()
if not panes:
    st.stop()

sections = ["Sizes", "Quality", "Chunks", "Summaries", "Agreement", "Text in no chunk", "Where to start", "Export"]
if any(pane.chunk_set.curve is not None for pane in panes):
    sections.insert(4, "Similarity")
with_parents = [pane for pane in panes if any(chunk.parent_id for chunk in pane.chunk_set.chunks)]
if with_parents:
    sections.insert(3, "Parents")
section = st.segmented_control(
    "More about these chunks",
    sections,
    default="Sizes",
    required=True,
    key="inspector.section",
    persist_state="session",
)
labels = titled([pane.spec for pane in panes])
chunk_sets = [pane.chunk_set for pane in panes]


def one_pane(key: str, among: Sequence[Pane] = panes) -> Pane:
    """The pane a section is about, where it can only be about one."""
    shown = inspector.focused(panes)
    start = among.index(shown) if shown in among else 0
    if len(among) == 1:
        return among[0]
    title = {pane.number: label for pane, label in zip(panes, labels, strict=True)}
    number = st.selectbox(
        "Strategy", range(len(among)), start, format_func=lambda place: title[among[place].number], key=key
    )
    return among[number]


with guard():
    if section == "Sizes":
        together_ids = [document.document_id, *(pane.spec.spec_id for pane in panes)]
        for place, label in enumerate(labels):
            st.markdown(f"**{plain(label)}**")
            figures.draw(
                ("sizes", str(place), *together_ids),
                functools.partial(charts.token_histogram, chunk_sets, place),
                alt_text=f"Chunks per number of tokens of {label}",
            )
        with st.expander("As a table"):
            st.dataframe(charts.token_bins(chunk_sets), hide_index=True, alt="Chunks per token range and strategy")
    elif section == "Quality":
        st.caption("Counted on the chunks alone, without a question. ⚑ marks values past their rule of thumb.")
        st.dataframe(
            tables.quality(chunk_sets, [workbench.quality(each) for each in chunk_sets]),
            hide_index=True,
            alt="Quality measures of the chunks per strategy",
        )
    elif section == "Chunks":
        pane = one_pane("inspector.table_of")
        key = inspector.table_key(pane.number)
        rows = [] if pane.chosen is None else [pane.chosen]
        st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}
        st.dataframe(
            tables.chunks(pane.chunk_set),
            hide_index=True,
            height=320,
            on_select=functools.partial(inspector.choose_in_table, pane),
            selection_mode="single-row",
            key=key,
            alt=f"Chunks of {pane.spec.label}",
        )
    elif section == "Parents":
        pane = one_pane("inspector.families_of", with_parents)
        found_families = families.families(pane.chunk_set)
        st.caption(
            f"{counted(len(found_families), 'parent')} of {counted(len(pane.chunk_set.chunks), 'chunk')}. "
            "Chunks are searched; the parent is given to the model when one of its chunks is found."
        )
        key = inspector.families_key(pane.number)
        row = None if pane.chosen is None else families.row_of_chunk(found_families, pane.chosen)
        st.session_state[key] = {"selection": {"rows": [] if row is None else [row], "columns": [], "cells": []}}
        st.dataframe(
            tables.families(document, found_families, workbench.tokens(document.document_id)),
            hide_index=True,
            height=420,
            on_select=functools.partial(inspector.choose_in_families, pane, found_families),
            selection_mode="single-row",
            key=key,
            alt=f"Parents of {pane.spec.label}, each with its chunks below it",
            column_config={"part": st.column_config.TextColumn("part", width="medium")},
        )
    elif section == "Summaries":
        pane = one_pane("inspector.summaries_of")
        if workbench.models.chat is None:
            st.caption(
                "Summaries and keywords need a chat model and none is configured. Set OPENAI_API_KEY or OPENAI_BASE_URL."
            )
        else:
            st.caption(
                "A summary and keywords for every chunk. They are shown and exported; what is embedded stays the same."
            )
            cost = workbench.enrich_estimate(document.document_id, pane.spec)
            if cost is not None and cost.calls:
                st.text(money.calls_in_short(cost))
            st.button(
                "Write summaries and keywords",
                on_click=inspector.enrich,
                args=(workbench, pane),
                key="inspector.enrich",
                icon=":material/summarize:",
            )
        if any(chunk.summary for chunk in pane.chunk_set.chunks):
            st.dataframe(
                tables.summaries(pane.chunk_set),
                hide_index=True,
                alt=f"Summaries and keywords of the chunks of {pane.spec.label}",
            )
    elif section == "Agreement":
        st.caption(
            "Boundaries with a counterpart in the other strategy at most 20 characters away, of all boundaries of both. "
            f"{counted(len(places), 'place')} where they disagree."
        )
        st.dataframe(tables.agreement(chunk_sets), alt="Share of common boundaries for each pair of strategies")
    elif section == "Similarity":
        for label, pane in zip(labels, panes, strict=True):
            if pane.chunk_set.curve is not None:
                curve = pane.chunk_set.curve
                st.markdown(f"**{plain(label)}**: a boundary may be cut below {curve.threshold:.3f}")
                figures.draw(
                    ("curve", document.document_id, pane.spec.spec_id),
                    functools.partial(charts.similarity_curve, curve, pane.spec.strategy_name),
                    alt_text=f"Similarity of neighbouring sentences along the text, threshold {curve.threshold:.3f}",
                    key=f"inspector.curve.{pane.number}",
                )
                with st.expander("As a table"):
                    st.dataframe(charts.curve_frame(curve), hide_index=True, alt="Similarity at each sentence boundary")
    elif section == "Text in no chunk":
        for label, pane in zip(labels, panes, strict=True):
            spans = pane.chunk_set.uncovered
            st.markdown(f"**{plain(label)}**: {counted(len(spans), 'passage')} in no chunk")
            if spans:
                st.dataframe(
                    tables.passages(document, spans), hide_index=True, alt=f"Text that {label} puts in no chunk"
                )
    elif section == "Where to start":
        advice = workbench.recommended(document.document_id)
        st.markdown(f"For this document, try **{plain(advice.spec.label)}** first.")
        for reason in advice.reasons:
            st.markdown(f"- {plain(reason)}")
        st.caption("A starting point from what the document is made of. A benchmark on questions decides.")
        st.button(
            "Show it in the first column",
            on_click=forms.load,
            args=(advice.spec, inspector.pane_key(0)),
            key="inspector.recommended",
            icon=":material/lightbulb:",
        )
    else:
        pane = one_pane("inspector.export_of")
        name = f"{shortened(document.name, 40).rsplit('.', 1)[0]}.{pane.spec.strategy_name}"
        with st.container(horizontal=True):
            st.download_button(
                "JSON Lines",
                functools.partial(exports.jsonl, pane.chunk_set),
                f"{name}.jsonl",
                "application/jsonl",
                on_click="ignore",
                key="inspector.export.jsonl",
                icon=":material/download:",
            )
            st.download_button(
                "CSV",
                functools.partial(exports.table, pane.chunk_set),
                f"{name}.csv",
                "text/csv",
                on_click="ignore",
                key="inspector.export.csv",
                icon=":material/download:",
            )
        st.caption(
            "The code that makes these chunks again. It opens the data folder, which the app holds: stop the app before."
        )
        st.code(exports.code(pane.chunk_set), language="python")
