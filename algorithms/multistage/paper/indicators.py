"""EMSCO's own measures of one solution (Section 4.3) as indicators."""

from __future__ import annotations

import numpy as np

from framework.analysis.indicators import Indicator, Judged

_NEEDED = ("coverage", "accuracy", "cost")


def _share_of_costs(judged: Judged) -> float:
    """Return the mean cost as a share of the cost of all features; NaN of other problems."""
    if any(name not in judged.metrics for name in _NEEDED) or not len(judged.losses):
        return np.nan
    everything = judged.roles.metrics["cost"].high
    return float(np.mean(judged.metrics["cost"])) / everything if everything else 0.0


def _aggregate(judged: Judged) -> float:
    values = judged.metrics
    if np.isnan(share := _share_of_costs(judged)):
        return np.nan
    return float(np.mean(values["coverage"]) + np.mean(values["accuracy"])) + 1.0 - share


COST_SHARE = Indicator(
    "cost, of all features",
    "low",
    "mean acquisition cost a record as a share of the cost of all features",
    _share_of_costs,
    on_request=True,
)
AGGREGATE = Indicator(
    "aggregate",
    "high",
    "coverage + accuracy + 1 - cost / all costs",
    _aggregate,
    on_request=True,
)
