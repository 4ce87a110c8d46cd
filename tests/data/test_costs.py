"""Feature costs: each way to give them, and the sentence for each mistake."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.data.costs import (
    CostsConfig,
    Panels,
    exact_costs,
    feature_costs,
    importance_classes,
    panels_of,
)
from framework.errors import InputError
from framework.experiment.config import check

NAMES = ["age", "sex", "time"]


def config(raw, base=None):
    return check(CostsConfig, raw, "problem.costs", {"base": base} if base else {})


def costs(raw, **more):
    return feature_costs(config(raw), NAMES, **more).tolist()


def test_each_way_to_give_costs(tmp_path):
    (tmp_path / "costs.csv").write_text("feature,cost\ntime,3\nage, 1.5\nsex,0\n")
    assert feature_costs(None, NAMES).tolist() == [1, 1, 1]
    assert costs({"classes": [1, 2, 3]}) == [10, 20, 30]
    assert costs({"classes": {"sex": 2, "age": 1, "time": 3}, "factor": 100}) == [100, 200, 300]
    assert costs({"classes": [0, 1, 2], "scale": "power"}) == [1, 10, 100]
    assert costs({"values": {"age": 1, "sex": 0.25, "time": 0}}) == [1, 0.25, 0]
    assert costs({"values": [3, 2, 1]}) == [3, 2, 1]
    relative = config({"path": "costs.csv"}, tmp_path)
    assert feature_costs(relative, NAMES).tolist() == [1.5, 0, 3]


def test_what_is_left_out_has_a_default(tmp_path):
    assert costs({"default": 4}) == [4, 4, 4]
    assert costs({"values": {"sex": 2}, "default": 5}) == [5, 2, 5]
    assert costs({"classes": {"sex": 2}, "default": 0.5}) == [0.5, 20, 0.5]
    (tmp_path / "costs.csv").write_text("feature,cost\nage,3\n")
    relative = config({"path": "costs.csv", "default": 1}, tmp_path)
    assert feature_costs(relative, NAMES).tolist() == [3, 1, 1]


def test_columns_that_are_no_features_may_have_costs():
    raw = {"values": {"age": 1, "sex": 2, "time": 3, "id": 9}}
    assert costs(raw, left_out=["id"]) == [1, 2, 3]
    with pytest.raises(InputError, match=r"one a feature \('id' is not one\), found 4"):
        costs({"values": [1, 2, 3, 4]}, left_out=["id"])


def test_panels_are_paid_once():
    raw = {"panels": {"blood": {"cost": 10, "features": ["time", "id", "age"]}}, "default": 0}
    panels = panels_of(config(raw), NAMES, left_out=["id"])
    assert panels.of.tolist() == [0, -1, 0]
    assert costs(raw) == [0, 0, 0]
    assert costs({"panels": raw["panels"]}, left_out=["id"]) == [0, 1, 0]
    assert costs({"panels": raw["panels"], "values": {"age": 2, "sex": 3}}, left_out=["id"])[2] == 0
    assert panels.begun_at([[1], [2], [0]]) == [[], [0], []]
    assert panels.begun_at([[0, 2], [1]]) == [[0], []]
    again = Panels.from_json(json.loads(json.dumps(panels.to_json())), 3)
    assert again.of.tolist() == panels.of.tolist()
    assert (again.costs.tolist(), again.names) == ([10.0], ("blood",))
    with pytest.raises(ValueError, match="numbers of panels"):
        Panels.from_json({**panels.to_json(), "of": [0, 7, 0]}, 3)
    two = {"a": {"cost": 1, "features": ["age"]}, "b": {"cost": 1, "features": ["sex", "age"]}}
    with pytest.raises(InputError, match=r"panels.b: expected each feature in one panel, found"):
        panels_of(config({"panels": two}), NAMES)
    with pytest.raises(InputError, match="names of features, found 'agee'; did you mean 'age'"):
        panels_of(config({"panels": {"a": {"cost": 1, "features": ["agee"]}}}), NAMES)


@pytest.mark.parametrize("raw", [{"classes": [1, 2, 2]}, {"values": {"age": 1.5}}])
def test_a_written_section_reads_the_same(raw):
    assert config(config(raw).model_dump(mode="json")) == config(raw)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({}, "costs: expected exactly one of classes, values, path, by_importance; found none"),
        ({"values": [1], "by_importance": 2}, "found values and by_importance"),
        ({"values": [1, 2, 3], "factor": 5}, "expected scale and factor only with classes"),
        ({"values": {"age": "ten"}}, "values.age: expected a number, found 'ten'"),
        ({"values": {"age": True}}, "values.age: expected a number, found True"),
        ({"values": {"age": -1}}, "values.age: expected a number of at least 0, found -1"),
        ({"values": [1, float("nan")]}, "values.1: expected a finite number, found nan"),
        ({"classes": [1, 1.5]}, "classes.1: expected a whole number, found 1.5"),
        ({"classes": [1, 2]}, "costs.classes: expected 3 entries, one a feature, found 2"),
        (
            {"values": {"age": 1, "sex": 1}},
            "expected an entry for each feature, found none for time",
        ),
        ({"values": {"agee": 1}}, "expected names of features, found 'agee'; did you mean 'age'?"),
        (
            {"values": {"agee": 1, "age": 1, "no such": 2, "AGE": 3}},
            "expected names of features, found 'agee', 'no such', 'AGE'; did you mean 'age'?",
        ),
        ({"values": [0, 0, 0]}, "expected a cost above zero, found all 3 zero"),
        ({"classes": [1, 2, 999], "scale": "power"}, "found one too large for 'time'"),
        ({"by_importance": 3}, "by_importance: expected training records, found none"),
    ],
)
def test_mistakes(raw, sentence):
    with pytest.raises(InputError) as caught:
        costs(raw)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,cost\n", "expected the header feature,cost; found name,cost"),
        ("feature,cost\nage,1\nage,2\n", "line 3: expected each feature once, found 'age' again"),
        ("feature,cost\nage,ten\n", "line 2: expected a cost, a number from 0, found 'ten'"),
        ("feature,cost\nage,-1\n", "line 2: expected a cost, a number from 0, found '-1'"),
        ("feature,cost\nage,nan\n", "found 'nan'"),
        ("feature,cost\nage,1\n", "expected an entry for each feature, found none for sex, time"),
        ("feature,cost\nagee,1\n", "found 'agee'; did you mean 'age'?"),
        ("feature,cost\nage\n", "line 2: expected 2 fields, found 1"),
    ],
)
def test_mistakes_in_a_file(tmp_path, text, sentence):
    path = tmp_path / "costs.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        costs({"path": str(path)})
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


def test_important_features_cost_most():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = pd.DataFrame({f"f{i}": y * i * 0.4 + rng.normal(size=120) for i in range(5)})
    X["text"] = np.where(y == 1, "a", "b")
    classes = importance_classes(X, y, 3)
    assert np.bincount(classes).tolist() == [0, 2, 2, 2]
    assert classes[5] == 3
    assert classes[0] == 1
    found = feature_costs(config({"by_importance": 3, "factor": 100}), list(X), X, y)
    assert found.tolist() == (100.0 * classes).tolist()


@given(st.lists(st.decimals(0, 1000, places=3), min_size=1, max_size=20))
def test_short_decimals_are_exact(decimals):
    costs = np.array([float(d) for d in decimals])
    units, scale = exact_costs(costs, records=10**6)
    assert units.dtype == np.int64
    assert np.array_equal(units / scale, costs)
    assert [Fraction(int(u), scale) for u in units] == [Fraction(d) for d in decimals]


def test_long_decimals_are_rounded_and_too_large_sums_refused():
    units, scale = exact_costs(np.array([np.pi, 1 / 3]))
    assert scale == 2**20
    assert np.allclose(units / scale, [np.pi, 1 / 3], atol=2**-21, rtol=0)
    exact_costs(np.array([2.0**41]), records=2**20)
    with pytest.raises(InputError, match="give costs in a larger unit"):
        exact_costs(np.array([2.0**42]), records=2**20)
    with pytest.raises(InputError, match=r"found 1e\+308; give costs in a larger unit"):
        exact_costs(np.array([1e308, 1e308]))  # it was a traceback


@pytest.mark.parametrize("small", [1e-9, 3e-12, 1.23456789e-7])
def test_small_costs_stay_within_a_thousandth(small):
    costs = np.array([0.0, small, 1 / 3])
    units, scale = exact_costs(costs, records=1000)
    np.testing.assert_allclose(units / scale, costs, rtol=1e-3, atol=0)


@pytest.mark.parametrize(("small", "others"), [(1e-15, 10.0), (5e-324, 0.0)])
def test_costs_that_are_too_small_beside_the_others_are_refused(small, others):
    text = "expected 0 or at least .* each, for 1000 records .*; make it 0 or larger"
    with pytest.raises(InputError, match=text) as refusal:
        exact_costs(np.array([others, small]), records=1000)
    least = float(str(refusal.value).split("at least ")[1].split()[0])
    units, scale = exact_costs(np.array([others, 1.01 * least]), records=1000)
    assert units[1] / scale == pytest.approx(1.01 * least, rel=1e-3)
