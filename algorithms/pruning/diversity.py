"""Diversity: how differently pairs of classifiers fail (pruning paper, Section 4)."""

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
"""How the names of the metrics of each measure begin."""

TOLERANCE = 1e-9
"""By how much rows of a program let a mean fall short of its demand, as means are rounded."""


class Demand(NamedTuple):
    """The least diversity of an ensemble, by any measure of pairs.

    Each member's mean with the others is at least ``tau`` (Equation 18), and the mean of all pairs
    is at least ``gamma`` (Equation 20).
    """

    tau: float = 0.0
    gamma: float = 0.0

    def met(self, credit: FloatArray, x: Array) -> bool:
        """Return whether an ensemble, shape (K,), has at least two members and meets the demand.

        The means that are compared are those of the reported metrics, to the last bit.
        """
        if np.count_nonzero(x) < 2:
            return False
        least, mean = pair_credits(credit, np.asarray(x)[np.newaxis])[0]
        return bool(least >= self.tau and mean >= self.gamma)


def pair_table(failures: BoolArray, measure: PairMeasure = "failure_credit") -> FloatArray:
    """Return a measure of diversity for each pair, greater is more diverse, in [0, 1].

    Parameters
    ----------
    failures : numpy.ndarray of bool, shape (K, N)
        Whether a classifier is wrong on a record.
    measure : str
        ``failure_credit`` (Chandra and Yao 2006) is the number of records on which one of the pair
        fails, divided by the sum of both failures: 1 if they never fail together, 0 if they always
        do, and 0 if neither ever fails. ``disagreement`` is the share of records on which one
        fails, and ``double_fault`` one minus the share on which both fail. ``q_statistic`` is
        (1 - Q) / 2 with Yule's Q, and 1/2 where Q is undefined.

    Returns
    -------
    numpy.ndarray of float64, shape (K, K)
        Symmetric, zeros on the diagonal.

    Raises
    ------
    InputError
        There is no such measure.
    """
    if measure not in NAMES:
        raise InputError(f"pair_measure: expected {', '.join(NAMES)}, found {measure!r}")
    table = failures.astype(np.float64)  # sums of whole numbers are exact
    return _of_counts(table @ table.T, failures.shape[1], measure)


def weighted_pair_tables(failures: BoolArray, weights: Array, measure: PairMeasure) -> FloatArray:
    """Return the table of pairs under each column of weights of the records.

    Parameters
    ----------
    failures : numpy.ndarray of bool, shape (K, N)
    weights : numpy.ndarray, shape (N, b)
        Whole numbers, not all 0 in a column.
    measure : str

    Returns
    -------
    numpy.ndarray of float64, shape (b, K, K)
        As :func:`pair_table` with each record repeated as often as its weight, to the bit.
    """
    totals, k = weights.sum(axis=0, dtype=np.float64), len(failures)
    # the narrowest type that holds sums of weights exactly
    whole = np.float32 if totals.max(initial=0.0) < 1 << 24 else np.float64
    failed = failures.any(axis=0)
    table, counted = failures[:, failed].astype(whole), weights[failed].astype(whole)
    tables = np.empty((len(totals), k, k))
    for drawn, column, total in zip(tables, counted.T, totals, strict=True):
        both = ((table * column) @ table.T).astype(np.float64)
        drawn[:] = _of_counts(both, float(total), measure)
    return tables


def _of_counts(both: FloatArray, n: float, measure: PairMeasure) -> FloatArray:
    """Return the table of pairs of which both fail on ``both`` (K, K) of ``n`` records."""
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
    """Return the demand with a name or with two numbers, tau and gamma; None for None.

    ``f2`` sets gamma halfway between the least and the mean credit of the full pool; ``f3`` also
    sets tau to that least credit (Section 5.4).

    Raises
    ------
    InputError
        There is no such name, a number is outside of [0, 1], or tau is above gamma.
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
