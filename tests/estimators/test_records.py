"""Records that the estimators of all families refuse alike, in one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.cascade.estimator import ParetoCascade
from algorithms.ensembling.estimator import ParetoEnsemble
from algorithms.hull.estimator import ROCHull
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.pruning.estimator import PrunedVoting

POOL = {
    "loose": LogisticRegression(C=100),
    "tight": LogisticRegression(C=0.01),
    "third": LogisticRegression(C=0.001),
}
FAMILIES = {
    "multistage": lambda: ParetoMultiStage(budget=20, verbose=False),
    "ensembling": lambda: ParetoEnsemble(POOL, folds=2, budget=10, verbose=False),
    "pruning": lambda: PrunedVoting(POOL, folds=2, verbose=False),
    "cascade": lambda: ParetoCascade(
        POOL, costs={"loose": 3, "tight": 2, "third": 1}, folds=2, verbose=False
    ),
    "hull": lambda: ROCHull(POOL, folds=2, verbose=False),
}


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    return frame, np.where(frame["a"] + rng.normal(size=80) > 0, "yes", "no")


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request, records):
    return FAMILIES[request.param]().fit(*records)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: X[:0], "X: expected records, found 0 of them"),
        (
            lambda X: X.set_axis(["a", "b", "b"], axis=1),
            "X: expected distinct column names, found 'b' more than once; rename one",
        ),
        (lambda X: X.drop(columns="b"), "now missing:\n- b"),
        (lambda X: X.rename(columns={"b": "B"}), "now missing:\n- b"),
        (lambda X: X[["c", "b", "a"]], "must be in the same order"),
    ],
    ids=["empty", "repeated", "missing", "renamed", "shuffled"],
)
def test_odd_records_are_refused(fitted, records, method, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        getattr(fitted, method)(change(records[0]))


@pytest.mark.parametrize("family", FAMILIES)
def test_repeated_names_and_missing_labels_are_refused_by_fit(family, records):
    X, y = records
    with pytest.raises(ValueError, match="distinct column names, found 'b' more than once"):
        FAMILIES[family]().fit(X.set_axis(["a", "b", "b"], axis=1), y)
    y = pd.Series(y).astype(object).where(np.arange(80) % 40 != 3, np.nan)
    with pytest.raises(ValueError, match=r"fit: expected a label in each .* found 2 .* record 4"):
        FAMILIES[family]().fit(X, y)
