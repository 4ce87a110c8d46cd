"""Costs of wrong answers: how they are read, and the answer of least expected cost."""

import numpy as np
import pytest
from pydantic import ValidationError

from framework.data.error_costs import DecisionConfig, DecisionCosts, decision_costs
from framework.errors import InputError

CLASSES = ["ok", "sepsis", "shock"]


def costs(errors, no_answer=2.0, classes=CLASSES):
    return decision_costs(DecisionConfig(errors=errors, no_answer=no_answer), classes)


def test_a_matrix_has_its_rows_by_true_class_and_ones_where_nothing_is_said():
    found = costs({"shock": {"ok": 50, "sepsis": 20}, "sepsis": {"ok": 5}})
    assert found.errors.tolist() == [[0, 1, 1], [5, 0, 1], [50, 20, 0]]
    assert found.no_answer == 2.0


def test_the_short_form_is_one_cost_by_true_class():
    assert costs({"shock": 50, "sepsis": 5}).errors.tolist() == [[0, 1, 1], [5, 0, 5], [50, 50, 0]]


def test_labels_may_be_numbers_spelled_either_way():
    assert costs({1: {0: 5}}, classes=[0, 1]).errors.tolist() == [[0, 1], [5, 0]]
    assert costs({"1": 5}, classes=[0, 1]).errors.tolist() == [[0, 1], [5, 0]]
    for said in ({1.0: {0.0: 5}}, {"1.0": 5}):  # as the labels of a column of floats are written
        assert costs(said, classes=[0, 1]).errors.tolist() == [[0, 1], [5, 0]]
    assert costs({1: 5, 0: 2}, classes=[0.0, 0.5, 1.0]).errors[:, 1].tolist() == [2, 0, 5]
    with pytest.raises(InputError, match=r"\(False, True\), found '1.0'"):
        costs({1.0: 5}, classes=[False, True])


def test_the_answer_is_that_of_least_expected_cost():
    rng = np.random.default_rng(0)
    table = DecisionCosts(np.array([[0.0, 1, 1], [5, 0, 5], [50, 20, 0]]), 2.0)
    P = rng.dirichlet(np.ones(3), 500)
    said, risk = table.said(P)
    for p, c, r in zip(P, said, risk, strict=True):
        each = [sum(p[t] * table.errors[t, a] for t in range(3)) for a in range(3)]
        assert c == np.argmin(each)
        assert r == pytest.approx(min(each), abs=1e-12)


def test_of_equal_answers_the_first_is_given_whatever_rounding_says():
    table = DecisionCosts(np.array([[0.0, 0.1], [0.3, 0.0]]), 1.0)
    said, _ = table.said(np.array([[0.75, 0.25], [0.75 - 1e-12, 0.25 + 1e-12]]))
    assert said.tolist() == [0, 0]


def test_the_best_constant_answer_weighs_classes_by_their_costs():
    assert costs({"shock": 50, "sepsis": 5}).constant(np.array([0.85, 0.12, 0.03])) == (
        pytest.approx(0.85 + 0.12 * 5)
    )


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ({"shok": 5}, "expected a class of the data .*found 'shok'.*shock"),
        ({"shock": {"fine": 5}}, r"errors\.shock: expected a class of the data .*found 'fine'"),
        ({"shock": {"shock": 5}}, "expected costs of wrong answers, found 5 for the right one"),
        ({"ok": 0, "sepsis": 0, "shock": 0}, "expected a cost above zero, found none"),
    ],
)
def test_costs_that_mean_nothing_are_refused(errors, message):
    with pytest.raises(InputError, match=message):
        costs(errors)


@pytest.mark.parametrize("raw", [{"errors": {"ok": -1}, "no_answer": 1}, {"errors": {"ok": 1}}])
def test_negative_costs_and_a_missing_price_are_refused(raw):
    with pytest.raises(ValidationError):
        DecisionConfig(**raw)
