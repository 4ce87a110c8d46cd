"""Check that the attributes of a fitted estimator fit each other, before it predicts.

The object consists of trusted types, and each compiled part has been checked by itself
(:mod:`framework.security.compiled`). Here the parts are checked against each other, because
compiled code uses the numbers of one attribute as indices into another without checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.security.compiled import sound
from framework.security.limits import SIZES

_MOST_JOBS = 1024
_MOST_STEPS = 1000  # columns that AdditiveChi2Sampler makes of each
_WORDS = 8  # of 32 bits, in which a set of 256 categories is stored
_METRIC_NAMES = (
    "braycurtis canberra chebyshev cityblock correlation cosine dice euclidean hamming "
    "infinity jaccard l1 l2 manhattan minkowski nan_euclidean p rogerstanimoto russellrao "
    "sokalsneath sqeuclidean"
)
_METRICS = frozenset(_METRIC_NAMES.split())
_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_METHODS = ("predict_proba", "decision_function", "predict", "auto")
_THREADS = ("n_jobs", "nthread", "nthreads", "num_thread", "num_threads")
_UNCHECKED = ("kwargs", "predict_disable_shape_check")
_ATTRIBUTE = re.compile(r"[a-z]\w*(\.[a-z]\w*)*")  # no part may begin with an underscore
_WORD = re.compile(r"[\w.+-]*")  # with a blank or '=', LightGBM would read a further parameter
_PARAMETER = re.compile(r"[a-z]\w*")


def check_fitted(model: Any) -> None:
    """Check all parts of a fitted estimator.

    Raises
    ------
    Unsound
        Parts do not fit together.
    """
    for part in parts_of(model):
        name = type(part).__name__
        for start, (attribute, check) in _CHECKS.items():
            if name.startswith(start) and hasattr(part, attribute):  # only fitted ones have it
                check(part)
        _jobs(getattr(part, "n_jobs", None), name)
        if not isinstance(part, type):
            private = [key for key in getattr(part, "__dict__", {}) if key.startswith("_")]
            taken = [key for key in private if hasattr(type(part), key)]
            sound(not taken, f"{name}: {taken} in the place of its class's")


def parts_of(model: Any) -> Iterator[Any]:
    """Yield a model and every object that it refers to, each once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str | bytes | int | float | type(None)) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple | set):
            waiting += part
        else:
            yield part
            waiting += getattr(part, "__dict__", {}).values()


def _jobs(jobs: Any, name: str) -> None:
    sound(jobs is None or abs(jobs) <= _MOST_JOBS, f"{name}: n_jobs of {jobs}")


def _tree_model(model: Any) -> None:
    from sklearn.tree._tree import Tree

    sound(type(model.tree_) is Tree, "a tree without its nodes")
    sound(model.n_features_in_ == model.tree_.n_features, "a tree of other features")


def _forest(model: Any) -> None:
    for tree in model.estimators_:
        sound(hasattr(tree, "tree_"), "a forest of other models than trees")
        sound(tree.n_features_in_ == model.n_features_in_, "a forest of other features")


def _boosting(model: Any) -> None:
    from sklearn.tree import DecisionTreeRegressor

    rounds, outputs = model.estimators_.shape
    sound(rounds and outputs == model.n_trees_per_iteration_, "a boosted model's trees")
    for tree in model.estimators_.ravel().tolist():
        sound(type(tree) is DecisionTreeRegressor, "a boosted model of other models than trees")
        sound(tree.n_features_in_ == model.n_features_in_, "a boosted model of other features")
        sound(tree.tree_.n_outputs == tree.tree_.max_n_classes == 1, "a boosted model's outputs")
    start = model._raw_predict_init(np.zeros((2, model.n_features_in_), dtype=np.float32))
    sound(start.shape == (2, outputs) and start.dtype == np.float64, "a boosted model's start")


def _histogram_boosting(model: Any) -> None:
    categorical = _categorical_features(model)
    for tree in (tree for trees in model._predictors for tree in trees):
        nodes = tree.nodes
        sound(nodes.ndim == 1 and len(nodes), "a boosted tree's nodes")
        by_category = nodes["is_categorical"].astype(bool)
        splits, sets = nodes[by_category], tree.raw_left_cat_bitsets
        sound(sets.ndim == 2 and sets.dtype == np.uint32, "a boosted tree's categories")
        sound(sets.shape[1] == _WORDS or not len(splits), "a boosted tree's categories")
        sound((splits["bitset_idx"] < len(sets)).all(), "a boosted tree's categories")
        sound(categorical[splits["feature_idx"]].all(), "a boosted tree's categories")
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        for side in ("left", "right"):
            child = nodes[side][inner].astype(np.int64)
            sound(((child > inner) & (child < len(nodes))).all(), "a boosted tree's children")
        split = nodes["feature_idx"][inner]
        sound(((split >= 0) & (split < model.n_features_in_)).all(), "a boosted tree's features")
    if model._preprocessor is not None:
        _prepares(model._preprocessor, model.n_features_in_)


def _prepares(columns: Any, features: int) -> None:
    """Check that the transformer before boosted trees returns as many columns as it takes."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    sound(type(columns) is ColumnTransformer, "a boosted model's preparation")
    steps = [(step, mask) for _, step, mask in columns.transformers_ if step != "drop"]
    kinds = {type(step) for step, _ in steps}
    sound(kinds <= {OrdinalEncoder, FunctionTransformer}, "a boosted model's preparation")
    chosen = np.array([mask for _, mask in steps])
    sound(chosen.dtype == bool and chosen.shape[1:] == (features,), "a boosted model's columns")
    sound((chosen.sum(axis=0) == 1).all(), "a boosted model's columns")
    sound(columns.n_features_in_ == features, "a boosted model's columns")
    for step, mask in steps:
        if type(step) is OrdinalEncoder:
            sound(len(step.categories_) == mask.sum(), "a boosted model's categories")


def _categorical_features(model: Any) -> Array:
    """Return which columns of the trees' input are categories, shape (features,), of bool."""
    categorical = model._bin_mapper.is_categorical_
    sound(
        categorical.shape == (model.n_features_in_,) and categorical.dtype.kind in "bu",
        "categories",
    )
    edges = model._bin_mapper.bin_thresholds_
    sound(len(edges) == len(categorical), "categories")
    for feature in np.flatnonzero(categorical):
        categories = np.asarray(edges[feature])
        sound(categories.ndim == 1 and ((categories >= 0) & (categories < 256)).all(), "categories")
    return np.asarray(categorical, dtype=bool)


def _neighbours(model: Any) -> None:
    records = model._fit_X
    sound(isinstance(records, np.ndarray) and records.ndim == 2, "sparse records of neighbours")
    if model.n_neighbors is not None:  # it is None for neighbours within a radius
        count = model.n_neighbors
        sound(isinstance(count, int | np.integer) and count > 0, "a number of neighbours")
    y = getattr(model, "_y", records)
    sound(records.shape[1] == model.n_features_in_, "neighbours of other features")
    sound(len(records) == model.n_samples_fit_ == len(y), "another number of neighbours")
    if hasattr(model, "classes_"):
        lists = isinstance(model.classes_, list)
        for labels, column in zip(
            model.classes_ if lists else [model.classes_], y.T if lists else [y], strict=True
        ):
            sound(((column >= 0) & (column < len(labels))).all(), "neighbours' classes")
    sound(model.effective_metric_ in _METRICS, f"the metric {model.effective_metric_!r}")
    sound(isinstance(model.metric, str), "a metric")
    exponent = dict(model.effective_metric_params_ or {})
    sound(isinstance(exponent.pop("p", 2.0), int | float), "a metric's exponent")
    sound(exponent.pop("w", None) is None and not exponent, "a metric's weights")
    if model._tree is not None:
        data = np.asarray(model._tree.data)
        sound(type(model._tree).__name__ in ("KDTree", "BallTree"), "a search tree")
        sound(data.shape == records.shape, "a search tree of other records")


def _support_vectors(model: Any) -> None:
    classes = len(model.classes_) if hasattr(model, "classes_") else 2
    pairs = classes * (classes - 1) // 2
    count, features = model.support_vectors_.shape
    sound(not model._sparse, "sparse support vectors")
    sound(isinstance(model.kernel, str) and model.kernel in _KERNELS, "another kernel")
    sound(features == model.n_features_in_, "support vectors of other features")
    sound(model._n_support.shape == (classes,), "the numbers of support vectors")
    sound((model._n_support >= 0).all(), "the numbers of support vectors")
    used = model._n_support if hasattr(model, "classes_") else model._n_support[:1]
    sound(used.sum() == count == len(model.support_), "the numbers of support vectors")
    sound(model._dual_coef_.shape == (classes - 1, count), "the weights of support vectors")
    sound(model._intercept_.shape == (pairs,), "the intercepts of support vectors")
    for name in ("_probA", "_probB"):
        sound(getattr(model, name).shape in ((0,), (pairs,)), "a sigmoid of support vectors")
    for name in ("support_vectors_", "_dual_coef_", "_intercept_", "_probA", "_probB"):
        sound(getattr(model, name).dtype == np.float64, f"{name} of support vectors")


def _lightgbm(model: Any) -> None:
    parameters = {**model.get_params(), **model._other_params}
    values = parameters.values()
    words = [w for v in values for w in (np.ravel(v).tolist() if isinstance(v, list) else [v])]
    sound(
        all(w is None or _WORD.fullmatch(str(w)) for w in words if not isinstance(w, Mapping)),
        "a parameter of LightGBM",
    )
    sound(all(map(_PARAMETER.fullmatch, parameters)), "a parameter's name")
    sound(not parameters.keys() & set(_UNCHECKED), "a parameter")
    for key in parameters.keys() & set(_THREADS):
        _jobs(parameters[key], key)


def _importances(model: Any) -> None:
    sound(_ATTRIBUTE.fullmatch(str(model.importance_getter)), "a selection by another attribute")


def _methods_in(attribute: str) -> Callable[[Any], None]:
    """Return the check of an attribute that names the methods to call of the inner models."""

    def check(model: Any) -> None:
        value = getattr(model, attribute)
        names = value if isinstance(value, list) else [value]
        sound(all(name in _METHODS for name in names), f"{attribute} of {value}")

    return check


def _one_hot(encoder: Any) -> None:
    """Check that there is a column for every code: scipy writes to it without a check."""
    sound(encoder._n_features_outs == encoder._compute_n_features_outs(), "an encoder's columns")
    count = len(encoder.categories_)
    drops = encoder._drop_idx_after_grouping
    drops = [None] * count if drops is None else drops.tolist()
    rare, mappings = [None] * count, [None] * count
    if encoder._infrequent_enabled:
        rare, mappings = encoder._infrequent_indices, encoder._default_to_infrequent_mappings
    parts = zip(encoder.categories_, drops, rare, mappings, strict=True)
    for categories, drop, infrequent, mapping in parts:
        _in_order(categories)
        codes = len(categories)
        sound((infrequent is None) == (mapping is None), "an encoder's rare categories")
        if mapping is not None:
            codes -= infrequent.size - 1
            sound(mapping.shape == categories.shape, "an encoder's rare categories")
            sound(mapping.dtype.kind == "i", "an encoder's rare categories")
            sound(((mapping >= 0) & (mapping < codes)).all(), "an encoder's rare categories")
        sound_drop = drop is None or (isinstance(drop, int | np.integer) and 0 <= drop < codes)
        sound(sound_drop, "an encoder's categories")


def _polynomial(features: Any) -> None:
    """Check that the columns are as many as the products: memory is taken for all of them."""
    count, most = features.n_features_in_, features._max_degree
    how = features.interaction_only, features.include_bias
    counts = [
        features._num_combinations(count, least, most, *how) for least in (features._min_degree, 0)
    ]
    sound([features.n_output_features_, features._n_out_full] == counts, "the number of products")


def _sketch(sampler: Any) -> None:
    """Check that columns fit the hashes: memory is taken for each."""
    codes = sampler.indexHash_
    sound(0 <= codes.min(initial=0) <= codes.max(initial=0) < sampler.n_components, "a sketch")
    sound(sampler.n_components <= SIZES["features"], "a sketch of too many columns")


def _steps(sampler: Any) -> None:
    sound(sampler.sample_steps <= _MOST_STEPS, "a sampler of too many steps")


def _in_order(categories: Array) -> None:
    """Check that numbers among categories ascend, since they are looked up by binary search."""
    sound(categories.ndim == 1, "an encoder's categories")
    numbers = [c for c in categories.tolist() if isinstance(c, int | float) and c == c]
    if categories.dtype.kind != "b" and numbers:
        sound(all(a < b for a, b in pairwise(numbers)), "an encoder's categories")


def _random_state(state: Any) -> None:
    plain = state.get_state(legacy=False)["state"]
    sound(0 <= plain.get("pos", 0) <= 624, "a random state")


# By the beginning of a class's name: an attribute that only fitted models have, and the check.
_CHECKS = {
    "AdditiveChi2Sampler": ("sample_steps", _steps),
    "ClassifierChain": ("chain_method_", _methods_in("chain_method_")),
    "DecisionTree": ("tree_", _tree_model),
    "ExtraTreeClassifier": ("tree_", _tree_model),
    "ExtraTreeRegressor": ("tree_", _tree_model),
    "ExtraTreesClassifier": ("estimators_", _forest),
    "ExtraTreesRegressor": ("estimators_", _forest),
    "FixedThreshold": ("response_method", _methods_in("response_method")),
    "OneHotEncoder": ("categories_", _one_hot),
    "PolynomialCountSketch": ("indexHash_", _sketch),
    "PolynomialFeatures": ("n_output_features_", _polynomial),
    "RandomForest": ("estimators_", _forest),
    "GradientBoosting": ("estimators_", _boosting),
    "HistGradientBoosting": ("_predictors", _histogram_boosting),
    "KNeighbors": ("_fit_X", _neighbours),
    "NearestNeighbors": ("_fit_X", _neighbours),
    "RadiusNeighbors": ("_fit_X", _neighbours),
    "RandomTreesEmbedding": ("estimators_", _forest),
    "RegressorChain": ("chain_method_", _methods_in("chain_method_")),
    "SelectFromModel": ("importance_getter", _importances),
    "Stacking": ("stack_method_", _methods_in("stack_method_")),
    "SVC": ("support_vectors_", _support_vectors),
    "SVR": ("support_vectors_", _support_vectors),
    "NuSVC": ("support_vectors_", _support_vectors),
    "NuSVR": ("support_vectors_", _support_vectors),
    "LGBM": ("_Booster", _lightgbm),
    "RandomState": ("get_state", _random_state),
}
