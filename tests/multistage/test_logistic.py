"""The logistic kernel against scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.kernels import binary, logistic, starts, sums
from algorithms.multistage.records import StageData, with_intercept
from algorithms.multistage.stage_classifiers import Recipe, train
from framework.arrays import frozen


def table(seed, classes, n=80, numeric=3, levels=(3, 2)):
    """Return encoded columns (some one-hot ones among them), those of each feature and labels."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n) for _ in range(numeric)]
    of_feature = [[i] for i in range(numeric)]
    for count in levels:
        code = rng.integers(count, size=n)
        of_feature.append(list(range(len(columns), len(columns) + count)))
        columns += [(code == level).astype(float) for level in range(count)]
    X = np.column_stack(columns)
    score = X @ rng.normal(size=X.shape[1]) + rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    return X, of_feature, y.astype(np.int64)


def fit(X, y, classes, C, weights=None, start=0.0):
    S = np.ascontiguousarray(np.column_stack([X, np.ones(len(X))]).T)
    basis = logistic.class_basis(classes)
    theta = np.zeros((basis.shape[1], len(S))) + start
    weights = np.ones(len(y)) if weights is None else weights
    converged = logistic.fit(S, frozen(y), frozen(weights), basis, C, theta)
    P = np.empty((classes, len(X)))
    logistic.probabilities(S, theta, basis, P)
    return converged, theta, P.T


def gradient(X, y, theta, classes, C):
    """Return the gradient of C * sum of log losses + |W|^2 / 2 in all K class weights."""
    basis = logistic.class_basis(classes)
    S = np.column_stack([X, np.ones(len(X))])
    logits = S @ (basis @ theta).T
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    penalty = theta.copy()
    penalty[:, -1] = 0.0
    return C * basis.T @ (P - np.eye(classes)[y]).T @ S + penalty


def theirs(X, y, C, weights=None):
    solver = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=10_000)
    return solver.fit(X, y, sample_weight=weights)


@given(st.integers(0, 10_000), st.sampled_from([2, 3]), st.sampled_from([0.01, 1.0, 50.0]))
def test_probabilities_are_scikit_learns(seed, classes, C):
    X, _, y = table(seed, classes)
    converged, theta, P = fit(X, y, classes, C)
    assert converged
    assert np.abs(gradient(X, y, theta, classes, C)).max() < 2e-9
    assert np.abs(P - theirs(X, y, C).predict_proba(X)).max() < 1e-6
    weights = np.random.default_rng(seed).uniform(0.1, 5.0, len(y))
    converged, _, P = fit(X, y, classes, C, weights)
    assert converged
    assert np.abs(P - theirs(X, y, C, weights).predict_proba(X)).max() < 1e-6


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [1e4, 1e6])
def test_separable_classes(classes, C):
    X, _, _ = table(4, classes)
    y = np.searchsorted(np.arange(1, classes) - 1.0, X[:, 0]).astype(np.int64)
    converged, theta, P = fit(X, y, classes, C)
    assert converged
    assert np.abs(gradient(X, y, theta, classes, C)).max() < 1e-6  # rounding grows with C
    assert np.array_equal(P.argmax(axis=1), y)


@pytest.mark.parametrize("classes", [2, 3])
def test_constant_columns_get_no_weight_and_collinear_ones_do_no_harm(classes):
    X, _, y = table(5, classes)
    X[:, 1] = 0.0
    X = np.column_stack([X, X[:, 0], -X[:, 0]])
    converged, theta, P = fit(X, y, classes, 1.0)
    assert converged
    assert (theta[:, 1] == 0.0).all()
    assert np.abs(P - theirs(X, y, 1.0).predict_proba(X)).max() < 1e-6


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=20))
@example([0.0, -700.0, 700.0, 0.34657359, -0.34657359])
def test_exponential(values):
    x = np.array(values)
    want = np.exp(x)
    sums.exponential(x, np.empty(len(x)))
    assert np.allclose(x, want, rtol=1e-15 * 4, atol=0)


@settings(max_examples=15)
@given(
    st.integers(0, 1000),
    st.sampled_from([2, 3]),
    st.lists(st.integers(1, 31), min_size=1, max_size=6),
    st.integers(1, 70),
    st.sampled_from([0.0, 1.0, 1e3]),
)
def test_subsets_are_fitted_and_scored_each_alone(seed, classes, sets, n_validation, scale):
    X, of_feature, y = table(seed, classes, n=150)
    train, held = slice(0, 80), slice(80, 150)
    first = np.cumsum([0, *map(len, of_feature)])
    thresholds = np.linspace(0.4, 0.8, classes)
    basis = logistic.class_basis(classes)
    words = -(-n_validation // 64), -(-(70 - n_validation) // 64)
    bits = np.zeros((len(sets), 3, sum(words)), dtype=np.uint64)
    models = np.zeros((len(sets), classes - 1, X.shape[1] + 1))
    theta = scale * np.random.default_rng(seed).normal(size=models.shape[1:])
    ones = frozen(np.ones(len(y[train])))
    S = with_intercept(X[train].T)
    products = starts.mean_products(S, ones) if seed % 2 else np.empty((0, 0))
    start = starts.Start(
        *map(frozen, (theta, products, theta @ products if seed % 2 else products))
    )
    records = logistic.with_part(S, y[train], ones)
    training = logistic.Fit(*records, frozen(first), basis, 1.0, start)
    unseen = frozen(with_intercept(X[held].T)), frozen(y[held])  # types as in a search
    scored = logistic.HeldOut(*unseen, n_validation, frozen(thresholds), 1, 1e-9)
    keys = np.array(sets, dtype=np.uint64)[:, None]
    ready = np.zeros(len(sets), dtype=bool)
    assert not logistic.fit_subsets(keys, training, scored, bits, models, ready).any()
    answers, again = np.zeros_like(bits), models.copy()  # of fits that are there
    assert not logistic.fit_subsets(keys, training, scored, answers, again, ~ready).any()
    assert (answers == bits).all()
    assert (again == models).all()
    shared, threaded = np.zeros_like(bits), np.zeros_like(models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "3")
        assert not logistic.fit_subsets(keys, training, scored, shared, threaded, ready).any()
    assert (shared == bits).all()
    assert (threaded == models).all()
    for i, members in enumerate(sets):
        columns = np.concatenate([of_feature[f] for f in range(5) if members >> f & 1])
        P = theirs(X[train][:, columns], y[train], 1.0).predict_proba(X[held][:, columns])
        second, best = np.sort(P, axis=1)[:, -2:].T
        margin = np.minimum(np.abs(best - thresholds[P.argmax(axis=1)]), best - second)
        if margin.min() < 1e-6:
            continue  # too near to call for scikit-learn's tolerance
        sure = P.max(axis=1) >= thresholds[P.argmax(axis=1)]
        planes = [sure, sure & (P.argmax(axis=1) == y[held]), sure & (P.argmax(axis=1) == 1)]
        for plane, want in enumerate(planes):
            assert unpacked(bits[i, plane], n_validation, 70).tolist() == want.tolist()
        outside = np.setdiff1d(np.arange(X.shape[1]), columns)
        assert (models[i][:, outside] == 0.0).all()


def unpacked(words, cut, n):
    """Return the bits of the validation records, then those of the test records."""
    flat = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
    test_from = -(-cut // 64) * 64
    return np.concatenate([flat[:cut], flat[test_from : test_from + n - cut]])


@pytest.mark.parametrize("classes", [2, 3])
def test_large_c_on_many_records(classes):
    """The gradient cannot be computed to 1e-9 there; as near to zero as rounding lets it is."""
    X, _, y = table(1, classes, n=3000)
    converged, theta, P = fit(X, y, classes, 1e6)
    assert converged
    assert np.abs(gradient(X, y, theta, classes, 1e6)).max() < 1e-5
    assert np.abs(P - theirs(X, y, 1e6).predict_proba(X)).max() < 1e-6


@given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 30.0]), st.floats(0.0, 100.0))
def test_where_a_fit_starts_does_not_matter(seed, C, scale):
    X, _, y = table(seed, 2)
    start = scale * np.random.default_rng(seed).normal(size=(1, X.shape[1] + 1))
    (cold_ends, cold, _), (warm_ends, warm, _) = (fit(X, y, 2, C, start=s) for s in (0.0, start))
    assert cold_ends
    assert warm_ends
    assert np.abs(gradient(X, y, warm, 2, C)).max() < 2e-9
    assert np.abs(warm - cold).max() < 1e-7


@given(st.integers(0, 10_000), st.integers(1, 11), st.integers(1, 40))
def test_blocked_sums_are_sums(seed, d, n):
    rng = np.random.default_rng(seed)
    S, t, theta = rng.normal(size=(d, n)), rng.normal(size=n), rng.normal(size=d)
    out, z = np.full(d, np.nan), np.full(n, np.nan)
    for count in range(d + 1):
        sums.dots(t, S, np.arange(d), count, out, 0)
        np.testing.assert_allclose(out[:count], S[:count] @ t, atol=1e-12)
    sums.combine(S, np.arange(d), theta, z, 0)
    np.testing.assert_allclose(z, theta @ S, atol=1e-12)
    P = np.empty((2, n))
    binary.binary_probabilities(S, np.arange(d), 20.0 * theta, P, 0)
    expected = 1.0 / (1.0 + np.exp(-20.0 * (theta @ S)))
    np.testing.assert_allclose(P[1], expected, rtol=1e-12)
    np.testing.assert_allclose(P[0], 1.0 / (1.0 + np.exp(20.0 * (theta @ S))), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_part_does_not_depend_on_the_parts_beside_it(classes):
    """Bit for bit, though fits start from one on all columns."""
    X, _, y = table(7, classes, n=150)
    data = stage_data(X, y, classes)
    keys = np.arange(1, 32, dtype=np.uint64)[:, None]
    together = train(data, Recipe("logistic_regression", {}), keys)
    for i in (0, 11, 30):
        fresh = stage_data(X, y, classes)
        alone = train(fresh, Recipe("logistic_regression", {}), keys[i : i + 1])
        assert alone.models[0] == together.models[i]
        assert np.array_equal(alone.bits[0], together.bits[i])


def stage_data(X, y, classes):
    """Return records of five features, 80 to train on and 70 held."""
    return StageData(
        design=with_intercept(X[:80, :5].T),
        y=y[:80],
        held=with_intercept(X[80:, :5].T),
        y_held=y[80:],
        n_validation=40,
        first=np.arange(6),
        thresholds=np.full(classes, 0.6),
        positive=-1,
    )


def test_a_fit_that_fails_says_so():
    X, _, y = table(1, 2)
    X[0, 0] = np.nan
    converged, _, _ = fit(X, y, 2, 1.0)
    assert not converged


@pytest.mark.parametrize("classes", [2, 3])
def test_records_without_weight_tell_nothing(classes):
    X, _, y = table(7, classes, n=150)
    data = replace(stage_data(X, y, classes), sample_weights=np.zeros(80))
    trained = train(data, Recipe("logistic_regression", {}), np.array([[7]], dtype=np.uint64))
    assert not trained.errors
    assert not np.frombuffer(trained.models[0]).any()
