"""Outcomes of each record: scores under weights are those of records that are repeated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ensembling.estimator import ParetoEnsemble
from algorithms.ensembling.problem import EnsembleProblem
from algorithms.ensembling.scores import CLASSIFICATION, REGRESSION, Scores, Truth
from framework.libraries.library import Library
from tests.conftest import covering
from tests.made_up_libraries import made_up, repeated

SCORES = {2: ("roc_auc", *CLASSIFICATION, "f1"), 3: ("roc_auc", *CLASSIFICATION), 0: (*REGRESSION,)}
EXACT = {"accuracy", "balanced_accuracy", "f1", "memory", "inference_time", "members", "picks"}


def library_of(classes: int, *, ties: bool = False) -> Library:
    library = made_up(k=6, n=40, classes=classes, seed=classes)
    if not ties:
        return library
    return replace(library, validation=np.round(library.validation * 4).astype(np.float32) / 4)


def ensembles(problem: EnsembleProblem, n: int = 12) -> np.ndarray:
    X = problem.space.sample(np.random.default_rng(2), n)
    X[0], X[1] = 0, np.eye(problem.space.d, dtype=X.dtype)[3]  # no member; one
    X[2, 0] = problem.max_count
    return np.asarray(X)


@pytest.mark.quick(1)
@pytest.mark.parametrize(("classes", "ties"), covering([*SCORES], [False, True]))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_whole_weights_are_records_repeated(classes, ties, data):
    problem = EnsembleProblem(library_of(classes, ties=ties), score=SCORES[classes])
    library, n = problem.library, 40
    drawn = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    weights = np.array(drawn)
    weights[:5] += 1  # a record of each class, and values that differ
    X = ensembles(problem)
    every = np.stack([np.ones(n, dtype=int), weights, 2 * weights], axis=1).astype(np.float32)
    found = problem.outcomes(X).metrics(every)
    for b, times in ((1, weights), (2, 2 * weights)):
        twin = EnsembleProblem(repeated(library, times), score=problem.score)
        table = twin.library.validation, twin.library.y_validation
        twin._validation = twin._scores(*table, exact=True)
        for name, column in twin.evaluate(X).items():
            if name in EXACT or name == "roc_auc":
                assert np.array_equal(found[name][:, b], column, equal_nan=True), name
            elif name == "loss_correlation":  # held in float32 there
                np.testing.assert_allclose(found[name][:, b], column, atol=2e-6)
            else:
                np.testing.assert_allclose(found[name][:, b], column, rtol=1e-9, atol=1e-12)


def test_a_class_without_records_has_no_part_in_the_scores():
    library = library_of(3)
    weights = np.where(library.y_validation == 2, 0, 1 + np.arange(40) % 2)
    problem = EnsembleProblem(library, score=SCORES[3])
    X = ensembles(problem)
    found = problem.outcomes(X).metrics(weights[:, None])
    few = repeated(library, weights)
    twin = Scores(problem.score, few.validation, Truth(few.y_validation, 3), exact=True)
    some = np.flatnonzero(X.any(axis=1))
    for name, column in twin(X[some]).items():
        if name in problem.score:
            np.testing.assert_allclose(found[name][some, 0], column, rtol=1e-12)
    alone = np.where(library.y_validation == 1, 1, 0)
    assert np.isnan(problem.outcomes(X).metrics(alone[:, None])["roc_auc"]).all()


def test_what_resamples_draw_together_comes_with_the_library():
    units = np.repeat(np.arange(20), 2)
    problem = EnsembleProblem(replace(library_of(2), units=units))
    assert np.array_equal(problem.outcomes(ensembles(problem)).units, units)


def test_scorers_that_do_not_follow_from_counts_have_no_outcomes():
    problem = EnsembleProblem(library_of(2), score=("roc_auc", "average_precision"))
    assert problem.outcomes(ensembles(problem)) is None


def test_a_score_of_one_class_is_as_sure_as_its_records():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [90, 10])
    P = np.clip(0.7 * y + rng.uniform(0, 0.6, (4, 100)), 0, 1)
    library = Library.from_arrays([f"m{k}" for k in range(4)], P, y, [0, 1])
    problem = EnsembleProblem(library, score=["recall", "precision", "f1", "accuracy"])
    X = problem.space.sample(rng, 20)
    shares = problem.outcomes(X).figures(np.ones((100, 1)))[1]
    called = (problem.answers(X).codes == 1).mean(axis=1)
    np.testing.assert_allclose(shares["recall"][:, 0], 0.1)
    np.testing.assert_allclose(shares["precision"][:, 0], called)
    np.testing.assert_allclose(shares["f1"][:, 0], (called + 0.1) / 2)
    np.testing.assert_allclose(shares["accuracy"][:, 0], 1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_brier_score_of_certain_predictions_has_the_range_of_their_error_rate(classes):
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=60)
    said = np.where(rng.random(60) < 0.05, (y + 1) % classes, y)
    certain = {"m": np.eye(classes)[said]}  # a record's score is 0, or 1 (of more classes 2)
    search = ParetoEnsemble.from_predictions(certain, y, metric=["brier", "accuracy"], max_count=1)
    of = search.front_.iloc[0]
    each = min(classes - 1, 2)
    assert of["brier"] == pytest.approx(each * (1 - of["accuracy"]))
    assert of["brier_low"] == pytest.approx(each * (1 - of["accuracy_high"]))
    assert of["brier_high"] == pytest.approx(each * (1 - of["accuracy_low"]))
