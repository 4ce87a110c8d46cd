"""Choosing one solution of a front."""

import numpy as np
import pytest

from framework.analysis.choose import Condition, Margin, choose, parse_condition, parse_margin
from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import Front
from framework.roles import Metric, Objective, Roles
from tests.toys import COVERAGE_ACCURACY_COST

METRICS = (*COVERAGE_ACCURACY_COST, Metric("stages", "min", "ratio", high=6.0))
ROLES = Roles(METRICS, [Objective(m.name, m.sense) for m in COVERAGE_ACCURACY_COST])
VALUES = {
    "coverage": np.array([1.00, 0.95, 0.90, 0.60, 0.20]),
    "accuracy": np.array([0.80, 0.90, 0.90, 0.98, 1.00]),
    "cost": np.array([90.0, 80.0, 20.0, 30.0, 60.0]),
    "stages": np.array([1.0, 2.0, 2.0, 4.0, 3.0]),
}
ROWS = Evaluated(np.array([3, 5, 8, 13, 21]), np.zeros((5, 2), dtype=np.int8), VALUES)
FRONT = Front(ROWS, ROLES, ("x", "y"), test=VALUES)


def test_one_dear_design_does_not_make_all_others_look_cheap():
    """Of a cost only: a low coverage counts in full, and without an outlier nothing changes."""
    coverage, accuracy = np.array([0.6, 0.7, 0.826, 0.91, 0.92]), np.full(5, 0.9)
    for costs, pick in (((5, 10, 31, 199, 667), 2), ((5, 150, 160, 199, 667), 3)):
        values = {"coverage": coverage, "accuracy": accuracy, "cost": np.array(costs, float)}
        rows = Evaluated(ROWS.ids, ROWS.X, values)
        roles = Roles(METRICS[:3], ROLES.objectives)
        assert choose(Front(rows, roles, ("x", "y")), knee=True) == pick


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("coverage>=0.9", Condition("coverage", ">=", 0.9)),
        ("  cost <  20 ", Condition("cost", "<", 20.0)),
        ("cost<=1e2", Condition("cost", "<=", 100.0)),
        ("a.b == -3", Condition("a.b", "==", -3.0)),
        ("x>.5", Condition("x", ">", 0.5)),
    ],
)
def test_parse_condition(text, condition):
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["", "coverage", "coverage=0.9", ">=3", "coverage>=", "a=>1"], "METRIC>=NUMBER"),
        (["coverage>=much", "coverage>=nan", "coverage>=inf"], "a number"),
    ],
)
def test_parse_condition_refuses(texts, expected):
    for text in texts:
        with pytest.raises(InputError, match=f"where: expected {expected}"):
            parse_condition(text)


def test_parse_margin():
    assert parse_margin("accuracy=2%") == Margin("accuracy", 0.02, True)
    assert parse_margin("accuracy = 0.02") == Margin("accuracy", 0.02, False)
    for text in ("accuracy", "accuracy=x", "accuracy=-1", "accuracy=2%%", "accuracy>=2%"):
        with pytest.raises(InputError, match="within: expected"):
            parse_margin(text)


@pytest.mark.parametrize(
    ("wishes", "id"),
    [
        ({"best": "accuracy"}, 21),
        ({"best": "cost"}, 8),
        ({"best": "stages"}, 3),
        ({"where": ["coverage>=0.9"], "best": "accuracy"}, 5),  # tie: more coverage
        ({"where": ["coverage>=0.9", "cost<50"], "best": "accuracy"}, 8),
        ({"where": ["stages==2"], "best": "coverage"}, 5),
        ({"within": ["accuracy=2%"], "best": "cost"}, 13),
        ({"within": ["accuracy=0.1", "coverage=0.05"], "best": "cost"}, 8),
        ({"within": ["cost=0%"], "best": "accuracy"}, 8),
        ({"knee": True}, 8),
        ({}, 8),
        ({"weights": {"accuracy": 1.0}}, 21),
        ({"weights": {"coverage": 1.0, "accuracy": 0.2}}, 5),
        ({"weights": {"stages": 1, "cost": 0.5}}, 8),
        ({"id": 13}, 13),
    ],
)
def test_choose(wishes, id):
    assert FRONT.ids[choose(FRONT, **wishes)] == id


def test_equal_solutions_go_by_id():
    values = {name: np.repeat(column[:1], 3) for name, column in VALUES.items()}
    rows = Evaluated(np.array([4, 6, 9]), np.zeros((3, 2)), values)
    front = Front(rows, ROLES, ("x", "y"))
    for wishes in ({"knee": True}, {"best": "cost"}, {"weights": {"cost": 1}}):
        assert choose(front, **wishes) == 0


def test_senses_come_from_the_objectives_first():
    roles = Roles(METRICS, [Objective("cost", "max")])
    front = Front(ROWS, roles, ("x", "y"))
    assert front.ids[choose(front, best="cost")] == 3


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"best": "acuracy"}, "best: expected one of .*; did you mean 'accuracy'"),
        ({"where": ["test_cost<5"]}, "voids"),
        ({"within": ["test_cost=5%"]}, "voids"),
        ({"best": "test_accuracy"}, "best: .*voids"),
        ({"weights": {"test_accuracy": 1}}, "voids"),
        ({"weights": {}}, "weights: .*none"),
        ({"weights": {"cost": -1, "accuracy": 1}}, "weights: .*cost=-1"),
        ({"weights": {"cost": 0}}, "one of them positive"),
        ({"best": "cost", "knee": True}, "several"),
        ({"id": 4}, r"id: expected a solution of the front \(3, 5, 8, 13, 21\), found 4"),
        ({"id": 21, "where": ["coverage>0.5"]}, r"meets the conditions \(3, 5, 8, 13\), found 21"),
        (
            {"where": ["coverage>=0.9", "cost<20"]},
            "where cost<20: no solution is left; the best cost among the 3 before it is 20",
        ),
        ({"where": ["accuracy>1"]}, "the best accuracy among the 5 before it is 1"),
    ],
)
def test_choose_refuses(wishes, message):
    with pytest.raises(InputError, match=message):
        choose(FRONT, **wishes)


def test_an_empty_front_offers_nothing():
    empty = Front(ROWS.take(np.zeros(5, dtype=bool)), ROLES, ("x", "y"))
    with pytest.raises(InputError, match="at least one solution"):
        choose(empty)
