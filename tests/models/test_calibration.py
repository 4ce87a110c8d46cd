"""Calibration: fitted without leaks, the same as scikit-learn's, stored as plain numbers."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit
from sklearn.naive_bayes import GaussianNB

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.kernels.logistic import class_basis, out_of_fold
from algorithms.multistage.problem import MultiStageProblem
from framework.arrays import frozen
from framework.data.datasets import load_table
from framework.data.splits import split_records
from framework.errors import InputError
from framework.models.calibration import (
    CalibratedProbability,
    Calibration,
    fit_calibration,
    folds_of,
    join,
    split,
)
from framework.models.store import load_model, save_model
from framework.streams import CandidateStreams
from tests.conftest import covering
from tests.trust.forging import seal


def records(n=300, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = X @ rng.normal(size=(3, classes)) + rng.gumbel(size=(n, classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("classes", [2, 3])
def test_isotonic_is_that_of_scikit_learn(classes):
    """On the same folds, with one classifier on all records behind it (``ensemble=False``)."""
    X, y = records(classes=classes)
    base, folds = GaussianNB(), folds_of(y)  # it has probabilities alone, which both then map
    how = {"method": "isotonic", "cv": PredefinedSplit(folds), "ensemble": False}
    theirs = CalibratedClassifierCV(base, **how).fit(X, y)
    P = np.empty((len(y), classes))
    for fold in range(5):
        base.fit(X[folds != fold], y[folds != fold])
        P[folds == fold] = base.predict_proba(X[folds == fold])
    calibration = fit_calibration("isotonic", P, y)
    ours = CalibratedProbability(base.fit(X, y), calibration, np.arange(classes))
    new, _ = records(seed=1)
    assert np.allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_out_of_fold_probabilities_are_those_of_fits_on_the_other_folds(classes):
    X, y = records(classes=classes)
    folds = folds_of(y)
    S, P = np.vstack([X.T, np.ones(len(X))]), np.empty((classes, len(y)))
    assert out_of_fold(S, frozen(y), frozen(np.ones(len(y))), folds, class_basis(classes), 2.0, P)
    for fold in range(5):
        model = LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12)
        model.fit(X[folds != fold], y[folds != fold])
        want = model.predict_proba(X[folds == fold])
        assert np.allclose(P[:, folds == fold].T, want, atol=1e-7)


def test_sigmoid_minimises_platts_loss():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < 0.5 + 0.4 * (p - 0.5)).astype(np.int64)
    (curve,) = fit_calibration("sigmoid", np.column_stack([1 - p, p]), y).curves
    hits = y.sum()
    target = np.where(y == 1, (hits + 1) / (hits + 2), 1 / (len(y) - hits + 2))
    z = np.log(p / (1 - p))

    def loss(w):
        t = w[0] * z + w[1]
        return (np.logaddexp(0, t) - target * t).sum()

    best = minimize(loss, [1.0, 0.0], tol=1e-12)
    assert loss(curve) <= best.fun + 1e-6
    assert np.allclose(curve, best.x, atol=1e-4)


def test_overconfident_probabilities_come_to_mean_what_they_say():
    rng = np.random.default_rng(0)
    honest = rng.random(4000)
    y = (rng.random(4000) < honest).astype(np.int64)
    z = 3 * np.log(honest / (1 - honest))
    loud = 1 / (1 + np.exp(-z))
    for method in ("isotonic", "sigmoid", "softmax"):
        mild = fit_calibration(method, np.column_stack([1 - loud, loud]), y)
        found = mild.apply(np.column_stack([1 - loud, loud]))[:, 1]
        assert np.abs(found - honest).mean() < 0.03 < np.abs(loud - honest).mean()


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2)), min_size=6, max_size=40))
def test_probabilities_stay_probabilities_and_survive_storing(pairs):
    y = np.array([0, 1, 2, *(c for _, c in pairs)])
    p = np.array([0.2, 0.3, 0.4, *(p for p, _ in pairs)])
    P = np.column_stack([p / 2, p / 2, 1 - p])
    for method in ("isotonic", "sigmoid", "softmax"):
        calibration = fit_calibration(method, P, y)
        found = calibration.apply(P)
        assert ((found >= 0) & (found <= 1)).all()
        assert np.allclose(found.sum(axis=1), 1)
        base, again = split(join(b"anything", calibration))
        assert base == b"anything"
        assert np.array_equal(again.apply(P), found)


@given(st.lists(st.integers(0, 3), min_size=8, max_size=60))
def test_folds_deal_every_class_out(labels):
    y = np.array([0, 0, 1, 1, *labels])
    if np.bincount(y)[np.unique(y)].min() < 2 or len(np.unique(y)) <= y.max():
        return
    folds = folds_of(y)
    for fold in range(folds.max() + 1):
        assert set(y[folds != fold]) == set(y)
        assert (folds == fold).any()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), min_size=4, max_size=80))
def test_units_of_several_classes_are_dealt_by_all_of_them(records):
    unit, y = map(np.array, zip(*records, strict=True))
    y = np.unique(y, return_inverse=True)[1]
    units_of = [len(np.unique(unit[y == c])) for c in range(y.max() + 1)]
    try:
        folds = folds_of(y, unit)
    except InputError:
        assert min(units_of) < 6  # with more, no unit is in the way of another
        return
    assert all(len(np.unique(folds[unit == u])) == 1 for u in unit)
    assert folds.max() < 5
    for c in range(y.max() + 1):
        assert len(np.unique(folds[y == c])) >= 2


@pytest.mark.parametrize("ill", [1, 2])
def test_the_first_record_of_a_group_does_not_speak_for_it(ill):
    y = np.tile([0, 1, 0, 1] if ill == 1 else [0, 1, 1, 1], 20)
    y[: 4 * 12] = 0  # of 20 groups eight have the class, never as their first record
    folds = folds_of(y, np.repeat(np.arange(20), 4))
    assert np.ptp(np.bincount(folds[y == 1], minlength=5)) <= np.sum(y[-4:])
    assert np.ptp(np.bincount(folds[::4])) == 0


def test_units_that_are_in_each_others_way_take_another_number_of_folds():
    unit, y = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 0, 2])
    assert sorted(folds_of(y, unit)[::2]) == [0, 1, 2]


def test_a_class_of_one_group_is_refused():
    with pytest.raises(InputError, match="at least 2 groups or distinct training records"):
        folds_of(np.array([0, 1, 1, 0]), np.array([0, 1, 1, 2]))


def test_a_class_of_one_record_is_refused():
    with pytest.raises(InputError, match="at least 2 training records of each class"):
        folds_of(np.array([0, 0, 1]))


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"method": "none", "curves": [[1, 0]]},
        {"method": "sigmoid", "curves": []},
        {"method": "sigmoid", "curves": [[1, 0, 0]]},
        {"method": "softmax", "curves": [[[1, 0]]]},
        {"method": "isotonic", "curves": [[1, 0]]},
        {"method": "isotonic", "curves": [[[0.5, 0.2], [0, 1]]]},
        {"method": "isotonic", "curves": [[[0.5, float("nan")], [0, 1]]]},
    ],
)
def test_damaged_calibration_is_refused(plain):
    with pytest.raises(InputError, match="calibration: expected"):
        Calibration.from_json(plain)


# --- in the problem --------------------------------------------------------------------------


def config_of(method, kind="logistic_regression", classes=2):
    synthetic = {"samples": 400, "features": 5, "informative": 4, "classes": classes, "flip_y": 0.2}
    raw = {
        "dataset": {"synthetic": synthetic},
        "threshold": 0.7,
        "max_stages": 3,
        "classifier": {"kind": kind},
        "measure": {"kind": "holdout"},
        "calibration": method,
    }
    return MultiStageConfig.model_validate(raw)


def problem_of(method):
    return MultiStageProblem.from_config(config_of(method))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("method", "kind", "classes"),
    [
        *covering(["isotonic", "sigmoid", "softmax"], ["logistic_regression"], [2, 3]),
        *covering(["softmax", "isotonic", "sigmoid"], ["gaussian_nb"], [3]),
    ],
)
def test_an_exported_model_has_the_metrics_of_its_row_digit_for_digit(
    tmp_path, method, kind, classes
):
    config = config_of(method, kind, classes)
    problem = MultiStageProblem.from_config(config)
    X = problem.space.sample(np.random.default_rng(0), 5)
    measured = problem.evaluate(X, CandidateStreams(0, np.arange(5)))
    table = load_table(config.dataset)
    part = split_records(table.labels, config.split).validation
    frame, truth = table.features.iloc[part], table.labels[part]
    for i, x in enumerate(X):
        model = problem.decode(x)
        save_model(model, tmp_path / f"{i}")
        again = load_model(tmp_path / f"{i}")
        outcome = again.outcome(frame)
        sure = outcome.conclusive
        assert measured["coverage"][i] == sure.mean()
        right = (sure & (outcome.best == truth)).sum()
        assert measured["accuracy"][i] == right / max(sure.sum(), 1)
        pd.testing.assert_frame_equal(again.predict_table(frame), model.predict_table(frame))
        names = {path.suffix for path in (tmp_path / f"{i}").iterdir()}
        assert names <= {".json", ".npy", ".skops", ".md", ""}


def test_calibration_is_part_of_what_a_part_is():
    plain, isotonic, sigmoid = (problem_of(m) for m in ("none", "isotonic", "sigmoid"))
    assert len({p.components_fingerprint for p in (plain, isotonic, sigmoid)}) == 3
    assert len({p.fingerprint for p in (plain, isotonic, sigmoid)}) == 3


def test_validation_and_test_records_have_no_part_in_it():
    """Other labels there leave every model as it was."""
    problem = problem_of("isotonic")
    keys = np.array([[1], [7], [31]], dtype=np.uint64)
    before = problem.build_components(keys).models
    held = np.array(problem.data.y_held)
    object.__setattr__(problem.data, "y_held", 1 - held)
    assert problem.build_components(keys).models == before


def test_a_calibrated_file_that_is_damaged_is_refused(tmp_path):
    problem = problem_of("sigmoid")
    folder = tmp_path / "m"
    save_model(problem.decode(np.array([0, 0, 0, 1, 1], dtype=problem.space.dtype)), folder)
    file = folder / "stage_2.calibrated.json"
    plain = json.loads(file.read_text())

    three = {"method": "sigmoid", "curves": [[1, 0]] * 3}
    for text, sentence in (
        (json.dumps(plain | {"base": "../other.npy"}), "expected a file name"),
        (json.dumps(plain | {"base": file.name}), "expected another file"),
        ("{", "expected JSON"),
        (json.dumps(plain | {"calibration": three}), "expected 1 curves"),
    ):
        file.write_text(text)
        seal(folder)
        with pytest.raises(InputError, match=sentence):
            load_model(folder)
