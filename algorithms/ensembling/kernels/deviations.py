"""Scores of ensembles that are sums over records, on integers.

What matters of a model is how far its predictions are from the truth: its *deviations*. Held in
fixed point, those of an ensemble are weighted sums of whole numbers: exact and free of order, so
that they may be built from any common part, and neither the batch nor the worker changes a bit.

The sum of squares of an ensemble's deviations is made of the products of each two models' alone,
however many records there are. These are held exactly, in three parts of 40 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from algorithms.ensembling.kernels.multiplicities import (
    Multiplicities,
    add_up,
    fill,
    remainder,
    shared,
    totals_of,
)
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit

BITS = 51
"""Of the fraction: a probability is held to 2^-52."""

MAX_TOTAL = 1023
"""Multiplicities whose doubled sum fits 64 bits; of rows with more of them the mean is rounded."""

LEAST = 2.0**-52
"""scikit-learn's: a probability of 0 or 1 has a finite logarithm."""

_ONE = 1 << BITS
_BLOCK_BYTES = 400_000  # sums held at a time: they stay in the second-level cache
_LANES = 32  # sums side by side: compiled for vectors, yet always added in the same order
_FACTORS = 16  # probabilities multiplied between two looks at the product: 2^(-52 * 16) is no zero
_SMALL = 2.0**-100

MOST_MODELS, MOST_VALUES = 128, 1 << 17
"""Models and deviations of each for which the products are made: in a second at most."""

_LIMBS, _BITS = 3, 40
_MASK = (1 << _BITS) - 1
_DIGIT = 17  # bits: products of two digits, and sums of them, are exact in float64
_CHUNK = 1 << 13  # deviations multiplied at a time


class Deviations(NamedTuple):
    """Deviations of ``K`` models, ready for sums.

    Attributes
    ----------
    whole : numpy.ndarray of int64, shape (K, W)
        At most 2^51 in size.
    unit : float
        What a whole number is worth, a power of two.
    """

    whole: IntArray
    unit: float


def of_true_class(P: Array, y: IntArray) -> Deviations:
    """Return the probability of each record's true class less one, (K, N): from -1 to 0.

    Parameters
    ----------
    P : float (K, N), probability of the second class, or (K, N, C), of each
    y : int64 (N,)
    """
    whole = np.empty((len(P), len(y)), dtype=np.int64)
    for j, p in enumerate(P):  # one row at a time: float64 takes room
        if p.ndim == 2:
            whole[j] = _fixed(p[np.arange(len(y)), y]) - _ONE
        else:
            second = _fixed(p)
            whole[j] = np.where(y == 1, second - _ONE, -second)
    return Deviations(whole, 1.0 / _ONE)


def of_every_class(P: Array, y: IntArray) -> Deviations:
    """Return the probability of each class less one where it is the true one, (K, N * C)."""
    truth = np.zeros(P.shape[1:], dtype=np.int64)
    truth[np.arange(len(y)), y] = _ONE
    whole = np.stack([(_fixed(p) - truth).ravel() for p in P])
    return Deviations(whole, 1.0 / _ONE)


def of_values(P: Array, y: FloatArray) -> Deviations:
    """Return how much predicted values (K, N) are above the true ones."""
    largest = max(float(np.abs(P).max()), float(np.abs(y).max())) or 1.0
    unit = 2.0 ** (math.ceil(math.log2(largest)) + 1 - BITS)
    goal = np.rint(y / unit).astype(np.int64)
    whole = np.stack([np.rint(p / np.float64(unit)).astype(np.int64) - goal for p in P])
    return Deviations(whole, unit)


def _fixed(p: Array) -> IntArray:
    return np.rint(np.clip(p, 0.0, 1.0) * np.float64(_ONE)).astype(np.int64)


class _Part(NamedTuple):
    """Rows of multiplicities, and what the deviations of all of them have in common.

    rows : positions, (m,); common : sum of what all share, (W,); models, counts, starts :
    what each row has beyond these, rows end to end; divisors : sums over them are means, (m,).
    """

    rows: IntArray
    common: IntArray
    models: IntArray
    counts: Array
    starts: IntArray
    divisors: IntArray


def parts(table: Deviations, multiplicities: Multiplicities) -> Iterator[_Part]:
    """Yield the rows of at most :data:`MAX_TOTAL` multiplicities, then each row of more by itself.

    Of the latter the mean itself is rounded, and its divisor is 1.
    """
    totals = totals_of(multiplicities.counts, multiplicities.starts)
    many = totals > MAX_TOTAL
    few = np.flatnonzero(~many)
    width = table.whole.shape[1]
    if len(few):
        usual = multiplicities.take(few) if many.any() else multiplicities
        base = shared(*usual, len(table.whole))
        common = np.empty(width, dtype=np.int64)
        add_up(table.whole, base, np.zeros_like(common), common)
        yield _Part(few, common, *remainder(*usual, base), totals[few])
    nothing = np.zeros(0, dtype=np.int64)
    for r in np.flatnonzero(many).tolist():
        mean = np.empty(width, dtype=np.int64)
        _mean(table.whole, *multiplicities.take([r]), mean)
        none = (nothing, nothing.astype(np.uint32), np.zeros(2, dtype=np.int64))
        yield _Part(np.array([r]), mean, *none, np.ones(1, dtype=np.int64))


def _blocks(
    table: Deviations, multiplicities: Multiplicities
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield positions of some rows at a time, their sums (m, W) and divisors (m,).

    The sums are overwritten by the next block. O(W members) per row, for what it has beyond
    what all rows share.
    """
    width = table.whole.shape[1]
    held = np.empty(
        (min(max(1, _BLOCK_BYTES // (8 * width)), multiplicities.n), width), dtype=np.int64
    )
    for part in parts(table, multiplicities):
        for start in range(0, len(part.rows), len(held)):
            some = slice(start, start + len(held))
            rows = part.rows[some]
            starts = part.starts[start : start + len(rows) + 1]
            fill(table.whole, part.models, part.counts, starts, part.common, held[: len(rows)])
            yield rows, held[: len(rows)], part.divisors[some]


@njit
def _mean(
    whole: IntArray, models: IntArray, counts: IntArray, starts: IntArray, out: IntArray
) -> None:
    """Set ``out`` (W,) to the rounded mean of one row."""
    for i in range(len(out)):
        total, mean = 0, 0.0
        for at in range(len(models)):
            total += counts[at]
            mean += np.float64(counts[at]) * np.float64(whole[models[at], i])
        out[i] = np.int64(np.rint(mean / total))


def mean_minus_log(table: Deviations, multiplicities: Multiplicities) -> FloatArray:
    """Return the mean of -log(probability of the true class) of each row, (n,).

    ``table`` is of :func:`of_true_class`. The last model of a row is added on the way, so that of
    ensembles which differ by one model no sum is ever written.
    """
    out = np.empty(multiplicities.n)
    for part in parts(table, multiplicities):
        found = np.empty(len(part.rows))
        _mean_minus_log(table.whole, *part[1:], found)
        out[part.rows] = found
    return out


@njit
def _mean_minus_log(
    whole: IntArray,
    common: IntArray,
    models: IntArray,
    counts: Array,
    starts: IntArray,
    divisors: IntArray,
    out: FloatArray,
) -> None:
    scratch = np.empty((1, len(common)), dtype=np.int64)
    for r in range(len(out)):
        at, stop = starts[r], starts[r + 1]
        row, last, count = common, common, np.int64(0)
        if stop > at:
            last, count = whole[models[stop - 1]], np.int64(counts[stop - 1])
        if stop > at + 1:
            fill(whole, models, counts, np.array([at, stop - 1]), common, scratch)
            row = scratch[0]
        out[r] = _minus_logs(row, last, count, divisors[r] * _ONE) / len(row)


@njit
def _minus_logs(row: IntArray, last: IntArray, count: np.int64, one: np.int64) -> float:
    """Return the sum of -log((row + count * last) / one + 1).

    Probabilities are multiplied, and a logarithm is taken of many at once.
    """
    lanes = np.empty(_LANES)
    lanes[:] = 1.0
    factor = 1.0 / np.float64(one)
    whole = len(row) - len(row) % _LANES
    loss = 0.0
    for start in range(0, whole, _LANES):
        some, more = row[start : start + _LANES], last[start : start + _LANES]
        for lane in range(_LANES):
            p = np.float64(some[lane] + count * more[lane] + one) * factor
            lanes[lane] *= min(max(p, LEAST), 1.0 - LEAST)
        if start // _LANES % _FACTORS == _FACTORS - 1:
            for lane in range(_LANES):
                if lanes[lane] < _SMALL:
                    loss -= math.log(lanes[lane])
                    lanes[lane] = 1.0
    for lane in range(_LANES):
        loss -= math.log(lanes[lane])
    for i in range(whole, len(row)):
        p = np.float64(row[i] + count * last[i] + one) * factor
        loss -= math.log(min(max(p, LEAST), 1.0 - LEAST))
    return loss


def mean_absolute(table: Deviations, multiplicities: Multiplicities) -> FloatArray:
    """Return the mean size of each row's deviations, (n,)."""
    return _through(_mean_absolute, table, multiplicities)


def _through(
    kernel: Callable[..., None], table: Deviations, multiplicities: Multiplicities
) -> FloatArray:
    out = np.empty(multiplicities.n)
    for rows, sums, divisors in _blocks(table, multiplicities):
        found = np.empty(len(rows))
        kernel(sums, divisors, table.unit, found)
        out[rows] = found
    return out


@njit
def _mean_square(sums: IntArray, totals: IntArray, unit: float, out: FloatArray) -> None:
    """Set ``out`` (n,) to the mean square of deviations, of which ``sums`` (n, W) are."""
    lanes = np.empty(_LANES)
    for r in range(len(out)):
        row, factor = sums[r], unit / np.float64(totals[r])
        whole = len(row) - len(row) % _LANES
        lanes[:] = 0.0
        for start in range(0, whole, _LANES):
            part = row[start : start + _LANES]
            for lane in range(_LANES):
                d = np.float64(part[lane]) * factor
                lanes[lane] += d * d
        total = 0.0
        for lane in range(_LANES):
            total += lanes[lane]
        for i in range(whole, len(row)):
            d = np.float64(row[i]) * factor
            total += d * d
        out[r] = total / len(row)


@njit
def _mean_absolute(sums: IntArray, totals: IntArray, unit: float, out: FloatArray) -> None:
    """Set ``out`` (n,) to the mean size of deviations, of which ``sums`` (n, W) are."""
    lanes = np.empty(_LANES)
    for r in range(len(out)):
        row, factor = sums[r], unit / np.float64(totals[r])
        whole = len(row) - len(row) % _LANES
        lanes[:] = 0.0
        for start in range(0, whole, _LANES):
            part = row[start : start + _LANES]
            for lane in range(_LANES):
                lanes[lane] += np.float64(abs(part[lane])) * factor
        total = 0.0
        for lane in range(_LANES):
            total += lanes[lane]
        for i in range(whole, len(row)):
            total += np.float64(abs(row[i])) * factor
        out[r] = total / len(row)


def hits(table: Deviations, multiplicities: Multiplicities, y: IntArray, classes: int) -> IntArray:
    """Return the number of records of each class whose likeliest class is right, (n, classes).

    ``table`` is of :func:`of_true_class` for two classes, else of :func:`of_every_class`.
    """
    out = np.empty((multiplicities.n, classes), dtype=np.int64)
    kernel = _hits_of_two if classes == 2 else _hits_of_many
    for rows, sums, divisors in _blocks(table, multiplicities):
        found = np.empty((len(rows), classes), dtype=np.int64)
        kernel(sums, divisors, y, found)
        out[rows] = found
    return out


@njit
def _hits_of_two(sums: IntArray, totals: IntArray, y: IntArray, out: IntArray) -> None:
    """Count in ``out`` (n, 2) the records of each class whose likelier class is right.

    ``sums`` (n, N) are of :func:`of_true_class`; of equally likely classes the first is meant.
    """
    for r in range(len(out)):
        row, one = sums[r], totals[r] * _ONE
        right, second = 0, 0
        for i in range(len(row)):
            hit = int(2 * row[i] + one >= y[i])
            right += hit
            second += hit * y[i]
        out[r, 0], out[r, 1] = right - second, second


@njit
def _hits_of_many(sums: IntArray, totals: IntArray, y: IntArray, out: IntArray) -> None:
    """Count in ``out`` (n, C) the records of each class whose likeliest class is right.

    ``sums`` (n, N * C) are of :func:`of_every_class`; of equally likely classes the first is meant.
    """
    classes = out.shape[1]
    for r in range(len(out)):
        row, one = sums[r], totals[r] * _ONE
        out[r] = 0
        for i in range(len(y)):
            start, true = i * classes, y[i]
            p = row[start + true] + one
            wrong = 0
            for c in range(classes):  # a class before the true one wins where they are equal
                wrong += int(c != true) & int(row[start + c] + int(c < true) > p)
            out[r, true] += np.int64(wrong == 0)


def mean_deviations(table: Deviations, multiplicities: Multiplicities) -> FloatArray:
    """Return the mean deviations of each row, (n, W)."""
    out = np.empty((multiplicities.n, table.whole.shape[1]))
    for rows, sums, divisors in _blocks(table, multiplicities):
        out[rows] = sums * (table.unit / divisors[:, None])
    return out


def right_answers(
    table: Deviations, multiplicities: Multiplicities, y: IntArray, classes: int
) -> BoolArray:
    """Return on which records the likeliest class is right, (n, N); see :func:`hits`."""
    out = np.empty((multiplicities.n, len(y)), dtype=np.bool_)
    for rows, sums, divisors in _blocks(table, multiplicities):
        one = divisors[:, None] * _ONE
        if classes == 2:
            out[rows] = 2 * sums + one >= y
            continue
        totals = sums.reshape(len(rows), len(y), classes).copy()
        totals[:, np.arange(len(y)), y] += one
        out[rows] = totals.argmax(axis=2) == y  # of equally likely classes the first
    return out


def likeliest(table: Deviations, multiplicities: Multiplicities, y: IntArray) -> IntArray:
    """Return the likeliest class of each record, int64 (n, N), by a table of :func:`hits`."""
    classes = table.whole.shape[1] // len(y)
    if classes == 1:  # of two classes, the true one's probability alone
        right = right_answers(table, multiplicities, y, 2)
        return np.where(right, y, 1 - y)
    out = np.empty((multiplicities.n, len(y)), dtype=np.int64)
    for rows, sums, divisors in _blocks(table, multiplicities):
        totals = sums.reshape(len(rows), len(y), classes).copy()
        totals[:, np.arange(len(y)), y] += divisors[:, None] * _ONE
        out[rows] = totals.argmax(axis=2)  # of equally likely classes the first
    return out


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


def mean_square(
    table: Deviations, multiplicities: Multiplicities, products: IntArray | None = None
) -> FloatArray:
    """Return the mean square of each row's deviations, (n,).

    Parameters
    ----------
    products : numpy.ndarray of int64, shape (K, K, 3), optional
        Of :func:`products_of`. Without them, and for rows that sum to more than :data:`MAX_TOTAL`,
        all deviations are gone through.

    Notes
    -----
    With products O(m^2) per row, of m members beyond those that all rows share.
    """
    totals = totals_of(multiplicities.counts, multiplicities.starts)
    few = totals <= MAX_TOTAL
    if products is None or not few.any():
        return _through(_mean_square, table, multiplicities)
    if not few.all():
        out = np.empty(multiplicities.n)
        for part, its in ((few, products), (~few, None)):
            out[part] = mean_square(table, multiplicities.take(np.flatnonzero(part)), its)
        return out
    base = shared(*multiplicities, len(products))
    sums = np.empty(multiplicities.n)
    _sums_of_squares(products, base, *remainder(*multiplicities, base), sums)
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
    """Set ``out`` (n,) to the sum of squares of the base and what each row has beyond it.

    A part of the sum is at most 2^42 in size times the square of the multiplicities, 2^20.
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
