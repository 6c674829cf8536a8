"""What a judge's scores are worth, beside the scores: calibration, warning, spread over repeats, agreement with people."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.states import guard
from app.text import counted, plain
from engine import Workbench
from engine.records import Experiment

REPEATS, SAMPLE = 3, 10


def judge_panel(workbench: Workbench, experiment: Experiment) -> None:
    """Everything known about the judge of an experiment."""
    if experiment.judge_model is None:
        st.caption("No judge was used: answers carry no judge scores.")
        return
    st.markdown("**The judge**")
    warning = experiment.judge_warning or workbench.judge_warning()
    if warning:
        st.warning(plain(warning))
    if experiment.calibration is not None:
        st.text(experiment.calibration.in_words)
    judged = [cell.usage["judge"].calls for cell in experiment.cells if "judge" in cell.usage]
    if judged:
        st.text(f"{sum(judged) / len(judged):.2f} calls per judged answer, calls answered from the cache not counted.")
    agreement = workbench.judge_agreement()
    parts = [f"{counted(max(agreement.ratings, agreement.verdicts), 'answer')} rated by people and the judge"]
    if agreement.kappa is not None:
        parts.append(f"kappa {agreement.kappa:.2f}")
    if agreement.spearman is not None:
        parts.append(f"rank correlation {agreement.spearman:.2f}")
    if agreement.corrected is not None:
        parts.append(
            f"faithful answers, corrected by people: {agreement.corrected:.0%} ({agreement.low:.0%} to {agreement.high:.0%})"
        )
    st.text(f"{', '.join(parts)}. {agreement.note}".strip())
    _spread(workbench, experiment)


def _spread(workbench: Workbench, experiment: Experiment) -> None:
    """The judge repeated on a sample; it calls the model, so it waits for a click."""
    key = f"trust.spread.{experiment.experiment_id}"
    if workbench.models.judge is not None and st.button(
        f"Repeat the judge {REPEATS} times on {SAMPLE} answers",
        key=f"{key}.start",
        icon=":material/repeat:",
        help="Shows how far its verdicts differ when nothing has changed. Makes up to "
        f"{2 * REPEATS * SAMPLE} calls; those made before come from the cache.",
    ):
        with guard(), st.spinner("Judging again"):
            st.session_state[key] = workbench.repeat_judge(experiment.experiment_id, REPEATS, SAMPLE)
    spreads = st.session_state.get(key)
    if spreads:
        st.dataframe(
            pd.DataFrame(
                {
                    "measure": each.measure.replace("_", " "),
                    "answers": each.answers,
                    "mean deviation over repeats": each.mean_deviation,
                    "answers whose verdict changed": each.changed,
                }
                for each in spreads
            ),
            hide_index=True,
            column_config={"mean deviation over repeats": st.column_config.NumberColumn(format="%.2f")},
            alt="Spread of the judge over repeats",
        )
