"""Weights of records in the estimators that search: a record that is there so many times."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from algorithms.ensembling.estimator import ParetoEnsemble
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.pruning.estimator import PrunedVoting
from framework.data.splits import SplitConfig, split_records
from framework.errors import InputError
from framework.models.calibration import folds_of
from framework.outcomes import resample_weights
from tests.conftest import covering
from tests.estimators.test_front import claimed

TREE = {"kind": "decision_tree", "max_depth": 3}
CALIBRATED = {"calibration": "isotonic", "classifier": {"kind": "gaussian_nb"}}
METRICS = ("coverage", "accuracy", "cost", "balanced_accuracy", "false_positive_rate")
PROBLEM = {
    "remove_features": True,
    "threshold": 0.8,
    "costs": [1, 2, 1, 5, 6],
    "budget": 200,
    "measure": "holdout",
}


@pytest.fixture(scope="module")
def records():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, [0, 1, 3, 23, 26]], y.map({0: "malignant", 1: "benign"})


@pytest.fixture(scope="module")
def weights(records):
    return np.random.default_rng(0).integers(0, 4, len(records[1]))


def validation(y):
    """Return the positions of the records that designs are measured on."""
    codes = np.unique(y, return_inverse=True)[1]
    shares = SplitConfig(train=0.7, validation=0.3, test=0, seed=0)
    return split_records(codes, shares).validation


def over_two(X, y):
    """Return the searches over fitted models, with two of them."""
    models = [("bayes", GaussianNB().fit(X, y)), ("tree", DecisionTreeClassifier().fit(X, y))]
    return ParetoEnsemble(models), PrunedVoting(models)


@pytest.mark.quick(1)
@pytest.mark.parametrize("more", [{}, CALIBRATED], ids=["plain", "calibrated"])
def test_weights_of_1_change_nothing_and_those_of_0_leave_records_out(records, weights, more):
    X, y = records
    search, kept = ParetoMultiStage(**PROBLEM, **more), weights > 0
    plain = search.fit(X, y).front_.to_csv()
    fingerprint = search.problem_.fingerprint
    for ones in ([1] * len(y), pd.Series(1, index=y.index)):
        assert search.fit(X, y, sample_weight=ones).front_.to_csv() == plain
        assert search.problem_.fingerprint == fingerprint
    fewer = search.fit(X[kept], y[kept]).front_.drop(columns="features")
    found = search.fit(X.to_numpy(), y, sample_weight=kept.astype(float)).front_
    assert found.drop(columns="features").to_csv() == fewer.to_csv()


@pytest.mark.slow
def test_twice_every_record_measures_the_same(records):
    """Trees and calibrations are the same on all records twice."""
    X, y = records
    for more in ({"classifier": TREE}, {**CALIBRATED, "classifier": TREE}):
        want = ParetoMultiStage(**PROBLEM, **more).fit(X, y).front_
        found = ParetoMultiStage(**PROBLEM, **more).fit(X, y, sample_weight=np.full(len(y), 2))
        assert found.front_.to_csv() == want.to_csv()
        assert found.problem_.describe()["validation"] == 2 * len(validation(y))


def test_twice_every_record_halves_the_penalty(records):
    """As in scikit-learn: the loss is summed over records, and C stands before it."""
    X, y = records
    twice = ParetoMultiStage(**PROBLEM, classifier={"kind": "logistic_regression", "C": 0.5})
    once = ParetoMultiStage(**PROBLEM, classifier={"kind": "logistic_regression", "C": 1.0})
    found = twice.fit(X, y, sample_weight=np.full(len(y), 2)).front_
    assert found.to_csv() == once.fit(X, y).front_.to_csv()


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("more", "each"), covering([{}, {"classifier": TREE}, CALIBRATED], [0.37, 1])
)
def test_metrics_are_weighted_ones_of_the_exported_designs(records, weights, more, each):
    X, y = records
    weights = weights * each
    objectives = {"objectives": METRICS}
    search = ParetoMultiStage(**PROBLEM, **more, **objectives).fit(X, y, sample_weight=weights)
    kept = weights > 0
    held = np.flatnonzero(kept)[validation(y[kept])]
    records_held, truth, w = X.iloc[held], y.iloc[held].to_numpy(), weights[held].astype(float)
    assert len(search.front_) > 10
    # weights that are not whole are shares of 2^24
    approx = partial(pytest.approx, rel=1e-12 if each == 1 else 1e-4, abs=1e-12)
    for id, row in search.front_.sample(10, random_state=0).iterrows():
        model = search.choose(id=id)
        answered, answers = model.conclusive(records_held), model.predict(records_held)
        assert row["coverage"] == approx(w[answered].sum() / w.sum())
        assert row["cost"] == approx((w * model.acquisition_cost(records_held)).sum() / w.sum())
        given = truth[answered], answers[answered]
        weighted = {"sample_weight": w[answered]}
        assert row["accuracy"] == approx(accuracy_score(*given, **weighted))
        if len(set(given[0])) == 2:
            assert row["balanced_accuracy"] == approx(balanced_accuracy_score(*given, **weighted))
            negative = answered & (truth == "benign")
            wrong = negative & (answers == "malignant")
            assert row["false_positive_rate"] == approx(w[wrong].sum() / w[negative].sum())


def test_stages_are_trained_on_the_copies(records, weights):
    """A classifier of a stage is scikit-learn's, fitted with the weights."""
    X, y = records
    search = ParetoMultiStage(**PROBLEM).fit(X, y, sample_weight=weights)
    kept = np.flatnonzero(weights > 0)
    train = np.delete(kept, validation(y.iloc[kept]))
    model = search.choose(best="coverage")
    encoded = model.encoder_.transform(X.iloc[train])
    center = np.average(X.iloc[train], axis=0, weights=weights[train])
    scaled = (X.iloc[train] - center).to_numpy()
    assert np.allclose(np.average(encoded, axis=0, weights=weights[train]), 0)
    assert np.allclose(np.corrcoef(encoded[:, 0], scaled[:, 0])[0, 1], 1)
    first = np.sort(model.stages_[0])
    fitted = LogisticRegression(tol=1e-10, max_iter=10_000)
    fitted.fit(encoded[:, first], y.iloc[train], sample_weight=weights[train])
    ours = model.classifiers_[0].predict_proba(encoded[:, first])
    assert np.allclose(ours, fitted.predict_proba(encoded[:, first]), atol=1e-5)


def test_copies_are_in_one_fold(records, weights):
    y = np.unique(records[1], return_inverse=True)[1]
    positions = np.repeat(np.arange(len(y)), weights)
    folds = folds_of(y[positions], positions)
    once = weights > 0
    assert (pd.Series(folds).groupby(positions).nunique() == 1).all()
    assert (folds[np.unique(positions, return_index=True)[1]] == folds_of(y[once])).all()
    search = ParetoMultiStage(**PROBLEM, **CALIBRATED).fit(*records, sample_weight=weights)
    data = search.problem_.data
    assert len(data.copy_of) == len(data.y) > len(np.unique(data.copy_of))


def test_it_goes_through_scikit_learn(records):
    X, y = records
    weights = np.random.default_rng(1).integers(1, 3, len(y)).astype(float)
    search = ParetoMultiStage(**{**PROBLEM, "budget": 40})
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(search))
    pipe.fit(X, y, paretomultistage__sample_weight=weights)
    scaled = StandardScaler().set_output(transform="pandas").fit_transform(X)
    direct = clone(search).fit(scaled, y, weights)
    assert pipe[-1].front_.to_csv() == direct.front_.to_csv()
    grid = GridSearchCV(clone(search), {"where": ["cost<=4", "cost<=9"]}, cv=2, error_score="raise")
    grid.fit(X, y, sample_weight=weights)
    best = clone(search).set_params(**grid.best_params_).fit(X, y, weights)
    assert grid.best_estimator_.front_.to_csv() == best.front_.to_csv()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(search).set_fit_request(sample_weight=True)
        routed.set_score_request(sample_weight=True)
        params = {"sample_weight": weights}
        done = cross_validate(
            routed, X, y, cv=2, params=params, return_estimator=True, return_indices=True
        )
        for k, found in enumerate(done["estimator"]):
            train, test = (done["indices"][part][k] for part in ("train", "test"))
            again = clone(search).fit(X.iloc[train], y.iloc[train], weights[train])
            assert found.front_.to_csv() == again.front_.to_csv()
            score = again.score(X.iloc[test], y.iloc[test], weights[test])
            assert done["test_score"][k] == score


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda w: w * 0, "expected a record that counts, found weights all zero"),
        (lambda w: w * -1, "expected finite numbers from 0, found others"),
        (lambda w: w * np.nan, "expected finite numbers from 0, found others"),
        (lambda w: w * 1e12, r"copies of records that fit into the .* GB of this machine, found"),
        (lambda w: w * 1e300, r"copies of records that fit into the .* GB of this machine, found"),
        (lambda w: w[1:], "inconsistent numbers of samples"),
    ],
)
def test_what_is_no_number_of_copies_is_refused(records, weights, wrong, sentence):
    X, y = records
    for search in (ParetoMultiStage(), *over_two(X, y)):
        with pytest.raises((ValueError, InputError), match=sentence):
            search.fit(X, y, sample_weight=wrong(weights.astype(float)))


def test_weights_that_are_not_whole(records, weights):
    """A tree fits, measures and is resampled as on the copies; who cannot weigh says so."""
    X, y = records
    noise = np.random.default_rng(2).normal(0, 1e-3, X.shape)  # no value halfway between two others
    X = X + noise * X.std().to_numpy()
    search = ParetoMultiStage(**{**PROBLEM, "budget": 40}, classifier=TREE)
    copied = clone(search).fit(X, y, sample_weight=weights).problem_
    weighed = clone(search).fit(X, y, sample_weight=0.5 * weights).problem_
    assert weighed.data.n_validation < copied.data.n_validation
    designs = copied.space.sample(np.random.default_rng(0), 20)
    for name, values in copied.evaluate(designs).items():
        assert np.allclose(weighed.evaluate(designs)[name], values, rtol=1e-4), name
    drawn = [
        outcomes.metrics(resample_weights(outcomes.units, 9, np.random.default_rng(1)))
        for outcomes in (copied.outcomes(designs), weighed.outcomes(designs))
    ]
    for name, values in drawn[0].items():
        assert np.allclose(drawn[1][name], values, rtol=1e-4, equal_nan=True), name
    with pytest.raises(InputError, match="takes weights of records, found k_neighbors"):
        ParetoMultiStage(classifier="k_neighbors").fit(X, y, sample_weight=0.5 * weights)
    with pytest.raises(InputError, match=r"sample_weight that is not whole: .* found an exact one"):
        ParetoMultiStage(algorithm="exact").fit(X, y, sample_weight=0.5 * weights)
    for pool in over_two(X, y):
        with pytest.raises(InputError, match=r"whole numbers, how often .* found \d\.5; np\.round"):
            pool.fit(X, y, sample_weight=0.5 * weights)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("classifier", "refused"),
    [
        ({"kind": "sklearn.svm.SVC", "probability": True}, True),
        ({"kind": "gradient_boosting", "n_iter_no_change": 3, "n_estimators": 4}, True),
        ({"kind": "gradient_boosting", "n_estimators": 4}, False),
        ({"kind": "hist_gradient_boosting", "early_stopping": True, "max_iter": 3}, True),
        ({"kind": "hist_gradient_boosting", "max_iter": 3}, False),
        ({"kind": "k_neighbors"}, False),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else "",
)
@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_a_classifier_that_divides_records_is_refused(records, weights, classifier, refused):
    X, y = records
    search = ParetoMultiStage(classifier=classifier, budget=2, max_stages=2)
    if refused:
        with pytest.raises(InputError, match="which holds some back"):
            search.fit(X, y, sample_weight=weights)
    else:
        search.fit(X, y, sample_weight=weights)


# --- over fitted models --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool(records):
    """Return classifiers fitted on a part of the records, and the others with weights."""
    X, y = records
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    models = {"bayes": GaussianNB(), "linear": linear}
    for s in range(5):
        tree = DecisionTreeClassifier(max_depth=3, max_features=1, random_state=s)
        models[f"tree {s}"] = tree
    train = np.arange(len(y)) % 2 == 0
    for model in models.values():
        model.fit(X[train], y[train])
    return models, X[~train], y[~train]


@pytest.mark.quick(1)
@pytest.mark.parametrize("score", ["roc_auc", "accuracy", "log_loss", "brier"])
def test_ensembles_of_weighted_records(pool, weights, score):
    models, X, y = pool
    w = weights[: len(y)]
    search = ParetoEnsemble(models, metric=score, budget=150)
    found = clone(search).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w)
    copied = clone(search).fit(X.iloc[rows], y.iloc[rows])
    assert claimed(found.front_).equals(claimed(copied.front_))
    assert clone(search).fit(X, y, np.ones(len(y))).front_.equals(clone(search).fit(X, y).front_)
    best = found.choose(best=score)
    by_hand = {
        "roc_auc": lambda: roc_auc_score(y, best.predict_proba(X)[:, 1], sample_weight=w),
        "accuracy": lambda: accuracy_score(y, best.predict(X), sample_weight=w),
    }
    if score in by_hand:
        assert found.front_[score].max() == pytest.approx(by_hand[score](), abs=1e-5)


def test_ensembles_of_three_classes_and_of_numbers(weights):
    X, y = load_wine(return_X_y=True)
    w = weights[: len(y)]
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    models = {"bayes": GaussianNB().fit(X, y), "tree": tree}
    found = ParetoEnsemble(models, budget=60).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w)
    copied = ParetoEnsemble(models, budget=60).fit(X[rows], y[rows])
    assert claimed(found.front_).equals(claimed(copied.front_))
    target = X[:, 0]
    tree = DecisionTreeRegressor(max_depth=2).fit(X[:, 1:], target)
    values = {"line": LinearRegression().fit(X[:, 1:], target), "tree": tree}
    found = ParetoEnsemble(values, budget=60).fit(X[:, 1:], target, sample_weight=w)
    best = found.choose(best="rmse")
    error = np.sqrt(np.average((best.predict(X[:, 1:]) - target) ** 2, weights=w))
    assert found.front_["rmse"].min() == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("goal", ["accuracy", "balanced_accuracy"])
def test_pruned_voting_of_weighted_records(pool, weights, goal):
    models, X, y = pool
    w = weights[: len(y)]
    found = PrunedVoting(models, weights=goal).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w)
    repeated = PrunedVoting(models, weights=goal).fit(X.iloc[rows], y.iloc[rows])
    assert (found.members_, found.threshold_) == (repeated.members_, repeated.threshold_)
    assert found.gap_ == 0.0
    assert found.incumbent_ == repeated.incumbent_
    if goal == "accuracy":
        assert found.incumbent_ == w[found.predict(X) == y].sum()
    ones = PrunedVoting(models, weights=goal).fit(X, y, np.ones(len(y)))
    assert ones.incumbent_ == PrunedVoting(models, weights=goal).fit(X, y).incumbent_
    with pytest.raises(InputError, match="found none of 'benign'"):
        PrunedVoting(models).fit(X, y, sample_weight=np.asarray(y == "malignant", dtype=int))
