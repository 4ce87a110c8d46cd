"""A bound without a program: the greatest closure under dominance, by a minimum cut.

A pattern voted positive by fewer classifiers than another (a subset of them) is never called
positive without it. Maximising the gains under these implications alone bounds every ensemble
(Picard 1976: a maximum closure is a minimum cut).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.pruning.strong.instance import Instance
from framework.arrays import IntArray

_SCALE = 2.0**29  # capacities are 32-bit whole numbers


class Closure(NamedTuple):
    """A bound of the weighted sum, and the implications that bind: pairs (up, down), (m, 2)."""

    bound: float
    binding: IntArray


def closure_bound(instance: Instance) -> Closure:
    """Return the bound that dominance gives.

    Weights that are no small whole numbers are rounded so that the bound stays one.

    Notes
    -----
    O(U D K) to find the implications, then a maximum flow between U + D + 2 nodes.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    up, down = instance.up, instance.down
    total = float(up.sum() + down.sum())
    if not len(up) or not len(down) or total == 0:
        return Closure(instance.constant + float(up.sum()), np.zeros((0, 2), dtype=np.int64))
    scale = 1.0 if instance.step and total < _SCALE else _SCALE / 2 / total
    gain = np.ceil(up * scale).astype(np.int32)  # rounded in the bound's favour
    loss = np.floor(down * scale).astype(np.int32)
    pairs = implications(instance)
    n_up, n = len(up), len(up) + len(down)
    source, sink, many = n, n + 1, np.int32(2**30)
    rows = np.concatenate([np.full(n_up, source), pairs[:, 0], n_up + np.arange(len(down))])
    columns = np.concatenate([np.arange(n_up), n_up + pairs[:, 1], np.full(len(down), sink)])
    capacity = np.concatenate([gain, np.full(len(pairs), many), loss]).astype(np.int32)
    graph = csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2))
    result = maximum_flow(graph, source, sink)
    flow = result.flow.tocoo()
    used = (flow.data > 0) & (flow.row < n_up) & (flow.col < n) & (flow.col >= n_up)
    binding = np.column_stack([flow.row[used], flow.col[used] - n_up]).astype(np.int64)
    bound = (int(gain.sum(dtype=np.int64)) - int(result.flow_value)) / scale
    return Closure(instance.constant + bound, binding[np.lexsort(binding.T[::-1])])


def implications(instance: Instance) -> IntArray:
    """Return the pairs (i, j): wherever pattern i of ``up`` is positive, so is j of ``down``."""
    outside = instance.up_patterns.astype(np.float32) @ (~instance.down_patterns).T.astype(
        np.float32
    )
    return np.argwhere(outside == 0).astype(np.int64)


def share_of_gap(bound: float, value: float) -> float:
    """Return (bound - value) / |value|, the gap as CPLEX has it; infinite over 0."""
    difference = max(bound - value, 0.0)
    if difference == 0.0:
        return 0.0
    return difference / abs(value) if value else float("inf")
