"""Outcomes of each record: votes under weights are those of records that are repeated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.pruning.diversity import NAMES
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import VoteTable, confusion_rates
from tests.made_up_libraries import made_up, repeated


def ensembles(problem: PruningProblem, n: int = 20) -> np.ndarray:
    X = problem.space.sample(np.random.default_rng(2), n)
    X[0] = 0  # no member
    X[1, 1:-1] = 0
    return np.asarray(X)


@pytest.mark.parametrize("measure", NAMES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_whole_weights_are_records_repeated_to_the_bit(measure, data):
    n = 40
    problem = PruningProblem(made_up(k=7, n=n, classes=2), pair_measure=measure)
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    weights[:6] += 1  # records of both classes, and votes that differ
    X = ensembles(problem)
    every = np.stack([np.ones(n, dtype=int), weights], axis=1).astype(np.float32)
    found = problem.outcomes(X).metrics(every)
    twin = PruningProblem(repeated(problem.library, weights), pair_measure=measure)
    for name, column in twin.evaluate(X).items():
        assert np.array_equal(found[name][:, 1], column, equal_nan=True), name


def test_a_class_without_records_has_rates_of_zero():
    library = made_up(k=5, n=40, classes=2)
    problem = PruningProblem(library)
    weights = np.where(library.y_validation == 1, 0, 2)
    X = ensembles(problem)
    found = problem.outcomes(X).metrics(weights[:, None])
    few = repeated(library, weights)
    table = VoteTable.of(few.validation > 0.5, few.y_validation == 1)
    members, thresholds = problem.split(X)
    fp, tp = table.positives(members, thresholds).T
    names = ("accuracy", "balanced_accuracy", "true_positive_rate", "true_negative_rate")
    for name, column in zip(names, confusion_rates(fp, tp, *table.totals), strict=False):
        column = np.where(members.any(axis=1), column, np.nan)
        assert np.array_equal(found[name][:, 0], column, equal_nan=True), name


def test_what_resamples_draw_together_comes_with_the_library():
    units = np.repeat(np.arange(20), 2)
    problem = PruningProblem(replace(made_up(k=5, n=40, classes=2), units=units))
    assert np.array_equal(problem.outcomes(ensembles(problem)).units, units)
