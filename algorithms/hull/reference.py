"""The reference points R of convex-hull searches: for three losses, or for two to six."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from algorithms.hull.kernels.hull3d import MOST_STEPS, MOST_VOLUME, Hull3D
from algorithms.hull.kernels.hull_nd import MOST_DIMENSIONS, most_steps
from framework.arrays import BoolArray, FloatArray, IntArray
from framework.errors import InputError
from framework.jit import njit
from framework.roles import Roles

THREE_CLASSES = ((1.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))
"""R of the error rates of three classes: the classifiers that always answer one class (ZED)."""

TWO_CLASSES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))
"""R of two error rates and complexity: trivial classifiers, smallest and largest (ZEJD)."""

Point = tuple[int, int, int]

NEAR = 1e-9
"""Greatest distance, as a share of the cube, at which a point counts as in the hyperplane of R."""


class ExactReference:
    """A cube of whole numbers that three losses are scaled to, with R in it.

    0 is the best value of an objective, and the number of its steps is the worst one.

    Parameters
    ----------
    points : sequence of three floats each
        R, as shares of each objective's way from best (0) to worst (1). Either the points span a
        volume without the ideal point (0, 0, 0), or they are all corners of a section of the cube
        by a plane. Points beyond that plane then count as points in it: the corners of the cube
        beyond the plane, the caps, belong to every hull, and their volume is subtracted.
    steps : sequence of int
        Number of steps of each objective whose values are multiples of a step; 0 for others.
    bounds : numpy.ndarray, shape (3, 2), optional
        Best and worst loss of each objective; 0 and 1 if None.

    Attributes
    ----------
    steps : int64 (3,)
    corners : int
        Number of points of R.
    fixed : int64 (k, 3)
        R, then the caps.

    Raises
    ------
    InputError
        R is outside of the cube or too flat, contains the ideal point in its hull or plane, or
        lacks corners of its section.
    """

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        steps: Sequence[int] = (0, 0, 0),
        bounds: FloatArray | None = None,
    ) -> None:
        shares = _shares(points, 3)
        self.steps = _fitting(shares, steps)
        corners = [_whole(point) for point in np.rint(shares * self.steps).astype(np.int64)]
        caps, self._cap_volume = _caps(corners, _whole(self.steps))
        self.corners = len(corners)
        self.fixed: IntArray = np.array([*corners, *caps], dtype=np.int64)
        self._low, self._span = _low_and_span(bounds, 3)

    def normalised(self, losses: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return losses, shape (n, 3), as whole points, and which of them may be vertices.

        Points outside of the cube, worse than the worst value, may not.
        """
        return _whole_points(np.ascontiguousarray(losses), self._low, self._span, self.steps)

    def share(self, volume6: int) -> float:
        """Return VAS (Equation 6) from six times the volume of a hull that contains ``fixed``."""
        x, y, z = self.steps.tolist()
        return float((volume6 - self._cap_volume) / (6 * x * y * z))


def exact_reference(roles: Roles, points: Sequence[Sequence[float]] | None) -> ExactReference:
    """Return the reference of a search over three losses, by default with THREE_CLASSES.

    Raises
    ------
    InputError
        There are not three objectives, or one has no bounds.
    """
    if len(roles.objectives) != 3:
        raise InputError(
            "objectives: this hull search needs three to be minimised or maximised, found "
            f"{len(roles.objectives)}; ndfch_emoa takes two to six"
        )
    check_bounded(roles)
    steps = [  # a worst value of the user's need not be a multiple of a step
        roles.metrics[objective.metric].steps if objective.worst is None else 0
        for objective in roles.objectives
    ]
    return ExactReference(points or THREE_CLASSES, steps, roles.bounds())


class GridReference:
    """A cube of whole numbers that two to six losses are scaled to, with R in it.

    Parameters
    ----------
    points : sequence of m floats each
        R, as shares of each objective's way from best (0) to worst (1). Either the points span a
        volume without the ideal point, or they lie in one hyperplane without it. Points beyond that
        hyperplane, or in it, are never vertices.
    losses : int
        Number of losses, m.
    bounds : numpy.ndarray, shape (m, 2), optional
        Best and worst loss of each objective; 0 and 1 if None.

    Attributes
    ----------
    corners : int
        Number of points of R.
    fixed : int64 (corners, m)
        R as whole points.

    Raises
    ------
    InputError
        R has points outside of the cube or of another length, spans less than a hyperplane, or
        contains the ideal point in its hyperplane or hull.
    """

    def __init__(
        self, points: Sequence[Sequence[float]], losses: int, bounds: FloatArray | None = None
    ) -> None:
        self._shares = _shares(points, losses)
        self.corners = len(self._shares)
        self._normal, self._offset = self._plane()
        self._low, self._span = _low_and_span(bounds, losses)
        self._steps = most_steps(losses)
        self.fixed: IntArray = np.rint(self._shares * self._steps).astype(np.int64)

    def normalised(self, losses: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return losses (n, m) as whole points, and which of them may be vertices.

        These lie in the cube, and on the better side of the hyperplane of R if there is one.
        """
        shares = (losses - self._low) / self._span
        usable = np.asarray(((shares >= 0) & (shares <= 1)).all(axis=1))
        if self._normal is not None:
            usable = usable & (shares @ self._normal < self._offset - NEAR)
        return np.rint(np.clip(shares, 0.0, 1.0) * self._steps).astype(np.int64), usable

    def share(self, volume: float) -> float:
        """Return a volume as a share of the cube."""
        return volume / math.pow(self._steps, self.fixed.shape[1])

    def _plane(self) -> tuple[FloatArray | None, float]:
        """Return normal and offset of the hyperplane of R; None if R spans a volume.

        The normal points away from the ideal point.
        """
        start = self._shares[0]
        _, sizes, directions = np.linalg.svd(self._shares - start)
        rank = int((sizes > NEAR).sum())
        m = self._shares.shape[1]
        if rank < m - 1:
            raise _refused_floats(self.corners, "all lie in less than a hyperplane")
        if rank == m:
            self._check_outside()
            return None, 0.0
        normal = directions[-1]
        offset = float(normal @ start)
        if abs(offset) < NEAR:
            raise _refused_floats(self.corners, "the hyperplane holds the ideal point")
        return (normal, offset) if offset > 0 else (-normal, -offset)

    def _check_outside(self) -> None:
        try:
            planes = ConvexHull(self._shares).equations
        except QhullError as error:
            raise _refused_floats(self.corners, "the hull is too thin") from error
        if (planes[:, -1] <= NEAR).all():
            raise _refused_floats(
                self.corners, "the hull holds the ideal point: nothing is left to gain"
            )


def grid_reference(roles: Roles, points: Sequence[Sequence[float]] | None) -> GridReference:
    """Return the reference of a search over two to six losses, by default with that of m classes.

    The default points are the classifiers that always answer one class, wrong in all losses but
    one.

    Raises
    ------
    InputError
        There are fewer than two objectives or more than six, or one has no bounds.
    """
    m = len(roles.objectives)
    if not 2 <= m <= MOST_DIMENSIONS:
        raise InputError(
            f"objectives: a hull search needs two to {MOST_DIMENSIONS} to be minimised or "
            f"maximised, found {m}"
        )
    check_bounded(roles)
    return GridReference(points or (1.0 - np.eye(m)).tolist(), m, roles.bounds())


def check_bounded(roles: Roles) -> None:
    """Raise InputError if an objective has no best or no worst value."""
    bounds = roles.bounds()
    if not (np.isfinite(bounds).all() and (bounds[:, 0] < bounds[:, 1]).all()):
        raise InputError(
            "objectives: convex-hull searches need a best and a worst value of each, found "
            f"{dict(zip(roles.names, bounds.tolist(), strict=True))}; set worst"
        )


def _shares(points: Sequence[Sequence[float]], m: int) -> FloatArray:
    """Return R as an array (n, m).

    Raises
    ------
    InputError
        A point has not m numbers from 0 to 1.
    """
    if any(len(point) != m or not all(0 <= x <= 1 for x in point) for point in points):
        raise InputError(
            f"reference: expected points of {m} numbers from 0 (best) to 1 (worst), found "
            f"{[list(point) for point in points]}"
        )
    return np.array(points, dtype=np.float64)


def _low_and_span(bounds: FloatArray | None, m: int) -> tuple[FloatArray, FloatArray]:
    """Return the best loss of each objective, and its distance to the worst loss."""
    if bounds is None:
        return np.zeros(m), np.ones(m)
    return bounds[:, 0].copy(), bounds[:, 1] - bounds[:, 0]


@njit
def _whole_points(
    losses: FloatArray, low: FloatArray, span: FloatArray, steps: IntArray
) -> tuple[IntArray, BoolArray]:
    points = np.zeros(losses.shape, dtype=np.int64)
    usable = np.ones(len(losses), dtype=np.bool_)
    place = np.empty(3)
    for r in range(len(losses)):
        for j in range(3):
            place[j] = np.rint((losses[r, j] - low[j]) / span[j] * steps[j])
            usable[r] &= 0.0 <= place[j] <= steps[j]
        for j in range(3):
            if usable[r]:
                points[r, j] = np.int64(place[j])
    return points, usable


def _whole(point: IntArray) -> Point:
    x, y, z = point.tolist()
    return x, y, z


def _fitting(shares: FloatArray, steps: Sequence[int]) -> IntArray:
    """Return the steps if R lies on them and volumes stay exact; otherwise 2^20 for each."""
    wanted = np.array([s or MOST_STEPS for s in steps], dtype=np.int64)
    onto = shares * wanted
    x, y, z = wanted.tolist()
    if x * y * z <= MOST_VOLUME and (onto == np.rint(onto)).all():
        return wanted
    return np.full(3, MOST_STEPS, dtype=np.int64)


def _caps(corners: list[Point], steps: Point) -> tuple[list[Point], int]:
    """Return the cube's corners beyond R's plane, and six times the volume beyond that plane.

    There are none if R spans a volume.
    """
    plane = _plane(corners)
    if plane is None:
        _check_outside(corners)
        return [], 0
    normal, offset = plane
    if offset == 0:
        raise _refused(corners, "the ideal point lies in their plane")
    side = -1 if offset > 0 else 1  # heights are positive on the side of the ideal point

    def height(point: Point) -> int:
        return side * (sum(n * x for n, x in zip(normal, point, strict=True)) - offset)

    cube = [(x, y, z) for x, y, z in product(*((0, s) for s in steps))]
    missing = _section(cube, height) - {tuple(map(Fraction, corner)) for corner in corners}
    if missing:
        shown = [[float(x / s) for x, s in zip(p, steps, strict=True)] for p in sorted(missing)]
        raise _refused(corners, f"their plane cuts the cube in {shown} too; add these")
    beyond = [corner for corner in cube if height(corner) < 0]
    if not beyond:
        raise _refused(corners, "no part of the cube lies beyond their plane")
    return beyond, Hull3D(np.array([*corners, *beyond])).volume6


def _plane(corners: list[Point]) -> tuple[Point, int] | None:
    """Return normal and offset of the plane that all corners lie in; None if they lie in none."""
    for a, b, c in combinations(corners, 3):
        u, v = ([int(y - x) for x, y in zip(a, other, strict=True)] for other in (b, c))
        normal = (
            u[1] * v[2] - u[2] * v[1],
            u[2] * v[0] - u[0] * v[2],
            u[0] * v[1] - u[1] * v[0],
        )
        if any(normal):
            offset = sum(n * x for n, x in zip(normal, a, strict=True))
            if all(sum(n * x for n, x in zip(normal, p, strict=True)) == offset for p in corners):
                return normal, offset
            return None
    raise _refused(corners, "they lie on one line")


def _section(cube: list[Point], height: Callable[[Point], int]) -> set[tuple[Fraction, ...]]:
    """Return the corners of the plane's section with the cube."""
    points = set()
    for p, q in combinations(cube, 2):
        if sum(x != y for x, y in zip(p, q, strict=True)) != 1:  # not an edge
            continue
        above, below = height(p), height(q)
        if above * below > 0 or above == below:
            continue
        share = Fraction(above, above - below)
        points.add(tuple(x + share * (y - x) for x, y in zip(p, q, strict=True)))
    return points


def _check_outside(corners: list[Point]) -> None:
    ideal = np.array([*corners, (0, 0, 0)])
    if len(corners) not in Hull3D(ideal).vertices:
        raise _refused(corners, "the ideal point lies in their hull: nothing is left to gain")


def _refused(corners: list[Point], why: str) -> InputError:
    return InputError(
        "reference: expected points that span a volume off the ideal point, or all corners of a "
        f"plane's section of the cube; found {len(corners)} of which {why}"
    )


def _refused_floats(corners: int, why: str) -> InputError:
    return InputError(
        "reference: expected points that span a volume or a hyperplane off the ideal point; found "
        f"{corners} of which {why}"
    )
