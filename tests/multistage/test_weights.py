"""Records that count by a column of numbers: in training and in every metric."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.exact.search import Exact
from framework.cli.tables import walk
from framework.errors import InputError, Unfit
from framework.estimators.search import roles_for
from framework.experiment.expected import class_weights
from framework.models.walk import Chosen, Walk
from tests.multistage.data import genomes, problem_of

COSTS = {"values": {"a": 1.5, "b": 3, "c": 2.5}}
DECISION = {"decision": {"errors": {"ill": 5}, "no_answer": 0.6}, "threshold": None}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 3)), columns=list("abc"))
    z = frame.sum(axis=1) + rng.normal(size=240)
    frame["label"] = np.where(z > 1, "ill", "well")
    frame["w"] = rng.gamma(1.0, 2.0, 240).round(3)
    frame.loc[::17, "w"] = 0
    frame["one"] = 1.0
    frame["tiny"] = frame["w"] / 1024
    frame["side"] = rng.choice(["l", "r"], 240)
    frame["part"] = rng.choice(["train", "validation", "test"], 240)
    path = tmp_path_factory.mktemp("weights") / "w.csv"
    frame.to_csv(path, index=False)
    return path


def weighted(file, column="w", **more):
    dataset = {"path": str(file), "target": "label", "positive": "ill", "columns": ["a", "b", "c"]}
    raw = {
        "dataset": dataset,
        "split": {"part": "part"},
        "costs": COSTS,
        "weights": column,
        "remove_features": True,
        "max_stages": 3,
        "subgroup": "side",
        "rates": ["precision"],
    }
    return problem_of(file, **(raw | more))


@pytest.mark.parametrize("more", [{"error_costs": {"ill": 3}}, DECISION], ids=["plain", "by cost"])
@pytest.mark.parametrize("part", ["validation", "test"])
def test_metrics_are_weighted_means_of_the_models_answers(file, part, more):
    problem = weighted(file, **more)
    X, frame = genomes(problem, 8), pd.read_csv(file)
    frame = frame[(frame["part"] == part) & (frame["w"] > 0)]
    w, true = frame["w"].to_numpy(), frame["label"].to_numpy()
    found = problem.evaluate(X) if part == "validation" else problem.evaluate_test(X)
    for i, x in enumerate(X):
        table = problem.decode(x).predict_table(frame[list(problem.feature_names)])
        said, paid = table["label"].to_numpy(), table["cost"].to_numpy(dtype=float)
        given = said != "inconclusive"
        right = said == true
        twin = {"coverage": np.average(given, weights=w), "cost": np.average(paid, weights=w)}
        twin["accuracy"] = w[right].sum() / max(w[given].sum(), 1e-300)
        called = given & (said == "ill")
        twin["precision"] = w[called & right].sum() / max(w[called].sum(), 1e-300)
        sides = [frame["side"].to_numpy() == side for side in "lr"]
        each = [w[right & s].sum() / max(w[given & s].sum(), 1e-300) for s in sides]
        twin["accuracy_difference"] = abs(each[0] - each[1])
        wrong = given & ~right
        if "decision" in more:
            loss = np.where(given, np.where(wrong, np.where(true == "ill", 5, 1), 0), 0.6)
            twin["risk"] = np.average(loss, weights=w)
            twin["total_cost"] = np.average(loss + paid, weights=w)
        else:
            twin["error_cost"] = np.average(wrong * np.where(true == "ill", 3, 1), weights=w)
        for name, value in twin.items():
            assert found[name][i] == pytest.approx(value, abs=1e-4), name


def test_stages_are_trained_with_the_weights(file):
    problem = weighted(file)
    x = np.array([0, 0, 0], dtype=problem.space.dtype)
    model = problem.decode(x)
    frame = pd.read_csv(file)
    frame = frame[(frame["part"] == "train") & (frame["w"] > 0)]
    design = problem.data.design[:-1].T
    twin = LogisticRegression(tol=1e-10, max_iter=10_000)
    twin.fit(design, problem.data.y, sample_weight=frame["w"] / frame["w"].mean())
    (classifier,) = model.classifiers_
    np.testing.assert_allclose(
        classifier.predict_proba(design), twin.predict_proba(design), atol=1e-5
    )


@pytest.mark.parametrize("column", ["w", None])
def test_tables_of_records_say_that_they_are_unweighted(file, column):
    problem = weighted(file, column)
    found = problem.walk(problem.decode(genomes(problem, 1)[0])).to_json()
    titles = [part.title for part in walk(Chosen(0, Walk.from_json(found)))[:2]]
    assert ["unweighted" in title for title in titles] == [column is not None] * 2


@pytest.mark.parametrize("calibration", ["none", "sigmoid", "softmax"])
def test_the_unit_of_weights_means_nothing(file, calibration):
    """A penalty, and what Platt adds to counts, weighed a thousand times as much with w / 1024."""
    problem, scaled = (weighted(file, name, calibration=calibration) for name in ("w", "tiny"))
    X = genomes(problem, 8)
    tiny = scaled.evaluate(X)
    for name, column in problem.evaluate(X).items():
        np.testing.assert_allclose(tiny[name], column, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("measure", ["holdout", "cross_validation"])
def test_weights_of_1_change_nothing(file, measure):
    plain = weighted(file, None, measure={"kind": measure}, **DECISION)
    ones = weighted(file, "one", measure={"kind": measure}, **DECISION)
    X = genomes(plain, 8)
    for found, want in (
        (ones.evaluate(X), plain.evaluate(X)),
        (ones.evaluate_test(X), plain.evaluate_test(X)),
    ):
        for name, column in want.items():
            np.testing.assert_array_equal(found[name], column, err_msg=name)
    for one, two in zip(ones.trivial_classifiers(), plain.trivial_classifiers(), strict=True):
        assert one._replace(outcomes=None) == two._replace(outcomes=None)


def test_other_shares_of_classes_keep_the_weights_within_a_class(file):
    problem = weighted(file)
    outcomes, (truth, labels) = problem.outcomes(genomes(problem, 8)), problem.truth()
    own = outcomes.metrics((truth[:, None] == [0, 1]).astype(np.float64))
    shares = dict(zip(map(str, labels), (0.05, 0.95), strict=True))
    weights = class_weights(problem, shares, outcomes)[:, None]
    found = outcomes.metrics(weights)
    for name in ("coverage", "cost"):
        expected = own[name] @ [0.05, 0.95]
        assert found[name][:, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("share", "well", "ill"),
    [(1e-9, 400, 200), (1e-4, 400, 200), (0.3, 400, 200), (0.5, 980_000, 20_000)],
)
def test_shares_of_classes_are_within_a_thousandth(share, well, ill):
    codes = np.repeat([0, 1], [well, ill])
    problem = SimpleNamespace(truth=lambda: (codes, ["ok", "ill"]))
    shares = {"ok": 1 - share, "ill": share}
    weights = class_weights(problem, shares, SimpleNamespace(counted=None))
    assert weights.sum() < 2**50 + well + ill
    assert weights[codes == 1].sum() / weights.sum() == pytest.approx(share, rel=1e-3)
    shares = {"ok": 1 - 1e-12, "ill": 1e-12}
    text = "prior: expected shares of at least 9e-.*, smaller ones cannot be counted, found ok=1"
    with pytest.raises(InputError, match=text):
        class_weights(problem, shares, SimpleNamespace(counted=None))


def test_outcomes_of_weights_of_1_are_what_evaluate_says(file):
    problem = weighted(file, measure={"kind": "cross_validation"})
    X = genomes(problem, 8)
    outcomes = problem.outcomes(X)
    ones = outcomes.metrics(np.ones((outcomes.records, 2)))
    for name, column in problem.evaluate(X).items():
        assert np.array_equal(ones[name][:, 1], column), name
    same = problem.trivial_classifiers()[0]
    largest = problem.alternatives()[-1].outcomes.metrics(np.ones((outcomes.records, 1)))
    by_label = {one.label: one.values for one in problem.trivial_classifiers()}
    label = problem.alternatives()[-1].points[0]
    assert set(same.values) == set(problem.metric_names)
    for name in ("accuracy", "false_positive_rate", "precision"):
        assert largest[name][0, 0] == by_label[label][name]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("side", "expected a number from 0 in each record of 'side', found [lr] in record 1"),
        ("a", "expected a number from 0 in each record of 'a', found -?[0-9.]+ in record"),
        ("nothing", "expected a column 'nothing', found none of that name"),
        ("zero", "expected a record that counts, found only 0 in 'zero'"),
    ],
)
def test_columns_that_are_no_weights_are_refused(file, tmp_path, column, text):
    path = tmp_path / "t.csv"
    pd.read_csv(file).assign(zero=0).to_csv(path, index=False)
    with pytest.raises(InputError, match=text):
        weighted(path, column)


def test_what_cannot_weigh_records_says_so(file):
    with pytest.raises(InputError, match="takes weights of records, found k_neighbors"):
        weighted(file, classifier={"kind": "k_neighbors"})
    problem = weighted(file, subgroup=None, rates=[], remove_features=False)
    with pytest.raises(Unfit, match="found an exact one"):
        Exact(problem, roles_for(problem, ["accuracy", "cost"]), seed=0)
