"""The estimators keep scikit-learn's conventions."""

from __future__ import annotations

from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from framework.models.multistage import MultiStageClassifier
from framework.models.voting import WeightedEnsembleClassifier, WeightedEnsembleRegressor


@parametrize_with_checks(
    [
        MultiStageClassifier(),
        MultiStageClassifier(classifier=DecisionTreeClassifier(max_depth=3)),
        WeightedEnsembleClassifier(),
        WeightedEnsembleRegressor(
            [("linear", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3))], [0.5, 2.0]
        ),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
