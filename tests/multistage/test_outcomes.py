"""Outcomes of each record: metrics under weights are those of records that are repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.multistage.data import prepare_table
from algorithms.multistage.problem import MultiStageProblem
from framework.data.datasets import load_table
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
    more = dict(settings)
    dataset = {"path": str(table_file), "target": "label"}
    if "positive" in more:
        dataset["positive"] = more.pop("positive")
    config = config_of(table_file, **{**more, "dataset": dataset})
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
