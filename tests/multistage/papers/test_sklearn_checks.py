"""Every baseline keeps scikit-learn's conventions."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.multistage.papers.data import baselines

FIRST, *REST = [baseline.set_params(costs=None) for baseline in baselines()]


@parametrize_with_checks([FIRST, REST[-1]])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow  # they share the base class that reads records
@parametrize_with_checks(REST[:-1])
def test_scikit_learn_conventions_of_the_others(estimator, check):
    check(estimator)
