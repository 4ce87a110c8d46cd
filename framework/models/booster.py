"""LightGBM's model in its own text format, which its parser takes at its word.

The parser follows the numbers of a tree blindly, and ends the process at what it cannot read. So
the text must be as LightGBM writes it: known keys, each on a line of its own, plain digits, blocks
of the sizes that the header gives. What another reader of numbers would let pass, such as ``1_0``,
digits of other scripts or a carriage return for the end of a line, is refused: LightGBM would read
another tree than the one that was checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.models.native import sound

BOOSTER = "lightgbm.basic.Booster"

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_COUNT = re.compile(r"[0-9]{1,9}")
_WHOLE = "-?[0-9]{1,10}"
_NUMBER = r"-?([0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?|inf|nan)"
_WHOLES, _NUMBERS = (re.compile(f"{one}( {one})*") for one in (_WHOLE, _NUMBER))
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


def check_booster(text: Any) -> None:
    """Check the text of a whole model.

    The numbers of trees and outputs fit; children come after their parent; features are there;
    the blocks of trees lie where the header says. Linear trees are refused.

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
    """Return the keys of a tree, which LightGBM reads up to the first blank line."""
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
    """Return the lines ``key=value``, each key once."""
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
