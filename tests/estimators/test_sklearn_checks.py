"""Estimators and baselines keep scikit-learn's conventions."""

import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from algorithms.cascade.estimator import ParetoCascade
from algorithms.ensembling.estimator import ParetoEnsemble
from algorithms.hull.estimator import ROCHull
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.pruning.estimator import PrunedVoting
from algorithms.pruning.model import PrunedVotingClassifier
from tests.multistage.papers.data import baselines

POOL = {"loose": LogisticRegression(C=100), "tight": LogisticRegression(C=0.01)}
VALUES = {"linear": Ridge(), "tree": DecisionTreeRegressor(max_depth=3, random_state=0)}
VOTES = {  # never all alike
    "most": DummyClassifier(),
    "linear": LogisticRegression(),
    "tree": DecisionTreeClassifier(random_state=0),
}
OF_SEARCHES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "it leaves one record of a class to be divided, and copies that may be on both sides; what "
        "weights mean is in test_front.py"
    ),
}
OF_POOLS = {
    "check_dtype_object": (
        "objects are texts to the models, whose matter they are: what a model says of them is told "
        "in one sentence"
    ),
}
ITS_OWN = {
    ROCHull: {
        "check_classifiers_train": (
            "answers follow the threshold that the costs ask for, probabilities stay the model's: "
            "the answer is not always the most probable class"
        )
    }
}

BASELINES = [baseline.set_params(costs=None) for baseline in baselines()]
VOTERS = [("tree", DecisionTreeClassifier(max_depth=3)), ("bayes", GaussianNB())]


def not_kept(estimator):
    """Return the checks that an estimator does not keep, and why."""
    searches = OF_SEARCHES if hasattr(estimator, "choose") else {}
    of_pools = OF_POOLS if searches and hasattr(estimator, "models") else {}
    return searches | of_pools | ITS_OWN.get(type(estimator), {})


@pytest.mark.quick(90)
@parametrize_with_checks(
    [
        ParetoMultiStage(budget=20),
        PrunedVotingClassifier(VOTERS, 0),
        BASELINES[0],
        BASELINES[-1],
    ],
    expected_failed_checks=not_kept,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow  # they share the base classes that read records
@parametrize_with_checks(
    [
        ParetoEnsemble(POOL, folds=2, budget=10),
        ParetoEnsemble(VALUES, folds=2, budget=10),
        PrunedVoting(VOTES, folds=2),
        PrunedVotingClassifier(),
        ParetoCascade(POOL, costs={"loose": 2, "tight": 1}, folds=2),
        ROCHull(POOL, folds=2),
        *BASELINES[1:-1],
    ],
    expected_failed_checks=not_kept,
)
def test_scikit_learn_conventions_of_the_others(estimator, check):
    check(estimator)
