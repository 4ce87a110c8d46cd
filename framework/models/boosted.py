"""Boosted trees of XGBoost and CatBoost as plain numbers, and their predictions.

A model that one of these libraries has fitted is turned into an array at once, and all predictions
are made from the array. So an exported model predicts the same to the bit as in the search, needs
no library where it is served, and no compiled parser ever reads its file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError

PARAMETERS = {
    path: re.findall(r"\w+", names)
    for path, names in {
        "xgboost.XGBClassifier": """
            base_score colsample_bylevel colsample_bynode colsample_bytree gamma grow_policy
            learning_rate max_bin max_delta_step max_depth max_leaves min_child_weight
            n_estimators n_jobs num_parallel_tree random_state reg_alpha reg_lambda
            scale_pos_weight subsample tree_method""",
        "catboost.CatBoostClassifier": """
            auto_class_weights bagging_temperature boost_from_average boosting_type bootstrap_type
            depth iterations l2_leaf_reg leaf_estimation_iterations leaf_estimation_method
            learning_rate max_bin max_depth min_data_in_leaf n_estimators random_state
            random_strength rsm scale_pos_weight subsample""",
    }.items()
}
"""Parameters that a configuration may set: the signatures either hide them or also take files."""

ALWAYS: dict[str, dict[str, Any]] = {
    "lightgbm.LGBMClassifier": {"n_jobs": 1, "verbose": -1},  # else a line for each tree
    "xgboost.XGBClassifier": {"n_jobs": 1},
    "catboost.CatBoostClassifier": {
        "allow_writing_files": False,
        "logging_level": "Silent",
        "thread_count": 1,
    },
}
"""Parameters that are set unless the configuration says otherwise."""

_FEATURE, _THRESHOLD, _LEFT, _RIGHT, _ROOT, _VALUES = range(6)  # columns of the array
_CELLS = 2**22  # records times trees that are walked at a time
_DEEPEST = 1_024  # levels of a tree; a forged file could make predictions last for ever
_Tree = tuple[IntArray, FloatArray, IntArray, IntArray, FloatArray]
"""Of each node its feature, threshold, left and right child, and what it adds to each output."""


class BoostedTrees:
    """Sums of trees as scores of the classes, turned into probabilities.

    Parameters
    ----------
    classes : (K,)
    array : float64 (1 + nodes, 5 + outputs)
        There is one output for two classes (the score of the second one), else K. The first row
        has the number of features, four zeros, and the base score of each output. Each further row
        is a node: its feature, or -1 for a leaf; the float32 threshold below which a value goes
        left; the rows of its children; whether it is a root (0 or 1); what a leaf adds to each
        output.

    Raises
    ------
    InputError
        The array does not describe trees: every child must come after its only parent and within
        1,024 steps of a root, and all features must exist.
    """

    def __init__(self, classes: Array, array: FloatArray) -> None:
        self.classes_, self._array = np.asarray(classes), np.asarray(array)
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._check(outputs)
        self.n_features_in_ = int(array[0, _FEATURE])
        self._base, self._values = array[0, _VALUES:], array[:, _VALUES:]
        # a leaf is its own child, so that all walks can go on until the longest one ends
        leaf = array[:, _FEATURE] < 0
        rows = np.arange(len(array))
        self._feature: IntArray = np.where(leaf, 0, array[:, _FEATURE]).astype(np.int64)
        self._threshold = array[:, _THRESHOLD].astype(np.float32)
        self._left: IntArray = np.where(leaf, rows, array[:, _LEFT]).astype(np.int64)
        self._right: IntArray = np.where(leaf, rows, array[:, _RIGHT]).astype(np.int64)
        self._roots: IntArray = np.flatnonzero(array[:, _ROOT])

    def _check(self, outputs: int) -> None:
        array = self._array
        fits = array.dtype == np.float64 and array.ndim == 2 and len(array) > 1
        fits = fits and array.shape[1] == _VALUES + outputs and bool(np.isfinite(array).all())
        if fits:
            nodes, row = array[1:], np.arange(1, len(array))
            feature, inner = nodes[:, _FEATURE], nodes[:, _FEATURE] >= 0
            children = nodes[:, [_LEFT, _RIGHT]][inner]
            later = (children > row[inner, None]) & (children < len(array))
            whole = nodes[:, [_FEATURE, _LEFT, _RIGHT]]
            fits = bool(
                (whole == np.rint(whole)).all()
                and array[0, _FEATURE] == np.rint(array[0, _FEATURE])
                and ((feature >= -1) & (feature < array[0, _FEATURE])).all()
                and later.all()
                and np.isin(array[:, _ROOT], (0, 1)).all()
                and array[0, _ROOT] == 0
                and nodes[:, _ROOT].any()
                and self._is_shallow(children.astype(np.int64), row[inner])
            )
        if not fits:
            raise InputError(
                f"boosted trees: expected an array of trees for {len(self.classes_)} classes, "
                f"found another one ({array.dtype}, {' x '.join(map(str, array.shape))})"
            )

    def _is_shallow(self, children: IntArray, parents: IntArray) -> bool:
        """Return whether every node has at most one parent and is near enough to its root.

        ``children`` (inner nodes, 2) are the rows of the children of ``parents`` (inner nodes,).
        """
        entered = np.bincount(children.ravel(), minlength=len(self._array))
        if (entered + self._array[:, _ROOT] > 1).any():
            return False
        children_of = np.zeros((len(self._array), 2), dtype=np.int64)  # 0: no child
        children_of[parents] = children
        level, steps = np.flatnonzero(self._array[:, _ROOT]), 0
        while len(level) and steps <= _DEEPEST:
            below = children_of[level].ravel()
            level, steps = below[below > 0], steps + 1
        return not len(level)

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probability (n, K) of each class for encoded records (n, D)."""
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise InputError(
                f"expected {self.n_features_in_} columns, found an array of shape {X.shape}"
            )
        step = max(1, _CELLS // len(self._roots))
        parts = [self._sums(X[i : i + step]) for i in range(0, len(X), step)]
        sums = np.concatenate([np.zeros((0, len(self._base))), *parts])
        if len(self.classes_) == 2:
            second = expit(sums[:, 0])
            return np.column_stack([1 - second, second])
        return np.asarray(softmax(sums, axis=1), dtype=np.float64)

    def _sums(self, X: FloatArray) -> FloatArray:
        """Return the scores (n, outputs): all records walk down all trees side by side."""
        values = X.astype(np.float32)  # both libraries compare values of this precision
        rows = np.arange(len(X))[:, None]
        nodes = np.repeat(self._roots[None], len(X), axis=0)  # (n, trees)
        while True:
            goes_left = values[rows, self._feature[nodes]] < self._threshold[nodes]
            children = np.where(goes_left, self._left[nodes], self._right[nodes])
            if np.array_equal(children, nodes):
                break
            nodes = children
        outputs = (self._values[:, k][nodes].sum(axis=1) for k in range(len(self._base)))
        return np.column_stack(list(outputs)) + self._base

    def predict(self, X: FloatArray) -> Array:
        """Return the most likely class (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def to_array(self) -> FloatArray:
        """Return the array that the constructor takes."""
        return self._array


def as_plain(estimator: Any) -> Any:
    """Return a fitted estimator of XGBoost or CatBoost as :class:`BoostedTrees`.

    Other estimators are returned unchanged, and so are those whose trees split categories or whose
    objective does not give one probability per class.
    """
    library = type(estimator).__module__.partition(".")[0]
    if library == "xgboost":
        return _of_xgboost(estimator) or estimator
    if library == "catboost":
        return _of_catboost(estimator) or estimator
    return estimator


def _of_xgboost(estimator: Any) -> BoostedTrees | None:
    learner = json.loads(estimator.get_booster().save_raw("json"))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    probabilistic = objective in ("binary:logistic", "multi:softprob")
    if booster["name"] != "gbtree" or not probabilistic or hasattr(estimator, "best_iteration"):
        return None
    parameters, classes = learner["learner_model_param"], estimator.classes_
    outputs = 1 if len(classes) == 2 else len(classes)
    base = np.asarray(json.loads(parameters["base_score"]), dtype=np.float64)
    if objective == "binary:logistic":
        base = logit(base)
    trees: list[_Tree] = []
    for tree, output in zip(booster["model"]["trees"], booster["model"]["tree_info"], strict=True):
        if tree["categories"] or tree["tree_param"]["size_leaf_vector"] not in ("0", "1"):
            return None
        left = np.asarray(tree["left_children"])
        # one list holds the thresholds of inner nodes and the values of leaves
        numbers = np.asarray(tree["split_conditions"], dtype=np.float32)
        values = np.zeros((len(left), outputs))
        values[:, output] = np.where(left < 0, numbers, 0)
        right = np.asarray(tree["right_children"])
        feature = np.where(left < 0, -1, tree["split_indices"])
        trees.append((feature, np.where(left < 0, 0, numbers), left, right, values))
    array = _array_of(int(parameters["num_feature"]), np.broadcast_to(base, outputs), trees)
    return BoostedTrees(classes, array)


def _of_catboost(estimator: Any) -> BoostedTrees | None:
    with TemporaryDirectory() as folder:  # the library can only write to files
        path = Path(folder, "model.json")
        estimator.save_model(str(path), format="json")
        model = json.loads(path.read_text(encoding="utf-8"))
    classes = estimator.classes_
    outputs = 1 if len(classes) == 2 else len(classes)
    scale, bias = model["scale_and_bias"]
    loss = estimator.get_all_params()["loss_function"]
    features = len(model["features_info"].get("float_features", []))
    plain = loss in ("Logloss", "MultiClass") and features == estimator.n_features_in_
    if "oblivious_trees" not in model or not plain:
        return None
    trees: list[_Tree] = []
    for tree in model["oblivious_trees"]:
        splits = tree["splits"] or []
        if any(split["split_type"] != "FloatFeature" for split in splits):
            return None
        depth = len(splits)
        # An oblivious tree has the same split in all nodes of a level. It becomes a complete
        # binary tree in breadth-first order. CatBoost numbers leaves the other way round: the first
        # split decides the lowest bit. So the leaf at a position has the number with reversed bits.
        positions, leaf = np.arange(2**depth), np.zeros(2**depth, dtype=np.int64)
        for bit in range(depth):
            leaf |= (positions >> (depth - 1 - bit) & 1) << bit
        inner, nodes = 2**depth - 1, np.arange(2 ** (depth + 1) - 1)
        level = np.log2(nodes[:inner] + 1).astype(np.int64)
        borders = np.array([split["border"] for split in splits], dtype=np.float32)
        features_split = [split["float_feature_index"] for split in splits]
        feature, threshold = np.full(len(nodes), -1), np.zeros(len(nodes))
        feature[:inner] = np.array(features_split, dtype=np.int64)[level]
        # CatBoost goes right above the border, we from the threshold on: take the next float32
        threshold[:inner] = np.nextafter(borders, np.float32(np.inf))[level]
        values = np.zeros((len(nodes), outputs))
        values[inner:] = scale * np.reshape(tree["leaf_values"], (2**depth, outputs))[leaf]
        trees.append((feature, threshold, 2 * nodes + 1, 2 * nodes + 2, values))
    base = np.broadcast_to(np.asarray(bias, dtype=np.float64), outputs)
    return BoostedTrees(classes, _array_of(features, base, trees))


def _array_of(features: int, base: FloatArray, trees: Iterable[_Tree]) -> FloatArray:
    """Return the array of :class:`BoostedTrees`; the first node of each tree is its root."""
    parts, count = [np.concatenate([[features, 0, 0, 0, 0], base])[None]], 1
    for feature, threshold, left, right, values in trees:
        inner, root = feature >= 0, np.arange(len(feature)) == 0
        children = [np.where(inner, child + count, 0) for child in (left, right)]
        parts.append(np.column_stack([feature, threshold, *children, root, values]))
        count += len(feature)
    return np.concatenate(parts).astype(np.float64)
