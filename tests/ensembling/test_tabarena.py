"""The ensembler for TabArena: in its simulation, and on what its simulation was recorded to pass.

``tabarena_calls.json`` is what TabArena 0.1.0 passed to an ensembler (``record_tabarena.py`` wrote
it); where ``tabarena`` is installed, its simulation itself runs the ensembler.
"""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics

from algorithms.ensembling.tabarena import ParetoEnsembler
from framework.errors import InputError
from tests.ensembling.record_tabarena import CALLS, MODELS, TASKS, Repository, simulate

RECORDED = json.loads(CALLS.read_text(encoding="utf-8"))["calls"]
EVERY = {"algorithm": {"kind": "small_ensembles", "members": MODELS, "picks": 4}}
TOLERANCE = 1e-5  # AutoGluon rounds errors to six digits


def error_of(task, predictions, y):
    """Return what is to be as small as can be, of the models' own predictions, by scikit-learn."""
    name = TASKS[task][0]
    if name == "log_loss":
        if predictions.ndim == 1:
            return metrics.log_loss(y, np.column_stack([1 - predictions, predictions]))
        return metrics.log_loss(y, predictions / predictions.sum(axis=1, keepdims=True))
    if name == "accuracy":
        return 1 - metrics.accuracy_score(y, predictions.argmax(axis=1))
    if name == "root_mean_squared_error":
        return metrics.root_mean_squared_error(y, predictions)
    if predictions.ndim == 1:
        return 1 - metrics.roc_auc_score(y, predictions)
    return 1 - np.mean([metrics.roc_auc_score(y == c, predictions[:, c]) for c in set(y.tolist())])


def least_error(task, repository, picks=4):
    """Return the least validation error of all ensembles of at most so many picks."""
    P = repository.predictions["val"].astype(np.float64)
    return min(
        error_of(task, P[list(chosen)].mean(axis=0), repository.y["val"])
        for n in range(1, picks + 1)
        for chosen in itertools.combinations_with_replacement(range(MODELS), n)
    )


class Metric(SimpleNamespace):
    """A recorded metric: its attributes, and the errors that it had for the single models."""

    def __init__(self, call):
        super().__init__(**call["metric"])
        self.call, self.at = call["fit"], -1

    def error(self, labels, prediction):
        assert np.asarray(labels).tolist() == given(self.call["labels"]).tolist()
        self.at += 1
        want = given(self.call["predictions"])[self.at]
        if self.needs_pred and want.ndim == 2:
            want = want.argmax(axis=1)
        assert np.array_equal(prediction, want)
        return self.call["errors"][self.at]


def given(about):
    return np.array(about["values"]).astype(about["dtype"])


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "call", RECORDED, ids=lambda call: f"{call['task']}{', fast' if call['fast'] else ''}"
)
def test_what_tabarena_passes_is_searched_for_its_metric(call):
    """With fast metrics the log loss comes as the true class's probabilities, labels as ever."""
    repository = Repository(TASKS[call["task"]][2])
    ensembler = ParetoEnsembler(problem_type=call["problem_type"], metric=Metric(call), **EVERY)
    fit = call["fit"]
    ensembler.fit(predictions=given(fit["predictions"]), labels=given(fit["labels"]))
    combined = np.tensordot(ensembler.model_weights(), repository.predictions["val"], 1)
    found = error_of(call["task"], combined, repository.y["val"])
    assert found <= least_error(call["task"], repository) + TOLERANCE
    for method, about, *options in call["asked"]:
        asked = given(fit["predictions"])
        answer = getattr(ensembler, method)(
            asked, **({"problem_type": options[0]} if options else {})
        )
        assert list(asked.shape) == about["shape"]
        assert len(answer) == asked.shape[1]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_in_the_simulation_itself(task, fast):
    pytest.importorskip("tabarena", reason="tabarena is not installed")
    repository = Repository(TASKS[task][2])
    found = simulate(task, ParetoEnsembler, fast=fast, **EVERY)
    assert found["metric_error_val"] <= least_error(task, repository) + TOLERANCE
    weights = found["ensemble_weights"]
    assert (found["ensemble_models_used"] == (weights > 0)).all()
    for split, key in (("val", "metric_error_val"), ("test", "metric_error")):
        combined = np.tensordot(weights, repository.predictions[split], 1)
        assert np.isclose(error_of(task, combined, repository.y[split]), found[key], atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_as_it_comes_it_is_no_worse_than_its_own_greedy_selection(task):
    pytest.importorskip("tabarena", reason="tabarena is not installed")
    from tabarena.simulation.ensemble import GreedyEnsembler

    greedy = simulate(task, GreedyEnsembler, fast=True)["metric_error_val"]
    ours = simulate(task, ParetoEnsembler, fast=True)["metric_error_val"]
    assert ours <= greedy + TOLERANCE


def test_the_recording_is_of_the_installed_package():
    pytest.importorskip("tabarena", reason="tabarena is not installed")
    from tests.ensembling import record_tabarena

    for call in RECORDED:
        simulate(call["task"], record_tabarena.Recorder, fast=call["fast"])
        now = json.loads(json.dumps(record_tabarena.Recorder.calls))
        assert now["asked"] == call["asked"]
        assert now["metric"] == call["metric"]
        assert now["fit"]["labels"] == call["fit"]["labels"]
        assert np.allclose(now["fit"]["errors"], call["fit"]["errors"], rtol=1e-5)


def made(name="roc_auc", problem_type="binary", error=None, optimum=1, **options):
    def auc(y, p):
        return 1 - metrics.roc_auc_score(y, p)

    metric = SimpleNamespace(name=name, optimum=optimum, needs_pred=False, error=error or auc)
    metric.__dict__.update(options.pop("about", {}))
    return ParetoEnsembler(problem_type=problem_type, metric=metric, budget=500, **options)


REPOSITORY = Repository(2)
VOTES, LABELS = REPOSITORY.predictions["val"], REPOSITORY.y["val"]


def test_without_costs_the_best_score_is_searched_for_greedily():
    found = ParetoEnsembler(problem_type="binary", metric=made().metric)
    weights = found.fit(predictions=VOTES, labels=LABELS).weights_
    greedy = made(algorithm={"kind": "ges", "iterations": 50})
    assert weights.tolist() == greedy.fit(predictions=VOTES, labels=LABELS).weights_.tolist()
    front = made(algorithm="pareto_es").fit(predictions=VOTES, labels=LABELS)
    errors = [
        found.metric.error(LABELS, each.predict_proba(VOTES)) for each in (found, greedy, front)
    ]
    assert errors[0] <= min(errors[1:])


def test_conditions_on_costs():
    free = made().fit(predictions=VOTES, labels=LABELS, time_limit=1.0)
    dear = int(free.model_weights().argmax())
    costs = {"inference_time": [5.0 if j == dear else 1.0 for j in range(MODELS)]}
    cheap = made(costs=costs, where="inference_time<=2").fit(predictions=VOTES, labels=LABELS)
    assert cheap.models_used().sum() <= 2
    assert not cheap.models_used()[dear]
    assert np.isclose(cheap.model_weights().sum(), 1)


def test_a_half_is_the_first_class_as_in_autogluon():
    ensembler = made().fit(predictions=VOTES, labels=LABELS)
    assert ensembler.predict(np.full((MODELS, 3), 0.5)).tolist() == [0, 0, 0]
    assert ensembler.predict(np.full((MODELS, 3, 2), 0.5)).tolist() == [0, 0, 0]


def test_a_class_without_validation_records_is_no_obstacle():
    P = np.repeat(np.stack([1 - VOTES, VOTES, 0 * VOTES], axis=2), 1, axis=0)

    def error(y, p):
        return 1 - metrics.accuracy_score(y, p)

    ensembler = made("accuracy", "multiclass", error, about={"needs_pred": True})
    ensembler.fit(predictions=P, labels=LABELS)
    assert (ensembler.predict(P) == LABELS).mean() > 0.5


MISTAKES = {
    "a metric that is another one than its name says": (
        {"error": lambda y, p: 0.9},
        r"metric 'roc_auc': expected errors that are those of roc_auc, found 0.9 for model 0",
    ),
    "an unknown metric": ({"name": "pac"}, "expected one of roc_auc.*found 'pac'"),
    "quantiles": ({"problem_type": "quantile"}, "expected binary, multiclass or regression"),
    "another view than that of the log loss": (
        {"about": {"post_problem_type": "binary"}},
        "prepared for 'roc_auc'; pass use_fast_metrics=False",
    ),
    "costs of other models": (
        {"costs": {"time": {"forest": 1.0}}},
        "found one of 'forest', which is no model",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    options, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message):
        made(**options).fit(predictions=VOTES, labels=LABELS)


def test_predictions_of_other_models_are_refused():
    ensembler = made().fit(predictions=VOTES, labels=LABELS)
    with pytest.raises(InputError, match="expected 5 models, found 3"):
        ensembler.predict_proba(VOTES[:3])
