"""The estimators keep scikit-learn's conventions."""

import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from algorithms.ensembling.model import WeightedEnsembleClassifier, WeightedEnsembleRegressor
from algorithms.multistage.model import MultiStageClassifier


@pytest.mark.quick(90)
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
