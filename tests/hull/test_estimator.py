"""The hull of any classifiers against brute force, Qhull, and linear programmes over all of it."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier

import paretolab
from algorithms.hull.estimator import ROCHull
from algorithms.hull.roc import Curves, priced_corners, roc_corners
from framework.models.mixture import MixtureClassifier
from framework.models.store import load_model, save_model
from framework.testing.problems import evaluates_its_answers
from tests.command import call
from tests.conftest import examples

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


class Reader(ClassifierMixin, BaseEstimator):
    """A fitted classifier that reads its score of class 1 off a column, and counts."""

    def __init__(self, column=0):
        self.column, self.classes_, self.asked = column, np.array(["no", "yes"]), 0

    def predict_proba(self, X):
        self.asked += len(X)
        score = np.asarray(X, dtype=float)[:, self.column]
        return np.column_stack([1 - score, score])

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]


def made(n, seed=0, models=3):
    """Return scores (n, models) in steps of 1/20, noisy copies of the truth, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    scores = np.clip(0.4 * y[:, np.newaxis] + rng.random((n, models)) * 0.6, 0, 1)
    return np.round(scores * 20) / 20, np.where(y, "yes", "no")


@given(points=POINTS)
@examples(60)
def test_the_corners_are_those_of_brute_force_and_qhull(points):
    points = np.array([(0, 0), (9, 9), *points])
    found = {tuple(points[k]) for k in roc_corners(*points.T)}
    distinct = {(int(a), int(b)) for a, b in points}
    expected = set()
    for p in distinct:
        others = distinct - {p}
        beaten = any(q[0] <= p[0] and q[1] >= p[1] for q in others)
        under = any(
            a[0] < p[0] < b[0] and (p[1] - a[1]) * (b[0] - a[0]) <= (b[1] - a[1]) * (p[0] - a[0])
            for a in others
            for b in others
        )
        if not beaten and not under:
            expected.add(p)
    assert found == expected
    hull = ConvexHull([*distinct, (9, 0)])
    assert found <= {tuple(hull.points[v].astype(int)) for v in hull.vertices}


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_priced_corners_are_what_no_mixture_of_others_matches(seed):
    rng = np.random.default_rng(seed)
    fp, tp = np.append([0, 6], rng.integers(0, 7, 10)), np.append([0, 6], rng.integers(0, 7, 10))
    costs = np.array([0.0, 0.0, 1.0, *rng.integers(0, 5, 9) / 4])  # whole steps of the highest
    if seed % 2:  # a model that costs nothing may be better than a trivial classifier
        costs[3:6], tp[3:5], fp[4:6] = 0.0, 6, 0
    losses = np.column_stack([fp, 6 - tp, costs])
    found = priced_corners(fp, tp, costs, np.arange(len(fp)))
    expected = set()
    for point in np.unique(losses, axis=0):
        others = losses[(losses != point).any(axis=1)]
        ones = np.ones((1, len(others)))
        solved = linprog(ones[0], A_ub=others.T, b_ub=point + 1e-9, A_eq=ones, b_eq=[1])
        if solved.x is None:
            expected.add(tuple(point))
    assert {tuple(losses[k]) for k in found} == expected


def test_every_threshold_is_counted_and_a_best_one_is_chosen():
    scores, y = made(200)
    positive = y == "yes"
    curves = Curves(scores.T, positive, np.zeros(3))
    fp, tp = curves.counts()
    seen = {(0, 0), (int((~positive).sum()), int(positive.sum()))}
    for column in scores.T:
        for value in np.unique(column):
            called = column >= value
            seen.add((int((called & ~positive).sum()), int((called & positive).sum())))
    assert {(int(a), int(b)) for a, b in zip(fp, tp, strict=True)} == seen
    hull = ROCHull.from_predictions(scores, y)
    rates = np.array([(a / (~positive).sum(), 1 - b / positive.sum()) for a, b in seen])
    for prior, dear in ((0.5, 1), (0.1, 5), (0.01, 2), (0.4, 0)):
        cost = (1 - prior) * rates[:, 0] + prior * dear * rates[:, 1]
        point = hull.operating_point({"fp": 1, "fn": dear}, prior)
        assert point.of["expected_cost"].claimed == pytest.approx(cost.min(), abs=1e-12)
    for limit in (0.0, 0.02, 0.3, 1.0):
        ones = np.ones((1, len(rates)))
        best = linprog(rates[:, 1], rates[:, [0]].T, [limit], ones, [1]).fun
        mixed = hull.mix(fpr=limit)
        assert mixed.of["false_negative_rate"].claimed == pytest.approx(best, abs=1e-9)
        assert mixed.of["false_positive_rate"].claimed <= limit + 1e-9
    assert hull.mix(fnr=0.1).of["false_negative_rate"].claimed == pytest.approx(0.1)


@pytest.mark.parametrize("order", [["good", "poor", "dear"], ["dear", "poor", "good"]])
def test_no_point_is_as_good_and_better_in_another_rate_or_the_cost(order):
    y = np.repeat([0, 1], 10)
    late = np.linspace(3, 4, 10)
    good = np.r_[late[:2], np.zeros(8), np.full(10, 2.0)]
    scores = {"good": good, "dear": good, "poor": np.r_[late[:5], np.zeros(5), np.full(10, 2.0)]}
    costs = {"good": 1.0, "dear": 10.0, "poor": 1.0}
    for priced in (None, {name: costs[name] for name in order}):
        hull = ROCHull.from_predictions({name: scores[name] for name in order}, y, costs=priced)
        limits = [{"fpr": 0.6}, {"fpr": np.float32(1)}, {"fnr": 0}]
        limits += [{"fpr": 0.6, "cost": 20}] if priced else []
        for point in (hull.operating_point(), *(hull.mix(**limit) for limit in limits)):
            ((name, threshold, _),) = point.members
            assert threshold == 1.0
            assert name != "poor"
            assert (name == "good") or not priced
            assert point.of["false_positive_rate"].claimed == pytest.approx(0.2)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
def test_a_choice_does_not_depend_on_the_unit_of_costs(unit):
    y = np.repeat([0, 1], 10)
    a = np.r_[np.linspace(3, 4, 4), np.zeros(6), np.full(10, 2.0)]
    b = np.r_[np.linspace(3, 4, 6), np.zeros(4), np.full(10, 2.0)]
    costs = {"a": 0.9 * unit, "b": 0.8 * unit, "c": 1e13 * unit}
    hull = ROCHull.from_predictions({"a": a, "b": b, "c": b}, y, costs=costs)
    assert hull.mix(fpr=0.9).members[0][0] == "a"
    point = hull.operating_point({"fp": 1, "fn": 1}, per_unit={"cost": 1 / unit})
    assert point.of["expected_cost"].claimed == pytest.approx(0.5)


def test_scores_at_the_ends_of_the_floats_have_a_threshold_between():
    scores = {"m": np.array([1e308, -1e308, 1e308, -1e308])}
    hull = ROCHull.from_predictions(scores, np.array([1, 0, 1, 0]))
    assert hull.front_["threshold"].tolist() == [0.0]


def test_thresholds_are_measured_by_their_answers():
    scores, y = made(200)
    for costs in (None, [1, 2, 4]):
        evaluates_its_answers(ROCHull.from_predictions(scores, y, costs=costs).problem_, 0, 20)


def test_a_rate_is_about_the_records_of_its_class():
    """No miss among a few dozen positive records: the rate may still be several per cent."""
    scores, y = made(200)
    hull = ROCHull.from_predictions(scores, y)
    positive = int((y == "yes").sum())
    found = hull.front_[hull.front_["false_negative_rate"] == 0]
    assert (found["false_negative_rate_high"] > 4 / positive).all()
    mixed = hull.mix(fnr=0).of["false_negative_rate"]
    assert mixed.high > 4 / positive


def test_a_limit_of_the_mean_cost_is_kept_to():
    scores, y = made(150, 1)
    hull = ROCHull.from_predictions(scores, y, costs=[1, 2, 4])
    dear, cheap = hull.mix(fpr=0.1), hull.mix(fpr=0.1, cost=1.5)
    assert cheap.of["cost"].claimed <= 1.5 + 1e-9
    assert cheap.of["false_negative_rate"].claimed >= dear.of["false_negative_rate"].claimed
    assert hull.operating_point(per_unit={"cost": 100}).of["cost"].claimed == 0.0  # a trivial one
    assert "expected_cost" in hull.front_.columns


def test_the_range_of_the_expected_cost_reaches_as_far_as_those_of_its_rates():
    y = np.repeat([0, 1], [96, 4])  # told apart without an error, so resamples do not vary
    hull = ROCHull.from_predictions({"m": y + np.linspace(0, 0.5, 100)}, y, costs=[2.0])
    of = hull.operating_point({"fp": 1, "fn": 10}, 0.04, per_unit={"cost": 0.01}).of
    cost, false, missed = of["expected_cost"], of["false_positive_rate"], of["false_negative_rate"]
    assert cost.claimed == pytest.approx(0.02)
    assert missed.high > 0.5
    assert cost.high > 0.4 * missed.high
    above = 0.96 * (false.high - false.expected), 0.4 * (missed.high - missed.expected)
    assert cost.high - cost.expected == pytest.approx(np.hypot(*above))


def test_noise_is_expected_to_do_as_the_better_trivial_one():
    rng = np.random.default_rng(0)
    hull = ROCHull.from_predictions(rng.random((60, 5)), np.arange(60) % 2)
    cost = hull.point_.of["expected_cost"]
    assert cost.claimed < 0.4
    assert cost.expected > cost.claimed + 0.05
    assert cost.low < 0.5 < cost.high
    again = ROCHull.from_predictions(hull_scores := rng.random((60, 2)), np.arange(60) % 2)
    assert again.point_ == ROCHull.from_predictions(hull_scores, np.arange(60) % 2).point_


def test_what_is_deployed_does_what_the_point_claims(tmp_path):
    scores, y = made(4000, 2)
    X = pd.DataFrame(scores, columns=["a", "b", "c"])
    models = {"first": Reader(0), "second": Reader(1)}
    hull = ROCHull(models).fit(X, y)
    point = hull.operating_point({"fp": 1, "fn": 4}, 0.2)
    said = hull.deploy(point).predict(X)
    assert (said == "yes")[y == "no"].mean() == point.of["false_positive_rate"].claimed
    missed = (said == "no")[y == "yes"].mean()
    assert missed == pytest.approx(point.of["false_negative_rate"].claimed, abs=1e-12)
    mixed = hull.mix(fpr=0.02)
    model = hull.deploy(mixed)
    for reader in models.values():
        reader.asked = 0
    distinct = X.assign(c=np.arange(len(X)) / len(X))  # so that each record has a lot of its own
    said = model.predict(distinct)
    assert sum(reader.asked for reader in models.values()) <= len(X)  # only the member drawn
    assert (said == "yes")[y == "no"].mean() == pytest.approx(0.02, abs=0.01)
    assert model.predict(distinct.iloc[[7]])[0] == said[7]


def test_a_mixture_is_saved_and_asked_by_the_command(tmp_path):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    y = np.where(X["a"] + rng.normal(size=300) > 0.3, "yes", "no")
    pool = {"one": LogisticRegression(C=0.1), "two": LogisticRegression(C=10)}
    hull = ROCHull(pool, folds=3).fit(X, y)
    model = hull.deploy(hull.mix(fpr=0.1))
    assert isinstance(model, MixtureClassifier)
    save_model(model, tmp_path / "model", example=X[:3])
    assert (load_model(tmp_path / "model").predict(X) == model.predict(X)).all()
    X.to_csv(tmp_path / "data.csv", index=False)
    done = call("predict", tmp_path / "model", tmp_path / "data.csv", cwd=tmp_path)
    assert done.code == 0, done.err
    assert pd.read_csv(io.StringIO(done.out))["label"].tolist() == model.predict(X).tolist()
    assert (pickle.loads(pickle.dumps(hull)).predict(X) == hull.predict(X)).all()
    assert clone(hull).models is pool
    assert "threshold" in hull._repr_html_()
    assert (hull.fit(X.drop(columns="c"), y).predict(X[["a", "b"]]) == "yes").any()


def test_models_with_a_decision_function_and_the_other_class_as_positive():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    fitted = [RidgeClassifier().fit(X[:200], y[:200]), LogisticRegression().fit(X[:200], y[:200])]
    for positive in (0, 1):
        hull = ROCHull(fitted, positive=positive).fit(X[200:], y[200:])
        said = hull.predict(X[200:]) == positive
        truth = y[200:] == positive
        of = hull.point_.of
        assert said[~truth].mean() == pytest.approx(of["false_positive_rate"].claimed)
        assert 1 - said[truth].mean() == pytest.approx(of["false_negative_rate"].claimed)


SCORES, LABELS = made(40)


def scored():
    return ROCHull.from_predictions(SCORES, LABELS)


FITTED = LogisticRegression().fit(SCORES, LABELS)
WRONG = [
    (lambda: ROCHull([FITTED, LogisticRegression()]).fit(SCORES, LABELS), "all of them fitted"),
    (lambda: ROCHull([Ridge()]).fit(SCORES, LABELS), "expected a classifier, found Ridge"),
    (lambda: ROCHull([]).fit(SCORES, LABELS), "a classifier or more, found none"),
    (lambda: ROCHull([FITTED]).fit(SCORES, np.arange(40) % 3), "two classes, found 3"),
    (lambda: ROCHull([FITTED], positive="maybe").fit(SCORES, LABELS), "positive: expected one"),
    (lambda: ROCHull([FITTED], costs=[-1]).fit(SCORES, LABELS), "at least 0 for each model"),
    (lambda: ROCHull([FITTED], costs={"x": 1}).fit(SCORES, LABELS), "a value of each model"),
    (lambda: ROCHull.from_predictions(SCORES[:9], LABELS), "one for each of 3 models"),
    (lambda: ROCHull.from_predictions(SCORES * np.nan, LABELS), "finite numbers"),
    (lambda: scored().operating_point({"fp": -1, "fn": 1}), "numbers from"),
    (lambda: scored().operating_point({"no": 1}), "expected fp and fn"),
    (lambda: scored().operating_point(prior=0), "prior: expected a share"),
    (lambda: scored().mix(), "fpr or fnr, one of them"),
    (lambda: scored().mix(fpr=2), "a rate from 0 to 1"),
    (lambda: scored().mix(fpr=1, cost=1), "models with costs"),
    (lambda: scored().predict(SCORES), "predictions alone"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_bad_input_is_refused_in_a_sentence(wrong, said):
    with pytest.raises(paretolab.InputError, match=said) as found:
        wrong()
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("positive", [None, "ill", "well"])
def test_probabilities_go_by_the_order_of_the_classes(positive):
    rng = np.random.default_rng(4)
    y = np.repeat(["ill", "well"], 40)
    ill = np.clip(rng.normal(np.where(y == "ill", 0.6, 0.4), 0.2), 0, 1)
    tables = [
        (np.c_[ill, 1 - ill], None, "well"),
        (np.c_[1 - ill, ill], ["well", "ill"], "ill"),
        (ill, ["well", "ill"], "ill"),
        (1 - ill, ["ill", "well"], "well"),
    ]
    for said, classes, second in tables:
        hull = ROCHull.from_predictions({"m": said}, y, classes=classes, positive=positive)
        called = positive or second
        scores = ill if called == "ill" else 1 - ill
        same = ROCHull.from_predictions({"m": scores}, y, positive=called)
        pd.testing.assert_frame_equal(hull.front_, same.front_)


def test_classes_that_are_not_those_of_the_labels_are_refused():
    with pytest.raises(paretolab.InputError, match=r"expected the labels of y, \[0, 1\], found"):
        ROCHull.from_predictions(np.arange(6) / 6, [0, 1] * 3, classes=["no", "yes"])
