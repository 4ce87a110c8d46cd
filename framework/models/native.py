"""What compiled code is told without checking it: trees and distances, number by number.

scikit-learn follows the indices in a fitted tree blindly, so a forged one reads memory that is not
its own. These checks run on plain values, before any such object is made; those of LightGBM's trees
are in :mod:`framework.models.booster`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Unsound(Exception):
    """What does not fit together in a fitted model."""


def sound(holds: object, what: str) -> None:
    """Raise Unsound with ``what`` unless it ``holds``."""
    if not holds:
        raise Unsound(what)


def check_tree(args: Sequence[Any], state: Mapping[str, Any]) -> None:
    """Check scikit-learn's ``Tree``: its constructor's arguments and its state.

    Children come after their parent, so that every walk ends; features and outputs are there.

    Raises
    ------
    Unsound
    """
    from sklearn.tree._tree import NODE_DTYPE

    features, classes, outputs = args
    nodes, values = state["nodes"], state["values"]
    sound(_is_count(features) and _is_count(outputs), "a tree of no features or outputs")
    sound(classes.shape == (outputs,) and classes.dtype.kind == "i", "a tree's classes")
    sound((classes >= 1).all() and classes.max() <= 10**6, "a tree's classes")
    sound(nodes.dtype == NODE_DTYPE and nodes.ndim == 1 and len(nodes), "a tree's nodes")
    sound(state["node_count"] == len(nodes), "a tree's number of nodes")
    sound(values.dtype == np.float64, "a tree's values")
    sound(values.shape == (len(nodes), outputs, classes.max()), "a tree's values")
    inner = np.flatnonzero(nodes["left_child"] != -1)
    for child in ("left_child", "right_child"):
        found = nodes[child][inner]
        sound(((found > inner) & (found < len(nodes))).all(), "a tree's children")
    split = nodes["feature"][inner]
    sound(((split >= 0) & (split < features)).all(), "a tree's features")


def check_search_tree(items: Sequence[Any]) -> None:
    """Check the state of a ``KDTree`` or ``BallTree``; its distance is checked by itself.

    Raises
    ------
    Unsound
    """
    data, places, nodes, bounds, leaf_size, levels, count = items[:7]
    n, d = data.shape
    sound(data.dtype == np.float64 and n and d, "a search tree's records")
    sound(places.shape == (n,) and places.dtype == np.int64, "a search tree's order")
    sound(np.array_equal(np.sort(places), np.arange(n)), "a search tree's order")
    sound(_is_count(leaf_size) and _is_count(levels) and levels <= 60, "a search tree's levels")
    sound(count == 2**levels - 1 == len(nodes), "a search tree's nodes")
    sound(nodes.dtype.names == ("idx_start", "idx_end", "is_leaf", "radius"), "a search tree")
    sound([nodes.dtype[i].str for i in range(4)] == ["<i8", "<i8", "<i8", "<f8"], "a search tree")
    sound(bounds.dtype == np.float64 and bounds.shape[1:] == (count, d), "a search tree's bounds")
    sound(len(bounds) in (1, 2), "a search tree's bounds")
    start, end = nodes["idx_start"], nodes["idx_end"]
    sound(((start >= 0) & (start <= end) & (end <= n)).all(), "a search tree's ranges")
    leaves = np.arange(count) >= count // 2  # the last level has no children
    sound((nodes["is_leaf"][leaves] == 1).all(), "a search tree's leaves")
    sound(all(type(item) is int for item in items[7:11]), "a search tree's counters")
    sound(len(items) == 13 and items[12] is None, "a search tree with weights")


def check_distance(state: Sequence[Any]) -> None:
    """Check the state of a distance: its exponent, and that it weighs nothing.

    Raises
    ------
    Unsound
    """
    exponent, weights, inverse = state
    sound(isinstance(exponent, float), "a distance's exponent")
    sound(weights.dtype == inverse.dtype == np.float64, "a distance's weights")
    sound(weights.size <= 1 and inverse.size <= 1, "a distance with weights")
    sound(weights.ndim == 1 and inverse.ndim == 2, "a distance's weights")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**31
