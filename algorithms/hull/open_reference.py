"""Reference points of a hull in any number of losses, in floating point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from algorithms.hull.reference import check_bounded
from framework.arrays import BoolArray, FloatArray
from framework.errors import InputError
from framework.roles import Roles

NEAR = 1e-9
"""How near to a plane a point lies in it."""


class OpenReference:
    """R in the unit cube of m losses.

    Parameters
    ----------
    points : sequence of m floats each
        As shares of each objective's way from best (0) to worst (1). Either they span a volume
        that leaves the ideal point out, or they lie in one hyperplane off it. Points beyond that
        hyperplane, or in it, are never corners.
    losses : int
        m.

    Attributes
    ----------
    corners : int
        How many points R has.
    fixed : float64 (corners, m)

    Raises
    ------
    InputError
        Points outside the cube or of another length, in less than a hyperplane, in one with the
        ideal point, or around it.
    """

    def __init__(self, points: Sequence[Sequence[float]], losses: int) -> None:
        if any(len(point) != losses for point in points):
            raise InputError(
                f"reference: expected points of {losses} numbers, one an objective, found "
                f"{[list(point) for point in points]}"
            )
        self.fixed: FloatArray = np.array(points, dtype=np.float64)
        if not ((self.fixed >= 0) & (self.fixed <= 1)).all():
            raise InputError("reference: expected numbers from 0 (best) to 1 (worst), found others")
        self.corners = len(self.fixed)
        self._normal, self._offset = self._plane()

    def placed(self, shares: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return losses, shape (n, m), and which may be corners: in the cube, better than R."""
        points = np.ascontiguousarray(shares, dtype=np.float64)
        usable = np.asarray(((points >= 0) & (points <= 1)).all(axis=1))
        if self._normal is not None:
            usable = usable & (points @ self._normal < self._offset - NEAR)
        return points, usable

    def _plane(self) -> tuple[FloatArray | None, float]:
        """Return the hyperplane of R, the ideal point below it; None where R spans a volume."""
        start = self.fixed[0]
        _, sizes, directions = np.linalg.svd(self.fixed - start)
        rank = int((sizes > NEAR).sum())
        m = self.fixed.shape[1]
        if rank < m - 1:
            raise _refused(self.corners, "all lie in less than a hyperplane")
        if rank == m:
            self._check_outside()
            return None, 0.0
        normal = directions[-1]
        offset = float(normal @ start)
        if abs(offset) < NEAR:
            raise _refused(self.corners, "the hyperplane holds the ideal point")
        return (normal, offset) if offset > 0 else (-normal, -offset)

    def _check_outside(self) -> None:
        try:
            planes = ConvexHull(self.fixed).equations
        except QhullError as error:
            raise _refused(self.corners, "the hull is too thin") from error
        if (planes[:, -1] <= NEAR).all():
            raise _refused(self.corners, "the hull holds the ideal point: nothing is left to gain")


def open_reference_of(roles: Roles, points: Sequence[Sequence[float]] | None) -> OpenReference:
    """Return the reference of a search; if no points are given, that of m classes.

    These are the classifiers that always answer one class, wrong in all losses but one.

    Raises
    ------
    InputError
        Fewer than two objectives, or one without bounds.
    """
    m = len(roles.objectives)
    if m < 2:
        raise InputError(
            f"objectives: a hull search needs two or more to be minimised or maximised, found {m}"
        )
    check_bounded(roles)
    return OpenReference(points or (1.0 - np.eye(m)).tolist(), m)


def _refused(corners: int, why: str) -> InputError:
    return InputError(
        "reference: expected points that span a volume or a hyperplane off the ideal point; found "
        f"{corners} of which {why}"
    )
