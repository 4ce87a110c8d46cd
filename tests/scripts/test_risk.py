"""The comparison of decisions by cost: its figures by hand, and going on where it stopped."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import risk

from framework.batch import Evaluated
from framework.data.error_costs import DecisionConfig, decision_costs
from framework.front import Front
from framework.roles import Metric, Objective, Roles


def case(own=None):
    frame = pd.DataFrame({"a": range(4), "ill": ["no", "no", "yes", "yes"]})
    return risk.Case(frame, "ill", {"yes": 9, "no": 1}, 2.5, {"a": 1.0}, [["a"]], "yes", own)


def test_risk_recall_and_own_costs_by_hand():
    given = case(np.array([1.0, 2.0, 4.0, 8.0]))
    costs = decision_costs(DecisionConfig(errors=given.errors, no_answer=2.5), ["no", "yes"])
    said = np.array(["yes", None, "no", "yes"], dtype=object)
    found = risk._judged(given, costs, np.arange(4), said, "x")
    assert found == {"x_risk": (1 + 2.5 + 9 + 0) / 4, "x_recall": 0.5, "x_own": (1 + 2.5 + 4) / 4}


def test_patients_have_the_costs_of_the_configuration():
    given = risk.CASES["patients"]()
    assert given.errors["shock"] == 50
    assert given.no_answer == 2.5
    assert given.steps[-1] == list(given.prices)
    assert set(given.prices) < set(given.frame)
    assert (given.frame[given.target] == given.rarest).mean() == pytest.approx(0.03)


def test_splits_that_are_there_are_not_measured_again(tmp_path, monkeypatch):
    asked = []

    def measured(given, path, seed, budget):
        asked.append(seed)
        gap = [-0.1, 0.0, 0.2][seed]
        row = {"split": seed, "features": 1, "price": 1.0, "model_risk": 1.0, "model_recall": 0.5}
        row |= {"by_cost_risk": 1 + gap, "by_cost_recall": 0.5, "by_cost_paid": 1.0}
        row |= {"simple_risk": 1.0, "simple_recall": 0.5, "simple_paid": 1.0}
        return pd.DataFrame([row | {"plain_risk": 2.0, "plain_recall": 0.0, "plain_paid": 1.0}])

    monkeypatch.setattr(risk, "measured", measured)
    monkeypatch.setattr(risk, "CASES", {"small": case})
    risk.compare("small", 2, 10, tmp_path)
    table = risk.summary(risk.compare("small", 3, 10, tmp_path))
    assert asked == [0, 1, 2]
    line = table.splitlines()[-1]
    assert "| 1.033 (0.900 to 1.200) |" in line
    assert "| 0.033 (-0.100 to 0.200) | 1, 1 of 3 | 0.000 (0.000 to 0.000) | 0, 0 of 3 |" in line


def test_all_are_judged_by_records_that_none_of_them_has_seen(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.permutation(200) // 2})
    frame["ill"] = np.where(frame["a"] + rng.normal(0, 20, 200) > 60, "yes", "no")
    frame.to_csv(tmp_path / "table.csv", index=False)
    given = case()._replace(frame=frame, prices={"a": 1.0})
    decision = {"decision": {"errors": given.errors, "no_answer": 2.5}}
    problem = risk._problem(given, tmp_path / "table.csv", 1, {"max_stages": 1, **decision})
    rows, test = risk._parts(given, tmp_path / "table.csv", 1)
    data, known = problem.data, frame["a"].to_numpy()
    assert not set(known[rows]) & set(known[test])  # copies stay together
    assert np.array_equal(
        np.argsort(data.held[0], kind="stable"), np.argsort(known[test], kind="stable")
    )
    assert np.array_equal(
        np.argsort(data.design[0], kind="stable"), np.argsort(known[rows], kind="stable")
    )


def test_the_simple_design_has_the_fewest_stages_of_those_with_about_the_least_risk():
    metrics = [Metric(name, "min") for name in ("risk", "cost", "stages")]
    values = {"risk": [1.0, 1.01, 1.1, 0.5], "cost": [2.0, 2.0, 1.0, 9.0], "stages": [3, 2, 1, 1]}
    columns = {name: np.array(column, dtype=float) for name, column in values.items()}
    roles = Roles(metrics, [Objective(metric.name, "min") for metric in metrics])
    front = Front(Evaluated(np.arange(4), np.zeros((4, 1)), columns), roles, ("a",))
    assert risk._picks(front, case(), 2.0) == {"by_cost": 0, "simple": 1}
    assert risk._picks(front, case(), 1.0) == {"by_cost": 2, "simple": 2}


@pytest.mark.skipif(find_spec("empulse") is None, reason="its tables are not installed")
@pytest.mark.parametrize("name", ["churn", "bank", "credit"])
def test_an_error_costs_the_mean_of_its_class(name):
    given = risk.CASES[name]()
    y = given.frame[given.target].to_numpy()
    for code, cost in given.errors.items():
        assert given.own[y == code].mean() > 0
        assert cost > 0
    blind = [given.errors[k] * (y == k).mean() for k in (0, 1)]
    assert given.no_answer == pytest.approx(min(blind), abs=1e-4)
