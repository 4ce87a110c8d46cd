"""What to expect of each solution of a front on new records: the luck of being on it.

A solution is on a front for being better than its neighbours on the records of the search, and
part of that is luck. The rule that picks it is its spot on the front: what comes nearest to its
losses, or is furthest beyond them
(:meth:`~framework.analysis.resample_fronts.ResampleFronts.nearest`). In each resample of the
records every spot picks again among all candidates evaluated; the mean gain of the picks is the
optimism, as in :mod:`~framework.analysis.expectations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.choose import Values, constraints_of, losses_of, meets
from framework.analysis.ranges import NORMAL, promised, spreads
from framework.analysis.resample_fronts import ResampleFronts, depths, landmarks, least_deep, spans
from framework.analysis.resamples import PILOT, Pool, Resamples, nearest_of, standard_errors
from framework.arrays import Array, FloatArray, IntArray
from framework.front import FIRM, TIED, Front, expected_columns
from framework.outcomes import Refits
from framework.roles import Roles

_WORK = 2e9  # candidates x records x resamples: about a second of one core
_PAIRS = 1e9  # solutions x solutions x resamples, likewise
_FEWEST = 50  # resamples of a front that is very large
_ROUNDING = 1e-9  # of standard deviations, at most
_DEEP = 2.0  # standard errors below the front: 99.6% of picks were the same as without


class FrontExpectation(NamedTuple):
    """What to expect of the solutions of a front.

    Attributes
    ----------
    columns : mapping of str to numpy.ndarray, shape (solutions,)
        As ``Front.expected`` has them.
    designs, resampled : int
        How many designs were evaluated, and how many of them may win a spot.
    resamples : int
    whole : bool
        Whether all those that may win were looked at.
    """

    columns: Mapping[str, Array]
    designs: int
    resampled: int
    resamples: int
    whole: bool


def expect_front(
    resamples: Resamples,
    roles: Roles,
    claimed: Values,
    ids: IntArray,
    positions: IntArray,
    refits: Refits | None = None,
) -> FrontExpectation:
    """Return what to expect of the solutions of a front.

    Parameters
    ----------
    resamples : Resamples
        Of outcomes that have every objective and every metric with a constraint.
    roles : Roles
    claimed : mapping of str to numpy.ndarray, shape (candidates,)
        The metrics of all candidates, as the search had them.
    ids, positions : numpy.ndarray of int64, shape (n,)
        Of the solutions: ids, and where they are among the candidates. At least one.
    refits : Refits, optional
        Of the solutions, where models are fitted anew.
    """
    # a very large front has fewer resamples: each spot looks at the front of each of them
    count = int(min(max(_PAIRS / len(positions) ** 2, _FEWEST), resamples.count))
    resamples, losses = resamples.first(count), losses_of(roles, claimed)
    drawn = resamples.metrics(positions)
    drawn_losses = losses_of(roles, drawn)
    span = spans(losses[:, positions])
    pool, whole = _pool(resamples, roles, losses, positions, span)
    fronts = ResampleFronts.of(resamples, roles, pool)
    picks = fronts.nearest(losses[:, positions].T, span)

    figures = expected_columns(roles.metrics)
    metrics = {n: roles.metrics[n] for n in figures if n in resamples.outcomes.names}
    gains, more = resamples.gains(picks, metrics), resamples.again()
    redrawn = ResampleFronts.of(more, roles, pool).nearest(losses[:, positions].T, span)
    again = more.gains(redrawn, metrics)
    spread = spreads(resamples.outcomes, resamples.units, positions, drawn, metrics, refits)
    columns: dict[str, Array] = {}
    for name, metric in metrics.items():
        figures_of = claimed[name][positions].tolist()
        of_solutions = zip(figures_of, gains[name], spread[name], again[name], strict=True)
        promises = [
            promised(one, gain, metric, design, twice) for one, gain, design, twice in of_solutions
        ]
        columns |= zip(figures[name], np.array(promises).T[1:].copy(), strict=True)

    if not {FIRM, TIED} & roles.metrics.keys():
        feasible = meets(constraints_of(roles), roles, drawn)
        firm = (feasible & ~fronts.dominated(drawn_losses)).mean(axis=1)
        leaders = _leaders(losses[:, positions], drawn_losses, np.lexsort((ids, -firm)))
        columns |= {FIRM: firm, TIED: ids[leaders]}
    return FrontExpectation(columns, resamples.outcomes.candidates, len(pool), count, whole)


def standing_of(front: Front, position: int, expected: Mapping[str, Any]) -> str:
    """Return how firmly a solution is on its front, in words.

    ``expected`` is what the summary of its run says of the figures.
    """
    columns, texts = front.expected or {}, []
    if FIRM in columns:
        texts.append(f"on the front in {100 * columns[FIRM][position]:.0f}% of resamples")
    if TIED in columns:
        tied = columns[TIED]
        alike = int((tied == tied[position]).sum()) - 1
        others = f"{alike} other solution{'' if alike == 1 else 's'}"
        texts.append(
            f"the records do not tell it apart from {others}"
            if alike
            else "the records tell it apart from all others"
        )
        texts.append(f"they tell {len(np.unique(tied)):,} of the {len(front):,} solutions apart")
    if expected.get("whole") is False:
        texts.append(
            f"of {expected.get('designs', 0):,} candidates the {expected.get('resampled', 0):,} "
            "nearest to the front were resampled"
        )
    if expected.get("refits") == "unknown":
        texts.append("models are fitted anew: ranges are for those that change little by that")
    return "; ".join(texts)


def _pool(
    resamples: Resamples, roles: Roles, losses: FloatArray, positions: IntArray, span: FloatArray
) -> Pool:
    """Return the candidates that may win a spot.

    A candidate is as deep as the greatest margin by which a solution of the front is better in
    every objective. By the first 32 resamples it is left out where its depth is on average more
    than two standard errors. Where too many are left, the least deep are kept.
    """
    pilot, records = resamples.first(PILOT), resamples.outcomes.records
    shallow = least_deep(losses, positions, span, int(_WORK / (records * PILOT)))
    members = losses_of(roles, pilot.metrics(landmarks(positions), roles.names))
    depth = [
        standard_errors(depths(losses_of(roles, values), members, span))
        for _, values in pilot.pieces(shallow.candidates, roles.names)
    ]
    solution = np.isin(shallow.candidates, positions)
    distance = np.where(solution, -1.0, np.concatenate(depth))
    near = distance <= _DEEP
    most = int(_WORK / (records * resamples.count))
    pool = nearest_of(shallow.candidates[near], distance[near], most)
    return pool._replace(whole=pool.whole and shallow.whole)


def _leaders(losses: FloatArray, drawn: FloatArray, order: IntArray) -> IntArray:
    """Return for each solution the first one, in an order, that it is not told apart from.

    Two are told apart by an objective where they differ by more than 1.96 standard errors of their
    difference. The first of the order is tied with all that it is not told apart from;
    so is the first that is left then.

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (objectives, n)
    drawn : numpy.ndarray of float64, shape (objectives, n, resamples)
        The same in resamples.
    order : numpy.ndarray of int64, shape (n,)
    """
    leaders = np.full(len(order), -1, dtype=np.int64)
    left, errors = order, drawn.std(axis=2)
    while len(left):
        leader = left[0]
        gap = np.abs(losses[:, left] - losses[:, [leader]])
        # the error of a difference is at most the sum of both: seldom is it needed
        most = (errors[:, left] + errors[:, [leader]]) * (1 + _ROUNDING) + _ROUNDING
        alike = (gap <= NORMAL * most).all(axis=0)
        near = np.flatnonzero(alike)
        error = (drawn[:, left[near]] - drawn[:, [leader]]).std(axis=2)
        alike[near] = (gap[:, near] <= NORMAL * error).all(axis=0)
        alike[0] = True
        leaders[left[alike]] = leader
        left = left[~alike]
    return leaders
