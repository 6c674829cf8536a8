"""Agreement of boundaries, on offsets a reader can compare by eye."""

from __future__ import annotations

import numpy as np

from engine.metrics.boundaries import agreement, disagreements, distance


def cuts(*offsets: int) -> np.ndarray:
    return np.array(offsets, dtype=np.int64)


def test_agreement_counts_boundaries_with_a_counterpart_on_both_sides() -> None:
    assert agreement(cuts(100, 200), cuts(100, 200)) == 1.0
    assert agreement(cuts(100, 200), cuts(110, 300)) == 0.5
    assert agreement(cuts(100, 200), cuts(110, 300), tolerance=5) == 0.0
    assert agreement(cuts(100, 200, 300), cuts(200)) == 0.5
    assert agreement(cuts(), cuts()) == 1.0
    assert agreement(cuts(100), cuts()) == 0.0


def test_a_disagreement_is_a_boundary_another_list_lacks() -> None:
    assert disagreements([cuts(100, 200), cuts(100, 300)]).tolist() == [200, 300]
    assert disagreements([cuts(100, 200), cuts(110, 210)]).tolist() == []
    assert disagreements([cuts(100), cuts(100), cuts(500)]).tolist() == [100, 500]
    assert disagreements([cuts(100)]).tolist() == []
    assert disagreements([cuts(), cuts(40)]).tolist() == [40]


def test_disagreements_close_to_each_other_are_one_place() -> None:
    assert disagreements([cuts(0, 100), cuts(115)], tolerance=10).tolist() == [0, 100, 115]
    assert disagreements([cuts(100, 200), cuts(130, 500)], tolerance=20).tolist() == [100, 130, 200, 500]
    assert disagreements([cuts(100, 110), cuts(500)], tolerance=20).tolist() == [100, 500]


def test_distance_to_the_nearest() -> None:
    assert distance(cuts(5, 15, 40), cuts(10, 20)).tolist() == [5, 5, 20]
    assert distance(cuts(5), cuts()).tolist() == [np.inf]
