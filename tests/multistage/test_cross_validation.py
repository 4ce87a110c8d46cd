"""Designs measured out-of-fold: each record by classifiers fitted on the other folds."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from algorithms.moves.bits import unpack
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.multistage.problem import MultiStageProblem
from framework.cli.main import main
from framework.data.datasets import load_table
from framework.models.store import load_model
from tests import oracles
from tests.command import small, write
from tests.multistage.data import COSTS, FOLDS, NAMES, config_of, genomes, parts_of, problem_of

SKLEARN = {
    "logistic_regression": LogisticRegression(C=1.0, tol=1e-11, max_iter=10_000),
    "gaussian_nb": GaussianNB(),
}
pytestmark = pytest.mark.usefixtures("cache")


def pipeline(kind, features):
    """Return scikit-learn's own encoder of some features, and classifier."""
    numbers = [name for name in features if name != "colour"]
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (
            OneHotEncoder(categories=[["blue", "green", "red"]], handle_unknown="ignore"),
            [name for name in features if name == "colour"],
        ),
        sparse_threshold=0.0,
    )
    return make_pipeline(encoder, clone(SKLEARN[kind]))


def probabilities_of(config, kind, features):
    """Return what scikit-learn says of each record out-of-fold, one repeat after the other."""
    table, pooled, _, fold_of = parts_of(config)
    frame = table.features[list(features)]
    found = []
    for numbers in fold_of:
        P = np.zeros((len(pooled), len(table.classes)))
        for fold in range(numbers.max() + 1):
            others, own = pooled[numbers != fold], pooled[numbers == fold]
            fitted = pipeline(kind, features).fit(frame.iloc[others], table.labels[others])
            P[numbers == fold] = fitted.predict_proba(frame.iloc[own])
        found.append(P)
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("kind", "more", "repeats"),
    [
        ("logistic_regression", {}, 1),
        pytest.param("logistic_regression", {"remove_features": True}, 2, marks=pytest.mark.slow),
        pytest.param("gaussian_nb", {"positive": "high"}, 1, marks=pytest.mark.slow),
    ],
)
def test_metrics_are_those_of_a_plain_loop_over_folds(table_file, kind, more, repeats):
    measure = {**FOLDS, "repeats": repeats}
    config = config_of(table_file, classifier={"kind": kind}, measure=measure, **more)
    problem = MultiStageProblem.from_config(config)
    table, pooled, _, fold_of = parts_of(config)
    truth = np.tile(table.labels[pooled], len(fold_of)).tolist()
    X = genomes(problem, 4)
    measured = problem.evaluate(X)
    positive = -1 if table.positive is None else table.positive
    for i, x in enumerate(X):
        probabilities = {
            features: probabilities_of(config, kind, [NAMES[f] for f in sorted(features)])
            for features in oracles.feature_sets(x.tolist())
        }
        costs = [Fraction(str(COSTS[name])) for name in NAMES]
        want = oracles.cascade(x.tolist(), probabilities, truth, [0.7] * 3, costs, positive)
        for name in problem.metric_names:
            assert measured[name][i] == pytest.approx(float(want[name]), abs=1e-15), name


@pytest.mark.quick(1)
@pytest.mark.parametrize("split", [{}, {"train": 0.6, "validation": 0.4, "test": 0.0}])
@pytest.mark.parametrize("kind", ["logistic_regression", "gaussian_nb"])
def test_the_model_is_fitted_on_all_records_of_the_folds(table_file, kind, split):
    config = config_of(table_file, classifier={"kind": kind}, measure=FOLDS, split=split)
    problem = MultiStageProblem.from_config(config)
    table, pooled, _, _ = parts_of(config)
    X = genomes(problem, 4)
    problem.evaluate(X)
    for x in X:
        model = problem.decode(x)
        for j, features in enumerate(oracles.feature_sets(x.tolist())):
            names = [NAMES[f] for f in sorted(features)]
            want = pipeline(kind, names).fit(
                table.features[names].iloc[pooled], table.labels[pooled]
            )
            encoded = model.encoder_.transform_features(table.features, sorted(features))
            found = model.classifiers_[j].predict_proba(encoded)
            assert np.allclose(found, want.predict_proba(table.features[names]), atol=1e-7)


@pytest.mark.slow
def test_where_records_leave_is_out_of_fold_too(table_file):
    problem = problem_of(table_file, measure=FOLDS, calibration="sigmoid")
    X = genomes(problem, 4)
    measured = problem.evaluate(X)
    for i, x in enumerate(X):
        walk = problem.walk(problem.decode(x))
        answered = sum(stage.leaving for stage in walk.stages)
        assert walk.measured == f"out-of-fold on {walk.records} records"
        assert answered / walk.records == measured["coverage"][i]
        right = sum(stage.right for stage in walk.stages)
        assert right / answered == measured["accuracy"][i]
        assert set(walk.confusions) == {"validation", "test"}


def test_measures_share_no_cache(table_file, cache):
    measures = [{"kind": "holdout"}, FOLDS, {**FOLDS, "folds": 5}, {**FOLDS, "repeats": 2}]
    fresh, again = [], []
    for values in (fresh, again):
        for measure in measures:
            problem = problem_of(table_file, measure=measure)
            values.append(problem.evaluate(genomes(problem))["accuracy"].tolist())
    assert fresh == again
    assert len({tuple(row) for row in fresh}) == len(measures)
    assert len(list(cache.glob("*.bin"))) == len(measures)


def test_the_description_says_what_values_are_of(table_file):
    about = problem_of(table_file, measure={**FOLDS, "repeats": 2}).describe()
    assert about["measured"] == f"out-of-fold on {about['out_of_fold']} records"
    assert about["measure"] == "cross-validation, 4 folds, 2 times"
    assert about["out_of_fold"] + about["test"] == about["records"]
    holdout = problem_of(table_file).describe()
    assert "measured" not in holdout
    assert about["test"] == holdout["test"]  # the same records, for comparison


def test_importance_costs_are_one_for_all_folds(table_file):
    problem = problem_of(table_file, measure=FOLDS, costs={"by_importance": 3})
    holdout = problem_of(table_file, costs={"by_importance": 3})
    assert problem.costs.shape == holdout.costs.shape
    assert sorted(problem.costs.tolist()) == sorted(holdout.costs.tolist())


def with_column(table_file, tmp_path, name, values):
    """Write the table with one more column; return its file."""
    frame = pd.read_csv(table_file)
    frame[name] = values(len(frame))
    path = tmp_path / f"with_{name}.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("calibration", ["none", "isotonic"])
def test_what_a_fold_is_answered_with_knows_nothing_of_it(table_file, tmp_path, calibration):
    """Scales, medians, categories, curves and classifiers are fitted on the other folds alone."""
    plain = with_column(table_file, tmp_path, "block", lambda n: np.arange(n) % 4)
    frame = pd.read_csv(plain)
    changed = frame.copy()
    mine = np.flatnonzero(frame["block"] == 1)
    kept, others = mine[:20], mine[20:]
    for name in ("a", "b", "c"):
        changed.loc[others, name] = 1e3 * np.arange(len(others))
    changed.loc[others, "colour"] = "violet"
    changed.loc[others, "label"] = np.roll(frame["label"].to_numpy()[others], 1)
    changed.to_csv(tmp_path / "changed.csv", index=False)
    found = []
    for path in (plain, tmp_path / "changed.csv"):
        split = {"part": "part", "fold": "block"}
        part = pd.read_csv(path).assign(part="train")
        part.to_csv(path, index=False)
        problem = problem_of(path, split=split, measure=FOLDS, calibration=calibration)
        keys = problem.missing_components(genomes(problem, 6))
        built = problem.build_components(keys)
        order = np.argsort(built.keys[:, 0])
        n = problem.data.n_validation
        found.append(unpack(built.bits[order], n)[:, 0, :])  # who has an answer
    assert np.array_equal(found[0][:, kept], found[1][:, kept])
    rest = np.flatnonzero(frame["block"] != 1)
    assert not np.array_equal(found[0][:, rest], found[1][:, rest])  # they learn from that fold


@pytest.mark.parametrize("split", [{"group": "who"}, {"time": "who"}])
def test_columns_that_divide_are_no_features(table_file, tmp_path, split):
    path = with_column(table_file, tmp_path, "who", lambda n: np.arange(n) // 3)
    problem = problem_of(path, split=split, measure=FOLDS)
    assert problem.feature_names == tuple(NAMES)
    model = problem.decode(genomes(problem, 1)[0])
    frame = load_table(config_of(table_file).dataset).features
    assert len(model.predict(frame)) == len(frame)
    data = problem.data
    if "group" in split:
        assert data.units.max() + 1 < data.n_validation == len(data.y)
        assert problem.describe()["measure"] == "cross-validation, 4 folds, by group 'who'"
    else:
        assert data.n_validation < len(data.y)  # those of the first window are not measured
        about = problem.describe()
        assert about["measure"] == "cross-validation, 4 folds, by time 'who' in growing windows"
        assert about["out_of_fold"] + about["train"] + about["test"] == about["records"]
    other = problem_of(
        with_column(table_file, tmp_path, "who", lambda n: np.arange(n) // 4 % 9),
        split={"group": "who"},
        measure=FOLDS,
    )
    assert other.fingerprint != problem.fingerprint


def test_a_fold_that_fails_is_named(table_file):
    problem = problem_of(table_file, measure=FOLDS, classifier={"kind": "gaussian_nb"})
    key = problem.missing_components(genomes(problem, 1))[:1]
    broken = problem.data.folds[1].data
    object.__setattr__(broken, "held", np.full(broken.held.shape, np.nan))
    found = problem.build_components(key)
    assert found.errors[0].startswith("fold 2: ValueError: ")
    assert not found.bits.any()
    assert found.models == [b""]


# --- the command and the estimator ---------------------------------------------------------------


def run(folder, name, table_file, *more):
    dataset = {"path": str(table_file), "target": "label"}
    config = small(
        problem={"kind": "multistage", "dataset": dataset, "measure": FOLDS},
        algorithm={"kind": "local_search", "batch": 10},
        budget={"evaluations": 120},
    )
    write(folder / "folds.yaml", config)
    out = folder / name
    assert main(["run", str(folder / "folds.yaml"), "--out", str(out), "--quiet", *more]) == 0
    return out


@pytest.mark.slow
def test_a_run_says_so_everywhere_and_goes_on_to_the_same_bytes(table_file, tmp_path, capsys):
    out = run(tmp_path, "whole", table_file)
    capsys.readouterr()
    assert main(["check", str(tmp_path / "folds.yaml")]) == 0
    said = capsys.readouterr().out
    assert "248 out-of-fold, 82 test" in said
    assert "out-of-fold on 248 records (cross-validation, 4 folds)" in said
    assert main(["choose", str(out)]) == 0
    assert "out-of-fold on 248 records" in capsys.readouterr().out
    readme = (out / "model" / "README.md").read_text()
    assert "Of 248 out-of-fold records" in readme
    assert "validation" not in readme.replace("cross-validation", "")
    page = (out / "report.html").read_text()
    assert "out-of-fold on 248 records" in page
    assert "on validation records" not in page
    assert load_model(out / "model").classes_.tolist() == ["high", "low", "middle"]
    about = json.loads((out / "about.json").read_text())
    assert about["data"]["measured"] == "out-of-fold on 248 records"
    part = run(tmp_path, "part", table_file, "--no-plots", "--set", "budget.evaluations=50")
    again = ["resume", str(part), "--set", "budget.evaluations=120", "--quiet", "--no-plots"]
    assert main(again) == 0
    assert (part / "front.csv").read_bytes() == (out / "front.csv").read_bytes()


def test_copies_of_a_record_are_in_one_fold(table_file):
    """Weights count as often; no classifier answers a copy of a record that it was fitted on."""
    frame = load_table(config_of(table_file).dataset).features
    X, y = frame[["a", "b", "c"]].fillna(0.0), (frame["a"] + frame["c"] > 0).to_numpy()
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    search = ParetoMultiStage(measure="cross_validation", budget=30)
    search.fit(X, y, sample_weight=weights)
    data = search.problem_.data
    assert data.n_validation == weights.sum()
    record = np.repeat(np.arange(len(X)), weights)
    folds = [set(record[fold.rows]) for fold in data.folds]
    assert sum(map(len, folds)) == len(X)
    for fold in data.folds:
        assert not set(fold.data.copy_of.tolist()) & set(record[fold.rows].tolist())


def test_classifiers_of_all_records_are_fitted_for_the_designs_that_are_asked_for(
    table_file, monkeypatch
):
    fits, plain = [], GaussianNB.fit

    def fit(self, X, y, **weights):
        fits.append(len(X))
        return plain(self, X, y, **weights)

    monkeypatch.setattr(GaussianNB, "fit", fit)
    problem = problem_of(table_file, measure=FOLDS, classifier={"kind": "gaussian_nb"})
    X, n = genomes(problem, 30), len(problem.data.y)
    problem.evaluate(X)
    assert fits
    assert n not in fits
    problem.evaluate_test(X[:2])
    sets = {f for x in X[:2].tolist() for f in oracles.feature_sets(x)}
    assert fits.count(n) == len(sets)
    problem.evaluate_test(X[:2])
    problem.decode(X[1])
    assert fits.count(n) == len(sets)
