"""Stage classifiers of other libraries, and any estimator through Python."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

import paretolab
from framework.errors import InputError
from framework.models.boosted import BoostedTrees, as_plain
from framework.models.classifiers import PATHS, ClassifierConfig, Prototype, make_estimator
from tests.conftest import covering

# two trees of one class against the rest: a root with two leaves, and a leaf
TREES = np.array(
    [
        [2, 0, 0, 0, 0, 0.5],
        [1, 3.0, 2, 3, 1, 0],
        [-1, 0, 0, 0, 0, -2],
        [-1, 0, 0, 0, 0, 1],
        [-1, 0, 0, 0, 1, 0.25],
    ]
)


def forged(row, column, value):
    array = TREES.copy()
    array[row, column] = value
    return array


def chain(depth, share=False):
    """Return a tree that is one path, or one whose two children are the same at each step."""
    array = np.zeros((2 + 2 * depth, 6))
    array[0, 0] = 1
    array[1:, 0] = -1
    for step in range(depth):
        node = 1 + 2 * step
        array[node, :4] = 0, 0.5, node + 2, node + 2 if share else node + 1
    array[1, 4] = 1
    return array


FORGED = {
    "a child before its parent": forged(1, 2, 1),
    "a child that is not there": forged(1, 3, 5),
    "half a child": forged(1, 2, 2.5),
    "a feature that is not there": forged(1, 0, 2),
    "no number": forged(2, 5, np.nan),
    "a negative feature": forged(1, 0, -2),
    "a path that is too long": chain(1_100),
    "too many paths": chain(20, share=True),
    "a column too few": TREES[:, :-1],
    "no tree": TREES[:1],
    "one row": TREES[0],
    "whole numbers": TREES.astype(int),
}


class Nearest(ClassifierMixin, BaseEstimator):
    """A classifier of the user's: the nearer the mean of a class, the more likely."""

    def __init__(self, width=3.0):
        self.width = width

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, X):
        near = 1e-9 + np.exp(-((X[:, None] - self.means_) ** 2).sum(axis=2) / self.width)
        return near / near.sum(axis=1, keepdims=True)


def records():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[::2, [0, 20, 27]], y.iloc[::2]


def searched(classifier, **parameters):
    setting = {"remove_features": True, "budget": 30, "verbose": False, "threshold": 0.8}
    search = paretolab.ParetoMultiStage(classifier=classifier, **setting, **parameters)
    return search.fit(*records())


class Saying(Nearest):
    """The same, but it gives its probabilities in another form."""

    def __init__(self, form=None):
        super().__init__()
        self.form = form

    def predict_proba(self, X):
        return self.form(super().predict_proba(X))


@pytest.mark.parametrize("form", [np.ndarray.tolist, pd.DataFrame])
def test_probabilities_may_be_a_list_or_a_frame(form):
    X, _ = records()
    found = searched(Saying(form)).model_
    assert (found.predict_proba(X) == searched(Nearest()).model_.predict_proba(X)).all()
    assert found.next_features(X.iloc[0].to_dict())["confidence"] == found.confidence(X)[0]


@pytest.mark.parametrize("part", [np.s_[:, 1:], np.s_[:, 1], np.s_[1:]])
def test_probabilities_of_another_shape_are_refused(part):
    with pytest.raises(
        InputError, match=r"^constraints: all .* of shape \(\d+,.*\) where \(\d+, 2\) was"
    ):
        searched(Saying(lambda P: P[part]))


def test_numbers_that_are_no_probabilities_are_refused():
    with pytest.raises(
        InputError, match=r"^constraints: all .* expected probabilities from 0 to 1 that add"
    ):
        searched(Saying(lambda P: 2 * P))


def test_trees_answer_as_they_are_written():
    P = BoostedTrees([0, 1], TREES).predict_proba(np.array([[9.0, 2.9], [9.0, 3.0]]))
    assert P[:, 1] == pytest.approx(1 / (1 + np.exp([1.25, -1.75])))
    assert BoostedTrees([0, 1], chain(1_000)).predict_proba(np.zeros((2, 1))).shape == (2, 2)


@pytest.mark.parametrize("name", FORGED)
def test_forged_trees_are_refused(name):
    with pytest.raises(InputError, match=r"^boosted trees: expected an array of trees"):
        BoostedTrees([0, 1], FORGED[name])


LIBRARIES = [
    ("xgboost", {}),
    ("xgboost", {"gamma": 2.0, "tree_method": "exact", "num_parallel_tree": 2}),
    ("xgboost", {"grow_policy": "lossguide", "max_leaves": 5, "n_estimators": 10}),
    ("catboost", {"iterations": 20}),
    ("catboost", {"iterations": 10, "depth": 3, "auto_class_weights": "Balanced"}),
]


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize(("kind", "parameters"), LIBRARIES)
def test_plain_trees_answer_as_the_library_does(kind, parameters, load):
    pytest.importorskip(kind)
    X, y = load(return_X_y=True)
    model = make_estimator(kind, parameters).fit(X, y)
    plain = as_plain(model)
    P = plain.predict_proba(X)
    assert isinstance(plain, BoostedTrees)
    assert np.abs(P - model.predict_proba(X)).max() < 2e-6  # XGBoost adds in float32
    parts = [plain.predict_proba(X[i : i + 5]) for i in range(0, len(X), 5)]
    assert (np.concatenate(parts) == P).all()


@pytest.mark.parametrize("kind", ["xgboost", "catboost"])
@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_what_is_boosted_is_searched_and_loaded_without_its_library(
    kind, calibration, tmp_path, monkeypatch
):
    pytest.importorskip(kind)
    model = searched({"kind": kind, "n_estimators": 5}, calibration=calibration).model_
    paretolab.save_model(model, tmp_path / "model")
    monkeypatch.setitem(sys.modules, kind, None)
    loaded, (X, _) = paretolab.load_model(tmp_path / "model"), records()
    assert (tmp_path / "model" / "stage_1.trees.npy").is_file()
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("kind", "key"), [("xgboost", "callbacks"), ("xgboost", "booster"), ("catboost", "train_dir")]
)
def test_what_a_library_would_call_or_write_cannot_be_set(kind, key):
    pytest.importorskip(kind)
    with pytest.raises(ValueError, match="expected a parameter of"):
        ClassifierConfig(kind=kind, **{key: "x"})


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("framework.extras.installed", lambda package: False)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(InputError, match=r"pip install 'paretolab\[xgboost\]'$"):
        make_estimator("xgboost", {})


def test_a_pipeline_is_searched_and_exported(tmp_path):
    classifier = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=3))
    first, again = (searched(classifier) for _ in range(2))
    assert first.front_.equals(again.front_)  # what is random in it begins at 0
    paretolab.save_model(first.model_, tmp_path / "model")
    X, _ = records()
    loaded = paretolab.load_model(tmp_path / "model")
    assert (loaded.predict_proba(X) == first.model_.predict_proba(X)).all()
    assert not hasattr(classifier, "classes_")  # copies are fitted


@pytest.mark.parametrize(
    ("classifier", "calibration"),
    covering(
        [Nearest(), make_pipeline(FunctionTransformer(np.tanh), RandomForestClassifier(3))],
        [None, "sigmoid"],
    ),
)
def test_what_cannot_be_written_is_searched_and_refused_at_export(
    classifier, calibration, tmp_path
):
    search, (X, y) = searched(classifier, calibration=calibration), records()
    assert (search.model_.predict(X) == y).mean() > 0.5
    with pytest.raises(InputError, match="such a model is neither written nor loaded"):
        paretolab.save_model(search.model_, tmp_path / "model")


@pytest.mark.parametrize("classifier", [LinearSVC(), RandomForestClassifier, 5])
def test_what_is_no_estimator_with_probabilities_is_refused_at_once(classifier):
    with pytest.raises(InputError, match=r"^classifier: expected a"):
        searched(classifier)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "catboost"])
def test_boosted_trees_are_fitted_on_one_thread_wherever_they_stand(kind):
    package, _, name = PATHS[kind].rpartition(".")
    boosted = getattr(pytest.importorskip(package), name)
    threads = "thread_count" if kind == "catboost" else "n_jobs"
    voting = VotingClassifier(
        [("boosted", boosted()), ("own", boosted(**{threads: 2}))], voting="soft"
    )
    part = Prototype(make_pipeline(StandardScaler(), voting)).copy_of()[-1]
    counts = [dict(part.estimators)[name].get_params()[threads] for name in ("boosted", "own")]
    assert counts == [1, 2]
    assert Prototype(boosted()).copy_of().get_params()[threads] == 1
    assert part.n_jobs is None  # scikit-learn's own, one thread


def test_lightgbm_prints_nothing(capfd):
    boosted = pytest.importorskip("lightgbm").LGBMClassifier
    for classifier in (make_estimator("lightgbm", {}), Prototype(boosted()).copy_of()):
        classifier.fit(np.eye(4), [0, 1, 0, 1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("error")
def test_a_network_that_has_not_converged_is_a_classifier():
    assert len(searched(MLPClassifier((2,), max_iter=2)).front_)


def test_an_estimator_that_fails_says_why():
    with pytest.raises(Exception, match="TypeError: ufunc"):
        searched(Nearest(width="wide")).choose(best="accuracy")
