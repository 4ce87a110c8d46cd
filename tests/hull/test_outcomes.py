"""Answers of masked networks: metrics under weights are those of records that are repeated."""

from __future__ import annotations

import copy

import numpy as np

from algorithms.hull.data import Records
from tests.conftest import network


def test_whole_weights_are_records_repeated():
    problem = network()
    part, rng = problem.validation, np.random.default_rng(1)
    X = problem.space.sample(rng, 30)
    weights = rng.integers(0, 4, (len(part), 2))
    found = problem.outcomes(X).metrics(weights)
    for b in range(2):
        twin = copy.copy(problem)
        rows = np.repeat(np.arange(len(part)), weights[:, b])
        twin.validation = Records(part.columns[:, rows].T, part.positive[rows])
        for name, column in twin.evaluate(X, None).items():
            assert np.array_equal(found[name][:, b], column), name


def test_a_class_without_weight_has_no_errors():
    problem = network()
    weights = problem.validation.positive[:, np.newaxis].astype(np.float32)
    found = problem.outcomes(problem.space.sample(np.random.default_rng(2), 5)).metrics(weights)
    assert not found["false_positive_rate"].any()
    np.testing.assert_array_equal(found["accuracy"], 1 - found["false_negative_rate"])
