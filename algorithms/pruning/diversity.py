"""How differently classifiers fail: pairwise failure credit and other pair measures.

Pairwise failure credit: Chandra and Yao 2006; pruning paper, Section 4.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from algorithms.pruning.votes import pair_credits
from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import InputError

PairMeasure = Literal["failure_credit", "disagreement", "double_fault", "q_statistic"]

NAMES: dict[PairMeasure, str] = {
    "failure_credit": "pfc",
    "disagreement": "disagreement",
    "double_fault": "double_fault",
    "q_statistic": "q_statistic",
}
"""What metrics of each measure begin with."""

TOLERANCE = 1e-9
"""How far a bound lets a mean lie below its demand: means are rounded."""


class Demand(NamedTuple):
    """Least diversity of an ensemble, by any measure of pairs.

    ``tau`` bounds each member's mean with the others (Equation 18), ``gamma`` the ensemble's
    (Equation 20).
    """

    tau: float = 0.0
    gamma: float = 0.0

    def met(self, credit: FloatArray, x: Array) -> bool:
        """Return whether an ensemble, shape (K,), has two members or more and is diverse enough.

        By the very numbers that are reported of it, to the last bit.
        """
        if np.count_nonzero(x) < 2:
            return False
        least, mean = pair_credits(credit, np.asarray(x)[np.newaxis])[0]
        return bool(least >= self.tau and mean >= self.gamma)


def failure_credit(failures: BoolArray) -> FloatArray:
    """Return the failure credit of each pair.

    The share, of the failures of both together, that only one of them has: 1 where no record
    defeats both, 0 where both fail on the same records, and 0 by definition where neither fails.

    Parameters
    ----------
    failures : numpy.ndarray of bool, shape (K, N)
        Whether a classifier is wrong on a record.

    Returns
    -------
    numpy.ndarray of float64, shape (K, K)
        Symmetric, zeros on the diagonal.
    """
    return _of_counts(_counts(failures), failures.shape[1], "failure_credit")


def pair_table(failures: BoolArray, measure: PairMeasure = "failure_credit") -> FloatArray:
    """Return a measure of diversity for each pair, greater is more diverse, in [0, 1].

    Parameters
    ----------
    failures : numpy.ndarray of bool, shape (K, N)
    measure : str
        ``disagreement`` is the share of records on which just one fails; ``double_fault`` one
        minus the share on which both fail; ``q_statistic`` Yule's Q turned to (1 - Q) / 2, and
        1/2 where it is undefined.

    Raises
    ------
    InputError
        Another measure.
    """
    if measure not in NAMES:
        raise InputError(f"pair_measure: expected {', '.join(NAMES)}, found {measure!r}")
    return _of_counts(_counts(failures), failures.shape[1], measure)


def weighted_pair_tables(failures: BoolArray, weights: Array, measure: PairMeasure) -> FloatArray:
    """Return the tables of pairs under weights of the records.

    Parameters
    ----------
    failures : numpy.ndarray of bool, shape (K, N)
    weights : numpy.ndarray, shape (N, b)
        Whole numbers, not all 0 in a column.
    measure : str

    Returns
    -------
    numpy.ndarray of float64, shape (b, K, K)
        Those of :func:`pair_table` of records repeated so often, to the bit.
    """
    totals, k = weights.sum(axis=0, dtype=np.float64), len(failures)
    whole = np.float32 if totals.max(initial=0.0) < 1 << 24 else np.float64  # that is exact
    some = failures.any(axis=0)  # the others fail no pair
    table, counted = failures[:, some].astype(whole), weights[some].astype(whole)
    tables = np.empty((len(totals), k, k))
    for drawn, column, total in zip(tables, counted.T, totals, strict=True):
        both = ((table * column) @ table.T).astype(np.float64)
        drawn[:] = _of_counts(both, float(total), measure)
    return tables


def _of_counts(both: FloatArray, n: float, measure: PairMeasure) -> FloatArray:
    """Return the table of pairs that fail together on ``both`` (K, K) of ``n`` records."""
    alone = np.diagonal(both)
    one = alone[:, None] + alone - 2 * both
    if measure == "failure_credit":
        total = alone[:, None] + alone
        table = np.divide(one, total, out=np.zeros(both.shape), where=total > 0)
    elif measure == "disagreement":
        table = one / n
    elif measure == "double_fault":
        table = 1.0 - both / n
    else:
        neither = n - both - one
        only = alone[:, None] - both
        agree, differ = both * neither, only * only.T
        q = np.divide(
            agree - differ, agree + differ, out=np.zeros(both.shape), where=agree + differ > 0
        )
        table = (1.0 - q) / 2.0
    np.fill_diagonal(table, 0.0)
    return np.asarray(table)


def demand_of(
    name: str | tuple[float, float] | None, credit: FloatArray, where: str = "algorithm.diversity"
) -> Demand | None:
    """Return the demand of a name, or the two thresholds given; None where there is none.

    ``f2`` asks for a mean of at least the middle between the least and the mean credit of the
    full pool, ``f3`` also for each member's of at least that least one (Section 5.4).

    Raises
    ------
    InputError
        Another name, numbers outside of 0..1, or tau > gamma.
    """
    if name is None:
        return None
    if name in ("f2", "f3"):
        if len(credit) < 2:
            raise InputError(f"{where}: expected two classifiers or more, found {len(credit)}")
        everyone = np.ones((1, len(credit)), dtype=np.int8)
        least, mean = pair_credits(credit, everyone)[0].tolist()
        return Demand(least if name == "f3" else 0.0, (least + mean) / 2)
    try:
        tau, gamma = map(float, name)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: expected f2, f3 or two numbers (tau, gamma), found {name!r}"
        ) from error
    if not (0 <= tau <= 1 and 0 <= gamma <= 1):
        raise InputError(f"{where}: expected tau and gamma within 0 and 1, found {tau}, {gamma}")
    if tau > gamma:
        raise InputError(
            f"{where}: expected tau <= gamma (no mean is below what every member has), found "
            f"tau={tau:g} > gamma={gamma:g}"
        )
    return Demand(tau, gamma)


def _counts(failures: BoolArray) -> FloatArray:
    """Return how many records defeat both of each pair, (K, K)."""
    table = failures.astype(np.float64)  # whole numbers: exact
    return table @ table.T
