"""The estimator keeps scikit-learn's conventions."""

from __future__ import annotations

from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from framework.models.multistage import MultiStageClassifier


@parametrize_with_checks(
    [MultiStageClassifier(), MultiStageClassifier(classifier=DecisionTreeClassifier(max_depth=3))]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
