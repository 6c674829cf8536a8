"""The judge: an answer's claims are checked against the delivered text by a model; scores are derived from the verdicts by code."""

from engine.judge.judge import JUDGE_CALLS, judge
from engine.judge.scores import Scores, derive

__all__ = ["JUDGE_CALLS", "Scores", "derive", "judge"]
