"""What to expect of each solution of a front on new records: the luck of being on it.

A solution is on a front for being better than its neighbours on the records of the search, and
part of that is luck. The rule that picks it is its spot on the front: the least augmented
achievement scalarisation (Wierzbicki 1980; Steuer and Choo 1983), with the solution's own losses as
the point of reference and the spans of the front as scales. In each resample of the records every
spot picks again among all candidates evaluated; the mean gain of the picks is the optimism, as in
:mod:`~framework.analysis.expectations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.expectations import (
    PILOT,
    Resamples,
    Values,
    behind,
    constraints_of,
    parts,
    sign_of,
)
from framework.analysis.ranges import promised, spreads
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.front import FIRM, GROUP, Front, expected_columns
from framework.jit import njit, njit_ieee
from framework.outcomes import Refits
from framework.roles import Roles

_WORK = 2e9  # candidates x records x resamples: about a second of one core
_PAIRS = 1e9  # solutions x solutions x resamples, likewise
_FEWEST = 50  # resamples of a front that is very large
_DEEP = 2.0  # standard errors below the front: 99.6% of picks were the same as without
_TOGETHER = 16  # resamples whose picks are scored at once
_LANDMARKS = 64  # solutions that tell how far from the front the others are
_AUGMENTED = 1e-3  # weight of the sum beside the greatest scaled loss: no pick is dominated
_TOLD_APART = 1.96  # standard errors between two solutions


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
    spots = _Spots(resamples, roles, claimed, positions)
    pool, whole = spots.pool()
    picks, firm = spots.picks(pool)
    columns = spots.promises(picks, refits)
    if not {FIRM, GROUP} & roles.metrics.keys():
        columns[FIRM] = firm
        columns[GROUP] = ids[spots.groups(np.lexsort((ids, -firm)))]
    designs = resamples.outcomes.candidates
    return FrontExpectation(columns, designs, len(pool), spots.weights.shape[1], whole)


def standing_of(front: Front, position: int, expected: Mapping[str, Any]) -> str:
    """Return how firmly a solution is on its front, in words.

    ``expected`` is what the summary of its run says of the figures.
    """
    columns, texts = front.expected or {}, []
    if FIRM in columns:
        texts.append(f"on the front in {100 * columns[FIRM][position]:.0f}% of resamples")
    if GROUP in columns:
        group = columns[GROUP]
        alike = int((group == group[position]).sum()) - 1
        others = f"{alike} other solution{'' if alike == 1 else 's'}"
        texts.append(
            f"the records do not tell it apart from {others}"
            if alike
            else "the records tell it apart from all others"
        )
        texts.append(f"the {len(front):,} solutions are {len(np.unique(group)):,} groups")
    if expected.get("whole") is False:
        texts.append(
            f"of {expected.get('designs', 0):,} designs the {expected.get('resampled', 0):,} "
            "nearest to the front were resampled"
        )
    if expected.get("refits") == "unknown":
        texts.append("models are fitted anew: ranges are for those that change little by that")
    return "; ".join(texts)


class _Spots:
    """The spots of the solutions of a front; see :func:`expect_front`."""

    def __init__(
        self, resamples: Resamples, roles: Roles, claimed: Values, positions: IntArray
    ) -> None:
        self.outcomes, self.roles, self._units = resamples.outcomes, roles, resamples.units
        self.claimed, self.positions = claimed, positions
        # a very large front has fewer resamples: each spot looks at the front of each of them
        count = int(min(max(_PAIRS / len(positions) ** 2, _FEWEST), resamples.count))
        self.weights = resamples.weights[:, :count]
        self.own = self.outcomes.metrics(self.weights, positions)
        self._losses = self._losses_of(claimed)
        members = self._losses[:, positions]
        span = np.ptp(members, axis=1)
        self._span = np.where(span > 0, span, 1.0)

    def _losses_of(self, values: Values) -> FloatArray:
        """Return the losses of the objectives, shape (objectives, ...)."""
        return np.stack([sign_of(self.roles, n) * values[n] for n in self.roles.names])

    def _allowed(self, values: Values) -> BoolArray:
        held = ~np.isnan(values[self.roles.names[0]])
        for condition in constraints_of(self.roles):
            held &= condition.holds(values[condition.metric])
        return held

    def pool(self) -> tuple[IntArray, bool]:
        """Return the candidates that may win a spot, and whether all of these are there.

        A candidate is as deep as the greatest margin by which a solution of the front is better
        in every objective. By the first 32 resamples it is left out where its depth is on average
        more than two standard errors. Where too many are left, the least deep are kept.
        """
        n, records = self.outcomes.candidates, self.outcomes.records
        some = np.linspace(0, len(self.positions) - 1, _LANDMARKS).round().astype(np.int64)
        some = np.unique(some)
        near, whole = np.arange(n), True
        if n > (most := int(_WORK / (records * PILOT))):
            members = self._losses[:, self.positions[some]]
            depth = depths(self._losses[..., None], members[..., None], self._span)[:, 0]
            near, whole = self._least(near, depth, most), False
        few = self.weights[:, :PILOT]
        members = np.ascontiguousarray(
            self._losses_of({name: v[some, :PILOT] for name, v in self.own.items()})
        )
        distance = np.empty(len(near))
        for part in parts(np.arange(len(near)), few.shape[1]):
            values = self.outcomes.metrics(few, near[part], self.roles.names)
            depth = depths(self._losses_of(values), members, self._span)
            distance[part] = behind(depth.mean(axis=1), depth.std(axis=1))
        most = int(_WORK / (records * self.weights.shape[1]))
        kept = (distance <= _DEEP) | np.isin(near, self.positions)
        near, distance = near[kept], distance[kept]
        if len(near) > most:
            near, whole = self._least(near, distance, most), False
        return near, whole

    def _least(self, candidates: IntArray, distance: FloatArray, most: int) -> IntArray:
        """Return so many candidates with the least distances; the solutions are among them."""
        distance = np.where(np.isin(candidates, self.positions), -np.inf, distance)
        return np.sort(candidates[np.argsort(distance, kind="stable")[:most]])

    def picks(self, pool: IntArray) -> tuple[IntArray, FloatArray]:
        """Return what each spot picks in each resample, and how often its solution is on the front.

        Returns
        -------
        picks : numpy.ndarray of int64, shape (n, b)
            Positions among the candidates; -1 where none is feasible.
        firm : numpy.ndarray of float64, shape (n,)
        """
        roles, count = self.roles, self.weights.shape[1]
        needs = {*roles.names, *(constraint.metric for constraint in roles.constraints)}
        points = np.empty((count, 0, len(roles.names)))
        numbers, sizes = np.empty((count, 0), dtype=np.int64), np.zeros(count, dtype=np.int64)
        for part in parts(pool, count):
            more = int(sizes.max()) + len(part) - points.shape[1]
            if more > 0:
                more += points.shape[1]
                points = np.pad(points, ((0, 0), (0, more), (0, 0)))
                numbers = np.pad(numbers, ((0, 0), (0, more)))
            values = self.outcomes.metrics(self.weights, part, needs)
            losses = np.ascontiguousarray(self._losses_of(values).T)
            _sort_in(losses, self._allowed(values), part, points, numbers, sizes)
        members = np.ascontiguousarray(self._losses[:, self.positions].T)
        own = self._losses_of(self.own)
        picks, firm = _pick(points, numbers, sizes, members, own, self._span, _AUGMENTED)
        firm &= self._allowed(self.own)
        return picks, firm.mean(axis=1)

    def promises(self, picks: IntArray, refits: Refits | None) -> dict[str, Array]:
        """Return what to expect of each metric, as columns."""
        outcomes, count = self.outcomes, self.weights.shape[1]
        wanted = expected_columns(self.roles.metrics)
        names = [name for name in wanted if name in outcomes.names]
        drawn = {name: np.empty(picks.shape) for name in names}
        for start in range(0, count, _TOGETHER):
            here = slice(start, start + _TOGETHER)
            some, row = np.unique(picks[:, here], return_inverse=True)
            values = outcomes.metrics(self.weights[:, here], some, names)
            at = row.reshape(-1, picks[:, here].shape[1]), np.arange(picks[:, here].shape[1])
            for name in names:
                drawn[name][:, here] = np.where(picks[:, here] < 0, np.nan, values[name][at])
        metrics = {name: self.roles.metrics[name] for name in names}
        spread = spreads(outcomes, self._units, self.positions, self.own, metrics, refits)
        columns: dict[str, Array] = {}
        for name in names:
            claimed = self.claimed[name][self.positions]
            gained = drawn[name] - self.claimed[name][picks]
            found = [
                promised(figure, gain, metrics[name], own)[1:]
                for figure, gain, own in zip(claimed.tolist(), gained, spread[name], strict=True)
            ]
            columns |= zip(wanted[name], np.array(found).T.copy(), strict=True)
        return columns

    def groups(self, order: IntArray) -> IntArray:
        """Return for each solution the first one, in an order, that it is not told apart from.

        Two are told apart by an objective where they differ by more than 1.96 standard errors of
        their difference. The first of the order begins a group, in which is whatever it is not
        told apart from; the first that is left begins the next one.
        """
        own = self._losses_of(self.own)
        losses = self._losses[:, self.positions]
        leaders = np.full(len(order), -1, dtype=np.int64)
        left = order
        while len(left):
            leader = left[0]
            gap = np.abs(losses[:, left] - losses[:, [leader]])
            error = (own[:, left] - own[:, [leader]]).std(axis=2)
            alike = (gap <= _TOLD_APART * error).all(axis=0)
            alike[0] = True
            leaders[left[alike]] = leader
            left = left[~alike]
        return leaders


@njit_ieee
def depths(losses: FloatArray, members: FloatArray, span: FloatArray) -> FloatArray:
    """Return how deep candidates (objectives, n, b) are below members (objectives, f, b): (n, b).

    That is the greatest over the members of the least scaled loss beyond theirs; 0 at least.
    """
    m, n, resamples = losses.shape
    depths, least = np.zeros((n, resamples)), np.empty(resamples)
    for i in range(n):
        deepest = depths[i]
        for f in range(members.shape[1]):
            least[:] = np.inf
            for k in range(m):  # resamples innermost: such loops run on vectors
                own, theirs = losses[k, i], members[k, f]
                for b in range(resamples):
                    least[b] = min(least[b], (own[b] - theirs[b]) / span[k])
            for b in range(resamples):
                deepest[b] = max(deepest[b], least[b])
    return depths


@njit
def _sort_in(
    losses: FloatArray,
    allowed: BoolArray,
    candidates: IntArray,
    points: FloatArray,
    numbers: IntArray,
    sizes: IntArray,
) -> None:
    """Sort candidates into the front of each resample; of equal ones the first stays.

    ``losses`` (b, n, objectives), ``allowed`` (n, b); the fronts' losses ``points`` (b, capacity,
    objectives), their candidates ``numbers`` (b, capacity), and their ``sizes`` (b,). Whatever
    dismisses a candidate moves to the fore: most are dismissed at once.
    """
    resamples, n, m = losses.shape
    for b in range(resamples):
        front, size = points[b], sizes[b]
        for i in range(n):
            if not allowed[i, b]:
                continue
            at, beaten = 0, False
            while at < size and not beaten:
                worse = better = False
                for k in range(m):
                    worse |= losses[b, i, k] > front[at, k]
                    better |= losses[b, i, k] < front[at, k]
                if not better:
                    beaten = True
                elif not worse:  # it dominates: the last one takes the place
                    size -= 1
                    for k in range(m):
                        front[at, k] = front[size, k]
                    numbers[b, at] = numbers[b, size]
                else:
                    at += 1
            if beaten:
                fore = at // 2
                for k in range(m):
                    front[at, k], front[fore, k] = front[fore, k], front[at, k]
                numbers[b, at], numbers[b, fore] = numbers[b, fore], numbers[b, at]
                continue
            for k in range(m):
                front[size, k] = losses[b, i, k]
            numbers[b, size] = candidates[i]
            size += 1
        sizes[b] = size


@njit
def _pick(
    points: FloatArray,
    numbers: IntArray,
    sizes: IntArray,
    members: FloatArray,
    own: FloatArray,
    span: FloatArray,
    augmented: float,
) -> tuple[IntArray, BoolArray]:
    """Return what each spot picks in each resample, and where its solution is not dominated.

    ``points``, ``numbers`` and ``sizes`` as :func:`_sort_in` has them; ``members`` (n, objectives),
    the points of reference; ``own`` (objectives, n, b), the solutions in the resamples.
    """
    n, m = members.shape
    picks = np.full((n, len(sizes)), -1, dtype=np.int64)
    firm = np.ones((n, len(sizes)), dtype=np.bool_)
    for b in range(len(sizes)):
        for i in range(n):
            best = np.inf
            for j in range(sizes[b]):
                greatest, total = -np.inf, 0.0
                worse, better = False, True
                for k in range(m):
                    point = points[b, j, k]
                    gap = (point - members[i, k]) / span[k]
                    greatest = max(greatest, gap)
                    total += gap
                    better &= point <= own[k, i, b]
                    worse |= point < own[k, i, b]
                if better and worse:
                    firm[i, b] = False
                score = greatest + augmented * total
                if score < best or (score == best and numbers[b, j] < picks[i, b]):
                    best = score
                    picks[i, b] = numbers[b, j]
    return picks, firm
