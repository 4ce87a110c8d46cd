"""The multi-stage problem: its numbers, its models, its cache, its failures."""

from __future__ import annotations

import pickle
import sqlite3
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from framework.config import check
from framework.data import load_table, split_records
from framework.errors import InputError
from framework.evaluator import evaluate_rows
from framework.problem import Parts
from framework.problems.stages import MultiStageConfig, MultiStageProblem
from tests import oracles

COSTS = {"a": 0.1, "b": 3, "c": 2.5, "colour": 7, "d": 0}
NAMES = list(COSTS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PARETOLAB_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def table_file(tmp_path_factory):
    """Write a table of three classes, with categories and missing values."""
    rng = np.random.default_rng(0)
    n = 330
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    frame["d"] = rng.normal(size=n)
    score = frame["a"] + frame["b"] + (frame["colour"] == "red") + 0.5 * rng.normal(size=n)
    frame["label"] = np.where(score < -0.5, "low", np.where(score < 1, "middle", "high"))
    frame.loc[::11, "b"] = np.nan
    frame.loc[::13, "colour"] = None
    path = tmp_path_factory.mktemp("data") / "made_up.csv"
    frame.to_csv(path, index=False)
    return path


def config_of(table_file, **more):
    raw = {
        "dataset": {"path": str(table_file), "target": "label"},
        "costs": {"values": COSTS},
        "threshold": 0.7,
        "max_stages": 4,
        **more,
    }
    return check(MultiStageConfig, raw, "problem")


def problem_of(table_file, **more):
    return MultiStageProblem.from_config(config_of(table_file, **more))


def genomes(problem, size=12):
    return problem.space.sample(np.random.default_rng(1), size)


# --- what the numbers mean ------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    [
        {"kind": "logistic_regression", "C": 2.0},
        {"kind": "random_forest", "n_estimators": 7},
        {"kind": "gaussian_nb"},
    ],
    ids=lambda section: section["kind"],
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"threshold": {"high": 0.9, "low": 0.6}, "remove_features": True},
        {"dataset": {"positive": "high"}},
    ],
    ids=["plain", "thresholds by class", "positive class"],
)
def test_a_decoded_model_has_the_metrics_of_its_row_digit_for_digit(table_file, classifier, more):
    dataset = {"path": str(table_file), "target": "label", **more.get("dataset", {})}
    config = config_of(table_file, **{**more, "dataset": dataset}, classifier=classifier)
    problem = MultiStageProblem.from_config(config)
    table = load_table(config.dataset)
    split = split_records(table.labels, config.split)
    X = genomes(problem, 6)
    for part, measured in (
        (split.validation, problem.evaluate(X)),
        (split.test, problem.evaluate_test(X)),
    ):
        records, truth = table.features.iloc[part], table.labels[part]
        for i, x in enumerate(X):
            want = measures_of(problem.decode(x), records, truth, x, table.positive)
            for name in problem.metrics:
                assert measured[name][i] == float(want[name]), name


def measures_of(model, records, truth, x, positive):
    """Count, on raw records, what the model does."""
    outcome = model.outcome(records)
    costs = [Fraction(str(COSTS[name])) for name in NAMES]
    paid = [
        sum((c for c, s in zip(costs, x, strict=True) if 0 <= s <= stage), Fraction(0))
        for stage in outcome.stage
    ]
    sure, n = outcome.conclusive, len(records)
    negatives = (sure & (truth != positive)).sum()
    false = (sure & (truth != positive) & (outcome.best == positive)).sum()
    return {
        "coverage": Fraction(int(sure.sum()), n),
        "accuracy": Fraction(int((sure & (outcome.best == truth)).sum()), max(int(sure.sum()), 1)),
        "cost": sum(paid, Fraction(0)) / n,
        "stages": Fraction(len(model.stages_)),
        "inconclusive_rate": Fraction(int((~sure).sum()), n),
        "false_positive_rate": Fraction(int(false), max(int(negatives), 1)),
    }


def test_metrics_are_those_of_records_sent_one_by_one(table_file):
    """From the probabilities of each stage's classifier, by the slow twin."""
    config = config_of(table_file)
    problem = MultiStageProblem.from_config(config)
    table = load_table(config.dataset)
    part = split_records(table.labels, config.split).validation
    X = genomes(problem)
    measured = problem.evaluate(X)
    for i, x in enumerate(X):
        model = problem.decode(x)
        probabilities = {}
        for j, features in enumerate(oracles.feature_sets(x.tolist())):
            encoded = model.encoder_.transform_features(table.features.iloc[part], sorted(features))
            probabilities[features] = model.classifiers_[j].predict_proba(encoded)
        want = oracles.cascade(
            x.tolist(), probabilities, table.labels[part].tolist(), [0.7] * 3,
            [Fraction(str(COSTS[name])) for name in NAMES], -1,
        )  # fmt: skip
        for name in problem.metrics:
            assert measured[name][i] == float(want[name]), name


def test_accuracy_is_0_where_nothing_is_conclusive(table_file):
    problem = problem_of(table_file, threshold=1.0, dataset={
        "path": str(table_file), "target": "label", "positive": "high"
    })  # fmt: skip
    X = np.array([[0, 1, -1, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int8)[1:]
    values = problem.evaluate(X)
    assert values["coverage"].tolist() == [0.0]
    assert values["accuracy"].tolist() == [0.0]
    assert values["false_positive_rate"].tolist() == [0.0]
    assert values["inconclusive_rate"].tolist() == [1.0]
    assert values["cost"].tolist() == [12.6]


def test_without_test_records_there_are_no_test_metrics(table_file):
    split = {"train": 0.6, "validation": 0.4, "test": 0.0}
    problem = problem_of(table_file, split=split)
    assert problem.evaluate_test(genomes(problem)) is None
    assert np.isfinite(problem.evaluate(genomes(problem))["cost"]).all()


def test_two_classes_have_a_false_positive_rate_and_three_without_a_positive_one_have_not(
    table_file,
):
    three = problem_of(table_file)
    two = problem_of(table_file, dataset={"sklearn": "breast_cancer"}, costs=None)
    assert "false_positive_rate" not in three.metrics
    assert "false_positive_rate" in two.metrics


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 0, 0, 0]], "shape"),
        ([[0, 1, 2, 3, 4]], "stages from 0 to 3, found 0 to 4"),
        ([[0, -1, 0, 0, 0]], "stages from 0 to 3, found -1 to 0"),
    ],
)
def test_genomes_of_another_space_are_refused(table_file, X, message):
    with pytest.raises(ValueError, match=message):
        problem_of(table_file).evaluate(np.array(X))


# --- parts: each is built once, for all -----------------------------------------------------


def counting(monkeypatch):
    """Count the feature sets that are trained from now on."""
    built = []
    train = MultiStageProblem.build_parts

    def build(self, keys):
        built.extend(key.tobytes() for key in keys)
        return train(self, keys)

    monkeypatch.setattr(MultiStageProblem, "build_parts", build)
    return built


def test_each_sub_classifier_is_trained_once(table_file, monkeypatch):
    built = counting(monkeypatch)
    problem = problem_of(table_file)
    X = genomes(problem, 30)
    for start in range(0, 30, 10):
        problem.evaluate(X[start : start + 10])
    problem.evaluate_test(X)
    problem.decode(X[3])
    needed = {f for x in X.tolist() for f in oracles.feature_sets(x)}
    assert len(built) == len(set(built)) == len(needed)


@pytest.mark.parametrize("kind", ["logistic_regression", "gaussian_nb"])
def test_a_reopened_cache_trains_nothing(table_file, monkeypatch, kind):
    first = problem_of(table_file, classifier={"kind": kind})
    X = genomes(first)
    before, before_test = first.evaluate(X), first.evaluate_test(X)
    built = counting(monkeypatch)
    again = problem_of(table_file, classifier={"kind": kind})
    after, after_test = again.evaluate(X), again.evaluate_test(X)
    records = load_table(config_of(table_file).dataset).features
    assert np.array_equal(again.decode(X[0]).predict(records), first.decode(X[0]).predict(records))
    assert built == []
    for name in first.metrics:
        assert np.array_equal(before[name], after[name])
        assert np.array_equal(before_test[name], after_test[name])


@pytest.mark.parametrize(
    "more",
    [
        {"threshold": 0.71},
        {"classifier": {"kind": "logistic_regression", "C": 1.5}},
        {"split": {"seed": 1}},
    ],
    ids=str,
)
def test_what_changes_a_sub_classifier_does_not_share_the_cache(table_file, monkeypatch, more):
    X = genomes(problem_of(table_file))
    problem_of(table_file).evaluate(X)
    built = counting(monkeypatch)
    problem_of(table_file, **more).evaluate(X)
    assert built


@pytest.mark.parametrize("more", [{"costs": None}, {"max_stages": 5}], ids=str)
def test_what_does_not_change_a_sub_classifier_shares_the_cache(table_file, monkeypatch, more):
    X = genomes(problem_of(table_file))
    problem_of(table_file).evaluate(X)
    built = counting(monkeypatch)
    problem_of(table_file, **more).evaluate(X)
    assert built == []


def test_caching_can_be_switched_off(table_file, monkeypatch, tmp_path):
    monkeypatch.setenv("PARETOLAB_CACHE", "off")
    problem = problem_of(table_file)
    problem.evaluate(genomes(problem))
    assert not (tmp_path / "cache").exists()


def _evaluate(arguments):
    path, start = arguments
    problem = problem_of(path)
    return problem.evaluate(genomes(problem, 60)[start : start + 40])["cost"].tolist()


def test_two_processes_share_a_cache_at_once(table_file, cache):
    want = problem_of(table_file).evaluate(genomes(problem_of(table_file), 60))["cost"].tolist()
    for file in cache.iterdir():
        file.unlink()
    with get_context("spawn").Pool(2) as pool:
        found = pool.map(_evaluate, [(table_file, 0), (table_file, 20)], chunksize=1)
    assert found == [want[:40], want[20:]]
    assert stored(cache) == problem_parts(table_file)


def stored(cache):
    (file,) = cache.glob("*.sqlite")
    with sqlite3.connect(file) as db:
        return db.execute("SELECT COUNT(*) FROM parts").fetchone()[0]


def problem_parts(table_file):
    problem = problem_of(table_file)
    return len({f for x in genomes(problem, 60).tolist() for f in oracles.feature_sets(x)})


@pytest.mark.parametrize("damage", ["garbage", "cut", "changed", "a folder"])
def test_a_damaged_cache_does_not_change_a_run(table_file, cache, damage):
    problem = problem_of(table_file)
    X = genomes(problem)
    want = problem.evaluate(X)
    problem._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    problem._store._db.close()
    (file,) = cache.glob("*.sqlite")
    content = file.read_bytes()
    if damage == "garbage":
        file.write_bytes(b"not a database" * 1000)
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        with sqlite3.connect(file) as db:
            db.execute("UPDATE parts SET bits = zeroblob(length(bits))")
    else:
        file.unlink()
        file.mkdir()
    again = problem_of(table_file)
    found = again.evaluate(X)
    for name in problem.metrics:
        assert np.array_equal(found[name], want[name])
    if damage == "changed":  # and is mended
        assert problem_of(table_file)._store.get(problem.parts_since(0).keys).bits.any()


def test_a_scorer_with_stripped_parts_gives_the_same_values(table_file):
    """What a Ray actor does: unpickle, take parts without models, score."""
    driver = problem_of(table_file)
    X = genomes(driver)
    want = driver.evaluate(X)
    worker = pickle.loads(pickle.dumps(driver))
    assert worker.n_parts == 0
    worker.add_parts(driver.parts_since(0))
    worker.build_parts = None  # it has all it needs
    for name in driver.metrics:
        assert np.array_equal(worker.evaluate(X)[name], want[name])
    with pytest.raises(ValueError, match="stripped"):
        worker.evaluate_test(X)


def test_a_problem_whose_arrays_cannot_be_written_works(table_file):
    """As they come out of Ray's object store."""
    driver = problem_of(table_file)
    buffers = []
    content = pickle.dumps(driver, protocol=5, buffer_callback=buffers.append)
    worker = pickle.loads(content, buffers=[bytes(b.raw()) for b in buffers])
    X = genomes(driver)
    for name in driver.metrics:
        assert np.array_equal(worker.evaluate(X)[name], driver.evaluate(X)[name])
        assert np.array_equal(worker.evaluate_test(X)[name], driver.evaluate_test(X)[name])


# --- failures -------------------------------------------------------------------------------


class Picky(ClassifierMixin, BaseEstimator):
    """A classifier that cannot be fitted on as many columns as it dislikes."""

    def __init__(self, dislikes=1):
        self.dislikes = dislikes

    def fit(self, X, y):
        if X.shape[1] == self.dislikes:
            raise ValueError(f"{X.shape[1]} columns are not to my liking")
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / len(y)
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1))


def picky(table_file, dislikes=1):
    kind = f"{Picky.__module__}.Picky"
    return problem_of(table_file, classifier={"kind": kind, "dislikes": dislikes})


def test_a_classifier_that_raises_fails_the_rows_that_need_it(table_file):
    problem = picky(table_file)
    X = np.array([[1, 0, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=np.int8)
    batch = evaluate_rows(problem, 0, np.arange(7, 10), X)
    why = "ValueError: 1 columns are not to my liking"
    assert dict(batch.errors) == {
        7: f"sub-classifier on b: {why}",
        9: f"sub-classifier on a: {why}",
    }
    assert np.isnan(batch.values["cost"]).tolist() == [True, False, True]


def test_failed_parts_are_not_kept_on_disk(table_file, cache):
    problem = picky(table_file)
    problem.evaluate(np.array([[1, 0, 1, 1, 1]], dtype=np.int8))
    assert stored(cache) == 1  # all five features; not the one on b


def test_a_failed_part_sent_by_the_evaluator_is_named_too(table_file):
    problem = problem_of(table_file)
    X = np.array([[1, 0, 1, 0, 1]], dtype=np.int8)
    keys = problem.missing_parts(X)  # the largest first
    problem.add_parts(problem.failed_parts(keys[1:], "its worker died"))
    batch = evaluate_rows(problem, 0, np.arange(1), X)
    assert batch.errors[0] == "sub-classifier on b, colour: its worker died"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"max_stages": 6}, "problem.max_stages: expected at most the 5 features of the data, "
                            "found 6"),
        ({"threshold": {"hihg": 0.9}}, "did you mean 'high'?"),
        ({"threshold": 1.5}, "above 0 and at most 1, found 1.5"),
        ({"threshold": 0}, "above 0 and at most 1, found 0"),
        ({"costs": {"values": {"a": 1}}}, "found none for 'b' and 3 more"),
        ({"costs": {"values": {**COSTS, "a": -1}}}, "costs.values.a: expected a number of at"),
        ({"classifier": {"kind": "random_forrest"}}, "did you mean 'random_forest'?"),
        ({"classifier": {"kind": "random_forest", "n_trees": 3}}, "found 'n_trees'"),
        ({"classifier": {"kind": "sklearn.svm.LinearSVC"}}, "with predict_proba"),
        ({"classifier": {"kind": "logistic_regression", "C": 0}}, "expected C above 0"),
        ({"classifier": {"kind": "logistic_regression", "c": 1}}, "no parameter but C"),
        ({"classifier": {"kind": "no.such.Module"}}, "expected a class at 'no.such.Module'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)  # fmt: skip
def test_mistakes(table_file, more, sentence):
    with pytest.raises(InputError) as caught:
        problem_of(table_file, **more)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_that_are_held_are_skipped(table_file):
    problem = problem_of(table_file)
    X = genomes(problem)
    want = problem.evaluate(X)
    parts = problem.parts_since(0)
    wrong = Parts(parts.keys, parts.bits ^ np.uint64(0xFF), [b""] * len(parts))
    problem.add_parts(wrong)
    assert problem.n_parts == len(parts)
    assert np.array_equal(problem.evaluate(X)["cost"], want["cost"])


# --- memory ---------------------------------------------------------------------------------


def test_memory_is_that_of_the_arrays_held(table_file):
    problem = problem_of(table_file)
    held, text = problem.memory(2)
    problem.evaluate(genomes(problem))
    table, data = problem._table, problem.data
    arrays = [data.design, data.held, data.y, data.y_held]
    part = (table.keys[:1].nbytes + table.bits[:1].nbytes) * 8  # two candidates of four stages
    assert held == sum(array.nbytes for array in arrays) + part
    assert "at most 8 of them" in text
    assert "at most 31 of them" in problem.memory(None)[1]


def test_scorers_hold_the_validation_records_alone(table_file):
    problem = problem_of(table_file)
    X = genomes(problem)
    values = problem.evaluate(X)
    scorer = pickle.loads(pickle.dumps(problem))
    scorer.add_parts(problem.parts_since(0))
    assert scorer._table.bits.shape[2] == problem.data.validation_words
    assert problem._table.bits.shape[2] == problem.data.words
    for name, column in scorer.evaluate(X).items():
        assert np.array_equal(column, values[name])


def test_large_models_are_not_kept_but_trained_again(table_file, monkeypatch):
    """The same model comes out, to the bit."""
    classifier = {"kind": "random_forest", "n_estimators": 5}
    kept = problem_of(table_file, classifier=classifier)
    monkeypatch.setattr("framework.problems.subclassifiers.LARGEST_MODEL", 100)
    monkeypatch.setenv("PARETOLAB_CACHE", "off")
    other = problem_of(table_file, classifier=classifier)
    x = genomes(kept)[0]
    assert other.build_parts(np.array([[3]], dtype=np.uint64)).models == [b""]
    records = load_table(config_of(table_file).dataset).features
    a, b = (problem.decode(x).outcome(records) for problem in (kept, other))
    assert np.array_equal(a.probabilities, b.probabilities)
