"""The law of certificates: what an exact search says no candidate can do, none does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework.arrays import Array
from framework.batch import Evaluated
from framework.run.evaluator import evaluate_candidates
from framework.testing.case import AlgorithmCase
from framework.testing.expect import expect

TABLE = "certificates"
"""Table of the outcome; columns ``metric``, ``bound``, ``at_most_NAME``, ``at_least_NAME``."""

_TOLERANCE = 1e-9
_FEW = 5000  # genomes of a space that is gone through whole


def certificates_hold(case: AlgorithmCase, genomes: int = 2000) -> Mapping[str, Array]:
    """Check each certificate of a finished run against evaluated candidates.

    A certificate says that no candidate that keeps to its conditions has its metric above its
    bound. All genomes of a small space are evaluated, else a sample and what the run asked for.

    Parameters
    ----------
    case : AlgorithmCase
        Of an algorithm that lists certificates.
    genomes : int
        Size of the sample.

    Returns
    -------
    mapping of str to numpy.ndarray
        The certificates.

    Raises
    ------
    AssertionError
        There is no certificate, or a candidate is better than one allows.
    """
    algorithm = case.fresh()
    told: list[Evaluated] = []
    for _ in range(case.generations + 1):
        X = algorithm.ask()
        if X is None:
            break
        told.append(
            evaluate_candidates(case.problem, case.seed, np.arange(len(X)) + _rows(told), X)
        )
        algorithm.tell(told[-1])
    table = algorithm.outcome().tables.get(TABLE, {})
    expect(bool(table), "certificates: expected some, found none")
    rows = Evaluated.concat([*told, _sampled(case, genomes, _rows(told))])
    for i, (metric, bound) in enumerate(zip(table["metric"], table["bound"], strict=True)):
        if metric not in rows.values:
            continue
        meets = rows.ok & _meets(table, i, rows)
        best = rows.values[metric][meets].max(initial=-np.inf)
        expect(
            best <= bound + _TOLERANCE,
            f"certificates: expected no candidate with {metric} above {bound}, found {best}",
        )
    return table


def _rows(told: list[Evaluated]) -> int:
    return sum(map(len, told))


def _sampled(case: AlgorithmCase, genomes: int, first: int) -> Evaluated:
    space = case.problem.space
    if space.size is not None and space.size <= _FEW and space.dtype.kind == "i":
        shape = tuple((space.upper - space.lower + 1).tolist())
        every = np.indices(shape).reshape(space.d, -1).T + space.lower
        X = every[space.contains(every)].astype(space.dtype)
    else:
        X = space.sample(np.random.default_rng(case.seed), genomes)
    return evaluate_candidates(case.problem, case.seed, np.arange(len(X)) + first, X)


def _meets(table: Mapping[str, Array], i: int, rows: Evaluated) -> Array:
    """Tell which rows keep to the conditions of certificate ``i``."""
    meets = np.ones(len(rows), dtype=bool)
    for name, column in table.items():
        for prefix, sign in (("at_most_", 1.0), ("at_least_", -1.0)):
            if name.startswith(prefix) and not np.isnan(column[i]):
                value = rows.values[name.removeprefix(prefix)]
                meets &= sign * value <= sign * column[i] + _TOLERANCE
    return meets
