"""Which baselines there are, and the grid that each is tuned on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from algorithms.multistage.baselines.cact_lasso import CaCTLasso
from algorithms.multistage.baselines.cegb import CEGB
from algorithms.multistage.baselines.cost_ordered import CostOrdered
from algorithms.multistage.baselines.cstc import CSTC
from algorithms.multistage.baselines.greedy_miser import GreedyMiser
from algorithms.multistage.baselines.single_stage import SingleStage

MethodName = Literal["single_stage", "cost_ordered", "cact_lasso", "greedy_miser", "cstc", "cegb"]
Criterion = Literal["aggregate", "plain_aggregate", "asking_aggregate"]
"""What tuning maximises: a metric, or the aggregate among cells that acquire a feature and answer a
record at all (the others count less than any of these)."""


class Method(NamedTuple):
    """A baseline and how it is tuned.

    estimator : class
    grid : the values of each tuned parameter, each with each.
    tuned_by : what is maximised on validation records. The paper says so for CaCT LASSO alone;
        GreedyMiser and CSTC "are not optimized with respect to coverage", so accuracy without
        rejection and cost choose their parameters, and CEGB's, as in their own papers.
    """

    estimator: type[Any]
    grid: Mapping[str, Sequence[Any]]
    tuned_by: Criterion = "aggregate"


class Cell(NamedTuple):
    """A baseline with one choice of its tuned parameters."""

    method: MethodName
    parameters: Mapping[str, Any]


def _geometric(least: float, greatest: float, count: int) -> list[float]:
    """Return 0 and values at equal ratios, to three digits."""
    return [0.0, *(float(f"{value:.3g}") for value in np.geomspace(least, greatest, count))]


METHODS: dict[MethodName, Method] = {
    "single_stage": Method(SingleStage, {}),
    "cost_ordered": Method(CostOrdered, {}),
    # the paper's grid: 0, 0.1, ..., 100
    "cact_lasso": Method(CaCTLasso, {"penalty": [tenths / 10 for tenths in range(1001)]}),
    # "grid search on a large discretized set", which the paper does not give
    "greedy_miser": Method(
        GreedyMiser,
        {
            "tradeoff": _geometric(1e-3, 1.0, 11),
            "depth": [1, 2, 3],
            "rounds": [25, 100],
        },
        "plain_aggregate",
    ),
    "cstc": Method(
        CSTC,
        {
            "tradeoff": _geometric(0.01, 10.0, 10),
            "depth": [1, 2, 3],
            "inner_weight": [1.0, 0.1, 0.03, 0.0],  # 1 is the paper's
            "starts": [4],
        },
        "plain_aggregate",
    ),
    "cegb": Method(
        CEGB,
        {"tradeoff": _geometric(0.01, 1.0, 9), "leaves": [2, 4, 8], "rounds": [20, 80]},
        "plain_aggregate",
    ),
}


def cells_of(methods: Iterable[MethodName]) -> list[Cell]:
    """Return every cell of the grids of some methods, in their order, the last parameter fastest.

    Examples
    --------
    >>> len(cells_of(["cact_lasso"])), cells_of(["cact_lasso"])[1].parameters
    (1001, {'penalty': 0.1})
    """
    return [
        Cell(name, dict(zip(METHODS[name].grid, values, strict=True)))
        for name in methods
        for values in itertools.product(*METHODS[name].grid.values())
    ]


def estimator_of(cell: Cell, **common: Any) -> Any:
    """Return the unfitted estimator of a cell.

    Parameters
    ----------
    cell : Cell
    **common
        Such as ``costs``, ``threshold`` and ``reject_label``; those that a baseline does not take
        (one that never rejects) are left out.
    """
    kind = METHODS[cell.method].estimator
    accepted = kind().get_params()
    return kind(
        **cell.parameters, **{key: value for key, value in common.items() if key in accepted}
    )
