"""Textbook functions: ZDT, DTLZ and LOTZ."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, FloatArray
from framework.problems.functions import Function
from framework.space import Bits, Box, Space


def _zdt_g(X: Array) -> FloatArray:
    rest: FloatArray = np.ascontiguousarray(X[:, 1:])
    return np.asarray(1.0 + 9.0 * rest.sum(axis=1) / rest.shape[1])


def _zdt1(X: Array) -> FloatArray:
    f1, g = X[:, 0], _zdt_g(X)
    return np.column_stack([f1, g * (1.0 - np.sqrt(f1 / g))])


def _zdt2(X: Array) -> FloatArray:
    f1, g = X[:, 0], _zdt_g(X)
    return np.column_stack([f1, g * (1.0 - (f1 / g) * (f1 / g))])


def _dtlz2(X: Array) -> FloatArray:
    rest = np.ascontiguousarray(X[:, 2:]) - 0.5
    radius = 1.0 + (rest * rest).sum(axis=1)
    # contiguous: numpy's cosine may differ in the last bit with the layout, and so with the batch
    angles = np.ascontiguousarray(X[:, :2].T) * (np.pi / 2)
    (cos1, cos2), (sin1, sin2) = np.cos(angles), np.sin(angles)
    return np.column_stack([radius * cos1 * cos2, radius * cos1 * sin2, radius * sin1])


def _lotz(X: Array) -> FloatArray:
    leading_ones = np.cumprod(X == 1, axis=1).sum(axis=1)
    trailing_zeros = np.cumprod(X[:, ::-1] == 0, axis=1).sum(axis=1)
    return np.column_stack([leading_ones, trailing_zeros]).astype(np.float64)


def _unit_box(d: int) -> Space:
    return Box(np.zeros(d), np.ones(d))


def _zdt_high(d: int) -> tuple[float, ...]:
    return 1.0, 10.0


def _dtlz2_high(d: int) -> tuple[float, ...]:
    return (1.0 + 0.25 * (d - 2),) * 3


def _lotz_high(d: int) -> tuple[float, ...]:
    return float(d), float(d)


ZDT1 = Function(
    "Zitzler, Deb and Thiele 2000: two objectives, convex front",
    _zdt1,
    "min",
    _zdt_high,
    _unit_box,
    least_d=2,
)
ZDT2 = ZDT1._replace(
    text="Zitzler, Deb and Thiele 2000: two objectives, concave front",
    f=_zdt2,
)
DTLZ2 = Function(
    "Deb, Thiele, Laumanns and Zitzler 2002: three objectives, spherical front",
    _dtlz2,
    "min",
    _dtlz2_high,
    _unit_box,
    least_d=3,
)
LOTZ = Function(
    "Laumanns et al. 2002: leading ones and trailing zeros of bits, both to maximise",
    _lotz,
    "max",
    _lotz_high,
    Bits,
    least_d=1,
)
