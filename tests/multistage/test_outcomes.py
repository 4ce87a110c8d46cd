"""Outcomes of each record: metrics under weights are those of records that are repeated.

And the means over records that a certificate is about, counted one by one.
"""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.multistage.data import prepare_table
from algorithms.multistage.metrics import COST, METRICS, RISKS, measures_of
from algorithms.multistage.problem import MultiStageProblem
from framework.answers import Answers, Records
from framework.data.datasets import load_table
from framework.measures import samples_of
from tests.multistage.data import config_of, genomes

pytestmark = pytest.mark.usefixtures("cache")

SETTINGS = {
    "three classes": {},
    "positive class of three": {"positive": "high"},
    "panels and costs of errors": {
        "costs": {"values": {"a": 0.1, "b": 3, "c": 2.5, "colour": 7, "d": 0},
                  "panels": {"blood": {"cost": 4, "features": ["a", "c"]}}},
        "error_costs": {"low": 5, "high": 0.3},
        "remove_features": True,
    },
    "dear": {"costs": {"values": {"a": 1e7, "b": 3e9, "c": 2.5e8, "colour": 7e9, "d": 1}}},
}  # fmt: skip


def prepared(table_file, settings):
    config = config_of(table_file, **settings)
    return prepare_table(load_table(config.dataset), config)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("without", [None, 0])
def test_whole_weights_are_records_repeated(table_file, settings, without):
    arguments = prepared(table_file, settings)
    problem, data = MultiStageProblem(**arguments), arguments["data"]
    X, n = genomes(problem, 40), data.n_validation
    weights = np.random.default_rng(5).integers(0, 4, n)
    if without is not None:  # a class without any record
        weights[data.y_held[:n] == without] = 0
    order = np.concatenate([np.repeat(np.arange(n), weights), np.arange(n, len(data.y_held))])
    repeated = replace(
        data,
        held=np.ascontiguousarray(data.held[:, order]),
        y_held=data.y_held[order],
        n_validation=int(weights.sum()),
    )
    twin = MultiStageProblem(**{**arguments, "data": repeated})
    found = problem.outcomes(X).metrics(weights[:, None])
    for name, column in twin.evaluate(X).items():
        assert np.array_equal(found[name][:, 0], column), name


def test_repeats_of_a_record_are_drawn_together(table_file):
    measure = {"kind": "cross_validation", "folds": 3, "repeats": 2}
    problem = MultiStageProblem(**prepared(table_file, {"measure": measure}))
    outcomes, n = problem.outcomes(genomes(problem)), len(problem.data.y)
    assert outcomes.units.tolist() == [*range(n), *range(n)]
    found = outcomes.metrics(np.ones((2 * n, 1)))
    for name, column in problem.evaluate(genomes(problem)).items():
        assert np.array_equal(found[name][:, 0], column), name


def test_metrics_are_counted_one_by_one():
    rng = np.random.default_rng(3)
    codes, given = rng.integers(0, 2, 200), rng.integers(-1, 2, 200)
    paid = rng.uniform(0, 10, 200)
    reported = [metric for metric in METRICS if metric not in RISKS]
    measures = measures_of(reported, 3, 1, 10, np.array([1.0, 4.0, 2.0]))
    records = Records(codes, ("a", "b", "c"), 1)
    answers = Answers(records, given[np.newaxis], {COST: 10 * paid[np.newaxis]})
    found = samples_of(measures, answers, {COST: 100.0})
    answered = [(y, a) for y, a in zip(codes.tolist(), given.tolist(), strict=True) if a >= 0]
    negatives = [a for y, a in answered if y == 0]
    positives = [a for y, a in answered if y == 1]

    def only(name):
        (sample,) = found[name]
        return sample.mean, sample.records

    assert only("coverage") == (len(answered) / 200, 200)
    assert only("inconclusive_rate")[0] == pytest.approx(1 - len(answered) / 200)
    right = sum(y == a for y, a in answered)
    assert only("accuracy") == (right / len(answered), len(answered))
    assert only("false_positive_rate") == (negatives.count(1) / len(negatives), len(negatives))
    assert only("false_negative_rate") == (positives.count(0) / len(positives), len(positives))
    assert only("recall") == (positives.count(1) / len(positives), len(positives))
    assert only("cost")[0] == pytest.approx(paid.mean())
    wrong = sum(4.0 if y else 1.0 for y, a in answered if a != y)
    assert only("error_cost")[0] == pytest.approx(wrong / 200)
    recalls = [negatives.count(0) / len(negatives), positives.count(1) / len(positives), 0.0]
    assert [s.mean for s in found["worst_recall"]] == recalls
    assert found["worst_recall"][2].records == 0  # of a class that is not there nothing is proven
    assert not found["cost"][0].share
    assert found["cost"][0].high == 10
    assert found["error_cost"][0].high == 4
