"""The comparison with tuned thresholds: its figure is that of the hull."""

from __future__ import annotations

import numpy as np
import pytest
import tuned_thresholds

from algorithms.hull.estimator import ROCHull


def test_the_cost_of_errors_is_what_the_hull_claims():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    scores = y + rng.normal(size=80)
    point = ROCHull.from_predictions(scores, y).operating_point({"fp": 1, "fn": 5})
    ((_, threshold, _),) = point.members[""]
    cost = tuned_thresholds.cost_of(y, scores >= threshold, 5)
    assert cost == pytest.approx(point.of["expected_cost"].claimed)
