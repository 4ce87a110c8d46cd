"""The Pareto front of all candidates in each resample, and what is picked from it.

Whatever picks a candidate by its losses, and never one that another candidate dominates, picks it
from these fronts: they are small, and are made once.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from framework.analysis.choose import constraints_of, losses_of, meets
from framework.analysis.resamples import Pool, Resamples, nearest_of
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.jit import njit, njit_ieee
from framework.roles import Roles

_LANDMARKS = 64  # solutions that tell how far behind the front the others are
_AUGMENTED = 1e-3  # weight of the sum beside the greatest scaled loss: no pick is dominated


class ResampleFronts(NamedTuple):
    """The fronts of resamples, each with room for as many candidates as the largest one has.

    Attributes
    ----------
    losses : numpy.ndarray of float64, shape (resamples, room, objectives)
    candidates : numpy.ndarray of int64, shape (resamples, room)
    sizes : numpy.ndarray of int64, shape (resamples,)
    """

    losses: FloatArray
    candidates: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, resamples: Resamples, roles: Roles, pool: IntArray) -> Self:
        """Return the fronts of candidates that meet the run's constraints."""
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
        """Return what comes nearest to points of reference, or is furthest beyond them.

        That is the least augmented achievement scalarisation (Wierzbicki 1980; Steuer and Choo
        1983): the greatest scaled difference of a loss, and a thousandth of their sum.

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
        """Return what is best in each objective, with the losses of the others within limits.

        Of equal ones the other losses decide, in their order.

        Parameters
        ----------
        limits : numpy.ndarray of float64, shape (points, resamples, objectives)

        Returns
        -------
        picks : numpy.ndarray of int64, shape (points, objectives, resamples)
            Candidates; -1 where none is within the limits.
        losses : numpy.ndarray of float64, shape (points, objectives, resamples)
            Their losses of that objective; NaN where there is none.
        """
        points, (resamples, _, m) = len(limits), self.losses.shape
        picks = np.full((points, m, resamples), -1, dtype=np.int64)
        losses, resample = np.full(picks.shape, np.nan), np.arange(resamples)
        for k in range(m):
            # each front from the best loss k on; the first that is within the limits is picked
            order = np.lexsort([*np.moveaxis(self.losses, -1, 0)[::-1], self.losses[..., k]])
            ranked = np.take_along_axis(self.losses, order[..., np.newaxis], axis=1)
            others, there = np.arange(m) != k, order < self.sizes[:, np.newaxis]
            for point in range(points):
                bounds = limits[point][:, np.newaxis, others]  # (resamples, 1, other objectives)
                within = there & (ranked[..., others] <= bounds).all(axis=2)
                first, some = within.argmax(axis=1), within.any(axis=1)
                best = self.candidates[resample, order[resample, first]]
                picks[point, k] = np.where(some, best, -1)
                losses[point, k] = np.where(some, ranked[resample, first, k], np.nan)
        return picks, losses


def least_deep(losses: FloatArray, positions: IntArray, span: FloatArray, most: int) -> Pool:
    """Return so many candidates at most, those that are least deep below a front on all records.

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (objectives, candidates)
    positions : numpy.ndarray of int64, shape (solutions,)
        The candidates that are the front; these stay.
    span : numpy.ndarray of float64, shape (objectives,)
        The scales of the losses.
    most : int
    """
    candidates = np.arange(losses.shape[1])
    if len(candidates) <= most:
        return Pool(candidates, whole=True)
    depth = depths(losses[..., np.newaxis], losses[:, landmarks(positions), np.newaxis], span)[:, 0]
    depth[positions] = -1.0
    return nearest_of(candidates, depth, most)


def landmarks(positions: IntArray) -> IntArray:
    """Return some solutions of a front, evenly spread, which stand for all of them."""
    places = np.linspace(0, len(positions) - 1, _LANDMARKS).round().astype(np.int64)
    return positions[np.unique(places)]


def spans(losses: FloatArray) -> FloatArray:
    """Return the spans of losses (objectives, solutions), 1 where all are equal: (objectives,)."""
    span = np.ptp(losses, axis=1)
    return np.where(span > 0, span, 1.0)


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
    """Sort candidates into the front of each resample; of equal ones the first stays.

    ``losses`` (b, n, objectives), ``allowed`` (n, b); the fronts' losses ``points`` (b, room,
    objectives), their candidates ``numbers`` (b, room), and their ``sizes`` (b,). Whatever
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


@njit_ieee
def _nearest(
    points: FloatArray,
    numbers: IntArray,
    sizes: IntArray,
    references: FloatArray,
    span: FloatArray,
    augmented: float,
) -> IntArray:
    """See :meth:`ResampleFronts.nearest`; of equal ones the least candidate."""
    n, m = references.shape
    picks = np.full((n, len(sizes)), -1, dtype=np.int64)
    for b in range(len(sizes)):
        front = np.empty((m, sizes[b]))
        for k in range(m):
            for j in range(sizes[b]):
                front[k, j] = points[b, j, k]
        greatest, total = np.empty(sizes[b]), np.empty(sizes[b])
        for i in range(n):
            greatest[:], total[:] = -np.inf, 0.0
            for k in range(m):  # points innermost: such loops run on vectors
                column, reference, scale = front[k], references[i, k], span[k]
                for j in range(len(total)):
                    gap = (column[j] - reference) / scale
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
        for i in range(n):
            for j in range(sizes[b]):
                worse, as_good = False, True
                for k in range(m):
                    as_good &= points[b, j, k] <= losses[k, i, b]
                    worse |= points[b, j, k] < losses[k, i, b]
                if as_good and worse:
                    dominated[i, b] = True
                    break
    return dominated
