"""Newton's method where full steps go to and fro for ever, and on many records."""

from inspect import unwrap

import numpy as np
import pytest

from algorithms.multistage.kernels import binary, logistic, newton, softmax, starts
from framework.arrays import frozen

NO_PRODUCTS = frozen(np.empty((0, 0)))


def rows_of(S):
    return np.arange(len(S))


def fitted(S, y, weights, *rest):
    """Fit as a search does: its data are read-only, and kernels are compiled for each type."""
    return logistic.fit(S, frozen(y), frozen(weights), *rest)


@pytest.mark.slow
def test_steps_that_come_no_nearer_end_soon(monkeypatch):
    random = np.random.default_rng(0)
    S = np.vstack([random.normal(size=(3, 40)), np.ones(40)])
    y, steps, direct = random.integers(0, 2, 40), [], newton.direct
    theta = 3 * random.normal(size=(1, 4))

    def counted(*arguments):
        steps.append(arguments)
        return direct(*arguments)

    with monkeypatch.context() as patch:  # kernels compile later: against the true one
        patch.setattr(newton, "direct", counted)
        setting = S, rows_of(S), y, np.ones(len(y)), 1.0, 1e-9, NO_PRODUCTS
        assert not unwrap(binary.binary_newton)(*setting, theta[0].copy())
    assert newton.PATIENCE <= len(steps) <= 4 * newton.PATIENCE
    cold, basis = np.zeros((1, 4)), logistic.class_basis(2)
    assert fitted(S, y, np.ones(len(y)), basis, 1.0, cold)
    assert fitted(S, y, np.ones(len(y)), basis, 1.0, theta)
    assert (theta == cold).all()


def many(order, n=binary.LARGE + 1234):
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


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("order", "classes"),
    [
        ("mixed", 2),
        ("by class", 2),
        ("by class", 3),
        ("a rare class that the part misses", 2),
        ("the part has no weight", 2),
    ],
)
def test_many_records_end_where_all_steps_on_all_of_them_do(order, classes):
    S, y, weights = many(order)
    y = y + (S[2] > 1.0) if classes == 3 else y
    basis = logistic.class_basis(classes)
    theta, twin, again = (np.zeros((classes - 1, 4)) for _ in range(3))
    assert fitted(S, y, weights, basis, 0.3, theta)
    twin_of = frozen(S), rows_of(S), frozen(y), frozen(weights), basis  # types as in a search
    assert softmax.softmax_newton(*twin_of, 0.3, 1e-9, NO_PRODUCTS, twin, True)
    np.testing.assert_allclose(theta, twin, rtol=0, atol=1e-11)
    again[:] = 2.0  # from another start
    assert fitted(S, y, weights, basis, 0.3, again)
    np.testing.assert_allclose(again, theta, rtol=0, atol=1e-11)


def test_the_blocks_of_many_records_meet():
    """Gradient and Hessian of a number of records that no block divides."""
    S, y, weights = map(frozen, many("mixed", 2 * binary.BLOCK + 17))
    theta, slope, g = np.array([0.2, -0.1, 0.3, 0.0]), np.empty(len(y)), np.empty(4)
    H = np.empty((4, 4))
    binary._gradient(S, rows_of(S), y, weights, 0.7, theta, slope, g)
    binary._hessian(S, rows_of(S), slope, 0.7, 1, H)
    p = 1 / (1 + np.exp(-theta @ S))
    penalty = np.diag([1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(g, 0.7 * S @ (weights * (p - y)) + penalty @ theta, rtol=1e-10)
    whole = 0.7 * (S * (weights * p * (1 - p))) @ S.T + penalty
    np.testing.assert_allclose(np.tril(H), np.tril(whole), rtol=1e-9, atol=1e-9)


def columns(n, d, seed=0):
    """Return normal columns (d, n) that tell of each other, the last one all ones."""
    random = np.random.default_rng(seed)
    S = random.normal(size=(d, d)) @ random.normal(size=(d, n)) / np.sqrt(d)
    return np.vstack([S, np.ones(n)])


def test_the_expected_hessian_is_that_of_normal_columns():
    S, random = columns(200_000, 4), np.random.default_rng(1)
    theta, weights = np.append(random.normal(size=4), 0.0), np.ones(S.shape[1])
    rows, H, exact = rows_of(S), np.zeros((5, 5)), np.zeros((5, 5))
    binary._expected_hessian(rows, theta, weights, 0.5, starts.mean_products(S, weights), H)
    p = 1 / (1 + np.exp(-theta @ S))
    binary._hessian(S, rows, p * (1 - p), 0.5, 1, exact)
    np.testing.assert_allclose(np.tril(H), np.tril(exact), rtol=0.01, atol=0.005 * exact.max())


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_on_some_columns_starts_near_its_end(classes):
    """Two to four times nearer than the coefficients on all columns are."""
    S, random = columns(20_000, 12, 2), np.random.default_rng(3)
    logits = random.normal(size=(classes, 13)) @ S
    y = (logits + random.gumbel(size=logits.shape)).argmax(axis=0)
    basis, ones = logistic.class_basis(classes), np.ones(len(y))
    theta = np.zeros((classes - 1, 13))
    assert fitted(S, y, ones, basis, 1.0, theta)
    products = starts.mean_products(S, ones)
    start = starts.Start(*map(frozen, (theta, products, theta @ products)))
    for size in (1, 4, 8, 12):
        rows = np.append(np.sort(random.choice(12, size, replace=False)), 12)
        end = np.zeros((classes - 1, size + 1))
        begun = starts.expected_start(start, rows, classes, 2e4)
        assert fitted(S[rows], y, ones, basis, 1.0, end)
        distance = np.abs(begun - end).max()
        share = 0.25 if classes == 2 else 0.5
        assert distance < share * np.abs(theta[:, rows] - end).max() or distance < 1e-3


@pytest.mark.quick(2)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_hessians_that_stay_lead_where_full_steps_do(classes, C):
    S = columns(1500, 30, 4)
    S[3:9] = (S[3:9] > 1.0) * 40.0  # far from normal
    random = np.random.default_rng(5)
    logits = random.normal(size=(classes, 31)) @ S / 4
    y, weights = (logits + random.gumbel(size=logits.shape)).argmax(axis=0), np.ones(1500)
    basis, twin = logistic.class_basis(classes), np.zeros((classes - 1, 31))
    assert softmax.softmax_newton(
        frozen(S), rows_of(S), frozen(y), frozen(weights), basis, C, 1e-9, NO_PRODUCTS, twin, True
    )
    for products in (NO_PRODUCTS, frozen(starts.mean_products(S, weights))):
        theta = np.zeros_like(twin)
        several = logistic._several(basis)
        records = logistic.with_part(S, y, weights)
        assert logistic._fit(*records, rows_of(S), several, C, products, theta)
        np.testing.assert_allclose(theta, twin, rtol=0, atol=1e-9)


def test_corrections_are_those_of_the_bfgs_formula():
    """Beside the update of the inverse as a matrix; a step along which nothing grew is left out."""
    random = np.random.default_rng(6)
    A = random.normal(size=(5, 5))
    B = A @ A.T + np.eye(5)
    steps, changes = np.empty((newton.MEMORY, 5)), np.empty((newton.MEMORY, 5))
    inverse, count = np.linalg.inv(np.diag(np.diag(B))), 0
    for _ in range(3):
        step, last = random.normal(size=5), random.normal(size=5)
        count = newton.add(steps, changes, count, step, last, last + B @ step)
        change, scale = B @ step, 1.0 / (step @ B @ step)
        side = np.eye(5) - scale * np.outer(step, change)
        inverse = side @ inverse @ side.T + scale * np.outer(step, step)
    assert newton.add(steps, changes, count, step, last, last - B @ step) == count == 3
    g = random.normal(size=5)
    expected = inverse @ g
    newton.direct(np.diag(np.sqrt(np.diag(B))), steps, changes, count, g)
    np.testing.assert_allclose(g, expected, rtol=1e-9)
