"""What to expect of solutions on new records: the luck of being chosen, by resamples.

A figure that was chosen for being high is too high on average. Resamples of the records tell by how
much (Efron and Tibshirani 1993, Chapter 17): in each, the user's rule picks again among all
candidates evaluated, and its pick has a better figure there than on all records. The mean of these
differences is the optimism of the rule; the expected figure is the claimed one less the optimism.
This estimate is somewhat too small; a resample of each resample tells by how much.

Likewise a solution is on a front because it is better than its neighbours on the records of the
search, and part of that is luck. Its losses are a *spot* on the front. The spot acts as a rule that
picks the candidate nearest to it, or furthest beyond it
(:meth:`~framework.analysis.resample_fronts.ResampleFronts.nearest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.choose import Rule, constraints_of, losses_of, meets
from framework.analysis.ranges import NORMAL, Spread, promised, spreads
from framework.analysis.resample_fronts import (
    ResampleFronts,
    best_first,
    depths,
    landmarks,
    least_deep,
    spans,
)
from framework.analysis.resamples import PILOT, Pool, Resamples, nearest_of, standard_errors
from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.front import FIRM, TIED, Front, Promise, expected_columns
from framework.outcomes import Refits, Values
from framework.roles import Roles

_WORK = 2e9  # candidates x records x resamples: about a second of one core
_PAIRS = 1e9  # solutions x solutions x resamples: likewise about a second
_FEWEST = 50  # resamples, even of a very large front
_ROUNDING = 1e-9  # bound of the rounding errors of standard deviations, relative and absolute
_DEEP = 2.0  # candidates this many standard errors below the front never win; changes 0.4% of picks


@dataclass(frozen=True)
class Expectation:
    """What to expect of a solution that a rule picked.

    Attributes
    ----------
    of : mapping of str to Promise
        The promise of every metric.
    again : float
        Share of the resamples in which the rule picks this design again.
    others : int
        How many other designs it picks in the remaining resamples.
    unmet : float
        Share of the resamples in which no design meets the conditions; they are left out.
    designs, resampled : int
        How many designs there are, and how many of them were resampled.
    whole : bool
        Whether all designs that may win were resampled.
    beside : int
        How many of the designs the search did not evaluate, although it could have chosen them.
    """

    of: Mapping[str, Promise]
    again: float
    others: int
    unmet: float
    designs: int
    resampled: int
    whole: bool
    beside: int = 0


def expect(
    resamples: Resamples, rule: Rule, position: int, spread: Mapping[str, Spread] | None = None
) -> Expectation:
    """Return what to expect of the candidate that a rule picked.

    Parameters
    ----------
    resamples : Resamples
    rule : Rule
    position : int
        The position of the candidate among the outcomes.
    spread : mapping of str to Spread, optional
        What the ranges are computed from, by metric; as without refits if None.

    Raises
    ------
    InputError
        In no resample does any candidate meet the conditions.
    """
    pool, whole = resamples.pool(rule)
    pool = np.union1d(pool, [position])

    def pick(drawn: Resamples, candidates: IntArray) -> IntArray:
        return drawn.picks(rule, candidates)[np.newaxis]

    picks = pick(resamples, resamples.evaluated(pool))
    picked = picks[picks >= 0]
    if not len(picked):
        raise InputError(
            f"where: no candidate meets the conditions in any of {resamples.count} resamples of "
            "the records; nothing can be expected of such a pick"
        )
    outcomes, chosen, metrics = resamples.outcomes, np.array([position]), rule.roles.metrics
    if spread is None:
        alone = spreads(resamples, chosen, resamples.metrics(chosen), metrics)
        spread = {name: of_solutions[0] for name, of_solutions in alone.items()}
    # the description of a run that was received from others may lack a metric
    claimed = {n: float(v[0]) for n, v in resamples.claimed(chosen).items() if n in spread}
    gains, again = resamples.gains_of_rules(pick, picks, pool, claimed)
    promises = {
        name: promised(figure, gains[name][0], metrics[name], spread[name], again[name][0])
        for name, figure in claimed.items()
    }
    return Expectation(
        promises,
        again=float(np.mean(picks == position)),
        others=len(np.setdiff1d(picked, [position])),
        unmet=1 - len(picked) / picks.size,
        designs=outcomes.candidates,
        resampled=len(pool),
        whole=whole,
    )


class FrontExpectation(NamedTuple):
    """What to expect of the solutions of a front.

    Attributes
    ----------
    columns : mapping of str to numpy.ndarray, shape (solutions,)
        The columns of ``Front.expected``.
    designs, resampled : int
        How many designs there are, and how many of them were resampled.
    resamples : int
        The number of resamples.
    whole : bool
        Whether all designs that may win a spot were resampled.
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
        Their outcomes must have every objective and every metric with a constraint.
    roles : Roles
    claimed : mapping of str to numpy.ndarray, shape (candidates,)
        The metrics of all candidates, as the search evaluated them.
    ids, positions : numpy.ndarray of int64, shape (n,)
        The ids of the solutions and their positions among the candidates, n at least 1.
    refits : Refits, optional
        What refitting changes for the solutions, where exported models are fitted anew.
    """
    # each spot searches the whole front of each resample, so very large fronts get fewer resamples
    count = int(min(max(_PAIRS / len(positions) ** 2, _FEWEST), resamples.count))
    resamples, losses = resamples.first(count), losses_of(roles, claimed)
    drawn = resamples.metrics(positions)
    resamples = resamples.with_table(positions, drawn)
    drawn_losses = losses_of(roles, drawn)
    span = spans(losses[:, positions])
    pool, whole = _pool(resamples, roles, losses, positions, span)
    pool = best_first(losses, pool, span)
    fronts = ResampleFronts.of(resamples, roles, resamples.evaluated(pool))

    def pick(drawn: Resamples, candidates: IntArray) -> IntArray:
        there = fronts if drawn is resamples else ResampleFronts.of(drawn, roles, candidates)
        return there.nearest(losses[:, positions].T, span)

    figures = expected_columns(roles.metrics)
    metrics = {n: roles.metrics[n] for n in figures if n in resamples.outcomes.names}
    gains, again = resamples.gains_of_rules(pick, pick(resamples, pool), pool, metrics)
    spread = spreads(resamples, positions, drawn, metrics, refits)
    columns: dict[str, Array] = {}
    for name, metric in metrics.items():
        figures_of = claimed[name][positions].tolist()
        of_solutions = zip(figures_of, gains[name], spread[name], again[name], strict=True)
        promises = [
            promised(figure, gain, metric, design, gain_again)
            for figure, gain, design, gain_again in of_solutions
        ]
        columns |= zip(figures[name], np.array(promises).T[1:].copy(), strict=True)

    if not {FIRM, TIED} & roles.metrics.keys():
        feasible = meets(constraints_of(roles), roles, drawn)
        firm = (feasible & ~fronts.dominated(drawn_losses)).mean(axis=1)
        leaders = _leaders(losses[:, positions], drawn_losses, np.lexsort((ids, -firm)))
        columns |= {FIRM: firm, TIED: ids[leaders]}
    return FrontExpectation(columns, resamples.outcomes.candidates, len(pool), count, whole)


def standing_of(front: Front, position: int, expected: Mapping[str, Any]) -> str:
    """Return in words how firmly a solution is on its front.

    ``expected`` is the entry on expected figures in the summary of the run.
    """
    columns, texts = front.expected or {}, []
    if FIRM in columns:
        texts.append(f"on the front in {100 * columns[FIRM][position]:.0f}% of resamples")
    if TIED in columns and len(front) > 1:
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

    A candidate is left out if its mean depth below the front in the first 32 resamples (see
    :func:`depths`) is more than two standard errors. If too many are left, the least deep are kept.
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
    """Return for each solution the leader of its group, from which the records do not tell it.

    Two solutions are told apart if they differ in some objective by more than 1.96 standard errors
    of the difference. The first solution in ``order`` leads all those that are not told apart from
    it; the first of the rest leads the next group; and so on. ``losses`` are (objectives, n),
    ``drawn`` the same in resamples (objectives, n, resamples), ``order`` positions (n,).
    """
    leaders = np.full(len(order), -1, dtype=np.int64)
    left, errors = order, drawn.std(axis=2)
    while len(left):
        leader = left[0]
        gap = np.abs(losses[:, left] - losses[:, [leader]])
        # The error of a difference is at most the sum of both errors. This cheap bound excludes
        # most solutions; the error itself is computed for the others only.
        most = (errors[:, left] + errors[:, [leader]]) * (1 + _ROUNDING) + _ROUNDING
        alike = (gap <= NORMAL * most).all(axis=0)
        near = np.flatnonzero(alike)
        error = (drawn[:, left[near]] - drawn[:, [leader]]).std(axis=2)
        alike[near] = (gap[:, near] <= NORMAL * error).all(axis=0)
        alike[0] = True
        leaders[left[alike]] = leader
        left = left[~alike]
    return leaders
