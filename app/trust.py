"""What a judge's scores are worth, beside the scores: calibration, warning, spread over repeats, agreement with people."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import money, results, runtime
from app.states import guard
from app.text import counted, plain
from engine import Workbench
from engine.records import CalibrationSummary, Experiment

REPEATS, SAMPLE = 3, 10
LOOKED_AT = 5
"""Experiments of a judge searched for its calibration."""


def calibration_of(workbench: Workbench, judge_model: str) -> CalibrationSummary | None:
    """How a judge did on the calibration cases: in this process, or before one of its newest experiments; None when neither is known."""
    kept = runtime.calibrations.get(judge_model)
    if kept is not None:
        return kept
    judged = [each for each in workbench.experiments() if each.judge_model == judge_model and each.status != "running"]
    for summary in sorted(judged, key=lambda each: each.created_at, reverse=True)[:LOOKED_AT]:
        found = results.load(workbench, summary.experiment_id).calibration
        if found is not None and found.judge_model == judge_model and found.scored:
            runtime.calibrations.keep(judge_model, found)
            return found
    return None


def in_short(judge_model: str, calibration: CalibrationSummary | None) -> str:
    """What a judge's scores are worth, as the one line that stands beside them."""
    if calibration is None:
        return f"{judge_model} is not calibrated: calibrate it before trusting these scores."
    if not calibration.scored:
        return f"{judge_model} gave no verdict on the {calibration.cases} calibration cases: do not trust these scores."
    return f"Calibration: {calibration.in_words}"


def calibrate_button(workbench: Workbench, key: str) -> None:
    """Scores the judge in use on cases whose verdict is known; it calls the model, so it waits for a click."""
    judge = workbench.models.judge
    if judge is not None and st.button(
        "Calibrate the judge",
        key=key,
        icon=":material/balance:",
        help="Scores cases whose verdict is known. Calls the judge once per case; repeated calls come from the cache.",
    ):
        with guard(), st.spinner("Judging the cases"):
            found = workbench.calibrate_judge().summary
            if found.scored:
                runtime.calibrations.keep(judge.model, found)
                st.rerun()
            st.error(plain(f"{found.in_words} The calls cost {money.dollars(found.usage.cost_usd)}. Try again later."))


def beside_scores(workbench: Workbench, experiment: Experiment, key: str) -> None:
    """The judge's accuracy, where an experiment shows its scores."""
    if experiment.judge_model is None:
        return
    found = experiment.calibration or calibration_of(workbench, experiment.judge_model)
    st.caption(f":material/balance: Judge. {plain(in_short(experiment.judge_model, found))}")
    judge = workbench.models.judge
    if found is None and judge is not None and judge.model == experiment.judge_model:
        calibrate_button(workbench, key)


def judge_panel(workbench: Workbench, experiment: Experiment) -> None:
    """Everything known about the judge of an experiment."""
    if experiment.judge_model is None:
        st.caption("No judge was used: answers carry no judge scores.")
        return
    st.markdown("**The judge**")
    warning = experiment.judge_warning or workbench.judge_warning()
    if warning:
        st.warning(plain(warning))
    beside_scores(workbench, experiment, "trust.calibrate")
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
