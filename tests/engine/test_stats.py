from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import bootstrap, permutation_test, ttest_1samp

from engine import stats
from engine.records import Evidence, Gold, Question
from engine.stats import all_pairs, cluster_keys, holm, mean_interval, noise_floor, paired, versus_baseline

RNG = np.random.default_rng(7)
NOISY = RNG.normal(0.1, 0.3, size=(40, 1)).round(2)


def one(differences: list[float], clusters: list[int] | None = None, **options: int) -> dict[str, float]:
    result = paired(np.array(differences, dtype=float).reshape(-1, 1), clusters, **options)
    return {name: getattr(result, name)[0] for name in stats.Paired.__slots__}


def test_no_questions() -> None:
    empty = one([])
    assert (empty["n"], empty["clusters"]) == (0, 0)
    assert all(
        np.isnan(empty[name]) for name in ("difference", "low", "high", "p", "deviation", "effect", "detectable")
    )
    missing = one([float("nan")] * 3)
    assert missing["n"] == 0
    assert np.isnan(missing["p"])


def test_one_question_has_a_difference_and_nothing_else() -> None:
    single = one([0.4])
    assert (single["n"], single["difference"], single["p"]) == (1, 0.4, 1)
    assert all(np.isnan(single[name]) for name in ("low", "high", "deviation", "error", "effect", "detectable"))


def test_two_questions_can_never_be_significant() -> None:
    """Both differences positive: of four sign patterns two are as extreme."""
    pair = one([0.2, 0.4])
    assert pair["difference"] == pytest.approx(0.3)
    assert pair["p"] == 0.5
    assert pair["deviation"] == pytest.approx(np.sqrt(0.02))
    assert 0.2 <= pair["low"] <= pair["high"] <= 0.4


def test_all_differences_equal() -> None:
    same = one([0.1] * 10)
    assert (same["difference"], same["low"], same["high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert same["p"] == pytest.approx(2 / 2**10)
    assert (same["deviation"], same["detectable"]) == (0, 0)
    assert np.isnan(same["effect"])
    zero = one([0.0] * 50)
    assert (zero["difference"], zero["low"], zero["high"], zero["p"], zero["effect"]) == (0, 0, 0, 1, 0)


def test_the_p_of_few_questions_is_exact() -> None:
    """0.3, 0.2, -0.1: sums of sign patterns at least 0.4 away from 0 are ±0.6 and ±0.4 (0.3 + 0.2 - 0.1): 4 of 8."""
    assert one([0.3, 0.2, -0.1])["p"] == 0.5


def test_error_effect_and_detectable_difference_by_hand() -> None:
    """1, 0, 1, 0: deviation 0.5774, error 0.2887, effect 0.866, detectable 2.8016 errors; a tenth needs 4 (0.8088 / 0.1)^2 questions."""
    result = paired(np.array([[1.0], [0.0], [1.0], [0.0]]))
    assert result.deviation[0] == pytest.approx(0.57735, abs=1e-5)
    assert result.error[0] == pytest.approx(0.288675, abs=1e-6)
    assert result.effect[0] == pytest.approx(0.866025, abs=1e-6)
    assert result.detectable[0] == pytest.approx(0.80874, abs=1e-4)
    assert result.needed(0.1)[0] == 262
    assert np.isinf(result.needed(0.0)[0])


def test_intervals_agree_with_scipy() -> None:
    ours = paired(NOISY)
    theirs = bootstrap((NOISY[:, 0],), np.mean, method="BCa", n_resamples=10_000, rng=np.random.default_rng(3))
    assert ours.low[0] == pytest.approx(theirs.confidence_interval.low, abs=0.006)
    assert ours.high[0] == pytest.approx(theirs.confidence_interval.high, abs=0.006)


def test_p_agrees_with_scipy() -> None:
    ours = paired(NOISY).p[0]
    theirs = permutation_test(
        (NOISY[:, 0],), np.mean, permutation_type="samples", n_resamples=9_999, rng=np.random.default_rng(3)
    )
    assert ours == pytest.approx(theirs.pvalue, abs=0.01)
    assert ours == pytest.approx(ttest_1samp(NOISY[:, 0], 0).pvalue, abs=0.03)


def test_renaming_and_reordering_change_no_number() -> None:
    values = RNG.random((4, 30, 2)).round(1)
    values[2, 5, 0] = np.nan
    clusters = [i // 3 for i in range(30)]
    order = RNG.permutation(30)
    strategies = [0, 3, 1, 2]
    one_way = versus_baseline(values, 0, clusters)
    other = versus_baseline(values[strategies][:, order], 0, [f"article {clusters[i]}" for i in order])
    for name in stats.Paired.__slots__:
        np.testing.assert_array_equal(getattr(one_way.stats, name)[strategies], getattr(other.stats, name))
    np.testing.assert_array_equal(one_way.p_holm[strategies], other.p_holm)
    np.testing.assert_array_equal(one_way.means[strategies], other.means)


def test_one_against_the_other_is_the_mirror_of_the_other_against_one() -> None:
    forward, back = paired(NOISY), paired(-NOISY)
    assert (forward.low[0], forward.high[0], forward.p[0]) == (-back.high[0], -back.low[0], back.p[0])


def test_missing_pairs_are_left_out_pair_by_pair() -> None:
    """The baseline lacks question 2, the first strategy question 0, the second none."""
    values = np.array([[0.0, 0.0, np.nan, 0.0], [np.nan, 1.0, 1.0, 0.5], [0.5, 0.5, 0.0, 0.5]])[:, :, None]
    result = versus_baseline(values, 0)
    assert result.stats.n[:, 0].tolist() == [3, 2, 3]
    assert result.stats.difference[1:, 0].tolist() == [0.75, 0.5]
    assert result.means[1:, 0].tolist() == [0.75, 0.5]
    assert np.isnan(result.p_holm[0, 0])


def test_questions_of_one_article_count_as_one() -> None:
    """Ten articles with five equal questions each know no more than ten questions."""
    articles = RNG.normal(0.1, 0.3, size=10).round(2)
    questions = np.repeat(articles, 5)[:, None]
    clustered = paired(questions, [i // 5 for i in range(50)])
    ten, fifty = paired(articles[:, None]), paired(questions)
    assert (clustered.n[0], clustered.clusters[0]) == (50, 10)
    assert clustered.error[0] == pytest.approx(ten.error[0])
    assert clustered.p[0] == ten.p[0]
    assert clustered.low[0] == pytest.approx(ten.low[0])
    assert fifty.error[0] < 0.6 * clustered.error[0]


def test_one_article_alone_cannot_decide() -> None:
    result = one([0.5, 0.6, 0.7], [1, 1, 1])
    assert (result["n"], result["clusters"], result["p"]) == (3, 1, 1)
    assert np.isnan(result["low"])


def test_holm_by_hand() -> None:
    """0.01 * 3, 0.03 * 2, then 0.04 * 1 raised to the one before."""
    assert holm([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.5]).tolist() == [1, 1]
    adjusted = holm([np.nan, 0.02, 0.5])
    assert np.isnan(adjusted[0])
    assert adjusted[1:].tolist() == [0.04, 0.5]
    assert holm([]).size == 0


def test_all_pairs_covers_every_pair_once() -> None:
    values = RNG.random((3, 25))
    result = all_pairs(values)
    for i, j in itertools.permutations(range(3), 2):
        alone = paired((values[i] - values[j])[:, None])
        assert result.stats.difference[i, j] == pytest.approx(alone.difference[0])
        assert result.stats.p[i, j] == alone.p[0]
        assert result.p_holm[i, j] == result.p_holm[j, i]
    upper = result.stats.p[np.triu_indices(3, 1)]
    assert sorted(result.p_holm[np.triu_indices(3, 1)]) == pytest.approx(sorted(holm(upper)))


def test_noise_floor_by_hand() -> None:
    """Means 0.5 and 0.7 of two runs: deviation 0.1414, times 1.96 and the root of two."""
    assert noise_floor([[0.4, 0.6], [0.6, 0.8]]) == pytest.approx(1.959964 * np.sqrt(2) * 0.141421, abs=1e-5)
    assert noise_floor([[0.5, 0.5], [0.5, 0.5]]) == 0
    assert np.isnan(noise_floor([[0.5, 0.5]]))
    assert np.isnan(noise_floor([[np.nan], [0.5]]))


def test_mean_interval_holds_the_mean() -> None:
    mean, low, high = mean_interval([0.0, 1.0, 1.0, 1.0, float("nan")])
    assert mean == 0.75
    assert 0 <= low < mean < high <= 1
    assert np.isnan(mean_interval([])[0])


def test_clusters_are_document_and_article() -> None:
    def question(number: int, unit: str | None, document: str = "d") -> Question:
        gold = Gold(document_id=document, span=(0, 1), text_hash="", unit=unit)
        return Question(question_id=str(number), question="?", evidence=(Evidence(quote="q", gold=(gold,)),))

    bare = Question(question_id="9", question="?")
    keys = cluster_keys(
        [question(1, "Art. 1"), question(2, "Art. 1"), question(3, "Art. 1", "e"), question(4, None), bare]
    )
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_nothing_warns_about_degenerate_columns() -> None:
    columns = np.array([[np.nan, 0.0, 0.1, 0.1], [np.nan, 0.0, 0.1, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = paired(columns)
    assert result.n.tolist() == [0, 2, 2, 1]


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="n_questions"):
        paired(np.zeros(3))
    with pytest.raises(ValueError, match="2 cluster keys for 3 questions"):
        paired(np.zeros((3, 1)), [1, 2])
