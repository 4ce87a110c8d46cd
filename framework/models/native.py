"""What compiled code is told without checking it: trees and distances, number by number.

scikit-learn and LightGBM follow the indices in a fitted tree blindly, so a forged one reads memory
that is not its own. These checks run on plain values, before any such object is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.arrays import Array

BOOSTER = "lightgbm.basic.Booster"


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


def check_booster(text: Any) -> None:
    """Check LightGBM's model in its own text format.

    The numbers of trees and outputs fit; children come after their parent; features are there;
    the blocks of trees lie where the header says. Linear trees are refused.

    Raises
    ------
    Unsound
    """
    sound(isinstance(text, str), "a booster without its model")
    head, _, rest = text.partition("\nTree=")
    header = _pairs(head)
    body, end, _ = ("Tree=" + rest).partition("end of trees")
    blocks = re.split(r"(?=^Tree=)", body, flags=re.MULTILINE)[1:] if rest else []
    outputs, features = int(header["num_class"]), int(header["max_feature_idx"]) + 1
    sound(end and text.startswith("tree\n"), "a booster's text")
    sound(0 < outputs <= 10**4 and 0 < features <= 10**7, "a booster's sizes")
    sound(int(header["num_tree_per_iteration"]) == outputs, "a booster's outputs")
    sound(len(header["feature_names"].split(" ")) == features, "a booster's features")
    sizes = [len(block.encode()) for block in blocks]
    sound([int(size) for size in header["tree_sizes"].split()] == sizes, "a booster's blocks")
    sound(len(blocks) % outputs == 0 and blocks, "a booster's number of trees")
    objective = header.get("objective", "").split(" ")
    named = [word for word in objective if word.startswith("num_class:")]
    sound(all(word == f"num_class:{outputs}" for word in named), "a booster's classes")
    sound("multiclass" not in objective[0] or named, "a booster's classes")
    for block in blocks:
        _check_block(_pairs(block), features)


def _check_block(tree: Mapping[str, str], features: int) -> None:
    leaves, categorical = int(tree["num_leaves"]), int(tree["num_cat"])
    sound(0 < leaves <= 10**7, "a booster's leaves")
    sound(tree.get("is_linear", "0") == "0", "a booster of linear trees")
    sound(len(tree["leaf_value"].split()) == leaves, "a booster's leaves")
    if leaves == 1:
        return
    split, kind = (
        _whole(tree["split_feature"], leaves - 1),
        _whole(tree["decision_type"], leaves - 1),
    )
    sound(((split >= 0) & (split < features)).all(), "a booster's features")
    for side in ("left_child", "right_child"):
        child = _whole(tree[side], leaves - 1)
        later = (child > np.arange(leaves - 1)) & (child < leaves - 1)
        sound((later | ((child < 0) & (~child < leaves))).all(), "a booster's children")
    by_category = (kind & 1).astype(bool)
    sound(categorical > 0 or not by_category.any(), "a booster's categories")
    if categorical > 0:
        threshold = np.array(tree["threshold"].split(), dtype=np.float64)[by_category]
        sound(((threshold >= 0) & (threshold < categorical)).all(), "a booster's categories")
        edges = _whole(tree["cat_boundaries"], categorical + 1)
        words = len(tree["cat_threshold"].split())
        sound(edges[0] == 0 and edges[-1] == words, "a booster's categories")
        sound((np.diff(edges) >= 0).all(), "a booster's categories")


def _pairs(text: str) -> dict[str, str]:
    """Return the lines ``key=value``, each key once."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            sound(key not in pairs, f"a booster with {key!r} twice")
            pairs[key] = value
    return pairs


def _whole(text: str, count: int) -> Array:
    found = np.array(text.split(), dtype=np.int64)
    sound(found.shape == (count,), "a booster's numbers")
    return found


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**31
