"""What the Chunk Inspector needs beside widgets: which specs are on its panes, which chunk is chosen, what is marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import streamlit as st

from app import forms, money, specs, state
from app.families import Family, chunk_of_row
from app.overlay import chosen as overlay_choice
from app.states import guard
from app.text import plain, shortened
from engine import Workbench
from engine.metrics.boundaries import boundaries, disagreements
from engine.models import Chunk, ChunkSet, Document, Span, StrategySpec
from engine.providers.estimate import CallsEstimate
from engine.strategies import registry
from engine.strategies.base import Need

FIRST_STRATEGIES = ("recursive", "parent_child", "fixed_size", "markdown_structure")
MOST_PANES = len(FIRST_STRATEGIES)
MOST_MATCHES = 2000
FOCUS = "inspector.focus"
"""The pane whose chunk the detail shows."""
MOVED = "inspector.moved"
"""Whether another chunk was chosen since the whole page was drawn."""
PLACE = "inspector.place"
"""How often the reader went to the next place where strategies differ, less one."""
SHOWN = "inspector.shown"
"""The specs as the panes showed them last."""


@dataclass(frozen=True, slots=True)
class Pane:
    """One strategy on the text. `chunk_set` is None where it could not be made."""

    number: int
    spec: StrategySpec
    chunk_set: ChunkSet

    @property
    def chosen(self) -> int | None:
        """Index of the chosen chunk."""
        wanted = st.session_state.get(chosen_key(self.number))
        return next((c.chunk_index for c in self.chunk_set.chunks if c.chunk_id == wanted), None) if wanted else None


def pane_key(number: int) -> str:
    return f"inspector.{number}"


def overlay_key(number: int) -> str:
    return f"inspector.{number}.overlay"


def table_key(number: int) -> str:
    return f"inspector.{number}.table"


def families_key(number: int) -> str:
    return f"inspector.{number}.families"


def chosen_key(number: int) -> str:
    return f"inspector.{number}.chosen"


def start_specs(workbench: Workbench) -> list[StrategySpec]:
    """The specs of the address or of this session, at most four; a first pair when there are none."""
    line = state.linked(state.STRATEGIES)
    found = specs.decode(workbench, line or "")[:MOST_PANES]
    if not found:
        found = [workbench.spec(name) for name in FIRST_STRATEGIES[:2]]
    if line is not None and line != st.session_state.get(SHOWN):
        for number, spec in enumerate(found):
            forms.load(spec, pane_key(number))
        st.session_state["inspector.panes"] = len(found)
    return found


def remember(workbench: Workbench, found: Sequence[StrategySpec]) -> None:
    """Keep the specs for the address and for the next visit."""
    line = specs.encode(workbench, found)
    st.session_state[SHOWN] = line
    state.choose(state.STRATEGIES, line)


def more_specs(workbench: Workbench, found: Sequence[StrategySpec], count: int) -> list[StrategySpec]:
    """The first `count` specs; missing ones are strategies that are not shown yet."""
    shown = {spec.strategy_name for spec in found}
    others = [workbench.spec(name) for name in FIRST_STRATEGIES if name not in shown]
    return [*found, *others, *found][:count]


def calls_in_words(spec: StrategySpec, cost: CallsEstimate) -> str:
    """What a model is called for to make the chunks, and what that costs at most."""
    model = plain(cost.model)
    if Need.CHAT in registry.strategy(spec.strategy_name).needs:
        what = f"{model} writes text for every chunk of this strategy."
    else:
        what = f"{model} embeds every sentence of the document for this strategy."
    return f"{what} It is called when you ask for it. {plain(money.calls_in_short(cost))}"


def adopt_chunk(panes: Sequence[Pane]) -> None:
    """Choose the chunk that a new address names, on the pane that has it."""
    wanted = state.linked(state.CHUNK)
    if wanted is None or wanted == st.session_state.get("inspector.adopted"):
        return
    st.session_state["inspector.adopted"] = wanted
    for pane in panes:
        if any(chunk.chunk_id == wanted for chunk in pane.chunk_set.chunks):
            st.session_state[chosen_key(pane.number)] = wanted
            st.session_state[FOCUS] = pane.number
            return


def choose(pane: Pane, index: int | None) -> None:
    """Choose a chunk by index, or none. For callbacks."""
    chunk_id = None if index is None else pane.chunk_set.chunks[index].chunk_id
    st.session_state[chosen_key(pane.number)] = chunk_id
    st.session_state[FOCUS] = pane.number
    st.session_state[MOVED] = True
    st.session_state["inspector.adopted"] = chunk_id
    state.choose(state.CHUNK, chunk_id)


def choose_in_overlay(pane: Pane) -> None:
    choose(pane, overlay_choice(overlay_key(pane.number), len(pane.chunk_set.chunks)))


def choose_in_table(pane: Pane) -> None:
    rows = st.session_state[table_key(pane.number)]["selection"]["rows"]
    choose(pane, rows[0] if rows else None)


def choose_in_families(pane: Pane, found: Sequence[Family]) -> None:
    rows = st.session_state[families_key(pane.number)]["selection"]["rows"]
    choose(pane, chunk_of_row(found, rows[0]) if rows else None)


def enrich(workbench: Workbench, pane: Pane) -> None:
    """Let the chat model write summaries and keywords. For callbacks."""
    with guard():
        workbench.enrich(pane.chunk_set.document_id, pane.spec)


def focused(panes: Sequence[Pane]) -> Pane | None:
    """The pane whose chosen chunk is shown in detail."""
    with_choice = [pane for pane in panes if pane.chosen is not None]
    return next((pane for pane in with_choice if pane.number == st.session_state.get(FOCUS)), None) or (
        with_choice[0] if with_choice else None
    )


def matches(text: str, wanted: str) -> list[Span]:
    """Where a text stands, whatever its case; at most `MOST_MATCHES` places."""
    if not wanted.strip():
        return []
    found = re.finditer(re.escape(wanted.strip()), text, re.IGNORECASE)
    return [Span(match.start(), match.end()) for match, _ in zip(found, range(MOST_MATCHES), strict=False)]


def to_next_place() -> None:
    """For callbacks."""
    st.session_state[PLACE] = st.session_state.get(PLACE, -1) + 1


def places_of_disagreement(panes: Sequence[Pane]) -> list[int]:
    return disagreements([boundaries(pane.chunk_set.chunks) for pane in panes]).tolist()


def evidence_options(workbench: Workbench) -> dict[str, str]:
    """Labels by `set id` and `set id/question id`, for the choice of what evidence to mark."""
    labels: dict[str, str] = {}
    for info in workbench.question_sets():
        labels[info.question_set_id] = f"All of {info.name} ({info.question_count} questions)"
        for question in workbench.question_set(info.question_set_id).questions:
            if question.gold:
                labels[f"{info.question_set_id}/{question.question_id}"] = shortened(question.question)
    return labels


def evidence(workbench: Workbench, document_id: str, choice: str | None) -> list[Span]:
    """The gold spans of a choice of `evidence_options` in one document."""
    if not choice:
        return []
    set_id, _, question_id = choice.partition("/")
    wanted = [q for q in workbench.question_set(set_id).questions if not question_id or q.question_id == question_id]
    return sorted({gold.span for q in wanted for gold in q.gold if gold.document_id == document_id})


def neighbours(chunk_set: ChunkSet, chunk: Chunk) -> tuple[Chunk | None, Chunk | None]:
    """The chunks before and after."""
    index = chunk.chunk_index
    before = chunk_set.chunks[index - 1] if index else None
    after = chunk_set.chunks[index + 1] if index + 1 < len(chunk_set.chunks) else None
    return before, after


def summary(chunk_set: ChunkSet) -> str:
    """One line on a chunk set, as Markdown."""
    sizes = [chunk.token_count for chunk in chunk_set.chunks]
    lost = sum(span.length for span in chunk_set.uncovered)
    middle = median(sizes) if sizes else 0
    seconds = sum(chunk_set.seconds.values())
    return plain(
        f"{len(sizes):,} chunks, median {middle:.0f} tokens, {lost:,} characters in no chunk, {1000 * seconds:.0f} ms"
    )


def parent_text(document: Document, chunk: Chunk) -> str | None:
    return None if chunk.parent_span is None else chunk.parent_span.slice(document.text)
