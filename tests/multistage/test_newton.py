"""Newton's method where full steps go to and fro for ever."""

from __future__ import annotations

from inspect import unwrap

import numpy as np

from algorithms.multistage.kernels import logistic
from algorithms.multistage.kernels.sums import solve_in_place


def test_steps_that_come_no_nearer_end_soon(monkeypatch):
    random = np.random.default_rng(0)
    S = np.vstack([random.normal(size=(3, 40)), np.ones(40)])
    y, steps = random.integers(0, 2, 40), []
    theta = 3 * random.normal(size=(1, 4))

    def counted(*arguments):
        steps.append(arguments)
        return solve_in_place(*arguments)

    monkeypatch.setattr(logistic, "solve_in_place", counted)
    assert not unwrap(logistic.binary_newton)(S, y, np.ones(len(y)), 1.0, 1e-9, theta[0].copy())
    assert logistic.PATIENCE <= len(steps) <= 4 * logistic.PATIENCE
    cold, basis = np.zeros((1, 4)), logistic.class_basis(2)
    assert logistic.fit(S, y, np.ones(len(y)), basis, 1.0, cold)
    assert logistic.fit(S, y, np.ones(len(y)), basis, 1.0, theta)
    assert (theta == cold).all()
