"""Newton's method where full steps go to and fro for ever, and on many records."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest

from algorithms.multistage.kernels import logistic
from algorithms.multistage.kernels.sums import solve_in_place
from framework.arrays import frozen


def fitted(S, y, weights, *rest):
    """Fit as a search does: its data are read-only, and kernels are compiled for each type."""
    return logistic.fit(S, frozen(y), frozen(weights), *rest)


def test_steps_that_come_no_nearer_end_soon(monkeypatch):
    random = np.random.default_rng(0)
    S = np.vstack([random.normal(size=(3, 40)), np.ones(40)])
    y, steps = random.integers(0, 2, 40), []
    theta = 3 * random.normal(size=(1, 4))

    def counted(*arguments):
        steps.append(arguments)
        return solve_in_place(*arguments)

    with monkeypatch.context() as patch:  # kernels compile later: against the true one
        patch.setattr(logistic, "solve_in_place", counted)
        assert not unwrap(logistic.binary_newton)(S, y, np.ones(len(y)), 1.0, 1e-9, theta[0].copy())
    assert logistic.PATIENCE <= len(steps) <= 4 * logistic.PATIENCE
    cold, basis = np.zeros((1, 4)), logistic.class_basis(2)
    assert fitted(S, y, np.ones(len(y)), basis, 1.0, cold)
    assert fitted(S, y, np.ones(len(y)), basis, 1.0, theta)
    assert (theta == cold).all()


def many(order, n=logistic.LARGE + 1234):
    """Return the records of two classes in an order that parts of them tell little about."""
    random = np.random.default_rng(3)
    S = np.vstack([random.normal(size=(3, n)), np.ones(n)])
    y = (random.random(n) < 1 / (1 + np.exp(1.0 - S[0] + 2 * S[1]))).astype(np.int64)
    weights = random.uniform(0.5, 2.0, n)
    if order == "by class":
        rows = np.argsort(y, kind="stable")
        S, y, weights = np.ascontiguousarray(S[:, rows]), y[rows], weights[rows]
    elif order == "a rare class that the part misses":
        y[:] = 0
        y[1 :: 16 * 50] = 1
    elif order == "the part has no weight":
        weights[:: logistic.START_PART] = 0.0
    return S, y, weights


@pytest.mark.parametrize(
    "order",
    ["mixed", "by class", "a rare class that the part misses", "the part has no weight"],
)
def test_many_records_end_where_all_steps_on_all_of_them_do(order):
    S, y, weights = many(order)
    basis = logistic.class_basis(2)
    theta, twin, again = (np.zeros((1, 4)) for _ in range(3))
    assert fitted(S, y, weights, basis, 0.3, theta)
    assert logistic._newton(S, y, weights, basis, 0.3, twin, True)
    np.testing.assert_allclose(theta, twin, rtol=0, atol=1e-11)
    again[:] = 2.0  # from another start
    assert fitted(S, y, weights, basis, 0.3, again)
    np.testing.assert_allclose(again, theta, rtol=0, atol=1e-11)


def test_many_records_of_three_classes():
    S, y, weights = many("by class")
    y = y + (S[2] > 1.0)
    basis = logistic.class_basis(3)
    theta, twin = np.zeros((2, 4)), np.zeros((2, 4))
    assert fitted(S, y, weights, basis, 1.0, theta)
    assert logistic._newton(S, y, weights, basis, 1.0, twin, True)
    np.testing.assert_allclose(theta, twin, rtol=0, atol=1e-11)


def test_the_blocks_of_many_records_meet():
    """Gradient and Hessian of a number of records that no block divides."""
    S, y, weights = many("mixed", 2 * logistic.BLOCK + 17)
    theta, slope, g = np.array([0.2, -0.1, 0.3, 0.0]), np.empty(len(y)), np.empty(4)
    H = np.empty((4, 4))
    logistic._binary_gradient(S, y, weights, 0.7, theta, slope, g)
    logistic._binary_hessian(S, slope, 0.7, 1, H)
    p = 1 / (1 + np.exp(-theta @ S))
    penalty = np.diag([1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(g, 0.7 * S @ (weights * (p - y)) + penalty @ theta, rtol=1e-10)
    whole = 0.7 * (S * (weights * p * (1 - p))) @ S.T + penalty
    np.testing.assert_allclose(np.tril(H), np.tril(whole), rtol=1e-9, atol=1e-9)
