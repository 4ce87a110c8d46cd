"""Check numbers that compiled code uses as indices without checks, before objects are made of them.

scikit-learn and scipy do not check the indices in a fitted tree or a sparse array, so a forged one
makes them read memory outside of the array. LightGBM does not check the indices in the text of a
tree either, and its parser ends the process at anything that it cannot read. So the text must be as
LightGBM writes it: expected keys, one per line, plain digits, blocks of the sizes that the header
gives. Whatever Python's parsers accept beyond that (``1_0``, digits of other scripts, a carriage
return as the end of a line) is refused: LightGBM would read a tree that was not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np

from framework.arrays import Array
from framework.security.compressed import array_of, check_members, member
from framework.security.limits import ESTIMATOR_BYTES

BOOSTER = "lightgbm.basic.Booster"

_PARTS = ("data", "format", "indices", "indptr", "shape")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_COUNT = re.compile(r"[0-9]{1,9}")
_WHOLE = "-?[0-9]{1,10}"
_NUMBER = r"-?([0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?|inf|nan)"
_WHOLES, _NUMBERS = (re.compile(f"{item}( {item})*") for item in (_WHOLE, _NUMBER))
_PER_NODE = {
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
}
_PER_LEAF = {"leaf_value", "leaf_weight", "leaf_count"}
_OTHERS = {"Tree", "num_leaves", "num_cat", "is_linear", "shrinkage"}
_CATEGORIES = {"cat_boundaries", "cat_threshold"}


class Unsound(Exception):
    """Parts of a fitted model do not fit together; the message names the part."""


def sound(holds: object, what: str) -> None:
    """Raise Unsound, with the name of the part, unless a condition ``holds``."""
    if not holds:
        raise Unsound(what)


def check_decision_tree(args: Sequence[Any], state: Mapping[str, Any]) -> None:
    """Check scikit-learn's ``Tree``: its constructor's arguments and its state.

    Children must come after their parent, so that every walk from the root ends, and the features
    and outputs that nodes refer to must exist.

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
        children = nodes[child][inner]
        sound(((children > inner) & (children < len(nodes))).all(), "a tree's children")
    split = nodes["feature"][inner]
    sound(((split >= 0) & (split < features)).all(), "a tree's features")


def check_search_tree(items: Sequence[Any]) -> None:
    """Check the state of a ``KDTree`` or ``BallTree``; its distance is checked separately.

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
    """Check the state of a distance: it has an exponent, and no weights.

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


def rewritten_sparse(content: bytes) -> bytes:
    """Check the ``.npz`` file of a sparse array (CSR or CSC); return it, written anew.

    Raises
    ------
    Unsound
        An index lies outside of the array, or the parts do not fit each other.
    ValueError, KeyError, zipfile.BadZipFile
        The file is damaged, or too large when unpacked.
    """
    with ZipFile(BytesIO(content)) as file:
        check_members(file, len(content), ESTIMATOR_BYTES)
        parts = {name: array_of(member(file, f"{name}.npy")) for name in _PARTS}
        marked = "_is_array.npy" in file.namelist()
    data, indices, indptr = (parts[name] for name in ("data", "indices", "indptr"))
    shape = parts["shape"]
    sound(
        parts["format"].shape == () and parts["format"].item() in (b"csr", b"csc"), "a sparse array"
    )
    sound(shape.shape == (2,) and shape.dtype.kind == "i" and (shape >= 0).all(), "a sparse array")
    rows, columns = shape if parts["format"].item() == b"csr" else shape[::-1]
    sound(indptr.dtype == indices.dtype and indptr.dtype.str in ("<i4", "<i8"), "a sparse array")
    sound(indptr.shape == (rows + 1,) and indices.ndim == data.ndim == 1, "a sparse array")
    sound(data.dtype.kind in "biuf" and len(data) == len(indices) == indptr[-1], "a sparse array")
    sound(indptr[0] == 0 and (np.diff(indptr) >= 0).all(), "a sparse array")
    sound(not len(indices) or (indices.min() >= 0 and indices.max() < columns), "a sparse array")
    rewritten = BytesIO()
    if marked:
        parts["_is_array"] = np.array(True)
    np.savez(rewritten, **parts)  # type: ignore[arg-type]
    return rewritten.getvalue()


def check_booster(text: Any) -> None:
    """Check the text of a LightGBM model.

    The numbers of trees and outputs must fit each other, children must come after their parent,
    features must exist, and the blocks of the trees must lie where the header says. Linear trees
    are refused.

    Raises
    ------
    Unsound
    """
    sound(isinstance(text, str), "a booster without its model")
    sound(_CONTROL.search(text) is None, "a booster's text with control characters")
    head, _, rest = text.partition("\nTree=")
    header = _pairs(head)
    body, end, _ = ("Tree=" + rest).partition("end of trees")
    blocks = re.split(r"(?=^Tree=)", body, flags=re.MULTILINE)[1:] if rest else []
    outputs, features = _count(header["num_class"]), _count(header["max_feature_idx"]) + 1
    sound(end and text.startswith("tree\n"), "a booster's text")
    sound(0 < outputs <= 10**4 and 0 < features <= 10**7, "a booster's sizes")
    sound(_count(header["num_tree_per_iteration"]) == outputs, "a booster's outputs")
    sound(len(header["feature_names"].split(" ")) == features, "a booster's features")
    sizes = [len(block.encode()) for block in blocks]
    sound([*map(_count, header["tree_sizes"].split(" "))] == sizes, "a booster's blocks")
    sound(len(blocks) % outputs == 0 and blocks, "a booster's number of trees")
    objective = header.get("objective", "").split(" ")
    named = [word for word in objective if word.startswith("num_class:")]
    sound(all(word == f"num_class:{outputs}" for word in named), "a booster's classes")
    sound("multiclass" not in objective[0] or named, "a booster's classes")
    for block in blocks:
        _check_block(_lines_of(block), features)


def _lines_of(block: str) -> dict[str, str]:
    """Return the keys and values of a tree, which LightGBM reads up to the first blank line."""
    lines, _, after = block.partition("\n\n")
    sound(not after.strip("\n"), "a booster's tree")
    sound(all("=" in line for line in lines.split("\n")), "a booster's tree")
    return _pairs(lines)


def _check_block(tree: Mapping[str, str], features: int) -> None:
    leaves, categorical = _count(tree["num_leaves"]), _count(tree["num_cat"])
    sound(0 < leaves <= 10**7, "a booster's leaves")
    sound(tree.get("is_linear", "0") == "0", "a booster of linear trees")
    unknown = tree.keys() - _PER_NODE - _PER_LEAF - _OTHERS - _CATEGORIES
    sound(not unknown, f"a booster with {unknown}")
    by_name = {**dict.fromkeys(_PER_NODE, leaves - 1), **dict.fromkeys(_PER_LEAF, leaves)}
    for key, value in tree.items():
        if key in by_name and (leaves > 1 or key == "leaf_value"):
            sound(value.count(" ") + 1 == by_name[key], f"a booster's {key}")
        sound(value == "" or _NUMBERS.fullmatch(value), f"a booster's {key}")
    sound("leaf_value" in tree, "a booster's leaves")
    if leaves > 1:
        _check_nodes(tree, leaves, categorical, features)


def _check_nodes(tree: Mapping[str, str], leaves: int, categorical: int, features: int) -> None:
    split, kind = _whole(tree["split_feature"]), _whole(tree["decision_type"])
    sound(((split >= 0) & (split < features)).all(), "a booster's features")
    for side in ("left_child", "right_child"):
        child = _whole(tree[side])
        later = (child > np.arange(leaves - 1)) & (child < leaves - 1)
        sound((later | ((child < 0) & (~child < leaves))).all(), "a booster's children")
    by_category = (kind & 1).astype(bool)
    sound(categorical > 0 or not by_category.any(), "a booster's categories")
    threshold = np.array(tree["threshold"].split(" "), dtype=np.float64)
    if categorical > 0:
        chosen = threshold[by_category]
        sound(((chosen >= 0) & (chosen < categorical)).all(), "a booster's categories")
        edges = _whole(tree["cat_boundaries"])
        words = tree["cat_threshold"].count(" ") + 1
        sound(len(edges) == categorical + 1, "a booster's categories")
        sound(edges[0] == 0 and edges[-1] == words, "a booster's categories")
        sound((np.diff(edges) >= 0).all(), "a booster's categories")


def _pairs(text: str) -> dict[str, str]:
    """Return keys and values of the lines ``key=value``; no key may occur twice."""
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            sound(key not in pairs, f"a booster with {key!r} twice")
            pairs[key] = value
    return pairs


def _count(text: str) -> int:
    sound(_COUNT.fullmatch(text), "a booster's numbers")
    return int(text)


def _whole(text: str) -> Array:
    sound(_WHOLES.fullmatch(text), "a booster's numbers")
    return np.array(text.split(" "), dtype=np.int64)
