"""Widgets from declared parameters: a strategy's form is its parameter type, drawn."""

from __future__ import annotations

import typing
from typing import Any, Literal

import streamlit as st
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from engine import Workbench
from engine.models import StrategySpec
from engine.strategies.base import Strategy


def spec_input(workbench: Workbench, strategy: Strategy[Any], key: str) -> StrategySpec:
    """Widgets for every parameter of a strategy, and the spec they make. Raises BadParameter in words."""
    defaults = workbench.spec(strategy.name).params
    values = {
        name: _widget(name, field, defaults[name], f"{key}.{strategy.name}.{name}")
        for name, field in strategy.params_type.model_fields.items()
    }
    return workbench.spec(strategy.name, values)


def _widget(name: str, field: FieldInfo, default: Any, key: str) -> Any:
    label = name.replace("_", " ").capitalize()
    kind = field.annotation
    if typing.get_origin(kind) is Literal:
        options = list(typing.get_args(kind))
        return st.selectbox(
            label, options, options.index(default), help=field.description, key=key, persist_state="session"
        )
    if kind is bool:
        return st.checkbox(label, default, help=field.description, key=key, persist_state="session")
    low, high = _range(field)
    if kind is int:
        ends = [None if end is None else int(end) for end in (low, high)]
        return st.number_input(label, *ends, int(default), 1, help=field.description, key=key, persist_state="session")
    if kind is float:
        return st.number_input(
            label, low, high, float(default), 0.05, help=field.description, key=key, persist_state="session"
        )
    return st.text_input(
        label, "" if default is None else str(default), help=field.description, key=key, persist_state="session"
    )


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
