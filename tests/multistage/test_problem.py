"""The multi-stage problem: its numbers, its models, its failures."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from algorithms.multistage.exact.search import Exact
from algorithms.multistage.problem import MultiStageProblem
from framework.data.datasets import load_table
from framework.data.splits import split_records
from framework.errors import InputError, Unfit
from framework.run.evaluator import evaluate_candidates
from framework.testing.problems import worker_copy
from tests import oracles
from tests.conftest import covering, roles_of
from tests.multistage.data import COSTS, NAMES, config_of, genomes, patients, problem_of, stored

pytestmark = pytest.mark.usefixtures("cache")

# --- what the numbers mean ------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("classifier", "more"),
    covering(
        [
            {"kind": "logistic_regression", "C": 2.0},
            {"kind": "random_forest", "n_estimators": 7},
            {"kind": "gaussian_nb"},
        ],
        [
            {},
            {"threshold": {"high": 0.9, "low": 0.6}, "remove_features": True, "stage_cost": 0.25},
            {"positive": "high"},
            {"threshold": [0.45, 0.6, 0.8], "threshold_per_stage": True, "remove_features": True},
        ],
    ),
)
def test_a_decoded_model_has_the_metrics_of_its_row_digit_for_digit(table_file, classifier, more):
    config = config_of(table_file, classifier=classifier, **more)
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
            model = problem.decode(x)
            want = measures_of(model, records, truth, x, table.positive)
            assert problem.cost_scale * model.stage_cost == problem.charges.of_stage
            for name in problem.metric_names:
                assert measured[name][i] == pytest.approx(float(want[name]), abs=1e-15), name


def measures_of(model, records, truth, x, positive):
    """Count, on raw records, what the model does."""
    outcome = model.outcome(records)
    costs = [Fraction(str(COSTS[name])) for name in NAMES]
    paid = [
        sum((c for c, s in zip(costs, x[: len(costs)], strict=True) if 0 <= s < stage), Fraction(0))
        + int(stage) * Fraction(str(model.stage_cost))
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
        **oracles.class_metrics(
            list(zip(truth[sure].tolist(), outcome.best[sure].tolist(), strict=True)),
            truth.tolist(),
            -1 if positive is None else positive,
        ),
    }


def test_accuracy_is_0_where_nothing_is_conclusive(table_file):
    problem = problem_of(table_file, threshold=1.0, positive="high")
    X = np.array([[0, 0, 0, 0, 0]], dtype=np.int8)
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
    assert "false_positive_rate" not in three.metric_names
    assert "false_positive_rate" in two.metric_names


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 0, 0, 0]], "shape"),
        ([[0, 1, 2, 3, 4]], "blocks from 0 to 3, found 0 to 4"),
        ([[0, -1, 0, 0, 0]], "blocks from 0 to 3, found -1 to 0"),
    ],
)
def test_genomes_of_another_space_are_refused(table_file, X, message):
    with pytest.raises(ValueError, match=message):
        problem_of(table_file).evaluate(np.array(X))


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


@pytest.fixture(autouse=True)
def trusted(monkeypatch):
    monkeypatch.setenv("PARETOLAB_TRUST", f"{Picky.__module__}.Picky")


def picky(table_file, dislikes=1):
    kind = f"{Picky.__module__}.Picky"
    return problem_of(table_file, classifier={"kind": kind, "dislikes": dislikes})


def test_a_classifier_that_raises_fails_the_rows_that_need_it(table_file):
    problem = picky(table_file)
    X = np.array([[1, 0, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=np.int8)
    batch = evaluate_candidates(problem, 0, np.arange(7, 10), X)
    why = "ValueError: 1 columns are not to my liking"
    assert dict(batch.errors) == {
        7: f"sub-classifier on b: {why}",
        9: f"sub-classifier on a: {why}",
    }
    assert np.isnan(batch.values["cost"]).tolist() == [True, False, True]


def test_failed_components_are_not_kept_on_disk(table_file, cache):
    problem = picky(table_file)
    problem.evaluate(np.array([[1, 0, 1, 1, 1]], dtype=np.int8))
    assert stored(cache) == 1  # all five features; not the one on b


def test_a_failed_part_sent_by_the_evaluator_is_named_too(table_file):
    problem = problem_of(table_file)
    X = np.array([[1, 0, 1, 0, 1]], dtype=np.int8)
    keys = problem.missing_components(X)  # the largest first
    problem.add_components(problem.failed_components(keys[1:], "its worker died"))
    batch = evaluate_candidates(problem, 0, np.arange(1), X)
    assert batch.errors[0] == "sub-classifier on b, colour: its worker died"


FOLDS = {"kind": "cross_validation"}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"max_stages": 6},
            "problem.max_stages: expected at most the 5 features of the data, found 6",
        ),
        ({"threshold": {"hihg": 0.9}}, "did you mean 'high'?"),
        ({"threshold": 1.5}, "above 0 and at most 1, found 1.5"),
        ({"threshold": 0}, "above 0 and at most 1, found 0"),
        ({"costs": {"values": {"a": 1}}}, "found none for b, c, colour, d"),
        ({"costs": {"values": {**COSTS, "a": -1}}}, "costs.values.a: expected a number of at"),
        ({"classifier": {"kind": "random_forrest"}}, "did you mean 'random_forest'?"),
        ({"classifier": {"kind": "random_forest", "n_trees": 3}}, "found 'n_trees'"),
        ({"classifier": {"kind": "sklearn.svm.LinearSVC"}}, "with predict_proba"),
        ({"classifier": {"kind": "logistic_regression", "C": 0}}, "expected C above 0"),
        ({"classifier": {"kind": "logistic_regression", "c": 1}}, "no parameter but C"),
        ({"classifier": {"kind": "no.such.Module"}}, "with --trust no.such.Module"),
        ({"measure": FOLDS | {"folds": 200}}, "of class 'high', found 200; lower folds"),
        ({"measure": FOLDS | {"folds": 1}}, "measure.folds: expected a number of at least 2"),
        ({"measure": FOLDS | {"refit": False}}, "expected refit: true, found false"),
        ({"measure": {"kind": "holdout", "folds": 5}}, "folds only with kind: cross_validation"),
        ({"measure": {"kind": "crossvalidation"}}, "expected 'holdout' or 'cross_validation'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_mistakes(table_file, more, sentence):
    with pytest.raises(InputError) as caught:
        problem_of(table_file, **more)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


# --- memory ---------------------------------------------------------------------------------


def test_memory_is_that_of_the_arrays_held(table_file):
    problem = problem_of(table_file)
    held, text = problem.memory(2)
    problem.evaluate(genomes(problem))
    table, data = problem.sub_classifiers.table, problem.data
    arrays = [data.design, data.held, data.y, data.y_held]
    part = (table.keys[:1].nbytes + table.bits[:1].nbytes) * 8  # two candidates of four stages
    assert held == sum(array.nbytes for array in arrays) + part
    assert "at most 8 of them" in text
    assert "at most 31 of them" in problem.memory(None)[1]


def test_scorers_hold_the_validation_records_alone(table_file):
    """What a Ray actor does: unpickle, take parts without models, score."""
    problem = problem_of(table_file)
    X = genomes(problem)
    values = problem.evaluate(X)
    scorer = worker_copy(problem)
    scorer.add_components(problem.components_since(0))
    assert scorer.sub_classifiers.table.bits.shape[2] == problem.data.validation_words
    assert problem.sub_classifiers.table.bits.shape[2] == problem.data.words
    scorer.build_components = None  # it has all it needs
    for name, column in scorer.evaluate(X).items():
        assert np.array_equal(column, values[name])
    with pytest.raises(ValueError, match="stripped"):
        scorer.evaluate_test(X)


def test_large_models_are_not_kept_but_trained_again(table_file, monkeypatch):
    """The same model comes out, to the bit."""
    classifier = {"kind": "random_forest", "n_estimators": 5}
    kept = problem_of(table_file, classifier=classifier)
    monkeypatch.setattr("algorithms.multistage.stage_classifiers.LARGEST_MODEL", 100)
    monkeypatch.setenv("PARETOLAB_CACHE", "off")
    other = problem_of(table_file, classifier=classifier)
    x = genomes(kept)[0]
    assert other.build_components(np.array([[3]], dtype=np.uint64)).models == [b""]
    records = load_table(config_of(table_file).dataset).features
    a, b = (problem.decode(x).outcome(records) for problem in (kept, other))
    assert np.array_equal(a.probabilities, b.probabilities)


def test_no_answer_is_told_apart_from_a_class_called_inconclusive(tmp_path):
    X, y = patients(200)
    X.assign(label=np.where(y == "ok", "inconclusive", y)).to_csv(tmp_path / "t.csv", index=False)
    more = {"costs": {"default": 1}, "threshold": 0.95, "max_stages": 1}
    problem = problem_of(tmp_path / "t.csv", **more)
    model = problem.decode(problem.space.sample(np.random.default_rng(0), 1)[0])
    unsure = ~model.conclusive(X)
    assert set(model.predict(X)[unsure]) == {"no answer"} != set(model.predict(X)[~unsure])


RISK = {"errors": {"high": 1, "low": 1, "middle": 1}, "no_answer": 0.3}


@pytest.mark.quick(2)
@pytest.mark.parametrize("policy", ["ask", "inconclusive"])
@pytest.mark.parametrize("measure", ["holdout", "cross_validation"])
@pytest.mark.parametrize("more", [{}, {"stage_cost": 0.25, "threshold": None, "decision": RISK}])
def test_records_stop_in_the_figures_where_models_stop(table_file, policy, measure, more):
    config = config_of(table_file, missing=policy, measure={"kind": measure}, **more)
    problem = MultiStageProblem.from_config(config)
    table, X = load_table(config.dataset), genomes(problem, 8)
    split = split_records(table.labels, config.split)
    parts = [("test", split.test)]
    if measure == "holdout":  # else the model of a record is that of its fold
        parts.append(("search", split.validation))
    for part, rows in parts:
        values = problem.evaluate(X) if part == "search" else problem.evaluate_test(X)
        slow = problem.slowly(X, part)
        assert all(values[name].tobytes() == slow[name].tobytes() for name in values)
        truth = np.array(table.classes)[table.labels[rows]]
        for i, x in enumerate(X):
            said = problem.decode(x).predict_table(table.features.iloc[rows])
            right = (said["label"] == truth).to_numpy()
            answered = said["label"].isin(table.classes).to_numpy()
            assert values["coverage"][i] == pytest.approx(answered.mean())
            assert values["accuracy"][i] == pytest.approx(right.sum() / max(answered.sum(), 1))
            assert values["cost"][i] == pytest.approx(said["cost"].mean())
            if more:
                risk = (answered & ~right).mean() + 0.3 * (~answered).mean()
                assert values["risk"][i] == pytest.approx(risk)
            if part == "search":
                walk = problem.walk(problem.decode(x))
                entered = (said["stage"] - (said["missing"] != "")).to_numpy()
                reached = [(entered > j).sum() for j in range(len(walk.stages))]
                assert [stage.entering for stage in walk.stages] == reached
    assert values["coverage"].min() < values["coverage"].max() < 1
    imputing = problem_of(table_file, measure={"kind": measure}, **more)
    assert imputing.components_fingerprint == problem.components_fingerprint
    assert imputing.fingerprint != problem.fingerprint
    assert (problem.evaluate(X)["cost"] <= imputing.evaluate(X)["cost"]).all()


def test_an_exact_search_does_not_stop_at_records(table_file):
    problem = problem_of(table_file, missing="ask")
    with pytest.raises(Unfit, match=r"problem\.missing: expected impute .* found ask"):
        Exact(problem, roles_of(problem), seed=0)


def test_the_classifier_that_one_would_take_stops_too(table_file):
    problem = problem_of(table_file, missing="ask")
    gaps = problem.data.stopped[: problem.data.n_validation]
    answers = problem.alternatives()[0].outcomes.answers()
    assert 0 < gaps.sum() < len(gaps)
    assert (answers.codes[:, gaps] == -1).all()
    assert (answers.paid["cost"][:, gaps] == 0).all()
    assert (answers.paid["cost"][:, ~gaps] > 0).all()
