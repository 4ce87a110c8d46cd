"""Weighted ensembles that run: against a slow twin; saved, loaded, refused."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

from algorithms.ensembling.model import WeightedEnsembleClassifier, WeightedEnsembleRegressor
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost
from framework.models.store import load_model, save_model
from framework.testing import MODEL_LAWS
from tests.trust.forging import seal

NAMES = np.array(["setosa", "versicolor", "virginica"])


def iris():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    return frame, y.to_numpy()


def members(X, y):
    return {
        "bayes": GaussianNB().fit(X, y),
        "forest": RandomForestClassifier(5, random_state=0).fit(X, y),
        "unused": DummyClassifier().fit(X, y),
        "boosted": lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, y),
    }


def encoded_ensemble():
    """Return an ensemble of members that know codes of classes and encoded records."""
    frame, y = iris()
    encoder = Encoder.fit(frame)
    return WeightedEnsembleClassifier.from_fitted(
        members(encoder.transform(frame), y), [1, 3, 0, 2], NAMES, encoder=encoder
    )


def with_costs():
    frame, y = iris()
    X = frame.to_numpy()
    costs = {"time": Cost(np.array([1, 4, 99, 2.5]), "s"), "disk|": Cost(np.array([1, 1, 9, 1]))}
    return WeightedEnsembleClassifier.from_fitted(members(X, y), [1, 3, 0, 2], NAMES, costs=costs)


def test_the_weighted_mean_of_the_members():
    frame, y = iris()
    model = encoded_ensemble()
    assert model.names_ == ["bayes", "forest", "boosted"]
    X = model.encoder_.transform(frame)
    parts, weights = members(X, y), {"bayes": 1, "forest": 3, "boosted": 2}
    total = sum(w * parts[name].predict_proba(X) for name, w in weights.items())
    assert np.allclose(model.predict_proba(frame), total / 6, rtol=0, atol=1e-15)
    assert model.predict(frame).tolist() == NAMES[total.argmax(axis=1)].tolist()
    assert model.score(frame, NAMES[y]) > 0.9


def test_members_may_know_their_classes_in_any_order_or_lack_one():
    frame, y = iris()
    X, few = frame.to_numpy(), y != 1
    models = {
        "all": LogisticRegression(max_iter=500).fit(X, NAMES[y]),
        "two": GaussianNB().fit(X[few], NAMES[y[few]]),
    }
    model = WeightedEnsembleClassifier.from_fitted(models, [1, 1], NAMES[::-1])
    found = model.predict_proba(X)
    want = models["all"].predict_proba(X)
    want[:, [0, 2]] += models["two"].predict_proba(X)
    assert np.allclose(found, want[:, ::-1] / 2, rtol=0, atol=1e-15)


def test_fitting_trains_what_has_a_weight():
    frame, y = iris()
    pairs = [("bayes", GaussianNB()), ("never", LogisticRegression(max_iter="no number"))]
    model = WeightedEnsembleClassifier(pairs, [2, 0]).fit(frame, NAMES[y])
    assert model.names_ == ["bayes"]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert np.array_equal(model.predict(frame), GaussianNB().fit(frame, NAMES[y]).predict(frame))
    assert model.predict_cost() == {}


def test_tables_may_have_more_columns_in_another_order():
    frame, _ = iris()
    for model in (encoded_ensemble(), WeightedEnsembleClassifier().fit(*iris())):
        want = model.predict_table(frame)
        assert want.columns.tolist() == ["label", "confidence"]
        assert np.array_equal(want["confidence"], model.predict_proba(frame).max(axis=1))
        shuffled = frame[frame.columns[::-1]].assign(more=1).iloc[::-1]
        pd.testing.assert_frame_equal(model.predict_table(shuffled).sort_index(), want)
        assert len(model.predict_table(frame.iloc[:0])) == 0
        with pytest.raises(InputError, match="expected a column 'sepal width"):
            model.predict_table(frame.drop(columns=frame.columns[1]))
    nameless = with_costs()
    assert len(nameless.predict_table(frame)) == len(frame)
    with pytest.raises(InputError, match="expected 4 columns, the features in their order, found"):
        nameless.predict_table(frame.assign(more=1))
    with pytest.raises(InputError, match="expected records that the members take"):
        nameless.predict_table(frame.astype(object).replace(frame.iloc[0, 0], "text"))


@pytest.mark.parametrize("make", [encoded_ensemble, with_costs])
def test_round_trip(tmp_path, make):
    frame, _ = iris()
    model = make()
    records = frame if hasattr(model, "feature_names_in_") else frame.to_numpy()
    save_model(model, tmp_path / "m", {"accuracy": 0.9})
    again = load_model(tmp_path / "m")
    assert type(again) is WeightedEnsembleClassifier
    assert np.array_equal(again.predict_proba(records), model.predict_proba(records))
    assert np.array_equal(again.predict(records), model.predict(records))
    assert again.predict_cost() == model.predict_cost()
    pd.testing.assert_frame_equal(again.predict_table(frame), model.predict_table(frame))
    files = sorted(str(p.relative_to(tmp_path / "m")) for p in (tmp_path / "m").rglob("*.*"))
    stored = [f"members/{name}/model.skops" for name in ("bayes", "boosted", "forest")]
    assert files == ["README.md", *stored, "model.json"]


def test_round_trip_of_a_regressor(tmp_path):
    frame, y = load_diabetes(return_X_y=True, as_frame=True)
    pairs = [("linear", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3))]
    model = WeightedEnsembleRegressor(pairs, [1, 3]).fit(frame, y)
    want = (Ridge().fit(frame, y).predict(frame) + 3 * model.models_[1].predict(frame)) / 4
    assert np.allclose(model.predict(frame), want)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert again.predict_table(frame)["value"].tolist() == model.predict(frame).tolist()
    assert "mean of its members' values" in (tmp_path / "m" / "README.md").read_text()


def test_the_card_states_what_a_prediction_costs(tmp_path):
    save_model(with_costs(), tmp_path / "m", {"run": "here"})
    card = (tmp_path / "m" / "README.md").read_text()
    assert "# A weighted ensemble of 3 models" in card
    assert "costs, all of them together: time 7.5 s, disk\\| 3." in card
    assert "| forest | 0.5 | RandomForestClassifier | 4 | 1 |" in card
    assert "| run | here |" in card


class Foreign(DummyClassifier):
    pass


def test_foreign_types_and_damage_are_refused(tmp_path):
    from skops import io

    frame, y = iris()
    foreign = {"own": Foreign().fit(frame, y)}
    with pytest.raises(InputError, match=r"members/own/model.skops: .*found .*Foreign"):
        save_model(WeightedEnsembleClassifier.from_fitted(foreign, [1], NAMES), tmp_path / "m")
    assert not (tmp_path / "m").exists()
    save_model(with_costs(), tmp_path / "m")
    member = tmp_path / "m" / "members" / "forest" / "model.skops"
    for model, found in (
        (foreign["own"], "Foreign"),
        (Ridge().fit(frame, y), "expected a model with predict_proba, found Ridge"),
        (GaussianNB().fit(frame, NAMES[::-1][y] + "s"), "expected the classes"),
        (GaussianNB().fit(frame.iloc[:, 1:], y), "expected members of the same features"),
    ):
        io.dump(model, member)
        seal(tmp_path / "m")
        with pytest.raises(InputError, match=found):
            load_model(tmp_path / "m")
    member.unlink()
    with pytest.raises(InputError, match=r"forest/model.skops: expected one of the model's files"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("law", MODEL_LAWS, ids=lambda law: law.__name__)
def test_laws_of_models(law, tmp_path):
    law(with_costs(), iris()[0], tmp_path)
