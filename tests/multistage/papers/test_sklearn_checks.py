"""Every baseline keeps scikit-learn's conventions."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.multistage.papers.data import baselines


@parametrize_with_checks([baseline.set_params(costs=None) for baseline in baselines()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
