"""Records met step by step, and values that are missing."""

import json

import numpy as np
import pandas as pd
import pytest

from framework.data.costs import Panels
from framework.errors import InputError
from framework.models.store import load_model, save_model
from tests.multistage.test_model import fitted


def shared():
    """Return a model in which f1 and f2 are paid for together."""
    panels = Panels(np.array([-1, 0, 0, -1, -1, -1]), np.array([100.0]), ("draw",))
    model, frame, y = fitted(reject_label="none")
    model.panels = panels
    model.stage_cost = 4.0
    return model, frame, y


def walk(model, row):
    """Give what is asked for until there is an answer."""
    record, asked, paid = {}, [], 0.0
    while True:
        step = model.next_features(record)
        if step["status"] != "acquire":
            return step, asked, paid
        asked.append(list(step["next"]))
        paid += step["next_cost"]
        categories = dict(zip(model.encoder_.feature_names, model.encoder_.features, strict=True))
        if "text" in step["next"]:
            assert step["choices"] == {"text": [*categories["text"].categories]}
        record |= {name: (None if pd.isna(row[name]) else row[name]) for name in step["next"]}


def test_step_by_step_is_the_same_as_at_once():
    model, frame, _ = shared()
    answers = model.predict_table(frame)
    for i in range(0, len(frame), 7):
        step, asked, paid = walk(model, frame.iloc[i])
        want = answers.iloc[i]
        assert step["stage"] == want["stage"] == len(asked)
        assert step["status"] == ("inconclusive" if want["label"] == "none" else "answer")
        if step["status"] == "answer":
            assert step["label"] == want["label"]
        assert step["confidence"] == pytest.approx(want["confidence"], abs=1e-12)
        assert paid == want["cost"]
        if not step["missing"]:
            assert step["cost"] == paid
        assert "; ".join(step["missing"]) == want["missing"]
        assert json.loads(json.dumps(step)) == step
    assert set(answers["missing"]) == {"", "f0", "text", "f0; text"}


def test_what_is_known_already_is_not_paid_again():
    model, frame, _ = shared()
    row = frame.iloc[1]
    first = model.next_features({})
    assert first["next"] == {"f4": 16.0, "f1": 2.0}
    assert first["next_cost"] == 122.0
    later = model.next_features({"f1": row["f1"]})
    assert (later["next"], later["next_cost"], later["cost"]) == ({"f4": 16.0}, 20.0, 102.0)
    gaps = [model.next_features({"f1": row["f1"], "f0": gap})["cost"] for gap in (None, np.nan)]
    assert gaps == [102.0, 102.0]  # what is missing was not paid for
    with pytest.raises(InputError, match="expected features, found 'f11'; did you mean 'f1'"):
        model.next_features({"f11": 1})
    with pytest.raises(InputError, match="feature 'f1': expected numbers, found 'wide'"):
        model.next_features({"f1": "wide"})  # before f4 is paid for


@pytest.mark.parametrize("policy", ["ask", "inconclusive"])
def test_a_missing_value_is_not_made_up(policy, tmp_path):
    model, frame, _ = shared()
    imputed = model.predict_table(frame)
    model.missing = policy
    save_model(model, tmp_path / "model")
    model = load_model(tmp_path / "model")
    answers = model.predict_table(frame)
    met = (imputed["missing"] != "").to_numpy()
    assert met.sum() > 3
    pd.testing.assert_frame_equal(answers[~met], imputed[~met], check_dtype=False)
    costs = np.concatenate([[0.0], model.cumulative_costs()])
    for (_, row), (_, without) in zip(
        answers[met].iterrows(), imputed[met].iterrows(), strict=True
    ):
        assert pd.isna(row["label"]) if policy == "ask" else row["label"] == "none"
        assert row["missing"]
        assert row["cost"] == costs[row["stage"] - 1]
        assert row["stage"] <= without["stage"]
    few = model.predict_table(frame[["f4", "f1"]])  # later columns are not there at all
    assert (few["missing"][imputed["stage"] > 1] == "f0").all()
    assert (few["missing"][imputed["stage"] == 1] == "").all()
    nothing = model.predict_table(frame[["f4"]].assign(f1=np.nan))
    assert nothing["confidence"].isna().all()  # no stage was complete
    assert answers["confidence"].notna().all()
    unknown = dict.fromkeys(frame.columns)
    step = model.next_features(unknown)
    assert step["status"] == ("acquire" if policy == "ask" else "inconclusive")


def test_columns_that_are_kept_come_first(tmp_path):
    model, frame, _ = fitted()
    model.keeps = ("patient",)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    named = frame.assign(patient=[f"p{i}" for i in range(len(frame))])
    assert again.answers(named)["patient"].tolist() == named["patient"].tolist()
    assert list(again.answers(named).columns)[:2] == ["patient", "label"]
    pd.testing.assert_frame_equal(again.answers(frame), model.predict_table(frame))
