"""What one would do without a search, against models that are fitted and asked one by one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from tests.conftest import multistage

DATASET = {
    "synthetic": {"samples": 260, "features": 4, "informative": 4, "seed": 3, "class_sep": 0.6}
}


@pytest.mark.parametrize("kind", ["holdout", "cross_validation"])
def test_thresholds_are_those_of_one_classifier(kind):
    more = {"threshold": 0.65, "costs": {"values": [1, 2, 3, 4]}}
    problem = multistage(dataset=DATASET, measure={"kind": kind}, **more)
    data = problem.data
    one, largest = problem.alternatives()
    assert "threshold 0.65" in one.points
    at = list(one.points).index("threshold 0.65")
    weights = np.random.default_rng(0).integers(0, 3, (data.n_validation, 2))
    # the design that acquires everything at once has the same threshold
    genome = np.zeros((1, 4), dtype=problem.space.dtype)
    own, same = one.outcomes.metrics(weights), problem.outcomes(genome).metrics(weights)
    assert set(own) == set(same)
    for name in same:
        assert np.array_equal(own[name][at], same[name][0]), name
    tested = problem.evaluate_test(genome)
    for name in tested:
        assert one.test[name][at] == tested[name][0], name
    assert np.all(np.diff(own["coverage"], axis=0) <= 0)
    assert largest.outcomes.metrics(weights)["cost"].max() == 0
    labels = data.y_held[: data.n_validation]
    share = (weights * (labels == np.bincount(data.y).argmax())[:, None]).sum(axis=0)
    assert np.array_equal(
        largest.outcomes.metrics(weights)["accuracy"][0], share / weights.sum(axis=0)
    )


def test_another_classifier_stands_beside_a_logistic_regression(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(0, 0.5, 200) > 0, "yes", "no")
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    problem = multistage(
        dataset={"path": str(tmp_path / "t.csv"), "target": "y"},
        classifier={"kind": "decision_tree", "max_depth": 3},
        threshold=None,
    )
    tree, plain, _ = problem.alternatives()
    assert tree.name.startswith("decision tree on all 3 features")
    assert plain.name.startswith("logistic regression on all 3 features")
    data = problem.data
    model = LogisticRegression(C=1.0, tol=1e-8, solver="newton-cholesky")
    P = model.fit(data.design[:-1].T, data.y).predict_proba(data.held[:-1].T)[: data.n_validation]
    at = list(plain.points).index("threshold 0.8")
    found = plain.outcomes.metrics(np.ones((data.n_validation, 1)))
    assert found["coverage"][at, 0] == pytest.approx((P.max(axis=1) >= 0.8).mean())
