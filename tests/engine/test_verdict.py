from __future__ import annotations

import numpy as np
import pytest

from engine.verdict import Cost, decide, in_words

RNG = np.random.default_rng(11)
METRIC = "recall@1000tok"


def scores(n: int, *shares: float) -> np.ndarray:
    """One row per strategy: `share` of the questions score 1, the others 0; better strategies solve what worse ones solve."""
    ranks = np.linspace(0, 1, n, endpoint=False)
    return np.array([(ranks < share).astype(float) for share in shares])


def test_a_clear_winner() -> None:
    verdict = decide(scores(100, 0.5, 0.8), ["fixed", "recursive"], METRIC)
    assert verdict.kind == "winner"
    assert [group.labels for group in verdict.groups] == [("recursive",), ("fixed",)]
    assert verdict.groups[0].best_mean == pytest.approx(0.8)
    assert verdict.leads[0].difference == pytest.approx(0.3)
    assert verdict.leads[0].low is not None
    assert 0.15 < verdict.leads[0].low < 0.3
    assert verdict.proposal == "recursive"


def test_two_that_tie_and_one_behind() -> None:
    values = scores(100, 0.8, 0.8, 0.4)
    values[1] = np.roll(values[1], 3)
    verdict = decide(values, ["a", "b", "c"], METRIC)
    assert verdict.kind == "tie"
    assert [group.labels for group in verdict.groups] == [("a", "b"), ("c",)]


def test_no_clear_difference_is_a_verdict_and_says_what_could_be_found() -> None:
    values = RNG.integers(0, 2, size=(3, 60)).astype(float)
    verdict = decide(values, ["a", "b", "c"], METRIC)
    assert verdict.kind == "no_clear_difference"
    assert len(verdict.groups) == 1
    assert verdict.detectable is not None
    assert 0.1 < verdict.detectable < 0.4
    assert verdict.needed is None or verdict.needed > 60


def test_too_few_questions_is_a_verdict() -> None:
    verdict = decide(scores(29, 0.0, 1.0), ["a", "b"], METRIC)
    assert verdict.kind == "too_few_questions"
    assert verdict.proposal is None
    assert decide(scores(30, 0.0, 1.0), ["a", "b"], METRIC).kind == "winner"


def test_the_same_strategy_twice_has_no_winner_and_nothing_to_settle() -> None:
    verdict = decide(scores(100, 0.7, 0.7), ["a", "b"], METRIC)
    assert verdict.kind == "no_clear_difference"
    assert (verdict.needed, verdict.detectable) == (None, 0)
    assert "the same on every question" in in_words(verdict)


def test_among_ties_the_cheaper_is_proposed_and_says_so() -> None:
    values = scores(60, 0.7, 0.7, 0.7)
    tokens = Cost(criterion="tokens delivered per question", values=(1000.0, 600.0, 590.0))
    dollars = Cost(criterion="dollars of the whole run", values=(0.1, 0.5, 0.9))
    verdict = decide(values, ["a", "b", "c"], METRIC, costs=[tokens, dollars])
    assert verdict.proposal == "b"
    assert "dollars of the whole run" in verdict.proposal_reason
    assert "0.5" in verdict.proposal_reason


def test_a_cost_that_is_unknown_for_one_decides_nothing() -> None:
    dollars = Cost(criterion="dollars", values=(None, 0.5))
    seconds = Cost(criterion="seconds", values=(0.001, 0.002), negligible=0.05)
    verdict = decide(scores(60, 0.7, 0.7), ["a", "b"], METRIC, costs=[dollars, seconds])
    assert verdict.proposal is None
    assert "cost the same" in verdict.proposal_reason


def test_the_cheapest_is_sought_in_the_leading_group_only() -> None:
    tokens = Cost(criterion="tokens", values=(900.0, 800.0, 1.0))
    values = scores(100, 0.8, 0.8, 0.4)
    assert decide(values, ["a", "b", "c"], METRIC, costs=[tokens]).proposal == "b"


def test_only_questions_all_have_scored_count() -> None:
    values = scores(100, 0.5, 0.8)
    values[0, :10] = np.nan
    values[1, 90:] = np.nan
    assert decide(values, ["a", "b"], METRIC).n == 80


@pytest.mark.parametrize("values", [np.empty((0, 5)), np.ones((1, 50)), np.full((2, 5), np.nan), np.empty((2, 0))])
def test_nothing_to_compare(values: np.ndarray) -> None:
    verdict = decide(values, [str(i) for i in range(len(values))], METRIC)
    assert verdict.kind == "nothing_to_compare"
    assert "Nothing can be recommended" in in_words(verdict)


def test_lower_is_better_turns_the_order_and_keeps_the_numbers() -> None:
    verdict = decide(scores(100, 0.5, 0.8), ["few", "many"], "redundancy@5", lower_is_better=True)
    assert verdict.kind == "winner"
    assert verdict.proposal == "few"
    assert verdict.groups[0].best_mean == pytest.approx(0.5)
    lead = verdict.leads[0]
    assert lead.difference == pytest.approx(-0.3)
    assert lead.low is not None
    assert lead.high is not None
    assert lead.low < -0.3 < lead.high < 0


def test_a_difference_within_the_noise_of_repeated_runs_decides_nothing() -> None:
    values = scores(200, 0.5, 0.56)
    assert decide(values, ["a", "b"], METRIC).kind == "winner"
    assert decide(values, ["a", "b"], METRIC, noise_floor=0.08).kind == "no_clear_difference"
    assert decide(values, ["a", "b"], METRIC, noise_floor=float("nan")).kind == "winner"


def test_clustered_questions_decide_less() -> None:
    """Sixty questions about six articles: three articles better, one worse, two equal."""
    values = np.zeros((2, 60))
    values[0], values[1, :30], values[1, 30:40] = 0.5, 1.0, 0.0
    values[1, 40:] = 0.5
    clusters = [i // 10 for i in range(60)]
    assert decide(values, ["a", "b"], METRIC).kind == "winner"
    clustered = decide(values, ["a", "b"], METRIC, clusters=clusters)
    assert clustered.kind == "no_clear_difference"
    assert "60 questions in 6 independent groups" in in_words(clustered)


def test_renaming_and_reordering_change_no_number() -> None:
    values = RNG.random((4, 50)).round(1)
    values[3] = values[2]
    labels = ["a", "b", "c", "d"]
    order, columns = [2, 0, 3, 1], RNG.permutation(50)
    one = decide(values, labels, METRIC)
    names = {"a": "zeta", "b": "beta", "c": "eta", "d": "theta"}
    other = decide(values[order][:, columns], [names[labels[i]] for i in order], METRIC)
    assert (one.kind, one.n, one.detectable, one.needed) == (other.kind, other.n, other.detectable, other.needed)
    assert [{names[label] for label in group.labels} for group in one.groups] == [
        set(group.labels) for group in other.groups
    ]
    assert [(lead.difference, lead.low, lead.high, lead.p) for lead in one.leads] == [
        (lead.difference, lead.low, lead.high, lead.p) for lead in other.leads
    ]


def test_words_of_a_winner_hold_the_interval() -> None:
    text = in_words(decide(scores(100, 0.5, 0.8), ["fixed", "recursive"], METRIC))
    assert text.startswith("Take recursive: on 100 questions its recall at 1,000 tokens is 0.800, ahead of fixed")
    assert "+0.300 (95 % interval +0.2" in text


def test_words_of_a_tie_name_the_group_the_one_behind_and_the_cheaper() -> None:
    tokens = Cost(criterion="tokens delivered per question", values=(2000.0, 800.0, 700.0))
    text = in_words(decide(scores(100, 0.8, 0.8, 0.4), ["a", "b", "c"], METRIC, costs=[tokens]))
    assert "a and b lead in recall at 1,000 tokens" in text
    assert "Clearly behind is c" in text
    assert (
        "Take b: it is the cheapest of 2 that tie, by tokens delivered per question: 800 against up to 2,000." in text
    )


def test_words_of_a_tie_name_all_that_are_behind_best_first() -> None:
    verdict = decide(scores(100, 0.9, 0.9, 0.5, 0.2, 0.52), ["a", "b", "c", "d", "e"], METRIC)
    assert len(verdict.groups) == 3
    assert "Clearly behind are e, c and d: a is ahead of the nearest, e, by +0.380 (95 %" in in_words(verdict)


def test_words_of_too_few_questions_propose_nothing() -> None:
    text = in_words(decide(scores(10, 0.2, 0.9), ["a", "b"], METRIC))
    assert text.startswith("Too few questions")
    assert "Take" not in text


def simulated_pairs(runs: int, n: int, gap: float, seed: int, disagree: float) -> int:
    """How often a winner is named between two strategies of scores 0 and 1, `gap` apart on average, that draw a share of questions apart."""
    rng = np.random.default_rng(seed)
    named = 0
    for _ in range(runs):
        base = (rng.random(n) < 0.7).astype(float)
        moved = rng.random(n) < disagree
        other = np.where(moved, (rng.random(n) < 0.7).astype(float), base)
        lost = rng.random(n) < gap / 0.7
        worse = np.where(lost, 0.0, other)
        named += decide(np.array([base, worse]), ["a", "b"], METRIC, resamples=1000).kind == "winner"
    return named


def test_the_same_quality_twice_is_rarely_called_a_winner() -> None:
    assert simulated_pairs(100, 60, 0.0, seed=5, disagree=1.0) <= 10


def test_a_planted_difference_of_eight_points_is_usually_found_with_200_questions() -> None:
    assert simulated_pairs(60, 200, 0.08, seed=6, disagree=0.12) >= 44
