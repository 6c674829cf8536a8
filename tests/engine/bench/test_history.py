from __future__ import annotations

import pytest

from engine.bench import gate, history
from engine.bench.history import compare, lies_in, moved
from engine.errors import BadRequest
from tests.engine.bench.examples import METRIC, experiment, place, spec_id
from tests.engine.store import examples as stored

MANY = 40


def test_two_experiments_differ_by_what_changed_on_the_common_questions() -> None:
    before = experiment("one", {"sentence": [1.0, 0.5, 0.0]})
    after = experiment("two", {"sentence": [0.5, 0.5, 0.5], "paragraph": [1.0, 1.0, 1.0]})
    after = after.model_copy(update={"embedding_model": "other"})
    found = compare([before, after])
    assert found.common_questions == 3
    assert found.metric == METRIC
    assert {each.name: each.values for each in found.settings} == {
        "embedding model": ("wordllama", "other"),
        "strategies": ("sentence 1", "sentence 1, paragraph 1"),
    }
    (change,) = found.metrics
    assert (change.label, change.n, change.baseline_mean, change.mean, change.difference) == (
        "sentence 1",
        3,
        0.5,
        0.5,
        0.0,
    )
    assert [(each.question_id, each.difference) for each in found.questions] == [
        ("q0", -0.5),
        ("q1", 0.0),
        ("q2", 0.5),
    ]
    assert any("paragraph 1 not in Run one" in note for note in found.notes)


def test_of_many_pairs_those_that_differ_are_listed_and_it_is_said_only_where_there_are_some() -> None:
    same = [0.5] * 250
    before = experiment("before", {"sentence": same})
    assert compare([before, experiment("again", {"sentence": same})]).notes == ()
    found = compare([before, experiment("after", {"sentence": [0.2, *same[:-2], 0.9]})])
    assert found.notes == ("2 of 250 pairs of scores differ; all of them are listed.",)
    assert len(found.questions) == 200
    differences = [each.difference for each in found.questions]
    assert (differences[0], differences[-1]) == (pytest.approx(-0.3), pytest.approx(0.4))
    worse = compare([before, experiment("worse", {"sentence": [0.1] * 201 + same[:49]})])
    assert worse.notes == ("201 of 250 pairs of scores differ; the 200 with the largest regressions are listed.",)


def test_only_common_questions_count_and_failed_ones_do_not() -> None:
    before = experiment("one", {"sentence": [1.0, 1.0, None]})
    after = experiment("two", {"sentence": [0.0, 1.0, 1.0, 1.0, 1.0]})
    found = compare([before, after])
    assert found.common_questions == 3
    (change,) = found.metrics
    assert (change.n, change.baseline_mean, change.mean, change.difference) == (2, 1.0, 0.5, -0.5)
    assert found.questions[-1].baseline is None
    assert found.questions[-1].difference is None
    assert any("3 common questions" in note for note in found.notes)


def test_experiments_without_a_common_question_are_refused_in_words() -> None:
    before = experiment("one", {"sentence": [1.0]})
    other = experiment("two", {"sentence": [1.0]})
    renamed = tuple(each.model_copy(update={"question": "Another?"}) for each in other.questions)
    with pytest.raises(BadRequest, match="no question in common"):
        compare([before, other.model_copy(update={"questions": renamed})])


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_are_compared(count: int) -> None:
    with pytest.raises(BadRequest, match="two to 4"):
        compare([experiment(str(number), {"sentence": [1.0]}) for number in range(count)])


def test_the_same_experiment_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="different"):
        compare([experiment("one", {"sentence": [1.0]})] * 2)


def test_where_the_evidence_moved_is_said_in_words() -> None:
    whole = experiment("one", {"sentence": [1.0]}, {0: place(7)}).cells[0]
    split = experiment("two", {"sentence": [0.5]}, {0: place(12, 13, whole=False)}).cells[0]
    assert moved(whole, split) == "Its evidence lies in chunk 7 here and in chunks 12 + 13 there."
    assert moved(whole, whole) == "Its evidence lies in chunk 7 in both."
    assert moved(None, split) == "Its evidence lies in no chunk here and in chunks 12 + 13 there."
    assert moved(None, None) == ""


def test_a_place_is_named_by_the_chunks_that_hold_it() -> None:
    assert lies_in([place(3), place(4, whole=False), place(whole=False)]) == "chunk 3, a part of chunk 4, no chunk"
    overlapping = place(3, 4).model_copy(update={"retrieved": (4,)})
    assert lies_in([overlapping]) == "chunk 4"


# The gate


def test_the_gate_passes_what_stays_within_the_allowed_drop() -> None:
    scores = [0.5, 1.0] * (MANY // 2)
    found = gate.check(
        experiment("one", {"sentence": scores}), experiment("two", {"sentence": scores}), metric=METRIC, max_drop=0.02
    )
    assert found.outcome == "pass"
    assert (found.specs[0].n, found.specs[0].worse_by) == (MANY, 0.0)
    assert found.words.startswith("Pass: sentence 1 is worse by +0.000")


def test_the_gate_finds_a_regression_with_its_interval() -> None:
    before = [1.0] * MANY
    after = [0.5] * (MANY // 2) + [0.25] * (MANY // 2)
    found = gate.check(
        experiment("one", {"sentence": before, "paragraph": before}),
        experiment("two", {"sentence": after, "paragraph": before}),
        metric=METRIC,
        max_drop=0.02,
    )
    assert [each.outcome for each in found.specs] == ["regression", "pass"]
    assert found.outcome == "regression"
    first = found.specs[0]
    assert first.low is not None
    assert first.high is not None
    assert 0.02 < first.low < 0.625 < first.high
    assert first.worse_by == pytest.approx(0.625)
    assert "95 % interval" in found.words


def test_the_gate_cannot_tell_when_the_interval_holds_the_limit_or_there_is_none() -> None:
    before, after = [1.0] * 6, [1.0, 1.0, 1.0, 0.9, 1.0, 0.9]
    wide = gate.check(
        experiment("one", {"sentence": before}), experiment("two", {"sentence": after}), metric=METRIC, max_drop=0.02
    )
    assert wide.outcome == "cannot_tell"
    assert "Ask more questions" in wide.words
    single = gate.check(
        experiment("one", {"sentence": [1.0]}), experiment("two", {"sentence": [0.0]}), metric=METRIC, max_drop=0.02
    )
    assert single.outcome == "cannot_tell"
    assert "give no interval" in single.words
    nothing = gate.check(
        experiment("one", {"sentence": [None]}), experiment("two", {"sentence": [1.0]}), metric=METRIC, max_drop=0.02
    )
    assert nothing.outcome == "cannot_tell"
    assert "no question" in nothing.words


def test_less_of_a_measure_where_less_is_better_is_no_regression() -> None:
    before, after = [0.5, 0.6] * (MANY // 2), [0.1, 0.1] * (MANY // 2)
    found = gate.check(
        experiment("one", {"sentence": before}, metric="redundancy@5"),
        experiment("two", {"sentence": after}, metric="redundancy@5"),
        metric="redundancy@5",
        max_drop=0.02,
    )
    assert found.outcome == "pass"
    assert found.specs[0].worse_by == pytest.approx(-0.45)


def test_a_gate_over_nothing_is_refused_in_words() -> None:
    one, two = experiment("one", {"sentence": [1.0]}), experiment("two", {"paragraph": [1.0]})
    with pytest.raises(BadRequest, match="no strategy in common"):
        gate.check(one, two, metric=METRIC, max_drop=0.02)
    with pytest.raises(BadRequest, match="no metric"):
        gate.check(one, one, metric="magic", max_drop=0.02)
    with pytest.raises(BadRequest, match="0 or more"):
        gate.check(one, one, metric=METRIC, max_drop=-1)


def test_statistics_compare_everything_with_the_baseline() -> None:
    found = experiment("one", {"sentence": [0.5] * MANY, "paragraph": [1.0] * MANY}).statistics
    assert found is not None
    assert found.baseline == spec_id("sentence")
    (comparison,) = found.comparisons
    assert (comparison.spec_id, comparison.n, comparison.difference) == (spec_id("paragraph"), MANY, 0.5)
    assert found.verdict is not None
    assert (found.verdict.kind, found.verdict.proposal) == ("winner", "paragraph 1")
    assert found.recommendation.startswith("Take paragraph 1")


def test_the_frozen_questions_are_those_of_the_experiment() -> None:
    one = experiment("one", {"sentence": [1.0, 0.0]})
    assert history.frozen_questions(one).questions == one.questions
    assert history.frozen_questions(one).name == stored.question_set().name
