"""Fitted models whose numbers fit in, and lead compiled code or a method where they should not.

Each of these was loaded once, and then wrote a file, read or wrote memory of others, never ended,
or ended the process.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn import (
    compose,
    kernel_approximation,
    linear_model,
    multioutput,
    pipeline,
    preprocessing,
    svm,
)
from skops import io

from framework.errors import InputError
from framework.security import dump_estimator, load_estimator
from tests.trust.fitted_models import CLASSES, fitted, records
from tests.trust.forging import dict_node, forged, node_of, plain_node, with_attribute
from tests.trust.test_estimators import changed, with_handle


def resized(pattern: str, new: str) -> bytes:
    """Return a booster whose first tree was edited, and the size of it that the header gives."""

    def change(text: str) -> str:
        edited = re.sub(pattern, new, text, count=1)
        assert edited != text
        grown = len(edited.encode()) - len(text.encode())
        return re.sub(r"(?<=tree_sizes=)\d+", lambda m: str(int(m[0]) + grown), edited, count=1)

    return with_handle(change)


def hidden(text: str) -> str:
    """Return a booster with a tree before the first that LightGBM alone sees: lines end in CR."""
    head, _, rest = text.partition("\nTree=")
    tree = rest[: rest.index("\n\n\n")].replace("right_child=1", "right_child=0")
    return f"{head}\rTree={tree}\n".replace("\n\n", "\r\r") + f"Tree={rest}"


def encoded(**options: Any) -> Any:
    """Return a linear model behind the columns of four words, one of them rare."""
    X, y = np.array([["a"], ["b"], ["c"]] * 30, dtype=object), records()[1]
    X[0] = "rare"
    encoder = preprocessing.OneHotEncoder(sparse_output=False, **options)
    return pipeline.make_pipeline(encoder, linear_model.LogisticRegression()).fit(X, y)


def encoder_with(change: Callable[[Any], object], **options: Any) -> bytes:
    model = encoded(**options)
    change(model[0])
    return io.dumps(model)


def chain(kind: Any, asked: str) -> bytes:
    """Return a chain whose links are asked by another method, of models that have it."""
    X, y = records()
    model = kind(linear_model.LinearRegression() if "R" in kind.__name__ else CLASSES["linear"])
    model.fit(X, np.column_stack([y > 0, y > 1]).astype(int))
    model.estimators_ = [fitted("lightgbm")._Booster] * 2
    model.chain_method_ = asked
    return io.dumps(model)


def support_of_another_kind() -> bytes:
    X, _ = records()
    model = svm.SVR().fit(X, X[:, 0])
    model._impl = "c_svc"
    return io.dumps(model)


def transformed(kind: Any, **state: int) -> bytes:
    """Return a linear model behind a transformer that makes columns, whose state was changed."""
    model = pipeline.make_pipeline(kind, linear_model.LogisticRegression())
    X, y = records()
    model.fit(np.abs(X), y)
    load_estimator(io.dumps(model), "a model")
    vars(model[0]).update(state)
    return io.dumps(model)


def fewer_columns(model: Any) -> None:
    model._preprocessor = compose.ColumnTransformer([("s", "passthrough", [0])]).fit(records()[0])


def stacked_on_a_writer(model: Any) -> None:
    model.estimators_ = [fitted("lightgbm")._Booster]
    model.stack_method_ = ["save_model"]


TREES = {  # what in the text of the first tree of a booster becomes what
    "a child before its parent, as LightGBM reads 0_1": ("right_child=1 ", "right_child=0_1 "),
    "a number of leaves in other digits": ("num_leaves=3", "num_leaves=\u0663"),
    "a key that swallows the next line": ("is_linear=0", "x\nis_linear=0"),
    "a key of a tree that nobody knows": ("is_linear=0", "is_linear=0\nleaf_features=0 1"),
    "too few of what is told of leaves": (r"leaf_weight=\S+ ", "leaf_weight="),
    "what is no number": (r"leaf_value=\S+ ", "leaf_value=one "),
    "keys after a blank line": ("\nis_linear", "\n\nis_linear"),
}
POLYNOMIAL = preprocessing.PolynomialFeatures(2)
ASTRAY = {
    **{what: partial(resized, *texts) for what, texts in TREES.items()},
    "a tree between carriage returns": lambda: with_handle(hidden),
    "threads by another name": lambda: changed(
        "lightgbm", lambda m: m._other_params.update(num_threads=10**5)
    ),
    "a parameter in the name of another": lambda: changed(
        "lightgbm", lambda m: m._other_params.update({"x=1 predict_disable_shape_check": True})
    ),
    "no neighbours": lambda: changed("near", lambda m: m.set_params(n_neighbors=0)),
    "boosting on fewer columns than it splits": lambda: changed("categories", fewer_columns),
    "support vectors of another kind": support_of_another_kind,
    "a column far away": lambda: encoder_with(
        lambda e: e._default_to_infrequent_mappings[0].fill(10**7), min_frequency=5
    ),
    "fewer columns than categories": lambda: encoder_with(lambda e: e._n_features_outs.clear()),
    "numbers out of order": lambda: encoder_with(
        lambda e: setattr(e, "categories_", [np.array([4.0, 3.0, 2.0, 1.0])])
    ),
    "a dropped category that is not there": lambda: encoder_with(
        lambda e: e._drop_idx_after_grouping.fill(9), drop="first"
    ),
    "more products than there are": lambda: transformed(
        POLYNOMIAL, n_output_features_=10**9, _n_out_full=10**9
    ),
    "products of a higher degree": lambda: transformed(POLYNOMIAL, _max_degree=9),
    "a sketch of many columns": lambda: transformed(
        kernel_approximation.PolynomialCountSketch(n_components=8), n_components=10**9
    ),
    "a sampler of many steps": lambda: transformed(
        kernel_approximation.AdditiveChi2Sampler(), sample_steps=10**9
    ),
    "a stack that saves": lambda: changed("stacking", stacked_on_a_writer),
    "a chain that saves": lambda: chain(multioutput.ClassifierChain, "save_model"),
    "a chain of values that saves": lambda: chain(multioutput.RegressorChain, "save_model"),
}


@pytest.mark.parametrize("what", ASTRAY)
def test_what_fits_in_and_leads_astray_is_refused(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^forged: expected a model, found it damaged"):
        load_estimator(ASTRAY[what](), "forged")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["test", "seed", "rand", "RandomState"])
def test_random_numbers_are_drawn_by_generators_alone(name):
    """skops calls whatever numpy.random has by that name: ``test`` would run numpy's tests."""
    state = dict_node(bit_generator=plain_node(name))
    parts = {"bit_generator": state, "seed_seq": dict_node()}
    node = node_of("RandomGeneratorNode", "numpy.random._generator.Generator", parts)
    linear = dump_estimator(fitted("linear"), "linear")
    with pytest.raises(InputError, match=f"the random numbers of {name}"):
        load_estimator(with_attribute(linear, "random_state", node), "forged")


@pytest.mark.parametrize("degree", [1, 3, (2, 3), (0, 2)])
@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_honest_products_come_back(degree, only, bias):
    made = preprocessing.PolynomialFeatures(degree, interaction_only=only, include_bias=bias)
    made.fit(records()[0])
    assert load_estimator(dump_estimator(made, "a model"), "a model").n_output_features_


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_come_back(name):
    model = fitted("linear")
    model.random_state = np.random.Generator(getattr(np.random, name)(1))
    again = load_estimator(dump_estimator(model, name), name)
    assert again.random_state.random() == model.random_state.random()


@pytest.mark.parametrize(
    "options", [{}, {"min_frequency": 5}, {"drop": "first"}, {"drop": "if_binary"}]
)
def test_honest_encoders_come_back(options):
    model = encoded(**options)
    X = np.array([["a"], ["b"], ["rare"]], dtype=object)
    again = load_estimator(dump_estimator(model, "model"), "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_edited_file_that_is_right_is_loaded():
    """The forgeries above are refused for what is wrong with them, not for being edited."""
    model = load_estimator(forged(with_handle(lambda text: text), lambda schema: None), "edited")
    assert model.predict_proba(records()[0]).shape == (90, 3)
