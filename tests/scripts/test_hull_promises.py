"""The comparison of hulls of networks: areas against plain ones."""

from __future__ import annotations

import hull_promises
import numpy as np
import pandas as pd
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_auc_score


def test_the_area_on_the_records_searched_is_that_of_their_hull():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rates = rng.integers(0, 9, (30, 2)) / 8
        ends = np.array([[0.0, 1.0], [1.0, 0.0]])
        worst = np.concatenate([rates, ends, [[1.0, 1.0]]])
        found, _ = hull_promises.areas(rates, rates)
        np.testing.assert_allclose(found, ConvexHull(worst).volume)


def test_a_score_whose_corners_are_all_its_points_has_the_area_of_its_curve():
    positive = np.array([False, True, False, True, True])
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    searched, test = hull_promises.of_scores(scores, positive, scores, positive)
    assert test == searched
    assert searched >= roc_auc_score(positive, scores)
    # on test records no score is above the one threshold: that member is "always negative"
    perfect = hull_promises.of_scores(scores, scores > 0.25, -scores, scores > 0.25)
    np.testing.assert_allclose(perfect, (1.0, 0.5))


def test_gains_are_of_means_over_splits():
    methods = {name for pair in hull_promises.PAIRS for name in pair}
    rows = [
        (data, split, name, 0.9, 0.6 + 0.1 * (name == hull_promises.LEVELS) * (data == "a"))
        for data in "ab"
        for split in range(2)
        for name in methods
    ]
    frame = pd.DataFrame(rows, columns=["data", "split", "method", "searched", "test"])
    table = hull_promises.compared(frame).set_index(["method", "against"])
    row = table.loc[hull_promises.LEVELS, hull_promises.MASKS]
    assert (row["gain"], row["w / t / l"]) == ("+0.050", "1 / 1 / 0")
