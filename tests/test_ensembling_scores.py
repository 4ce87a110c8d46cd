"""The indicators of the ensembling experiments, on a task that can be done by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from algorithms.ensembling.papers import page as module


def task(*rows):
    """Return rows (method, returned, validation loss, test loss, cost); one cost for all three."""
    frame = pd.DataFrame(rows, columns=["method", "returned", "val_loss", "test_loss", "memory"])
    return frame.assign(inference_time=frame.memory, disk=frame.memory, weights="00")


def test_normalised_over_all_methods_and_constant_columns():
    rows = module.normalised(task(("a", True, 0.2, 3.0, 5.0), ("b", True, 0.4, 3.0, 1.0)))
    assert rows.val_loss.tolist() == [0.0, 1.0]
    assert rows.test_loss.tolist() == [0.0, 0.0]
    assert rows.hardware.tolist() == [1.0, 0.0]


def test_fronts_are_chosen_on_validation_and_scored_on_test():
    rows = task(
        ("HAPEns", True, 0.0, 1.0, 1.0),  # best on validation, worst on test
        ("HAPEns", True, 0.5, 0.0, 1.0),  # beaten on validation, best on test
        ("HAPEns", False, 1.0, 0.5, 0.0),  # cheapest, but the method itself lost it
        ("single best", True, 0.0, 1.0, 1.0),
    )
    chosen = module.fronts(rows, "memory", hindsight=False)
    assert {name: points.tolist() for name, points in chosen.items()} == {
        "HAPEns": [[1.0, 1.0]],
        "HAPEns + archive": [[1.0, 1.0], [0.5, 0.0]],
        "single best": [[1.0, 1.0]],
    }
    hindsight = module.fronts(rows, "memory", hindsight=True)
    assert hindsight["HAPEns"].tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert set(hindsight) == {"HAPEns", "single best"}


def test_scores_by_hand():
    rows = task(
        ("all singles", True, 0.0, 0.0, 1.0),
        ("all singles", True, 1.0, 1.0, 0.0),
        ("single best", True, 0.0, 0.0, 1.0),
    )
    found = module.scores(rows, "memory").set_index("method")
    corner = module.REFERENCE
    both = 2 * (corner - 1) * corner - (corner - 1) ** 2
    assert np.isclose(found.loc["all singles", "hypervolume"], both)
    assert np.isclose(found.loc["single best", "hypervolume"], corner * (corner - 1))
    assert found.loc["all singles", "igd_plus"] == 0.0
    assert np.isclose(found.loc["single best", "igd_plus"], 0.5)  # (0, 1) is found, (1, 0) is not


def test_counts_of_what_is_built():
    rows = task(("a", True, 0.0, 0.0, 1.0), ("a", True, 1.0, 1.0, 1.0), ("a", False, 1.0, 1.0, 0.0))
    found = module.built(rows).iloc[0]
    assert found[["returned", "unique", "on_front"]].tolist() == [2, 1, 1]
