"""Tuning: the grid as a problem."""

import numpy as np
import pytest

from algorithms.multistage.papers.budgeted import CostOrdered
from algorithms.multistage.papers.cact_lasso import CaCTLasso
from algorithms.multistage.papers.tuning import (
    METHODS,
    BaselineConfig,
    BaselineProblem,
    Tuned,
    grid_points,
    worth,
)
from framework.experiment.export import export
from framework.front import Front
from framework.models.store import load_model
from framework.roles import Objective, Roles
from framework.run.evaluator import evaluate_candidates
from tests.conftest import multistage
from tests.searching import searched

SECTION = {
    "dataset": {"synthetic": {"samples": 200, "features": 6, "informative": 4}},
    "costs": {"values": [10.0, 30.0, 10.0, 20.0, 20.0, 30.0]},
}


def tuned(problem, by="aggregate"):
    """Return the number of the cell that tuning ends with."""
    roles = Roles(problem.metrics, [Objective("coverage", "max"), Objective("cost", "min")])
    algorithm, _, _ = searched(Tuned, problem, roles, generations=1000, by=by, batch=7)
    [number] = algorithm.outcome().returned.tolist()
    return number


def problem_of(*methods):
    return BaselineProblem.from_config(
        BaselineConfig.model_validate({**SECTION, "methods": methods})
    )


def test_lambda_is_the_one_of_brute_force():
    problem = problem_of("cact_lasso")
    problem.points = problem.points[::25]
    best = tuned(problem)
    X, y = problem.validation
    values = []
    for tenths in range(0, 1001, 25):
        model = CaCTLasso(tenths / 10, costs=problem.costs).fit(*problem.training)
        p = model.predict_proba(X)
        sure = p.max(axis=1) >= 0.75 - 1e-9
        right = (model.classes_[p.argmax(axis=1)] == y)[sure].mean() if sure.any() else 0.0
        cost = problem.costs[model.features_].sum()
        values.append(sure.mean() + right + 1 - cost / problem.costs.sum())
    assert problem.points[best].parameters == {"penalty": int(np.argmax(values)) * 2.5}


def test_a_baseline_is_measured_on_the_records_of_the_search():
    """CO-T as a baseline and the same stages as a candidate of the multi-stage problem agree."""
    problem, stages = problem_of("single_stage", "cost_ordered"), multistage(**SECTION)
    genome = np.array([[0, 2, 0, 1, 1, 2]], dtype=np.int8)
    rows = np.array([[1]])
    for found, expected in (
        (problem.evaluate(rows), stages.evaluate(genome)),
        (problem.evaluate_test(rows), stages.evaluate_test(genome)),
    ):
        for metric in ("coverage", "accuracy", "cost"):
            assert found[metric][0] == pytest.approx(expected[metric][0], abs=1e-12)
    assert isinstance(problem.decode(rows[0]), CostOrdered)


def test_cells_are_every_choice_once():
    cells = grid_points(METHODS)
    assert len({(cell.method, *cell.parameters.items()) for cell in cells}) == len(cells)
    lambdas = [cell.parameters["penalty"] for cell in cells if cell.method == "cact_lasso"]
    assert len(lambdas) == 1001
    assert lambdas[:2] == [0.0, 0.1]
    assert lambdas[-1] == 100.0


def test_each_criterion_chooses_its_best_and_of_equals_the_greater_aggregate():
    problem = problem_of("cegb")
    values = problem.evaluate(np.arange(len(problem.points))[:, np.newaxis])
    plain, full = values["plain_aggregate"], values["aggregate"]
    own = tuned(problem, "plain_aggregate")
    assert plain[own] == plain.max()
    assert full[own] == full[plain == plain.max()].max()
    assert tuned(problem) == full.argmax()
    asks = (values["cost"] > 0) & (values["coverage"] > 0)
    assert tuned(problem, "asking_aggregate") == np.where(asks, full, -1.0).argmax()


def test_cells_that_ask_nothing_or_answer_nothing_are_left_out():
    """One class is frequent enough that naming it always is the best by the aggregate."""
    asking = {"coverage": 0.5, "accuracy": 0.7, "cost": 1.0, "aggregate": 2.1}
    constant = {"coverage": 1.0, "accuracy": 0.7, "cost": 0.0, "aggregate": 2.7}
    silent = {"coverage": 0.0, "accuracy": 0.0, "cost": 5.0, "aggregate": 0.9}
    failed = dict.fromkeys(asking, np.nan)
    values = [worth(row, "asking_aggregate") for row in (asking, constant, silent)]
    assert np.argmax(values) == 0
    assert values[1] == values[2] < 0
    assert np.argmax([worth(row, "aggregate") for row in (asking, constant, silent)]) == 1
    assert np.isnan(worth(failed, "asking_aggregate"))


def test_a_failing_cell_is_not_chosen():
    problem = problem_of("single_stage", "cost_ordered")
    problem.points[1] = problem.points[1]._replace(parameters={"threshold": 7.0})
    assert tuned(problem) == 0


def test_a_baseline_is_exported_where_it_is_a_multi_stage_classifier(tmp_path):
    problem = problem_of("cost_ordered", "cegb")
    X = np.array([[0], [1]], dtype=np.int32)
    rows = evaluate_candidates(problem, 0, np.arange(2), X)
    roles = Roles(problem.metrics, [Objective("cost", "min")])
    front = Front(rows, roles, problem.gene_names)
    assert export(problem, front, 0, tmp_path / "stages", {})
    assert not export(problem, front, 1, tmp_path / "trees", {})
    records, model = problem.validation.X, load_model(tmp_path / "stages")
    np.testing.assert_array_equal(model.predict(records), problem.decode(X[0]).predict(records))
