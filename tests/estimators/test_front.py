"""The five estimators that search take the same words and keep the same promises."""

import inspect
import pickle
import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn import metrics
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks as checks

from algorithms.cascade.estimator import ParetoCascade
from algorithms.ensembling.estimator import ParetoEnsemble
from algorithms.hull.estimator import ROCHull
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.multistage.model import MultiStageClassifier
from algorithms.pruning.estimator import PrunedVoting
from framework.errors import InputError
from framework.models.store import load_model
from framework.testing import check_model
from tests.conftest import covering

WORDS = {
    "objectives", "constraints", "where", "best", "sure", "rates", "positive", "costs", "algorithm",
    "budget", "workers", "random_state", "verbose",
}  # fmt: skip
CHOICES = {"where", "best", "sure", "costs", "prior", "per_unit", "prices"}
MODELS = {
    "linear": LogisticRegression(),
    "bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
}
POOL = {"models": MODELS, "costs": {"linear": 1, "bayes": 2, "tree": 4}, "folds": 2}
FIVE = {
    ParetoMultiStage: {"costs": [1, 2, 3, 4], "budget": 20, "max_stages": 2},
    ParetoEnsemble: {**POOL, "budget": 20},
    PrunedVoting: POOL,
    ParetoCascade: POOL,
    ROCHull: POOL,
}
POOLS = [cls for cls in FIVE if cls is not ParetoMultiStage]
each = pytest.mark.parametrize("cls", FIVE, ids=lambda cls: cls.__name__)
each_pool = pytest.mark.parametrize("cls", POOLS, ids=lambda cls: cls.__name__)


def records(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    noisy = X["a"] + X["b"] + rng.normal(size=n)
    return X, np.where(noisy > 0, "yes", "no")


def made(cls, **more):
    return cls(**{**FIVE[cls], **more})


@cache
def fitted(cls):
    return made(cls).fit(*records())


def claimed(front):
    """Return a front without what resamples tell, which draw the copies of a record together."""
    told = [n for n in front if n.startswith("expected_") or n.endswith(("_low", "_high"))]
    return front.drop(columns=[*told, "firm", "tied_with"])


@each
def test_all_take_the_same_words(cls):
    assert cls(**FIVE[cls]).get_params(deep=False).keys() >= WORDS
    assert list(inspect.signature(cls.fit).parameters) == [
        "self", "X", "y", "sample_weight", "groups",
    ]  # fmt: skip
    assert inspect.signature(cls.choose).parameters.keys() >= CHOICES


@each
def test_the_front_is_that_of_front_csv(cls):
    search = fitted(cls)
    front, known = search.front_, search._front
    assert front.index.name == "id"
    assert set(front.index) == set(known.ids.tolist())
    first, sign = known.roles.names[0], known.losses[:, 0]
    assert front[first].iloc[0] == known.rows.values[first][np.argmin(sign)]
    for metric in known.roles.names:
        assert {f"expected_{metric}", f"{metric}_low", f"{metric}_high"} <= set(front)
        assert (front[f"{metric}_low"] <= front[f"{metric}_high"]).all()
    assert front["firm"].between(0, 1).all()
    assert front["tied_with"].isin(front.index).all()
    for name in {"stages", "members", "chain_length"} & set(front):
        assert front[name].dtype == np.int64
    values = search.problem_.evaluate(known.X, None)
    np.testing.assert_array_equal(front.loc[known.ids, first], values[first])


@each
def test_what_is_recommended_predicts_is_shown_and_kept(cls, tmp_path):
    X, y = records()
    search = fitted(cls)
    said = search.predict(X)
    assert is_classifier(search)
    np.testing.assert_array_equal(said, search.model_.predict(X))
    assert search.predict_proba(X).shape == (len(X), 2)
    assert search.score(X, y) == search.model_.score(X, y) > 0.6
    shown = search._repr_html_()
    assert search.model_.card().title in shown
    assert f"solution {search.chosen_}" in shown
    search.save(tmp_path / "model", example=X[:2])
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), said)


@each
def test_what_has_an_onnx_form_is_written(cls, monkeypatch):
    monkeypatch.setattr(MultiStageClassifier, "save_onnx", lambda self, folder: [folder])
    if cls is ParetoMultiStage:
        assert fitted(cls).to_onnx("here") == ["here"]
        return
    with pytest.raises(InputError, match=r"to_onnx: expected .*save\(directory\) writes it"):
        fitted(cls).to_onnx("here")


@each
def test_choosing_takes_conditions_costs_and_prices(cls):
    search, X = fitted(cls), records()[0]
    first = search._front.roles.names[0]
    best = search.choose(best=first)
    np.testing.assert_array_equal(search.choose(id=search.chosen_).predict(X), search.predict(X))
    promise = search.expected(best=first)[first]
    assert promise.claimed == search.front_[first].iloc[0]
    assert promise.low <= promise.expected <= promise.high
    assert search.expected(id=search.chosen_)[first].claimed == search.front_[first][search.chosen_]
    metric = search._front.roles.metrics[first]
    limit = f"{first}{'>=' if metric.sense == 'max' else '<='}{promise.claimed!r}"
    assert search.choose(limit, sure=1).predict(X).shape == best.predict(X).shape
    with pytest.raises(InputError, match="sure: expected a percentage"):
        search.choose(limit, sure=200)
    with pytest.raises(InputError, match="where"):
        search.choose(f"{first}=={promise.claimed + 0.123}")
    with pytest.raises(InputError, match=r"expected words among where, .*; did you mean 'knee'"):
        search.choose(kneee=True)
    with pytest.raises(InputError, match=r"best: expected one of .* found 3"):
        search.choose(best=3)
    dear = {"a": 100.0} if cls is ParetoMultiStage else {"tree": 100.0}
    front = search._picked(best="cost", prices=dear)[1].front
    assert front.rows.values["cost"].max() > search._front.rows.values["cost"].max() - 1e-9
    assert search.choose(best=first, prices=dear).predict(X).shape == (len(X),)
    with pytest.raises(InputError, match="prices"):
        search.choose(prices={"nobody": 1.0})
    if "false_positive_rate" in search.front_:
        careful = search.choose(costs={"fp": 1000, "fn": 1}, prior=0.01)
        bold = search.choose(costs={"fp": 1, "fn": 1000}, prior=0.99)
        assert (careful.predict(X) == "yes").mean() <= (bold.predict(X) == "yes").mean()
    with pytest.raises(InputError, match="expected with costs, found alone"):
        search.choose(prior=0.5)


@each
def test_costs_and_shares_by_class_score_all_designs_again(cls):
    search, y = fitted(cls), records()[1]
    first = search._front.roles.names[0]
    if cls is ParetoMultiStage:
        front = search._picked(costs={"yes": 5})[1].front
        assert "error_cost" in front.roles.metrics
        best = front.rows.values["error_cost"].min()
        assert search.expected(costs={"yes": 5})["error_cost"].claimed == best
    else:
        with pytest.raises(InputError, match="costs: expected fp and fn, since costs by class"):
            search.choose(costs={"yes": 5})
    share = {label: float((y == label).mean()) for label in ("yes", "no")}
    if cls is ParetoCascade:
        with pytest.raises(InputError, match="prior: expected a problem whose records have known"):
            search.choose(best=first, prior=share)
        return
    same, _ = search.expected(best=first, prior=share), search.choose(best=first, prior=share)
    assert same[first].claimed == pytest.approx(search.expected(best=first)[first].claimed)
    if cls is PrunedVoting:  # of all that were evaluated, records of "yes" alone
        share = {"yes": 1 - 1e-6, "no": 1e-6}
        known, yes = search._source().evidence(), search.problem_.truth()[0] == 1
        of_yes = known.resamples.outcomes.metrics(yes[:, None] * 1.0)["accuracy"]
        of_yes = of_yes[: len(known.ids) - known.beside]
        found = search.expected(best="accuracy", prior=share)["accuracy"].claimed
        assert found == pytest.approx(np.nanmax(of_yes), abs=1e-4)


@each
def test_conventions_of_scikit_learn(cls):
    X, y = records()
    search = made(cls, random_state=2, verbose=False)
    again = clone(search)
    assert again.get_params(deep=False).keys() == search.get_params(deep=False).keys()
    assert again.set_params(where="cost<=1e9", best="cost").where == "cost<=1e9"
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert not hasattr(search, "front_")
    assert "<" in search._repr_html_()
    twin = pickle.loads(pickle.dumps(fitted(cls)))
    np.testing.assert_array_equal(twin.predict(X), fitted(cls).predict(X))
    pd.testing.assert_frame_equal(twin.front_, fitted(cls).front_)
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), again).fit(X, y)
    assert pipe.predict(X).shape == (len(X),)
    cheapest = pipe[-1].front_["cost"].min() if "cost" in pipe[-1].front_ else None
    if cheapest is not None:
        assert pipe[-1].front_["cost"][pipe[-1].chosen_] == cheapest
    for check in (
        checks.check_estimator_cloneable,
        checks.check_estimator_tags_renamed,
        checks.check_estimator_repr,
        checks.check_no_attributes_set_in_init,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_valid_tag_types,
    ):
        check(cls.__name__, made(cls))


@each
def test_weights_and_groups_are_routed(cls):
    X, y = records()
    groups = np.arange(len(y)) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        routed = made(cls).set_fit_request(sample_weight=True, groups=True)
        routed.set_score_request(sample_weight=False)
        assert str(clone(routed).get_metadata_routing()) == str(routed.get_metadata_routing())
        done = cross_validate(
            routed,
            X,
            y,
            cv=GroupKFold(2),
            params={"sample_weight": np.ones(len(y)), "groups": groups},
            error_score="raise",
        )
    assert (done["test_score"] > 0.5).all()
    with pytest.raises(InputError, match=r"^groups: expected two groups or more, found 1; leave"):
        made(cls).fit(X, y, groups=["one"] * len(y))


@each
def test_arrays_in_another_order_of_bytes_are_taken_as_what_they_hold(cls):
    X, y = records()
    X = X.assign(d=pd.Categorical(["u", "v"] * 60)) if cls is ParetoMultiStage else X
    codes, groups = np.unique(y, return_inverse=True)[1], np.arange(len(y)) // 3
    plain = made(cls).fit(X, codes, groups=groups)
    kinds = {name: ">f8" for name, kind in X.dtypes.items() if kind == "float64"}
    turned = X.astype(kinds)
    same = made(cls).fit(turned, codes.astype(">i8"), groups=groups.astype(">i8"))
    pd.testing.assert_frame_equal(plain.front_, same.front_)
    assert same.predict(turned).tolist() == plain.predict(X).tolist()


@each
def test_records_of_weight_2_are_there_twice(cls):
    """And a group is drawn whole: what is expected of copies is what is expected of groups."""
    X, y = records(60)
    weights = np.tile([1, 2, 0], 20)
    if cls in POOLS:
        models = {name: clone(model).fit(*records(60, 1)) for name, model in MODELS.items()}
        more = {"models": models}
    else:
        more = {"measure": "holdout"}
    once = made(cls, **more).fit(X, y, sample_weight=weights)
    if cls in POOLS:
        rows = np.repeat(np.arange(60), weights)
        twice = made(cls, **more).fit(X.iloc[rows], y[rows], groups=rows)
        pd.testing.assert_frame_equal(once.front_, twice.front_)
    kept = made(cls, **more).fit(X, y, sample_weight=np.sign(weights))
    left = made(cls, **more).fit(X[weights > 0], y[weights > 0])
    pd.testing.assert_frame_equal(claimed(kept.front_), claimed(left.front_))


@each
def test_groups_are_never_divided(cls):
    """Copies of records whose labels are noise: whoever has seen one knows the others."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = rng.normal(size=(40, 4))[groups]
    y = np.array(["no", "yes"])[rng.integers(0, 2, 40)[groups]]
    tree = DecisionTreeClassifier(random_state=0)
    more = {"classifier": "decision_tree", "threshold": 0.5, "max_stages": 1}
    if cls in POOLS:
        more = {"models": {"tree": tree, "bayes": GaussianNB(), "shallow": MODELS["tree"]}}
        more["costs"] = [1, 2, 3]
    front = made(cls, **more).fit(X, y, groups=groups).front_
    if cls is ROCHull:
        best = 1 - (front["false_negative_rate"] + front["false_positive_rate"]).min() / 2
    else:
        scores = ("accuracy", "balanced_accuracy", "roc_auc")
        best = front[next(name for name in scores if name in front)].max()
    assert best < 0.75


class Frame:
    """A data frame of another library: the names of its columns, and each by its name."""

    def __init__(self, frame):
        self._frame, self.shape, self.columns = frame, frame.shape, list(frame.columns)

    def __getitem__(self, name):
        return self._frame[name]


@pytest.mark.quick(1)
@pytest.mark.parametrize("cls", [ParetoMultiStage, *POOLS])
def test_frames_of_other_libraries(cls):
    X, y = records()
    foreign = made(cls).fit(Frame(X), y)
    pd.testing.assert_frame_equal(foreign.front_, fitted(cls).front_)
    np.testing.assert_array_equal(foreign.predict(Frame(X)), fitted(cls).predict(X))
    polars = pytest.importorskip("polars")  # extra test
    table = polars.DataFrame({name: X[name].to_numpy() for name in X})
    with pytest.raises(InputError, match=r"found a LazyFrame; collect\(\) it"):
        made(cls).fit(table.lazy(), y)
    weights = polars.Series([1] * len(y))
    found = made(cls).fit(table, polars.Series(y.tolist()), sample_weight=weights)
    pd.testing.assert_frame_equal(found.front_, fitted(cls).front_)
    np.testing.assert_array_equal(found.predict(table), fitted(cls).predict(X))
    first = found._front.roles.names[0]
    np.testing.assert_array_equal(
        found.choose(best=first).predict(table), found.choose(best=first).predict(X)
    )
    array = made(cls).fit(X.to_numpy(), y)
    assert claimed(array.front_).shape == claimed(fitted(cls).front_).shape


WRONG = [
    ({"objectives": ["nonsense"]}, "objectives: expected metrics"),
    ({"constraints": "cost"}, "constraints: expected METRIC"),
    ({"constraints": "cost<=-1"}, "constraints: (no candidate has cost <= -1|expected demands)"),
    ({"where": "nonsense>=1"}, "where: expected one of"),
    ({"best": "nonsense"}, "best: expected one of"),
    ({"sure": 90}, "sure: expected a limit too, such as"),
    ({"workers": 0}, "workers: expected"),
    ({"algorithm": "nonsense"}, "algorithm.*: expected"),
    ({"random_state": -1}, "random_state: expected a whole number from 0"),
]


@pytest.mark.parametrize(("mistake", "cls"), covering(WRONG, list(FIVE)))
def test_mistakes_are_one_sentence(cls, mistake):
    wrong, sentence = mistake
    if cls is ROCHull and "workers" in wrong:
        pytest.skip("a hull is found in this process")
    with pytest.raises(InputError, match=sentence):
        made(cls, **wrong).fit(*records())


@each_pool
def test_records_that_are_no_table_of_numbers_are_refused(cls):
    X, y = records()
    search, weights = made(cls), (y == "yes").astype(int)
    for wrong, labels, more, sentence in (
        (csr_array(X), y, {}, r"X: expected an array or a data frame, found a sparse csr_array"),
        (np.full(X.shape, np.nan), y, {}, "Input X contains NaN"),
        (X.to_numpy()[:, 0], y, {}, "Expected 2D array"),
        (X[:0], y[:0], {}, "X: expected records, found 0"),
        (X, ["yes"] * len(y), {}, "y: expected labels of two classes or more, found one class"),
        (X, y, {"sample_weight": weights}, "classes or more that count, found none of 'no'"),
        (X, y, {"sample_weight": weights * 0}, "a record that counts, found weights all zero"),
    ):
        with pytest.raises(ValueError, match=sentence):
            search.fit(wrong, labels, **more)
    with pytest.raises(ValueError, match="X has 3 features"):
        fitted(cls).predict(X.to_numpy()[:, :3])


@each_pool
def test_columns_that_are_numbers_have_no_names(cls):
    X, y = records()
    frame = X.set_axis(range(X.shape[1]), axis="columns")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(made(cls).fit(frame, y).predict(frame)) == len(y)


@pytest.mark.quick(2)
@each_pool
def test_predictions_do_where_models_are_not_at_hand(cls):
    X, y = records()
    models = {name: clone(model).fit(*records(seed=1)) for name, model in MODELS.items()}
    with_models = made(cls, models=models).fit(X, y)
    scores = {name: model.predict_proba(X)[:, 1] for name, model in models.items()}
    more = {name: value for name, value in FIVE[cls].items() if name not in ("models", "folds")}
    search = cls.from_predictions(scores, y, **more)
    values = claimed(with_models.front_).drop(columns="config_similarity", errors="ignore")
    pd.testing.assert_frame_equal(claimed(search.front_), values, rtol=1e-5)
    first = search._front.roles.names[0]
    assert search.expected(best=first)[first].claimed == search.front_[first].iloc[0]
    assert clone(search).models == list(models)
    assert f"solution {search.chosen_}" in search._repr_html_()
    with pytest.raises(InputError, match="predict: expected models, found predictions alone"):
        search.predict(X)
    if cls is ParetoCascade:  # a bare policy answers tables of calls
        assert search.choose(best=first).policy.models
    else:
        with pytest.raises(InputError, match="choose: expected models, found predictions alone"):
            search.choose(best=first)
    both = np.stack([1 - scores["tree"], scores["tree"]], axis=1)
    if cls is ParetoEnsemble:
        again = cls.from_predictions({**scores, "tree": both}, y, **more)
        assert len(again.front_)


@each_pool
@pytest.mark.parametrize("kind", [dict, list])
def test_fitted_models_stay_as_they_are(cls, kind):
    models = {name: clone(model).fit(*records(seed=1)) for name, model in MODELS.items()}
    pool = kind(models.items())
    again = clone(clone(made(cls, models=pool)).set_params(random_state=2))
    assert again.models is pool
    assert again.costs is not POOL["costs"]
    assert again.fit(*records()).models_ == models
    pd.testing.assert_frame_equal(clone(again).fit(*records()).front_, again.front_)
    with pytest.raises(InputError, match="all of them fitted, or none"):
        made(cls, models={**models, "new": GaussianNB()}, costs=None).fit(*records())


def test_regressors_are_no_classifiers():
    X, _ = records()
    search = ParetoEnsemble([Ridge(), Ridge(10.0)], folds=2, budget=10)
    assert not is_classifier(search)
    search.fit(X.drop(columns="a"), X["a"].to_numpy() + X["b"].to_numpy())
    assert not hasattr(search, "predict_proba")
    assert search.score(X.drop(columns="a"), X["a"] + X["b"]) > 0


def test_keys_of_data_sets_are_parameters():
    X, y = records()
    X = X.assign(a=X["a"].round(1).astype(str).where(X.index % 9 > 0, "none"), kind=X.index % 3)
    y = np.where(X.index < 4, "odd", y)
    search = made(
        ParetoMultiStage, costs=None, categorical=["kind"], missing=["none"], merge_rare=5
    )
    search.fit(X, y)
    assert search.classes_.tolist() == ["no", "other", "yes"]
    features = {f["name"]: f for f in search.model_.encoder_.to_json()["features"]}
    assert "categories" in features["kind"]
    assert "categories" not in features["a"]
    assert search.predict(X).shape == (len(X),)
    with pytest.raises(InputError, match=r"missing=\['none'\]"):
        made(ParetoMultiStage, costs=None).fit(X, y)


RATED = {"rates": ["precision", "recall:yes", "f1", "matthews"], "positive": "no"}


@each
def test_rates_are_those_of_the_answers(cls):
    X, y = records(200)
    search = clone(made(cls, **RATED, best="f1"))
    assert {key: search.get_params()[key] for key in RATED} == RATED
    if cls is not ParetoMultiStage:
        models = {name: clone(model).fit(X[:100], y[:100]) for name, model in MODELS.items()}
        X, y, search.models = X[100:], y[100:], models
    front = search.fit(X, y).front_
    problem = search.problem_
    for i, row in front.iterrows():
        if cls is ParetoMultiStage:  # records that models were not trained on
            answers = problem.answers(search._front.X[search._front.ids == i])
            said = np.array(["no answer", *answers.records.classes], object)[answers.codes[0] + 1]
            true = np.array(answers.records.classes)[answers.records.labels]
            true, said = true[said != "no answer"], said[said != "no answer"].astype(str)
        else:
            true, said = y, search.choose(id=i).predict(X)
        twin = {
            "precision": metrics.precision_score(true, said, pos_label="no", zero_division=0),
            "recall:yes": metrics.recall_score(true, said, pos_label="yes", zero_division=0),
            "f1": metrics.f1_score(true, said, pos_label="no", zero_division=0),
            "matthews": metrics.matthews_corrcoef(true, said),
        }
        assert row[list(twin)].to_dict() == pytest.approx(twin, abs=1e-12)
        for name in twin:
            assert row[f"{name}_low"] <= row[f"expected_{name}"] <= row[f"{name}_high"]
    assert search.chosen_ == front["f1"].idxmax()
    least = float(front["precision"].median())
    bounded = clone(search).set_params(constraints=f"precision>={least}").fit(X, y)
    assert bounded.front_["precision"].min() >= least


@each
def test_without_rates_nothing_changes(cls):
    (X, y), plain = records(), fitted(cls)
    named = made(cls, rates="matthews").fit(X, y)
    assert named.problem_.fingerprint != plain.problem_.fingerprint
    assert "matthews" not in plain.front_
    assert made(cls, rates=None).fit(X, y).problem_.fingerprint == plain.problem_.fingerprint
    pd.testing.assert_frame_equal(named.front_[plain.front_.columns], plain.front_)


@each
@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"rates": "precison"}, "rates: expected precision, .*found 'precison'; did you mean"),
        ({"rates": [1]}, "rates: expected precision, .*found '1'"),
        ({"rates": ["recall:perhaps"]}, "rates: expected a class of the data .*'recall:perhaps'"),
        ({"rates": "f1", "positive": "perhaps"}, "positive: expected one of .*found 'perhaps'"),
    ],
)
def test_rates_that_do_not_fit_are_refused_by_their_parameter(cls, asked, sentence):
    place = r"ParetoMultiStage\." if cls is ParetoMultiStage else ""
    with pytest.raises(InputError, match=f"^{place}{sentence}"):
        made(cls, **asked).fit(*records())


def test_rates_of_scores_of_several_classes_and_of_regressors():
    X, y = records()
    table = {name: clone(m).fit(X, y).predict_proba(X) for name, m in MODELS.items()}
    of_pool: list[Any] = POOLS
    for cls in of_pool:
        asked = {} if cls in (PrunedVoting, ROCHull) else {"costs": [1, 2, 3]}
        front = cls.from_predictions(table, y, rates="recall:no", **asked).front_
        assert front["recall:no"].between(0, 1).all()
    dear = made(ROCHull, **RATED).fit(X, y).expected(best="f1", prices={"tree": 100})
    assert set(dear) >= {"precision", "recall:yes", "f1", "matthews", "cost"}
    soft = made(PrunedVoting, voting="soft", **RATED).fit(X, y)
    assert soft.problem_.positive_code() == 0
    several = np.where(X["c"] > 1, "perhaps", y)
    with pytest.raises(InputError, match=r"^rates: expected recall:CLASS"):
        made(
            PrunedVoting,
            weights="accuracy",
            rates="recall",
            models=list(MODELS.values()),
            costs=None,
        ).fit(X, several)
    with pytest.raises(InputError, match=r"^positive: expected two classes, found 3"):
        made(PrunedVoting, weights="accuracy", positive="no").fit(X, several)
    with pytest.raises(InputError, match=r"^rates: expected classifiers, found"):
        ParetoEnsemble([Ridge(), Ridge(10.0)], folds=2, rates="f1").fit(X, X["a"].to_numpy())


@pytest.mark.slow
def test_several_workers_find_the_same():
    pytest.importorskip("ray")
    found = made(ParetoCascade, workers=2).fit(*records())
    pd.testing.assert_frame_equal(found.front_, fitted(ParetoCascade).front_)


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_pruning_of_several_classes_is_counted_vote_by_vote(voting, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, 4)), np.array(list("abc"))[rng.integers(0, 3, 150)]
    X[np.arange(150), np.unique(y, return_inverse=True)[1]] += 1.5
    pool = {f"tree {k}": DecisionTreeClassifier(max_depth=2 + k, random_state=k) for k in range(4)}
    pool = {name: model.fit(X[:70], y[:70]) for name, model in pool.items()}
    search = PrunedVoting(pool, voting=voting, weights="accuracy", max_members=3, budget=60)
    search.fit(X[70:], y[70:])
    classes = np.array(list("abc"))
    for id, row in search.front_.iterrows():
        shares = [pool[name].predict_proba(X[70:]) for name in row["models"]]
        if voting == "hard":
            shares = [np.eye(3)[part.argmax(axis=1)] for part in shares]
        said = classes[np.mean(shares, axis=0).argmax(axis=1)]
        assert row["accuracy"] == pytest.approx((said == y[70:]).mean())
        assert 1 <= row["members"] == len(row["models"]) <= 3
        model = search.choose(id=id)
        np.testing.assert_array_equal(model.predict(X[70:]), said)
    assert search.front_["accuracy"].max() == search.front_["accuracy"][search.chosen_]
    assert search.members_ == search.front_["models"][search.chosen_]
    assert not hasattr(search, "bound_")
    check_model(search.model_, pd.DataFrame(X[70:80]))
    with pytest.raises(InputError, match="diversity: expected hard votes of two classes"):
        clone(search).set_params(diversity="f2").fit(X[70:], y[70:])


def test_two_objectives_of_pruning_are_an_exact_front():
    X, y = records()
    search = made(PrunedVoting, objectives=["accuracy", "members"], max_members=2).fit(X, y)
    assert search.front_["members"].max() <= 2
    every = made(PrunedVoting, objectives=["accuracy", "members"]).fit(X, y)
    problem = every.problem_
    genomes = np.array(
        [problem.genome([k & 1, k >> 1 & 1, k >> 2], t) for k in range(1, 8) for t in range(4)]
    )
    values = problem.evaluate(genomes)
    for members, accuracy in zip(every.front_["members"], every.front_["accuracy"], strict=True):
        assert accuracy == values["accuracy"][values["members"] <= members].max()


@pytest.mark.parametrize("cls", [ParetoEnsemble, PrunedVoting], ids=lambda cls: cls.__name__)
def test_a_mean_over_classes_is_no_surer_than_the_rarest_class(cls):
    rng = np.random.default_rng(0)
    y = np.arange(200) < 6  # all found, and 10% of the others
    said = {f"model {i}": np.where(y | (rng.random(200) < 0.1), 0.9, 0.1) for i in range(3)}
    words = {"metric": "balanced_accuracy"} if cls is ParetoEnsemble else {}
    row = cls.from_predictions(said, y, verbose=False, **words).front_.iloc[0]
    # of six records, half and one at each end: four right of five
    assert row["balanced_accuracy_low"] < (0.8 + row["balanced_accuracy"]) / 2


def test_a_range_is_of_the_resamples_in_which_a_figure_is_defined():
    rng = np.random.default_rng(0)
    y = np.arange(100) < 4  # some resamples have no record of this class
    said = {f"model {i}": np.clip(rng.normal(0.3 + 0.4 * y, 0.2), 0, 1) for i in range(3)}
    front = ParetoEnsemble.from_predictions(said, y, metric="roc_auc", verbose=False).front_
    assert (front["roc_auc_low"] < front["expected_roc_auc"]).all()
    assert (front["roc_auc_high"] > front["expected_roc_auc"]).all()


@each
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: X[:0], "X: expected records, found 0 of them"),
        (
            lambda X: X.set_axis(["a", "b", "b", "d"], axis=1),
            "X: expected distinct column names, found 'b' more than once; rename one",
        ),
        (lambda X: X.drop(columns="b"), "now missing:\n- b"),
        (lambda X: X.rename(columns={"b": "B"}), "now missing:\n- b|did you mean 'B'"),
        (lambda X: X[["c", "b", "a", "d"]], "must be in the same order"),
    ],
    ids=["empty", "repeated", "missing", "renamed", "shuffled"],
)
def test_odd_records_are_refused(cls, change, sentence):
    for method in ("predict", "predict_proba"):
        with pytest.raises(ValueError, match=sentence):
            getattr(fitted(cls), method)(change(records()[0]))


@each
def test_repeated_names_and_missing_labels_are_refused_by_fit(cls):
    X, y = records(80)
    with pytest.raises(ValueError, match="distinct column names, found 'b' more than once"):
        made(cls).fit(X.set_axis(["a", "b", "b", "d"], axis=1), y)
    y = pd.Series(y).astype(object).where(np.arange(80) % 40 != 3, np.nan)
    with pytest.raises(ValueError, match=r"fit: expected a label in each .* found 2 .* record 4"):
        made(cls).fit(X, y)
