"""The ensembler for TabArena, called as its simulation calls it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from algorithms.ensembling.tabarena import ParetoEnsembler
from framework.errors import InputError

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 200)


def votes(k=6, classes=2):
    """Return noisy predictions of ``k`` models, the last ones the worst."""
    noise = RNG.random((k, len(LABELS))) * np.linspace(0.8, 1.6, k)[:, None]
    binary = np.clip(0.25 + 0.3 * LABELS + 0.4 * (noise - 0.5), 0, 1)
    return binary if classes == 2 else np.stack([1 - binary, binary], axis=2)


def made(metric="roc_auc", problem_type="binary", **options):
    return ParetoEnsembler(
        problem_type=problem_type, metric=SimpleNamespace(name=metric), evaluations=500, **options
    )


def test_weights_are_those_of_the_best_ensemble_within_the_conditions():
    predictions = votes()
    ensembler = made().fit(predictions=predictions, labels=LABELS, time_limit=1.0)
    weights = ensembler.model_weights()
    assert np.isclose(weights.sum(), 1)
    assert (ensembler.models_used() == (weights > 0)).all()
    combined = ensembler.predict_proba(predictions)
    assert np.allclose(combined, weights @ predictions)
    singles = [roc_auc_score(LABELS, p) for p in predictions]
    assert roc_auc_score(LABELS, combined) > max(singles)
    assert set(ensembler.predict(predictions).tolist()) <= {0, 1}

    costs = {"inference_time": [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]}
    cheap = made(costs=costs, where="inference_time<=2").fit(predictions=predictions, labels=LABELS)
    assert cheap.models_used().sum() <= 2
    assert not cheap.models_used()[0]


@pytest.mark.parametrize("metric", ["log_loss", "accuracy"])
def test_other_metrics_and_three_dimensional_predictions(metric):
    predictions = votes(classes=3)
    ensembler = made(metric, "multiclass").fit(predictions=predictions, labels=LABELS)
    assert ensembler.predict_proba(predictions).shape == (len(LABELS), 2)
    assert (ensembler.predict(predictions) == LABELS).mean() > 0.6


def test_values():
    y = RNG.normal(size=100)
    predictions = y + RNG.normal(size=(4, 100))
    ensembler = made("root_mean_squared_error", "regression").fit(predictions=predictions, labels=y)
    errors = np.sqrt(((predictions - y) ** 2).mean(axis=1))
    combined = ensembler.predict(predictions)
    assert np.sqrt(((combined - y) ** 2).mean()) < errors.min()


def test_predictions_of_other_models_are_refused():
    ensembler = made().fit(predictions=votes(), labels=LABELS)
    with pytest.raises(InputError, match="expected 6 models, found 3"):
        ensembler.predict_proba(votes(3))
