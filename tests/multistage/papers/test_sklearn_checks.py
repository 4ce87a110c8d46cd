"""Every rival keeps scikit-learn's conventions."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.multistage.papers.data import rivals


@parametrize_with_checks([rival.set_params(costs=None) for rival in rivals()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
