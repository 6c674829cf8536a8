"""What a run that lacks answers says about itself."""

from __future__ import annotations

import pytest

from engine.bench.conclude import answers_there, conclude, conclusions
from engine.cli.benchmark import print_experiment
from engine.records import Experiment
from tests.engine.bench.examples import experiment

PARTIAL = "Partial, resting on 30 of 40 questions, as only 70 of 80 answers are there: "


def cut(status: str = "cancelled") -> Experiment:
    """Two strategies and forty questions; the second was not asked the last ten."""
    whole = experiment("one", {"sentence": [0.5] * 40, "paragraph": [1.0] * 40})
    return whole.model_copy(update={"cells": whole.cells[:70], "statistics": None, "status": status})


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_the_sentence_of_a_partial_run_names_what_it_rests_on(status: str) -> None:
    found = conclusions(cut(status))
    assert found is not None
    assert found.recommendation.startswith(f"{PARTIAL}Take paragraph 1: on 30 questions")


def test_a_run_that_goes_on_or_has_no_answer_concludes_nothing() -> None:
    assert conclusions(cut("running")) is None
    assert conclusions(cut().model_copy(update={"cells": ()})) is None


def test_a_strategy_that_failed_and_extractive_repeats_do_not_make_a_run_partial() -> None:
    whole = experiment("one", {"sentence": [0.5] * 40, "paragraph": [1.0] * 40})
    sentence, paragraph = whole.results
    failed = whole.model_copy(
        update={
            "cells": whole.cells[:40],
            "results": (sentence, paragraph.model_copy(update={"status": "failed", "error": "No model."})),
            "plan": whole.plan.model_copy(update={"repeats": 3}),
            "llm_model": None,
        }
    )
    assert answers_there(failed) == (40, 40)
    assert "Partial" not in conclude(failed).recommendation
    answered = failed.model_copy(update={"llm_model": "gpt-4o-mini"})
    assert answers_there(answered) == (40, 120)


def test_the_command_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_experiment(cut("failed"))
    assert PARTIAL in capsys.readouterr().err
