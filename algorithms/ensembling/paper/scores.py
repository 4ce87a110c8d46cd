"""How good are the ensembles that methods build: the indicators of the HAPEns paper (Section 4).

Rows are ensembles of one task (data set) and seed, by method: what each costs, its loss on
validation (out-of-fold) predictions and on test records, and whether the method itself returns it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from framework.arrays import FloatArray
from framework.pareto import hypervolume, igd_plus, nondominated

COSTS = ("inference_time", "memory", "disk")
REFERENCE = 1.01  # in each normalised objective; the authors' code
ARCHIVE = " + archive"  # behind a method's name: the front of all that it evaluated
KEEPS_LESS = ("GES*", "Multi-GES", "QO-ES", "QDO-ES", "HAPEns")  # than it evaluates


def normalised(rows: pd.DataFrame) -> pd.DataFrame:
    """Scale losses and costs of one task and seed to [0, 1] over all methods' ensembles.

    Parameters
    ----------
    rows : pandas.DataFrame
        Columns ``val_loss``, ``test_loss`` and each of ``COSTS``.

    Returns
    -------
    pandas.DataFrame
        The same with these columns scaled, and ``hardware``: the mean of the scaled costs. A
        column without spread becomes 0.
    """
    rows = rows.copy()
    for column in ("val_loss", "test_loss", *COSTS):
        low, high = rows[column].min(), rows[column].max()
        rows[column] = (rows[column] - low) / (high - low) if high > low else 0.0
    rows["hardware"] = rows[list(COSTS)].mean(axis=1)
    return rows


def chosen(rows: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the rows that nothing beats in validation loss and cost: what a user can know."""
    return rows[nondominated(rows[["val_loss", cost]].to_numpy())]


def fronts(rows: pd.DataFrame, cost: str, hindsight: bool) -> dict[str, FloatArray]:
    """Return each method's points (test loss, cost), of what it returns and of its archive.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of one task and seed, :func:`normalised`, with columns ``method`` and ``returned``.
    cost : str
        ``hardware`` or one of ``COSTS``.
    hindsight : bool
        The paper's reading: all ensembles that are returned compete with their test losses, which
        nobody knows when choosing. Otherwise the front is chosen on validation, then scored.
    """
    points = {}
    for method, group in rows.groupby("method", sort=False):
        returned = group[group["returned"]]
        sets = {str(method): returned if hindsight else chosen(returned, cost)}
        if method in KEEPS_LESS and not hindsight:
            sets[str(method) + ARCHIVE] = chosen(group, cost)
        for name, kept in sets.items():
            points[name] = kept[["test_loss", cost]].to_numpy(dtype=np.float64)
    return points


def scores(rows: pd.DataFrame, cost: str = "hardware", hindsight: bool = False) -> pd.DataFrame:
    """Return hypervolume and IGD+ of each method on one task with one seed.

    The reference of IGD+ is the non-dominated union over all methods, as in the paper.
    """
    points = fronts(normalised(rows), cost, hindsight)
    together = np.concatenate(list(points.values()))
    best = together[nondominated(together)]
    corner = np.full(2, REFERENCE)
    return pd.DataFrame(
        {
            "method": name,
            "hypervolume": hypervolume(found, corner),
            "igd_plus": igd_plus(found, best),
            "returned": len(found),
        }
        for name, found in points.items()
    )


def built(rows: pd.DataFrame) -> pd.DataFrame:
    """Count what each method returns on one task and seed (Figures 13 and 14 of the paper).

    Columns: ``returned`` ensembles, those of them that are ``unique`` (as weights), and those
    ``on_front`` of the method's own front of test loss and hardware.
    """
    rows = normalised(rows)
    counts = []
    for method, group in rows[rows["returned"]].groupby("method", sort=False):
        points = group[["test_loss", "hardware"]].to_numpy()
        counts.append(
            {
                "method": method,
                "returned": len(group),
                "unique": group["weights"].nunique(),
                "on_front": int(nondominated(points).sum()),
            }
        )
    return pd.DataFrame(counts)
