"""ParetoMultiStage: a data frame in, a front and a deployable model out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from algorithms.multistage.config import MultiStageSettings
from algorithms.multistage.estimator import ParetoMultiStage
from framework.data.splits import SplitConfig, split_records
from framework.errors import InputError
from framework.models.store import load_model, save_model

NAMES = ["mean radius", "mean texture", "mean area", "worst area", "worst concavity"]
COSTS = {"mean radius": 1, "mean texture": 2, "mean area": 1, "worst area": 5, "worst concavity": 6}


@pytest.fixture(scope="module")
def records() -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X[NAMES], y.map({0: "malignant", 1: "benign"})


@pytest.fixture(scope="module")
def search(records) -> ParetoMultiStage:
    options = {"costs": COSTS, "threshold": 0.9, "remove_features": True, "measure": "holdout"}
    return ParetoMultiStage(**options, budget=150).fit(*records)


def test_the_front_says_what_its_designs_do_on_the_validation_records(records, search):
    X, y = records
    codes = np.unique(y, return_inverse=True)[1]
    shares = SplitConfig(train=0.7, validation=0.3, test=0, seed=0)
    held = split_records(codes, shares).validation
    assert len(search.front_) > 3
    assert search.front_["coverage"].is_monotonic_decreasing
    for id, row in search.front_.iterrows():
        model = search.choose(id=id)
        answered = model.conclusive(X.iloc[held])
        right = (model.predict(X.iloc[held]) == y.iloc[held])[answered]
        assert answered.mean() == row["coverage"]
        assert (right.mean() if len(right) else 0) == row["accuracy"]
        assert model.acquisition_cost(X.iloc[held]).mean() == pytest.approx(row["cost"])
        assert [X.columns[stage].tolist() for stage in model.stages_] == row["features"]


def test_the_recommended_design_predicts(records, search):
    X, y = records
    assert search.classes_.tolist() == ["benign", "malignant"]
    assert (search.predict(X) == search.model_.predict(X)).all()
    assert search.score(X, y) == np.mean(search.predict(X) == y) > 0.85
    assert search.predict_proba(X).shape == (len(X), 2)
    cheap = clone(search).set_params(where="cost<=3", best="accuracy").fit(X, y)
    assert cheap.model_.acquisition_cost(X).mean() < search.model_.acquisition_cost(X).mean()
    with pytest.raises(InputError, match="no solution is left"):
        clone(search).set_params(where="cost<=0.1").fit(X, y)


def test_errors_that_did_not_occur_may_occur_yet():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = np.where(X["a"] > 0, "q", "p")
    X["a"] += 0.6 * np.sign(X["a"])
    search = ParetoMultiStage(threshold=0.5, remove_features=True, budget=50).fit(X, y)
    found = search.expected(costs={"q": 10}, best="accuracy")
    assert found["accuracy"].claimed == 1.0 > found["accuracy"].low
    assert found["error_cost"].claimed == found["error_cost"].low == 0.0
    assert found["error_cost"].high > 0.1


def test_the_score_is_of_the_answers_alone(records, search):
    X, y = records
    rejecting = clone(search).set_params(reject_label="unsure").fit(X, y)
    answers = rejecting.predict(X)
    answered = answers != "unsure"
    assert 0 < answered.mean() < 1
    assert rejecting.score(X, y) == np.mean(answers[answered] == y[answered]) > search.score(X, y)
    weights = np.where(answered, 1.0, 5.0)
    assert rejecting.score(X, y, weights) == rejecting.score(X, y)
    assert rejecting.model_.score(X[~answered], y[~answered]) == 0.0
    for label in ("benign", ["unsure"]):
        with pytest.raises(InputError, match="a label that is no class, found "):
            clone(search).set_params(reject_label=label).fit(X, y)
    clone(search).set_params(reject_label=pd.NA).fit(X, y)


def test_weights_count_in_the_score(records, search):
    X, y = records
    right = np.asarray(search.predict(X) == y)
    weights = np.where(right, 1.0, 3.0)
    expected = right.sum() / weights.sum()
    assert search.score(X, y.to_frame()) == right.mean()  # a column, as fit takes it
    assert search.score(X, y, sample_weight=weights) == pytest.approx(expected)
    twice = np.r_[np.arange(len(X)), np.flatnonzero(~right), np.flatnonzero(~right)]
    assert search.score(X.iloc[twice], y.iloc[twice]) == pytest.approx(expected)
    for wrong, found in ((weights[1:], "inconsistent numbers"), (-weights, "from 0, found others")):
        with pytest.raises((ValueError, InputError), match=found):
            search.score(X, y, sample_weight=wrong)


@pytest.mark.parametrize(
    "costs",
    [
        pytest.param(dict(reversed(COSTS.items())), id="mapping in another order"),
        pytest.param(pd.Series(COSTS).sort_index(), id="series in another order"),
        pytest.param(list(COSTS.values()), id="list"),
        pytest.param(np.array(list(COSTS.values())), id="array"),
    ],
)
def test_costs_go_by_name(costs, records, search):
    found = clone(search).set_params(costs=costs).fit(*records)
    pd.testing.assert_frame_equal(found.front_, search.front_)


@pytest.mark.parametrize(
    "costs",
    [
        list(COSTS.values()),
        pd.Series(list(COSTS.values())),
        {f"x{i}": c for i, c in enumerate(COSTS.values())},
    ],
    ids=["list", "series", "mapping"],
)
def test_arrays_give_the_same_front(costs, records, search):
    X, y = records
    found = clone(search).set_params(costs=costs).fit(X.to_numpy(), y.to_numpy())
    assert found.front_.drop(columns="features").equals(search.front_.drop(columns="features"))
    assert (found.predict(X.to_numpy()) == search.predict(X)).all()
    assert not hasattr(found.model_, "feature_names_in_")


def test_a_table_as_people_have_it(tmp_path):
    rng = np.random.default_rng(3)
    n = 240
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "cost": np.where(rng.random(n) < 0.1, np.nan, y + rng.normal(0, 0.7, n)),
            "colour": np.array(["red", "green", "blue"])[np.where(rng.random(n) < 0.8, y, 0)],
            "size": pd.Categorical.from_codes(np.where(rng.random(n) < 0.7, y, 1), list("SML")),
            "target": rng.normal(size=n),
        },
        index=rng.permutation(n) * 7,
    )
    search = ParetoMultiStage(costs={"cost": 1, "colour": 4, "size": 2, "target": 1}, budget=200)
    search.fit(frame, pd.Series(y, index=frame.index))
    assert search.classes_.tolist() == [0, 1, 2]
    assert search.score(frame, y) > 0.6
    model = search.choose(best="coverage")
    save_model(model, tmp_path / "model")
    answers = load_model(tmp_path / "model").predict_table(frame[frame.columns[::-1]])
    assert (answers["label"].to_numpy() == model.predict(frame)).all()
    assert answers.index.equals(frame.index)


def test_it_is_an_estimator_and_repeats_itself(records, search):
    X, y = records
    again = clone(search).fit(X, y)
    pd.testing.assert_frame_equal(again.front_, search.front_)
    other = clone(search).set_params(random_state=1).fit(X, y)
    assert not other.front_.equals(search.front_)
    scores = cross_val_score(clone(search).set_params(budget=60), X, y, cv=3)
    assert (scores > 0.8).all()
    gaps = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    pipeline = make_pipeline(
        SimpleImputer().set_output(transform="pandas"), clone(search).set_params(budget=60)
    )
    grid = GridSearchCV(pipeline, {"paretomultistage__where": ["cost<=4", "cost<=9"]}, cv=2)
    assert grid.fit(gaps, y).score(gaps, y) > 0.8


def test_wine_has_three_classes_and_thresholds_by_class():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    search = ParetoMultiStage(threshold={0: 0.9, 1: 0.8, 2: 0.95}, budget=200).fit(X, y)
    assert search.predict_proba(X).shape == (len(X), 3)
    assert (search.model_.thresholds_ == [0.9, 0.8, 0.95]).all()


def test_defaults_are_those_of_a_configuration(search):
    defaults = MultiStageSettings()
    for name in ("threshold", "max_stages", "remove_features", "decision"):
        assert getattr(ParetoMultiStage(), name) == getattr(defaults, name)
    assert defaults.calibration == "none"  # unless costs decide, in both
    assert ParetoMultiStage().classifier == defaults.classifier.kind


def test_objectives_and_constraints_are_asked_for(records, search):
    asked = {"objectives": ["accuracy", "cost"], "constraints": "coverage>=0.7"}
    found = clone(search).set_params(**asked).fit(*records)
    assert (found.front_["coverage"] >= 0.7).all()
    assert found.front_["accuracy"].is_monotonic_decreasing
    assert found.front_["cost"].is_monotonic_decreasing  # no third objective keeps others
    bounded = clone(search).set_params(constraints=["cost<=4", "false_positive_rate<=0.1"])
    kept = bounded.fit(*records).front_
    assert (kept["cost"] <= 4).all()
    assert (kept["false_positive_rate"] <= 0.1).all()


def patients(n=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": list("uv") * (n // 2)})
    return X, (X["a"] + X["b"] > 0).astype(int).to_numpy()


def test_records_that_are_divided_from_their_copies_are_told():
    X, y = np.repeat(np.random.default_rng(0).random((40, 2)), 3, axis=0), np.tile([0, 1, 1], 40)
    search = ParetoMultiStage(budget=10, max_stages=2, verbose=False)
    with pytest.warns(UserWarning, match="80 of 120 records .* are divided as they fall"):
        search.fit(X, y)


def test_numbers_written_as_text_are_read_with_a_warning():
    X, y = patients()
    amounts = np.random.default_rng(1).integers(1000, 10_000, len(X))
    X["income"] = [f"{amount:,}" for amount in amounts]
    X.loc[3, "income"] = "?"
    search = ParetoMultiStage(budget=30, max_stages=1)
    told = "column 'income': numbers written as text, .* as missing"
    with pytest.warns(UserWarning, match=told) as caught:
        search.fit(X, y)
    assert caught[0].filename == __file__  # the line that called fit, not one further out
    plain = X.assign(income=amounts.astype(float))
    plain.loc[3, "income"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = ParetoMultiStage(budget=30, max_stages=1).fit(plain, y)
        as_texts = X.assign(income=X["income"].str[0].astype("category"))
        other = ParetoMultiStage(budget=30, max_stages=1).fit(as_texts, y)
        codes = X.assign(income=(amounts % 3).astype(str))
        codes = ParetoMultiStage(budget=30, categorical=["income"]).fit(codes, y)
    np.testing.assert_array_equal(search.predict_proba(X), same.predict_proba(plain))
    for made in (other, codes):
        assert "categories" in made.model_.encoder_.to_json()["features"][3]


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (["0.1", "<0.1"] + ["0.3"] * 118, r"found '<0.1' in record 2; .* missing=\['<0.1'\]"),
        ([["x"]] * 120, "found list; convert it or leave it out of the frame"),
    ],
)
def test_messages_on_columns_name_no_keys_of_a_configuration(column, found):
    X, y = patients()
    with pytest.raises(InputError, match=found) as caught:
        ParetoMultiStage(budget=30).fit(X.assign(a=column), y)
    for key in ("categorical:", "drop", "missing:", "dataset"):
        assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"validation": 1.0}, "^validation: expected a share above 0 and below 1, found 1.0"),
        ({"validation": 1.5}, "^validation: expected a share above 0 and below 1, found 1.5"),
        ({"validation": "half"}, "^validation: expected a share"),
        ({"validation": 0.999}, "ParetoMultiStage.validation: .*; lower validation$"),
        ({"random_state": None}, "^random_state: expected a whole number from 0, found None"),
        ({"costs": [-1, 2, 3]}, "ParetoMultiStage: costs.a: expected a number of at least 0"),
        ({"costs": [1, 2]}, "ParetoMultiStage.costs: expected 3 entries, one a feature, found 2$"),
        ({"costs": {"a": 1}}, "found none for b, c; give them$"),
        ({"costs": "abc"}, "^costs: expected numbers, found 'abc'"),
        ({"costs": {"a": "dear"}}, "^costs: expected numbers by feature"),
        ({"costs": {**dict.fromkeys("abc", 1), "income": 1}}, "costs: .* found 'income'"),
        ({"threshold": 1.5}, "ParetoMultiStage.threshold: expected confidences above 0"),
        ({"max_stages": 9}, "ParetoMultiStage.max_stages: expected at most the 3 features"),
        ({"classifier": "forest"}, "classifier"),
        ({"constraints": "acuracy>=0.9"}, "constraints: .* did you mean 'accuracy'"),
        ({"constraints": "cost==3"}, "expected METRIC<=NUMBER or METRIC>=NUMBER, found 'cost==3'"),
        ({"constraints": "cost<=0"}, "constraints: no candidate has cost <= 0; the best is"),
        ({"algorithm": "hapens"}, "take another algorithm"),
        ({"algorithm": "emsko"}, "did you mean 'emsco'"),
        ({"budget": {"generation": 3}}, "did you mean 'generations'"),
    ],
)
def test_messages_name_the_parameters_of_the_estimator(parameters, found):
    X, y = patients()
    with pytest.raises(InputError, match=found) as caught:
        ParetoMultiStage(**{"budget": 30, **parameters}).fit(X, y)
    for key in ("split", "values", "default", "target"):
        assert key not in str(caught.value)


def test_a_split_is_named_as_it_is_written():
    X, y = patients()
    with pytest.raises(InputError, match="ParetoMultiStage: split: expected window only with"):
        ParetoMultiStage(budget=30, split={"window": "sliding"}).fit(X, y)


@pytest.mark.parametrize("reject_label", [None, -1])
def test_predict_returns_labels_as_they_were_given(reject_label, tmp_path):
    X, y = patients()
    search = ParetoMultiStage(budget=30, threshold=0.9, reject_label=reject_label)
    said = search.fit(X, y.astype(float)).predict(X)
    assert said.dtype == search.classes_.dtype == np.float64
    search.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), said)


def test_rare_labels_are_told_in_words_of_the_estimator():
    X, y = patients()
    with pytest.raises(InputError, match=r"in y, found 2 of 'c'.*; remove its records") as caught:
        ParetoMultiStage(budget=30).fit(X, np.array(["c", "c", *np.array(["a", "b"])[y[2:]]]))
    assert "merge_rare" not in str(caught.value)
    with pytest.raises(InputError, match="merge them with merge_rare=3"):
        ParetoMultiStage(budget=30).fit(X, np.array([*"ccd", *np.array(["a", "b"])[y[3:]]]))
    measure = {"kind": "cross_validation", "folds": 5}
    with pytest.raises(InputError, match=r"measure.folds: .*merge rare classes with merge_rare,"):
        ParetoMultiStage(measure=measure).fit(X, np.array([*"cccddd", *np.where(y[6:], "a", "b")]))


def test_rare_labels_that_are_merged_are_one_class_for_the_score_too():
    X, y = patients()
    labels = np.array([*"ccddd", *np.array(["a", "b"])[y[5:]]])
    search = ParetoMultiStage(budget=30, merge_rare=8, random_state=0).fit(X, labels)
    merged = np.where(np.isin(labels, ["a", "b"]), labels, "other")
    assert (
        search.score(X, labels) == search.score(X, merged) == (search.predict(X) == merged).mean()
    )
    numbers = np.array([*[7, 7, 8, 8, 8], *y[5:]])
    with pytest.raises(InputError, match=r"merge_rare: expected texts as labels.*astype\(str\)"):
        ParetoMultiStage(budget=30, merge_rare=8).fit(X, numbers)


def test_groups_are_kept_together_as_an_array_or_a_column(records):
    X, y = records
    patient = np.arange(len(X)) // 3
    by_array = ParetoMultiStage(budget=60, random_state=0).fit(X, y, groups=patient)
    own = by_array.problem_.data
    counts = np.bincount(own.units)
    assert sorted(set(counts.tolist())) == [1, 2, 3][-len(set(counts.tolist())) :]
    for fold in own.folds:
        kept = set(own.units[fold.rows])
        assert not kept & set(np.delete(own.units, fold.rows))
    by_column = ParetoMultiStage(budget=60, random_state=0, split={"group": "patient"})
    by_column.fit(X.assign(patient=patient), y)
    assert by_column.problem_.feature_names == by_array.problem_.feature_names
    np.testing.assert_array_equal(by_column.problem_.data.units, own.units)
    pd.testing.assert_frame_equal(by_column.front_, by_array.front_)
    assert by_column.feature_names_in_.tolist() == X.columns.tolist()
    expected, model = by_array.predict(X), by_column.choose(best="accuracy")
    for new in (X, X.assign(patient=-1), X.assign(unknown="x")):  # further columns are no features
        assert (by_column.predict(new) == expected).all()
        assert (by_column.model_.predict(new) == expected).all()
        assert (model.acquisition_cost(new) == model.acquisition_cost(X)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.iloc[:, ::-1])
    lacking = X.iloc[:, 1:].assign(patient=-1, constant=1)  # only what is missing is told
    with pytest.raises(ValueError, match=f"^data: expected a column '{X.columns[0]}', found none"):
        by_column.predict(lacking)
    doubled = pd.concat({"first": X}, axis=1)  # as many columns, with names of two levels
    with pytest.raises(InputError, match="expected columns"):
        model.predict(doubled)


def test_columns_divide_the_records_by_time_by_part_and_by_fold(records):
    X, y = records
    when = np.random.default_rng(0).permutation(len(X))
    X = X.assign(when=when)  # a feature too, to see in each fold which records are where

    def fitted(measure, **columns):
        split = {name: name for name in columns}
        search = ParetoMultiStage(budget=40, random_state=0, split=split, measure=measure)
        search.fit(X.assign(**columns), y)
        assert search.feature_names_in_.tolist() == X.columns.tolist()
        assert (search.predict(X) == search.predict(X.assign(**columns))).all()
        return search.problem_.data

    def times(data):
        return data.design[data.first[-2]], data.held[data.first[-2]]

    windows = fitted({"kind": "cross_validation", "folds": 3}, time=when)
    assert len(windows.folds) == 3
    for fold in windows.folds:
        before, measured = times(fold.data)
        assert before.max() < measured.min()
    sizes = [len(times(fold.data)[0]) for fold in windows.folds]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3  # growing windows

    part = np.where(np.arange(len(X)) % 4 == 0, "validation", "train")
    parts = fitted("holdout", part=part)
    assert parts.n_validation == (part == "validation").sum()
    trained = when[part == "train"]
    rank = np.argsort(np.argsort(trained))
    np.testing.assert_array_equal(np.argsort(np.argsort(times(parts)[0])), rank)

    fold = np.arange(len(X)) % 7
    named = fitted("cross_validation", fold=fold)
    assert [len(one.rows) for one in named.folds] == np.bincount(fold).tolist()
    with pytest.raises(InputError, match="train, validation"):
        fitted("holdout", part=np.where(part == "train", "train", "later"))
