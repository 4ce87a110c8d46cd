"""Mean squares of ensembles' deviations, from the products of each two models' deviations.

The sum of squares of an ensemble's deviations is made of these products alone, however many records
there are. They are held exactly, in three parts of 40 bits, so that sums of them are free of order.
"""

from __future__ import annotations

import numpy as np

from algorithms.ensembling.kernels import deviations
from algorithms.ensembling.kernels.deviations import MOST_PICKS, Deviations
from algorithms.ensembling.kernels.picks import Picks, remainder, shared, total_picks
from framework.arrays import Array, FloatArray, IntArray
from framework.jit import njit

MOST_MODELS, MOST_VALUES = 128, 1 << 17
"""Models and deviations of each for which the products are made: in a second at most."""

_LIMBS, _BITS = 3, 40
_MASK = (1 << _BITS) - 1
_DIGIT = 17  # bits: products of two digits, and sums of them, are exact in float64
_CHUNK = 1 << 13  # deviations multiplied at a time


def products_of(table: Deviations) -> IntArray | None:
    """Return the sum of the products of each two models' deviations, exact; None for large tables.

    Returns
    -------
    numpy.ndarray of int64, shape (K, K, 3)
        Components of 40 bits, the lowest first; the highest has the sign.

    Notes
    -----
    O(K^2 W), by products of matrices.
    """
    if len(table.whole) > MOST_MODELS or table.whole.shape[1] > MOST_VALUES:
        return None
    k = len(table.whole)
    places = [np.zeros((k, k), dtype=np.int64) for _ in range(5)]
    for start in range(0, table.whole.shape[1], _CHUNK):
        part = table.whole[:, start : start + _CHUNK]
        mask = (1 << _DIGIT) - 1
        digits = [part & mask, part >> _DIGIT & mask, part >> 2 * _DIGIT]
        low, middle, high = (digit.astype(np.float64) for digit in digits)
        outer = [low @ middle.T, low @ high.T, middle @ high.T]
        sums = [low @ low.T, *(x + x.T for x in outer), high @ high.T]
        sums[2] += middle @ middle.T
        for place, found in zip(places, sums, strict=True):
            place += found.astype(np.int64)
    limbs = np.zeros((k, k, _LIMBS), dtype=np.int64)
    for i, place in enumerate(places):
        limb, shift = divmod(_DIGIT * i, _BITS)
        stays = _BITS - shift
        limbs[..., limb] += (place & (1 << stays) - 1) << shift
        limbs[..., limb + 1] += place >> stays
    for limb in range(_LIMBS - 1):
        limbs[..., limb + 1] += limbs[..., limb] >> _BITS
        limbs[..., limb] &= _MASK
    return limbs


def mean_square(table: Deviations, products: IntArray | None, picks: Picks) -> FloatArray:
    """Return the mean square of the deviations of each row of picks, (n,).

    Without products, and of rows of more than :data:`MOST_PICKS` picks, from the deviations.

    Notes
    -----
    With products O(m^2) a row, of m picked models beyond those that all rows share.
    """
    totals = total_picks(picks.counts, picks.starts)
    few = totals <= MOST_PICKS
    if products is None or not few.any():
        return deviations.mean_square(table, picks)
    if not few.all():
        out = np.empty(picks.n)
        for some, its in ((few, products), (~few, None)):
            out[some] = mean_square(table, its, picks.take(np.flatnonzero(some)))
        return out
    base = shared(*picks, len(products))
    sums = np.empty(picks.n)
    _sums_of_squares(products, base, *remainder(*picks, base), sums)
    return np.asarray(sums * table.unit * table.unit / table.whole.shape[1] / (totals * totals))


@njit
def _sums_of_squares(
    products: IntArray,
    base: IntArray,
    models: IntArray,
    counts: Array,
    starts: IntArray,
    out: FloatArray,
) -> None:
    """Set ``out`` (n,) to the sum of squares of the base and what each row picks beyond it.

    A part of the sum is at most 2^42 in size times the square of the picks, 2^20.
    """
    k = len(base)
    within = np.zeros((k, _LIMBS), dtype=np.int64)  # products of each model with the base
    common = np.zeros(_LIMBS, dtype=np.int64)
    for j in range(k):
        if base[j] > 0:
            within += base[j] * products[j]
    for j in range(k):
        common += base[j] * within[j]
    total = np.empty(_LIMBS, dtype=np.int64)
    for r in range(len(out)):
        total[:] = common
        for at in range(starts[r], starts[r + 1]):
            j, count = models[at], np.int64(counts[at])
            for limb in range(_LIMBS):
                total[limb] += count * (2 * within[j, limb] + count * products[j, j, limb])
            for before in range(starts[r], at):
                twice, other = 2 * count * np.int64(counts[before]), products[j, models[before]]
                for limb in range(_LIMBS):
                    total[limb] += twice * other[limb]
        value = 0.0
        for limb in range(_LIMBS - 1):
            total[limb + 1] += total[limb] >> _BITS
            total[limb] &= _MASK
        for limb in range(_LIMBS):
            value = value * 2.0**_BITS + np.float64(total[_LIMBS - 1 - limb])
        out[r] = value
