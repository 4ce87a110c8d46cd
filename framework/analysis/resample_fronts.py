"""The Pareto front of all candidates in each resample, and what is picked from it.

Rules that never pick a dominated candidate need only look at these fronts, which are small and
computed once.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from framework.analysis.choose import constraints_of, losses_of, meets
from framework.analysis.resamples import Pool, Resamples, nearest_of
from framework.arrays import BoolArray, FloatArray, IntArray, evenly
from framework.jit import njit, njit_ieee
from framework.roles import Roles

_LANDMARKS = 64  # solutions that stand for the front when the depth below it is measured
_AUGMENTED = 1e-3  # weight of the sum of scaled losses, so that no pick is dominated


class ResampleFronts(NamedTuple):
    """The Pareto fronts of resamples, in arrays with ``room`` for the largest of them.

    Attributes
    ----------
    losses : numpy.ndarray of float64, shape (resamples, room, objectives)
    candidates : numpy.ndarray of int64, shape (resamples, room)
    sizes : numpy.ndarray of int64, shape (resamples,)
        The size of each front; what comes after it in the other arrays has no meaning.
    """

    losses: FloatArray
    candidates: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, resamples: Resamples, roles: Roles, pool: IntArray) -> Self:
        """Return the fronts among the candidates of a pool that meet the run's constraints."""
        conditions = constraints_of(roles)
        needs = {*roles.names, *(condition.metric for condition in conditions)}
        fronts = cls(
            np.empty((resamples.count, 0, len(roles.names))),
            np.empty((resamples.count, 0), dtype=np.int64),
            np.zeros(resamples.count, dtype=np.int64),
        )
        for piece, values in resamples.pieces(pool, needs):
            fronts = fronts._with_room(int(fronts.sizes.max()) + len(piece))
            losses = np.ascontiguousarray(losses_of(roles, values).T)
            _sort_in(losses, meets(conditions, roles, values), piece, *fronts)
        return fronts

    def _with_room(self, room: int) -> Self:
        more = max(room - self.losses.shape[1], 0)
        return self._replace(
            losses=np.pad(self.losses, ((0, 0), (0, more), (0, 0))),
            candidates=np.pad(self.candidates, ((0, 0), (0, more))),
        )

    def nearest(self, references: FloatArray, span: FloatArray) -> IntArray:
        """Return the candidate that is nearest to each reference point, or furthest beyond it.

        It has the least augmented achievement scalarising function (Wierzbicki 1980; Steuer and
        Choo 1983): the greatest scaled difference of a loss plus a thousandth of their sum.

        Parameters
        ----------
        references : numpy.ndarray of float64, shape (points, objectives)
        span : numpy.ndarray of float64, shape (objectives,)
            The scales of the losses.

        Returns
        -------
        numpy.ndarray of int64, shape (points, resamples)
            Candidates; -1 where a front is empty.
        """
        return _nearest(*self, np.ascontiguousarray(references), span, _AUGMENTED)

    def dominated(self, losses: FloatArray) -> BoolArray:
        """Return where losses (objectives, n, resamples) are dominated, shape (n, resamples)."""
        return _dominated(self.losses, self.sizes, losses)

    def best_within(self, limits: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the candidate that is best in each objective while the others keep to limits.

        Between candidates with an equal loss the other losses decide, in their order.

        Parameters
        ----------
        limits : numpy.ndarray of float64, shape (points, resamples, objectives)

        Returns
        -------
        picks : numpy.ndarray of int64, shape (points, objectives, resamples)
            Candidates; -1 where none is within the limits.
        losses : numpy.ndarray of float64, shape (points, objectives, resamples)
            Their losses in that objective; NaN where there is no candidate.
        """
        points, (resamples, _, m) = len(limits), self.losses.shape
        picks = np.full((points, m, resamples), -1, dtype=np.int64)
        losses, resample = np.full(picks.shape, np.nan), np.arange(resamples)
        for k in range(m):
            # sort each front by loss k: the first candidate that is within the limits is picked
            order = np.lexsort([*np.moveaxis(self.losses, -1, 0)[::-1], self.losses[..., k]])
            ranked = np.take_along_axis(self.losses, order[..., np.newaxis], axis=1)
            others, occupied = np.arange(m) != k, order < self.sizes[:, np.newaxis]
            for point in range(points):
                bounds = limits[point][:, np.newaxis, others]  # (resamples, 1, other objectives)
                within = occupied & (ranked[..., others] <= bounds).all(axis=2)
                first, some = within.argmax(axis=1), within.any(axis=1)
                best = self.candidates[resample, order[resample, first]]
                picks[point, k] = np.where(some, best, -1)
                losses[point, k] = np.where(some, ranked[resample, first, k], np.nan)
        return picks, losses


def least_deep(losses: FloatArray, positions: IntArray, span: FloatArray, most: int) -> Pool:
    """Return at most ``most`` candidates, those least deep below the front (see :func:`depths`).

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (objectives, candidates)
        The losses on all records.
    positions : numpy.ndarray of int64, shape (solutions,)
        The candidates on the front, which come before all others.
    span : numpy.ndarray of float64, shape (objectives,)
        The scales of the losses.
    most : int
    """
    candidates = np.arange(losses.shape[1])
    if len(candidates) <= most:
        return Pool(candidates, whole=True)
    members = np.ascontiguousarray(losses[:, landmarks(positions)])  # as those of resamples are
    depth = depths(losses[..., np.newaxis], members[..., np.newaxis], span)[:, 0]
    depth[positions] = -1.0
    return nearest_of(candidates, depth, most)


def best_first(losses: FloatArray, pool: IntArray, span: FloatArray) -> IntArray:
    """Return candidates by the sum of their scaled losses (see :func:`least_deep`).

    In this order most of them are rejected at once from the front of every resample.
    """
    total = (losses[:, pool] / span[:, np.newaxis]).sum(axis=0)
    return pool[np.argsort(total, kind="stable")]


def landmarks(positions: IntArray) -> IntArray:
    """Return at most 64 solutions of a front, spread evenly, that stand for all of them."""
    return positions[evenly(len(positions), _LANDMARKS)]


def spans(losses: FloatArray) -> FloatArray:
    """Return the ranges of losses (objectives, solutions), 1 if all are equal: (objectives,)."""
    span = np.ptp(losses, axis=1)
    return np.where(span > 0, span, 1.0)


@njit_ieee
def depths(losses: FloatArray, members: FloatArray, span: FloatArray) -> FloatArray:
    """Return how deep each candidate is below a front, in each resample, shape (n, b).

    depth = max over members f of min over objectives k of (loss[k] - member[f, k]) / span[k],
    but at least 0: the greatest margin by which some member is better in every objective.

    ``losses`` of the candidates are (objectives, n, b), ``members`` of the front (objectives, f,
    b).
    """
    m, n, resamples = losses.shape
    depths, least = np.zeros((n, resamples)), np.empty(resamples)
    for i in range(n):
        deepest = depths[i]
        for f in range(members.shape[1]):
            least[:] = np.inf
            for k in range(m):  # resamples are innermost so that the compiler vectorises the loop
                ours, theirs = losses[k, i], members[k, f]
                for b in range(resamples):
                    least[b] = min(least[b], (ours[b] - theirs[b]) / span[k])
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
    """Insert candidates into the front of each resample, in place.

    ``losses`` are (b, n, objectives), ``allowed`` (n, b). The fronts are ``points`` (b, room,
    objectives), their candidates ``numbers`` (b, room) and their ``sizes`` (b,). A member that
    dominates a new candidate moves halfway to the beginning of its front, so that most candidates
    are rejected after few comparisons. Which members there are does not depend on the order: of
    equals it is the candidate with the lowest number.
    """
    resamples, n, m = losses.shape
    for b in range(resamples):
        front, size = points[b], sizes[b]
        for i in range(n):
            if not allowed[i, b]:
                continue
            member, beaten = 0, False
            while member < size and not beaten:
                worse = better = False
                for k in range(m):
                    worse |= losses[b, i, k] > front[member, k]
                    better |= losses[b, i, k] < front[member, k]
                if not better:
                    beaten = True
                    if not worse:
                        numbers[b, member] = min(numbers[b, member], candidates[i])
                elif not worse:  # the candidate dominates this member: the last one replaces it
                    size -= 1
                    for k in range(m):
                        front[member, k] = front[size, k]
                    numbers[b, member] = numbers[b, size]
                else:
                    member += 1
            if beaten:  # its rejecter moves halfway to the beginning of the front
                middle = member // 2
                for k in range(m):
                    front[member, k], front[middle, k] = front[middle, k], front[member, k]
                numbers[b, member], numbers[b, middle] = numbers[b, middle], numbers[b, member]
                continue
            for k in range(m):
                front[size, k] = losses[b, i, k]
            numbers[b, size] = candidates[i]
            size += 1
        sizes[b] = size


@njit_ieee
def _nearest(
    points: FloatArray,
    numbers: IntArray,
    sizes: IntArray,
    references: FloatArray,
    span: FloatArray,
    augmented: float,
) -> IntArray:
    """See :meth:`ResampleFronts.nearest`; of equals the lowest number is picked."""
    n, m = references.shape
    picks = np.full((n, len(sizes)), -1, dtype=np.int64)
    for b in range(len(sizes)):
        front = np.empty((m, sizes[b]))
        for k in range(m):
            for j in range(sizes[b]):
                front[k, j] = points[b, j, k] / span[k]
        greatest, total = np.empty(sizes[b]), np.empty(sizes[b])
        for i in range(n):
            greatest[:], total[:] = -np.inf, 0.0
            for k in range(m):  # members are innermost so that the compiler vectorises the loop
                column, reference = front[k], references[i, k] / span[k]
                for j in range(len(total)):
                    gap = column[j] - reference
                    greatest[j] = gap if gap > greatest[j] else greatest[j]
                    total[j] += gap
            for j in range(len(total)):
                total[j] = greatest[j] + augmented * total[j]
            best, pick = np.inf, -1
            for j in range(len(total)):
                if total[j] <= best and (total[j] < best or numbers[b, j] < pick):
                    best, pick = total[j], numbers[b, j]
            picks[i, b] = pick
    return picks


@njit
def _dominated(points: FloatArray, sizes: IntArray, losses: FloatArray) -> BoolArray:
    """See :meth:`ResampleFronts.dominated`."""
    m, n, resamples = losses.shape
    dominated = np.zeros((n, resamples), dtype=np.bool_)
    for b in range(resamples):
        front = np.empty((m, sizes[b]))
        for k in range(m):
            for j in range(sizes[b]):
                front[k, j] = points[b, j, k]
        as_good, better = np.empty((2, sizes[b]), dtype=np.bool_)
        for i in range(n):
            as_good[:], better[:] = True, False
            for k in range(m):  # members are innermost so that the compiler vectorises the loop
                column, ours = front[k], losses[k, i, b]
                for j in range(len(column)):
                    as_good[j] &= column[j] <= ours
                    better[j] |= column[j] < ours
            for j in range(len(better)):
                dominated[i, b] |= as_good[j] & better[j]
    return dominated
