"""Roles: the only place where a sign flips."""

import numpy as np
import pytest

from framework.errors import InputError
from framework.roles import Constraint, Metric, Objective, Roles

METRICS = (Metric("coverage", "max"), Metric("cost", "min", "ratio", high=30.0))
VALUES = {"coverage": np.array([0.0, 0.5, 1.0]), "cost": np.array([3.0, 30.0, 0.0])}


def test_losses_are_smaller_for_the_better():
    roles = Roles(METRICS, [Objective("coverage", "max"), Objective("cost", "min")])
    assert roles.names == ("coverage", "cost")
    assert roles.kinds() == ("bounded", "ratio")
    losses = roles.losses(VALUES)
    assert losses.tolist() == [[0.0, 3.0], [-0.5, 30.0], [-1.0, 0.0]]
    assert not np.signbit(losses[0, 0])
    assert np.array_equal(roles.natural(losses), np.column_stack(list(VALUES.values())))


def test_bounds_come_from_the_measures_unless_worst_says_otherwise():
    objectives = [Objective("coverage", "max"), Objective("cost", "min", worst=10.0)]
    assert Roles(METRICS, objectives).bounds().tolist() == [[-1.0, 0.0], [0.0, 10.0]]
    turned = Roles(METRICS, [Objective("coverage", "max", worst=0.5), Objective("cost", "max")])
    assert turned.bounds().tolist() == [[-1.0, -0.5], [-30.0, 0.0]]


def test_violation_adds_up_and_bounds_are_inclusive():
    constraints = [Constraint("coverage", at_least=0.5, at_most=0.9), Constraint("cost", at_most=3)]
    roles = Roles(METRICS, [Objective("cost", "min")], constraints)
    assert roles.violation(VALUES) == pytest.approx([0.5, 27.0, 0.1])
    assert Roles(METRICS, [Objective("cost", "min")]).violation(VALUES).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("objectives", "constraints", "message"),
    [
        ([], [], "at least one, found none"),
        ([Objective("covrage", "max")], [], "objectives: .*coverage, cost.*'covrage'"),
        ([Objective("cost", "min"), Objective("cost", "max")], [], "each metric once"),
        ([Objective("cost", "min")], [Constraint("fpr", at_most=1)], "constraints: .*'fpr'"),
        ([Objective("cost", "min")], [Constraint("cost", at_least=np.inf)], "limit of cost.* inf"),
        ([Objective("cost", "min")], [Constraint("cost", 1.0, np.nan)], "limit of cost, found nan"),
    ],
)
def test_mistakes_are_named(objectives, constraints, message):
    with pytest.raises(InputError, match=message):
        Roles(METRICS, objectives, constraints)
