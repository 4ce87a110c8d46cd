"""ParetoEnsemble: fitted models in, a front and a deployable ensemble out."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from algorithms.ensembling.estimator import ParetoEnsemble
from framework.data.splits import fold_records
from framework.errors import InputError

CLASSIFIERS = {
    "linear": LogisticRegression(max_iter=5000),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "bayes": GaussianNB(),
}
COSTS = {"memory": [1.0, 2.0, 20.0, 1.5], "inference_time": [1.0, 0.5, 9.0, 2.0]}


def fitted(models, data, frame=False):
    """Return fitted clones and the records that they have not seen."""
    trained, X, y = _fitted(tuple(models.items()), data, frame)
    return dict(trained), X, y


@cache
def _fitted(models, data, frame):
    X, y = data(return_X_y=True, as_frame=frame)
    X, X_val, y, y_val = train_test_split(X, y, random_state=0, test_size=0.4)
    return {name: clone(model).fit(X, y) for name, model in models}, X_val, y_val


@pytest.mark.quick(2)
@pytest.mark.parametrize("data", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("search", ["pareto_es", "hapens", "multi_ges"])
def test_the_front_says_what_the_chosen_ensembles_do(data, search):
    models, X, y = fitted(CLASSIFIERS, data)
    ensemble = ParetoEnsemble(
        models, costs=COSTS, objectives=["roc_auc", "memory"], algorithm=search, budget=400
    ).fit(X, y)
    front = ensemble.front_
    assert list(front.columns[-4:]) == list(models)
    assert front["memory"].is_monotonic_decreasing
    for i in range(len(front)):
        voting = ensemble.ensemble(front.iloc[i][list(models)])
        p = voting.predict_proba(X)
        p = p if p.shape[1] > 2 else p[:, 1]
        assert abs(roc_auc_score(y, p, multi_class="ovr") - front.iloc[i]["roc_auc"]) < 1e-4
        assert voting.predict_cost()["memory"] == pytest.approx(front.iloc[i]["memory"])


def test_regression_labels_as_text_and_the_number_of_members():
    models = {
        "ridge": Ridge(),
        "near": KNeighborsRegressor(),
        "tree": DecisionTreeRegressor(max_depth=3),
    }
    fit, X, y = fitted(models, load_diabetes)
    ensemble = ParetoEnsemble(list(fit.items()), budget=300).fit(X, y)
    assert {"rmse", "members"} <= set(ensemble.front_.columns)
    best = ensemble.choose(best="rmse")
    assert root_mean_squared_error(y, best.predict(X)) == pytest.approx(
        ensemble.front_["rmse"].min(), rel=1e-6
    )
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["bad", "good"])[y]
    fit = {name: clone(model).fit(X[::2], names[::2]) for name, model in CLASSIFIERS.items()}
    found = ParetoEnsemble(fit, budget=200).fit(X[1::2], names[1::2]).choose(best="roc_auc")
    assert set(found.predict(X)) == {"bad", "good"}


def test_costs_by_name_go_to_the_models_that_they_name():
    models, X, y = fitted(CLASSIFIERS, load_wine)
    want = ParetoEnsemble(models, costs=COSTS, budget=50).fit(X, y).library_.costs
    frame = pd.DataFrame(COSTS, index=list(models)).iloc[::-1]
    for costs in (frame, dict(frame.items()), {name: frame[name].to_dict() for name in COSTS}):
        found = ParetoEnsemble(models, costs=costs, budget=50).fit(X, y)
        for name in COSTS:
            assert found.library_.costs[name].values.tolist() == want[name].values.tolist()
        chosen = found.choose(best="roc_auc")
        assert chosen.predict_cost()["memory"] == sum(frame["memory"][n] for n in chosen.names_)
    with pytest.raises(InputError, match=r"one of '0', which is no model.*give a list"):
        ParetoEnsemble(models, costs={"memory": pd.Series([1.0, 2.0, 20.0, 1.5])}).fit(X, y)


@pytest.mark.slow
def test_measured_costs():
    models, X, y = fitted({"linear": CLASSIFIERS["linear"]}, load_wine)
    front = ParetoEnsemble(models, costs="measured", budget=5).fit(X, y).front_
    assert {"inference_time", "memory", "disk"} <= set(front.columns)
    assert (front["disk"] > 0).all()


def test_mistakes():
    models, X, y = fitted(CLASSIFIERS, load_wine)
    for parameters, message in (
        ({"objectives": ["roc_auc", "memroy"]}, r"found 'memroy'; did you mean 'memory'"),
        ({"algorithm": "hapenz"}, "did you mean 'hapens'"),
        ({"algorithm": {"kind": "pareto_es", "bach": 3}}, "algorithm: bach: unknown key"),
        ({"budget": 0}, "budget: evaluations"),
        ({"algorithm": "emsco"}, "take another algorithm"),
    ):
        with pytest.raises(InputError, match=message):
            ParetoEnsemble(models, costs=COSTS, **parameters).fit(X, y)
    with pytest.raises(InputError, match="folds: expected a whole number, 2 or more, found 1"):
        ParetoEnsemble({"new": GaussianNB()}, folds=1).fit(X, y)
    with pytest.raises(InputError, match="different names"):
        ParetoEnsemble([("a", models["tree"]), ("a", models["linear"])]).fit(X, y)
    with pytest.raises(InputError, match="names that no metric has, found 'members'"):
        ParetoEnsemble({"members": models["tree"]}).fit(X, y)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("frame", [False, True])
def test_models_that_are_not_fitted_are_measured_out_of_fold(copies, frame):
    X, y = load_breast_cancer(return_X_y=True, as_frame=frame)
    models = {"bayes": GaussianNB(), "tree": DecisionTreeClassifier(max_depth=3, random_state=0)}
    times = np.arange(len(y)) % 3 if copies else np.ones(len(y), dtype=int)
    weight = times if copies else None
    search = ParetoEnsemble(models, costs={"memory": [1, 2]}, budget=50, folds=3)
    found = search.fit(X, y, sample_weight=weight)
    rows = np.flatnonzero(times)
    values = np.asarray(X)
    fold_of = fold_records(np.asarray(y)[rows], 3, 0)
    expected = np.empty((2, len(y)), dtype=np.float32)
    for fold in range(3):
        others, held = rows[fold_of != fold], rows[fold_of == fold]
        every = np.repeat(others, times[others])
        for k, model in enumerate(models.values()):
            twin = clone(model).fit(values[every], np.asarray(y)[every])
            expected[k, held] = twin.predict_proba(values[held])[:, 1]
    assert np.array_equal(found.library_.validation, np.repeat(expected, times, axis=1))
    assert found.library_.folds == 3
    about = found.problem_.describe()
    assert (about["out_of_fold"], about["measure"]) == (len(rows), "cross-validation, 3 folds")
    every = np.repeat(rows, times[rows])
    whole = GaussianNB().fit(values[every], np.asarray(y)[every])
    assert np.array_equal(found.models_["bayes"].theta_, whole.theta_)
    for counts in ([1], [1, 1, 1], [0, 0], [-1, 2]):
        with pytest.raises(InputError, match=r"counts: expected counts of 2 items, .* found"):
            found.ensemble(counts)
    model = found.ensemble([1, 0])
    assert np.array_equal(model.predict_proba(X)[:, 1], whole.predict_proba(values)[:, 1])
    assert not hasattr(models["bayes"], "theta_")  # what was given stays as it was


@pytest.mark.parametrize("seed", range(4))
def test_on_other_records_a_model_may_be_worse_than_the_worst_one_here(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=150)
    P = {"bad": y + 1.5 * rng.normal(size=150), "good": y + 0.5 * rng.normal(size=150)}
    options = {"costs": {"bad": 1, "good": 2}, "metric": ["rmse", "r2"], "budget": 50}
    front = ParetoEnsemble.from_predictions(P, y, **options).front_
    worst = front.loc[front["rmse"].idxmax()]  # the mean squared error of all records is 2.25
    assert worst["rmse_low"] < 1.5 < worst["rmse_high"]
    assert worst["rmse"] + 0.1 < worst["rmse_high"]
    assert worst["r2_low"] < worst["r2"] - 0.1 < worst["r2"] < worst["r2_high"] < 0.5
    likely = 1 / (1 + np.exp(-3 * np.stack([*P.values()])))
    options["metric"] = ["log_loss", "brier"]
    front = ParetoEnsemble.from_predictions(
        dict(zip(P, likely, strict=True)), (y > 0).astype(int), **options
    ).front_
    worst = front.loc[front["log_loss"].idxmax()]
    for name in ("log_loss", "brier"):
        below, above = worst[name] - worst[f"{name}_low"], worst[f"{name}_high"] - worst[name]
        assert 0 < below < 3 * above
        assert 0 < above < 3 * below
