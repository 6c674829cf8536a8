"""Widgets from declared parameters: a strategy's form is its parameter type, drawn."""

from __future__ import annotations

import itertools
import typing
from typing import Any, Literal

import streamlit as st
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from app.text import plain
from engine import UserError, Workbench
from engine.models import StrategySpec
from engine.strategies.base import Strategy
from engine.strategies.presets import PRESETS


def strategy_titles(workbench: Workbench) -> dict[str, str]:
    """Titles by strategy name, those that lack their model marked."""
    return {
        info.name: info.title if info.available else f"{info.title} (needs a {info.needs[0]})"
        for info in workbench.strategy_infos()
    }


def load(spec: StrategySpec, key: str) -> None:
    """Make the widgets of a picker show a spec. Only before they are drawn, or in a callback."""
    st.session_state[f"{key}.strategy"] = spec.strategy_name
    for name, value in spec.params.items():
        st.session_state[f"{key}.{spec.strategy_name}.{name}"] = value


def spec_picker(workbench: Workbench, key: str, start: StrategySpec, narrow: bool = False) -> StrategySpec:
    """A strategy select box with its parameters in a popover, below it where there is little room. Raises BadParameter in words.

    `start` is shown when the picker is drawn for the first time or again after other pages.
    """
    strategies = {strategy.name: strategy for strategy in workbench.strategies()}
    if f"{key}.strategy" not in st.session_state:
        load(start, key)
    choice, details = [st.container()] * 2 if narrow else st.columns([3, 2], vertical_alignment="bottom")
    titles = strategy_titles(workbench)
    name = choice.selectbox("Strategy", list(titles), format_func=lambda each: titles[each], key=f"{key}.strategy")
    strategy = strategies[name]
    with details.popover("Parameters", width="stretch"):
        guidance(strategy)
        _preset_picker(workbench, strategy, key)
        return spec_form(workbench, strategy, key)


MOST_COMBINATIONS = 24
"""Specs a grid may give for one strategy."""


def grid_form(workbench: Workbench, strategy: Strategy[Any], key: str) -> tuple[list[StrategySpec], list[str]]:
    """Widgets that take several values per parameter; the specs of all combinations, and why others were left out."""
    defaults = workbench.spec(strategy.name).params
    choices: dict[str, list[Any]] = {}
    for name, field in strategy.params_type.model_fields.items():
        label = name.replace("_", " ").capitalize()
        options = list(typing.get_args(field.annotation)) if typing.get_origin(field.annotation) is Literal else []
        if field.annotation is bool:
            options = [True, False]
        picked = st.multiselect(
            label,
            [str(option) for option in options] or [str(defaults[name])],
            default=[str(defaults[name])],
            accept_new_options=not options,
            help=f"{field.description} Type a value and press Enter to add it.",
            key=f"{key}.{strategy.name}.{name}",
            persist_state="session",
        )
        choices[name] = picked or [str(defaults[name])]
    found: dict[str, StrategySpec] = {}
    left_out: list[str] = []
    for values in itertools.product(*choices.values()):
        try:
            spec = workbench.spec(strategy.name, dict(zip(choices, values, strict=True)))
        except UserError as error:
            left_out.append(error.message)
            continue
        found[spec.spec_id] = spec
    if len(found) > MOST_COMBINATIONS:
        left_out.append(f"{len(found)} combinations; the first {MOST_COMBINATIONS} are taken.")
    return list(found.values())[:MOST_COMBINATIONS], list(dict.fromkeys(left_out))


def guidance(strategy: Strategy[Any]) -> None:
    st.caption(strategy.rule)
    st.caption(f"Best for: {strategy.best_for} Avoid when: {strategy.avoid_when} Cost: {strategy.cost}")


def spec_form(workbench: Workbench, strategy: Strategy[Any], key: str) -> StrategySpec:
    """Widgets for every parameter of a strategy, and the spec they make. Raises BadParameter in words."""
    defaults = workbench.spec(strategy.name).params
    values = {
        name: _widget(name, field, defaults[name], f"{key}.{strategy.name}.{name}")
        for name, field in strategy.params_type.model_fields.items()
    }
    return workbench.spec(strategy.name, values)


def _preset_picker(workbench: Workbench, strategy: Strategy[Any], key: str) -> None:
    titles = {"": "the strategy's defaults"} | {preset.name: preset.title for preset in PRESETS}
    chosen = f"{key}.preset"

    def apply() -> None:
        name = st.session_state[chosen]
        preset = next((each for each in PRESETS if each.name == name), None)
        load(preset.spec(strategy.name) if preset else workbench.spec(strategy.name), key)

    st.selectbox(
        "Start from",
        list(titles),
        format_func=lambda name: titles[name],
        key=chosen,
        on_change=apply,
        help="Sizes and overlaps for a kind of document. They are starting values: a benchmark decides whether they hold.",
    )
    preset = next((each for each in PRESETS if each.name == st.session_state[chosen]), None)
    if preset is not None:
        st.caption(plain(preset.reason))


def _widget(name: str, field: FieldInfo, default: Any, key: str) -> Any:
    label = name.replace("_", " ").capitalize()
    kind = field.annotation
    if key not in st.session_state:
        st.session_state[key] = default
    if typing.get_origin(kind) is Literal:
        return st.selectbox(label, list(typing.get_args(kind)), help=field.description, key=key)
    if kind is bool:
        return st.checkbox(label, help=field.description, key=key)
    low, high = _range(field)
    if kind is int:
        st.session_state[key] = int(st.session_state[key])
        ends = [None if end is None else int(end) for end in (low, high)]
        return st.number_input(label, *ends, step=1, help=field.description, key=key)
    if kind is float:
        st.session_state[key] = float(st.session_state[key])
        return st.number_input(label, low, high, step=0.05, help=field.description, key=key)
    st.session_state[key] = "" if st.session_state[key] is None else str(st.session_state[key])
    return st.text_input(label, help=field.description, key=key) or None


def _range(field: FieldInfo) -> tuple[float | None, float | None]:
    low: float | None = None
    high: float | None = None
    for rule in field.metadata:
        if isinstance(rule, Ge):
            low = float(rule.ge)  # type: ignore[arg-type]
        elif isinstance(rule, Gt):
            low = float(rule.gt)  # type: ignore[arg-type]
        elif isinstance(rule, Le):
            high = float(rule.le)  # type: ignore[arg-type]
    return low, high
