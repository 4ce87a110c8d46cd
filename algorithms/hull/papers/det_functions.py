"""ZED1-3 and ZEJD1-3, whose fronts have the shape of those of error rates, reconstructed.

The printed definitions were not available. The numbers of Zhao et al. (3DFCH-EMOA, Tables 1 to 4)
determine the fronts of ZED1 and ZEJD1 and both reference sets: a piece of a sphere around
(1, 1, 1), of radius 1 or the square root of 2. The dents of the other four are fitted to the same
tables, and so are the decision variables. Each value lies in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from algorithms.hull.reference import THREE_CLASSES, TWO_CLASSES
from framework.arrays import Array, FloatArray
from framework.jit import njit
from framework.problems.functions import Function
from framework.space import Box

Depth = Callable[[FloatArray], FloatArray | float]
"""Returns the radius of a front, as a share of the sphere's, in directions of shape (3, n)."""


class DetFront(NamedTuple):
    """A front of ZEJD (two classes and complexity) if ``joint``, else of ZED (three classes)."""

    joint: bool
    depth: Depth


def _to_middle(U: FloatArray) -> FloatArray:
    """Return the cosine of the angle between directions and the middle."""
    return np.asarray((U[0] + U[1] + U[2]) / np.sqrt(3.0))


def _step(angle: float, dent: float) -> Depth:
    """Return the depth of a dent with an edge at an angle from the middle."""
    edge = float(np.cos(angle))

    def depth(U: FloatArray) -> FloatArray:
        return np.where(_to_middle(U) > edge, 1.0 - dent, 1.0)

    return depth


def _bell(width: float, dent: float) -> Depth:
    """Return the depth of a smooth dent around the middle."""

    def depth(U: FloatArray) -> FloatArray:
        angle = np.arccos(np.minimum(_to_middle(U), 1.0))
        return np.asarray(1.0 - dent * np.exp(-0.5 * (angle / width) ** 2))

    return depth


def _values(front: DetFront, X: Array) -> FloatArray:
    """Return f1, f2, f3 of decision vectors, shape (n, 3) for ZED and (n, 2) for ZEJD.

    The first two genes are a direction; the third gene of ZED is the radius.
    """
    # contiguous: numpy's functions may differ in the last bit with the layout of their input
    angles = np.ascontiguousarray(X[:, :2].T) * (np.pi / 2)
    S = _directions(np.cos(angles), np.sin(angles))
    if not front.joint:
        return _surface(S, X[:, 2] * front.depth(S))
    s = S[0] + S[1] + S[2]
    t = s - np.sqrt(np.maximum(s * s - 1.0, 0.0))
    U = (1.0 - t * S) / np.sqrt(2.0)
    return _surface(U, np.full(len(X), np.sqrt(2.0)) * front.depth(U))


def _front(front: DetFront, n: int) -> FloatArray:
    """Return ``n`` points of the front with its dents, spread evenly by area; shape (n, 3).

    They are a low-discrepancy sequence (Roberts's R2) of heights and longitudes in the octant of
    directions. If the front is a part of the octant, they are the first n points in that part.
    """
    plastic = 1.32471795724474602596
    most = n if not front.joint else 16 * n + 64
    i = np.arange(1, most + 1)
    z = (0.5 + i / plastic) % 1.0
    turn = (0.5 + i / plastic**2) % 1.0 * (np.pi / 2)
    flat = np.sqrt(1.0 - z * z)
    U = np.stack([flat * np.cos(turn), flat * np.sin(turn), z])
    if front.joint:
        U = np.ascontiguousarray(U[:, U.max(axis=0) <= np.sqrt(0.5)][:, :n])
    radius = np.full(U.shape[1], np.sqrt(2.0) if front.joint else 1.0)
    return _surface(U, radius * front.depth(U))


@njit
def _directions(cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Return the directions, shape (3, n), of two angles' cosines and sines, shape (2, n)."""
    S = np.empty((3, cos.shape[1]))
    for r in range(S.shape[1]):
        S[0, r] = cos[0, r] * cos[1, r]
        S[1, r] = cos[0, r] * sin[1, r]
        S[2, r] = sin[0, r]
    return S


@njit
def _surface(U: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the points (n, 3) at the given radius (n,) from (1, 1, 1) in directions U (3, n)."""
    points = np.empty((U.shape[1], 3))
    for r in range(len(points)):
        for j in range(3):
            points[r, j] = min(max(1.0 - radius[r] * U[j, r], 0.0), 1.0)
    return points


def _function(front: DetFront, shape: str) -> Function:
    d, what, anchors = (
        (2, "false positives, false negatives and complexity", TWO_CLASSES)
        if front.joint
        else (3, "the error rates of three classes", THREE_CLASSES)
    )
    return Function(
        f"reconstructed from Zhao et al.: {what}, {shape}",
        partial(_values, front),
        "min",
        lambda d: (1.0, 1.0, 1.0),
        lambda d: Box(np.zeros(d), np.ones(d)),
        least_d=d,
        usual_d=d,
        most_d=d,
        front=partial(_front, front),
        anchors=anchors,
    )


ZED1 = _function(DetFront(False, lambda U: 1.0), "a piece of a sphere")
ZED2 = _function(DetFront(False, _step(0.2, 0.10)), "with a dent that has an edge")
ZED3 = _function(DetFront(False, _bell(0.15, 0.10)), "with a smooth dent")
ZEJD1 = _function(DetFront(True, lambda U: 1.0), "a piece of a sphere")
ZEJD2 = _function(DetFront(True, _step(0.1, 0.02)), "with a dent that has an edge")
ZEJD3 = _function(DetFront(True, _bell(0.04, 0.03)), "with a smooth dent")
