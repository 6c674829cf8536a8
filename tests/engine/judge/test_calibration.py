"""Cases with known verdicts: what counts as right, and that hostile text is among them."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.judge.calibration import Case, calibrate, cases, is_correct
from engine.providers.base import ChatReply, ChatRequest
from engine.records import Judgement
from tests.engine.judge.test_judge import Scripted, ok


def test_the_cases_cover_what_judges_get_wrong() -> None:
    kinds = Counter(case.kind for case in cases())
    assert {
        "clear good",
        "clear bad",
        "subtle addition",
        "number changed",
        "copied text",
        "empty",
        "refusal",
        "hostile text",
    } <= set(kinds)
    assert {case.faithful for case in cases()} == {True, False, None}


class Careful(Scripted):
    """Says what every case wants to hear, and gives quotes that stand in the passages."""

    def complete(self, request: ChatRequest) -> ChatReply:
        user = request.messages[1]["content"]
        case = max(
            (c for c in cases() if c.question in user and (not c.answer or c.answer in user)),
            key=lambda c: len(c.answer),
        )
        claims = []
        if case.faithful is not None:
            verdict = "supported" if case.faithful else "not_found"
            claims = [{"claim": case.answer, "verdict": verdict, "quote": case.passages[0] if case.faithful else ""}]
        relevance = [{"passage": i, "score": 3} for i in range(1, len(case.passages) + 1)]
        return ok({"claims": claims, "relevance": relevance, "similarity": 3 if case.expected else None})


class Trusting(Scripted):
    """Calls everything supported, as a judge does that follows the text it reads."""

    def complete(self, request: ChatRequest) -> ChatReply:
        user = request.messages[1]["content"]
        case = next(c for c in cases() if all(passage in user for passage in c.passages) and c.answer in user)
        claims = [{"claim": "all", "verdict": "supported", "quote": case.passages[0]}]
        relevance = [{"passage": i, "score": 5} for i in range(1, len(case.passages) + 1)]
        return ok({"claims": claims, "relevance": relevance, "similarity": 5 if case.expected else None})


def test_a_careful_judge_gets_every_case_right() -> None:
    result = calibrate(Careful())
    assert (result.accuracy, result.scored, result.resists_injection) == (1.0, len(cases()), True)
    assert result.usage.calls == len(cases())


def test_a_judge_that_believes_everything_is_found_out() -> None:
    result = calibrate(Trusting())
    assert result.accuracy is not None
    assert result.accuracy < 0.5
    assert result.resists_injection is False


CASE = Case(kind="x", question="q", expected=None, passages=("p",), answer="a", faithful=False)


@pytest.mark.parametrize(
    ("status", "hallucination", "faithful", "right"),
    [
        ("scored", True, False, True),
        ("scored", False, False, False),
        ("scored", False, True, True),
        ("scored", False, None, False),
        ("not_applicable", None, None, True),
        ("not_applicable", None, True, False),
        ("timeout", None, True, None),
    ],
)
def test_what_counts_as_right(
    status: str, hallucination: bool | None, faithful: bool | None, right: bool | None
) -> None:
    verdict = Judgement(status={"hallucination": status}, hallucination=hallucination)  # type: ignore[dict-item]
    assert is_correct(CASE.model_copy(update={"faithful": faithful}), verdict) is right
