"""Sigmoid networks: training in float64, and scoring of many masks at once in float32.

A network's weights are one flat vector, layer after layer, unit by unit: ``sizes`` (6, 10, 2) has
6 x 10 weights, weight ``i * 10 + j`` from input i to unit j, then 10 x 2. Biases are a flat vector
over all units but the inputs. A mask is a 0/1 vector over the weights.

Scoring adds each kept weight's column of records in a fixed order and without a library. So a mask
gives the same decisions whatever other masks are scored with it, and pruned weights cost nothing.
"""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import copy, njit, njit_ieee, njit_lean

_BLOCK = 256  # records at a time: the layers' values stay in the first-level cache
_TOGETHER = 32  # loops run over a multiple of this: a remainder would be as slow as a whole group

# tanh as a quotient of polynomials, within 3 units in the last place of float32 (as in Eigen)
_P1, _P3 = np.float32(4.89352455891786e-3), np.float32(6.37261928875436e-4)
_P5, _P7 = np.float32(1.48572235717979e-5), np.float32(5.12229709037114e-8)
_P9, _P11 = np.float32(-8.60467152213735e-11), np.float32(2.00018790482477e-13)
_P13 = np.float32(-2.76076847742355e-16)
_Q0, _Q2 = np.float32(4.89352518554385e-3), np.float32(2.26843463243900e-3)
_Q4, _Q6 = np.float32(1.18534705686654e-4), np.float32(1.19825839466702e-6)
_HALF, _END = np.float32(0.5), np.float32(7.90531110763549805)


@njit_ieee
def _sigmoids(values: Array, n: int) -> None:
    """Replace the first ``n`` values by their logistic function, in arithmetic that vectorises."""
    for r in range(n):
        x = min(max(_HALF * values[r], -_END), _END)
        s = x * x
        p = s * _P13 + _P11
        p = s * p + _P9
        p = s * p + _P7
        p = s * p + _P5
        p = s * p + _P3
        p = s * p + _P1
        q = s * _Q6 + _Q4
        q = s * q + _Q2
        q = s * q + _Q0
        values[r] = _HALF * (x * p / q) + _HALF


@njit_lean
def _gather(
    mask: Array,
    weights: Array,
    sizes: IntArray,
    connected: IntArray,
    used: Array,
    starts: IntArray,
    reaches: BoolArray,
) -> None:
    """List the kept inputs and weights of each unit from which kept connections reach the output.

    Unit u has the inputs ``connected`` and the weights ``used`` from ``starts[u]`` to
    ``starts[u + 1]``. Weights that are not kept are written too, and then overwritten, as a branch
    on random masks would be mispredicted half the time. So both arrays have one place more than
    there are weights.
    """
    _mark_reaching(mask, sizes, reaches)
    w, unit, count = 0, 0, 0
    for layer in range(len(sizes) - 1):
        above, units = sizes[layer], sizes[layer + 1]
        for j in range(units):
            starts[unit] = count
            unit += 1
            for i in range(above if reaches[unit - 1] else 0):
                at = w + i * units + j
                connected[count], used[count] = i, weights[at]
                count += mask[at]
        w += above * units
    starts[unit] = count


@njit_lean
def _mark_reaching(mask: Array, sizes: IntArray, reaches: BoolArray) -> None:
    """Mark the units on which the last layer depends, going back from it."""
    w, unit = len(mask), len(reaches)
    for layer in range(len(sizes) - 1, 0, -1):
        units, below = sizes[layer], sizes[layer + 1] if layer + 1 < len(sizes) else 0
        unit -= units
        w -= units * below
        for i in range(units):
            reaching = below == 0
            for j in range(below):
                reaching |= reaches[unit + units + j] and mask[w + i * below + j] != 0
            reaches[unit + i] = reaching


@njit_lean
def _add_columns(
    out: Array, source: Array, first: int, n: int, connected: IntArray, used: Array
) -> None:
    """Add kept columns times their weights, in order.

    Eight columns at a time share a load and a store of the sum. The brackets keep the additions in
    the same order as one by one, so that the result does not depend on the grouping.
    """
    last = first + n
    k = 0
    while k + 8 <= len(connected):
        A, B = source[connected[k], first:last], source[connected[k + 1], first:last]
        C, D = source[connected[k + 2], first:last], source[connected[k + 3], first:last]
        E, F = source[connected[k + 4], first:last], source[connected[k + 5], first:last]
        G, H = source[connected[k + 6], first:last], source[connected[k + 7], first:last]
        a, b, c, d = used[k], used[k + 1], used[k + 2], used[k + 3]
        e, f, g, h = used[k + 4], used[k + 5], used[k + 6], used[k + 7]
        for r in range(n):
            four = (((out[r] + a * A[r]) + b * B[r]) + c * C[r]) + d * D[r]
            out[r] = (((four + e * E[r]) + f * F[r]) + g * G[r]) + h * H[r]
        k += 8
    if k + 4 <= len(connected):
        A, B = source[connected[k], first:last], source[connected[k + 1], first:last]
        C, D = source[connected[k + 2], first:last], source[connected[k + 3], first:last]
        a, b, c, d = used[k], used[k + 1], used[k + 2], used[k + 3]
        for r in range(n):
            out[r] = (((out[r] + a * A[r]) + b * B[r]) + c * C[r]) + d * D[r]
        k += 4
    while k < len(connected):
        A, a = source[connected[k], first:last], used[k]
        for r in range(n):
            out[r] += a * A[r]
        k += 1


@njit_lean
def _forward(
    records: Array,
    first: int,
    n: int,
    biases: Array,
    sizes: IntArray,
    connected: IntArray,
    used: Array,
    starts: IntArray,
    reaches: BoolArray,
    layers: Array,
) -> None:
    """Put the values of the last layer before the sigmoid into ``layers[(len(sizes) - 1) % 2]``.

    They are those of ``n`` records from ``first`` on, shape (units, n).
    """
    unit = 0
    for layer in range(len(sizes) - 1):
        inputs, outputs = layers[layer % 2], layers[1 - layer % 2]
        for j in range(sizes[layer + 1]):
            if not reaches[unit]:
                unit += 1
                continue
            out = outputs[j]
            for i in range(n):
                out[i] = biases[unit]
            of_unit = slice(starts[unit], starts[unit + 1])
            if layer == 0:
                _add_columns(out, records, first, n, connected[of_unit], used[of_unit])
            else:
                _add_columns(out, inputs, 0, n, connected[of_unit], used[of_unit])
            if layer < len(sizes) - 2:
                _sigmoids(out, n)
            unit += 1


def padded(design: FloatArray) -> Array:
    """Return records (N, features) as float32 columns, padded with zeros to full groups."""
    columns = np.zeros((design.shape[1], -(-len(design) // _TOGETHER) * _TOGETHER), np.float32)
    columns[:, : len(design)] = design.T
    return columns


@njit
def margins(
    records: Array, count: int, weights: Array, biases: Array, sizes: IntArray, masks: Array
) -> Array:
    """Return the second output unit's value minus the first one's, before the sigmoid.

    Parameters
    ----------
    records : float32 (features, count or more)
        Encoded; fastest if :func:`padded`.
    count : int
        Number of records, without padding.
    weights, biases : float32 (1 or n, all weights), (1 or n, all units)
        One network for all masks, or one for each.
    sizes : int64 (layers,)
    masks : int8 (n, all weights)
        Zeros and ones.

    Returns
    -------
    float32 (n, count)
        A record is answered as positive if its margin is above 0: after the sigmoid, large values
        would tie.

    Notes
    -----
    O(count x kept weights) for each mask.
    """
    of_masks = np.empty((len(masks), count), dtype=np.float32)
    for m in range(len(masks)):
        network = min(m, len(weights) - 1)
        values = outputs(records, count, weights[network], biases[network], sizes, masks[m])
        for r in range(count):
            of_masks[m, r] = values[1, r] - values[0, r]
    return of_masks


@njit
def outputs(
    records: Array, count: int, weights: Array, biases: Array, sizes: IntArray, mask: Array
) -> Array:
    """Return the last two units' values before the sigmoid, float32 (2, count); see margins."""
    connected = np.empty(len(mask) + 1, dtype=np.int64)
    used = np.empty(len(mask) + 1, dtype=np.float32)
    starts = np.empty(len(biases) + 1, dtype=np.int64)
    reaches = np.empty(len(biases), dtype=np.bool_)
    layers = np.empty((2, sizes.max(), _BLOCK), dtype=np.float32)
    _gather(mask, weights, sizes, connected, used, starts, reaches)
    of_records, last = np.empty((2, count), dtype=np.float32), layers[(len(sizes) - 1) % 2]
    for first in range(0, count, _BLOCK):
        n = min(_BLOCK, count - first)
        wide = min(-(-n // _TOGETHER) * _TOGETHER, records.shape[1] - first)
        _forward(records, first, wide, biases, sizes, connected, used, starts, reaches, layers)
        for unit in range(2):
            for r in range(n):
                of_records[unit, first + r] = last[unit, r]
    return of_records


@njit
def train(
    records: FloatArray,
    positive: BoolArray,
    weights: FloatArray,
    biases: FloatArray,
    sizes: IntArray,
    mask: Array,
    order: IntArray,
    batch: int,
    rate: float,
) -> None:
    """Train a network in place by Adam on the cross-entropy of both output units.

    Parameters
    ----------
    records : float64 (N, features), encoded
    positive : bool (N,)
        The second output unit is trained to be 1 for positive records, the first one for others.
    weights, biases : float64 (all weights,), (all units,)
    sizes : int64 (layers,)
    mask : int8 (all weights,)
        Weights with a 0 are neither used nor changed.
    order : int64 (epochs, N)
        Positions of the records in the order of each epoch.
    batch : int
        Number of records in a step.
    rate : float
        Learning rate; the decay rates are 0.9 and 0.999 (Kingma and Ba 2015).
    """
    layers, units, step = len(sizes) - 1, len(biases), 0
    value = np.zeros(int(sizes.sum()))
    error = np.zeros(units)
    n_weights = len(weights)
    slope = np.zeros(n_weights + units)
    mean, square = np.zeros(n_weights + units), np.zeros(n_weights + units)
    for epoch in range(len(order)):
        for first in range(0, order.shape[1], batch):
            last = min(first + batch, order.shape[1])
            slope[:] = 0.0
            for k in range(first, last):
                r = order[epoch, k]
                copy(records[r], value[: sizes[0]])
                _activate(value, weights, biases, sizes, mask)
                out = len(value) - 2
                error[units - 2] = value[out] - (not positive[r])
                error[units - 1] = value[out + 1] - positive[r]
                _add_slopes(value, weights, sizes, mask, error, slope, layers)
            step += 1
            scale = 1.0 / (last - first)
            one, two = 1.0 - 0.9**step, 1.0 - 0.999**step
            for p in range(n_weights + units):
                if p < n_weights and mask[p] == 0:
                    continue
                g = slope[p] * scale
                mean[p] = 0.9 * mean[p] + 0.1 * g
                square[p] = 0.999 * square[p] + 0.001 * g * g
                change = rate * (mean[p] / one) / (np.sqrt(square[p] / two) + 1e-8)
                if p < n_weights:
                    weights[p] -= change
                else:
                    biases[p - n_weights] -= change


@njit_lean
def _activate(
    value: FloatArray, weights: FloatArray, biases: FloatArray, sizes: IntArray, mask: Array
) -> None:
    """Fill in the values of all units after those of the inputs."""
    above, unit, w = 0, 0, 0
    for layer in range(len(sizes) - 1):
        start = above + sizes[layer]
        for j in range(sizes[layer + 1]):
            total = biases[unit + j]
            for i in range(sizes[layer]):
                at = w + i * sizes[layer + 1] + j
                if mask[at] != 0:
                    total += weights[at] * value[above + i]
            value[start + j] = 1.0 / (1.0 + np.exp(-total))
        w += sizes[layer] * sizes[layer + 1]
        unit += sizes[layer + 1]
        above = start


@njit_lean
def _add_slopes(
    value: FloatArray,
    weights: FloatArray,
    sizes: IntArray,
    mask: Array,
    error: FloatArray,
    slope: FloatArray,
    layers: int,
) -> None:
    """Add a record's gradient to ``slope``; ``error`` has that of the last layer's sums."""
    w, unit = len(weights), len(error)
    top = len(value)
    for layer in range(layers - 1, -1, -1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        w -= n_in * n_out
        unit -= n_out
        top -= n_out
        below = top - n_in
        for j in range(n_out):
            slope[len(weights) + unit + j] += error[unit + j]
        for i in range(n_in):
            back = 0.0
            for j in range(n_out):
                at = w + i * n_out + j
                if mask[at] != 0:
                    slope[at] += error[unit + j] * value[below + i]
                    back += error[unit + j] * weights[at]
            if layer > 0:
                error[unit - n_in + i] = back * value[below + i] * (1.0 - value[below + i])
