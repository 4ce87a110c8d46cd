"""Mixtures as they are asked: alone and in tables, by predict, over HTTP and through MLflow."""

import io
import json
from http.client import HTTPConnection
from threading import Thread

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

from algorithms.ensembling.model import WeightedEnsembleClassifier
from framework.data.encoding import Encoder
from framework.models.mixture import MixtureClassifier
from framework.models.service import Service
from framework.models.store import load_model, save_model
from tests.command import call

COLOURS = ("red", "green", "7")


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "colour": rng.choice(COLOURS, n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )


def always(label, encoder, frame):
    """Return a deployable classifier that always gives a label, 0 or 1."""
    design = np.zeros((2, frame.shape[1])) if encoder is None else encoder.transform(frame[:2])
    member = DummyClassifier(strategy="constant", constant=label).fit(design, [0, 1])
    return WeightedEnsembleClassifier.from_fitted(
        {"one": member}, [1.0], classes=["no", "yes"], encoder=encoder
    )


def mixture(chance=0.3, seed=0, encoded=True):
    """Return a mixture of "always no" and "always yes", the second with this chance."""
    frame = records(200)
    encoder = Encoder.fit(frame) if encoded else None
    members = [always(label, encoder, frame) for label in (0, 1)]
    return MixtureClassifier.from_fitted(members, [1 - chance, chance], seed=seed)


@given(seed=st.integers(0, 2**70), chance=st.floats(0, 1), encoded=st.booleans(), data=st.data())
@settings(max_examples=20)
def test_a_record_has_one_answer_wherever_it_stands(seed, chance, encoded, data):
    model, frame = mixture(chance, seed, encoded), records(30, seed % 1000)
    if not encoded:
        frame = frame.drop(columns="seen").assign(colour=1)
        model.n_features_in_ = 3
        for member in model.members_:
            member.n_features_in_ = 3
            member.models_[0].n_features_in_ = 3
    answers = model.predict_table(frame)
    order = data.draw(st.permutations(range(len(frame))))
    turned = model.predict_table(frame.iloc[order])
    pd.testing.assert_frame_equal(turned, answers.iloc[order])
    for row in data.draw(st.lists(st.sampled_from(range(len(frame))), max_size=5)):
        alone = model.predict_table(frame.iloc[[row]])
        assert alone.iloc[0].tolist() == answers.iloc[row].tolist()
    if encoded:
        further = frame[frame.columns[::-1]].assign(further=1.0)
        pd.testing.assert_frame_equal(model.predict_table(further), answers)
        other = frame.assign(
            age=frame["age"].astype(float).astype(object), colour=frame["colour"].astype("category")
        )
        pd.testing.assert_frame_equal(model.predict_table(other), answers)
        assert (model.predict(frame) == answers["label"]).all()


def test_what_a_member_cannot_tell_apart_has_one_answer():
    model = mixture(0.5)
    one = records(1).assign(age=44, size=0.0, colour="7")
    for change in ({"size": -0.0}, {"age": "44"}, {"age": 44.0}, {"colour": 7}, {"colour": 7.0}):
        many = [model.__class__.from_fitted(model.members_, [1, 1], seed=s) for s in range(20)]
        for each in many:
            assert (each.predict(one.assign(**change)) == each.predict(one)).all()
    unknown = one.assign(colour="blue"), one.assign(colour=None)
    assert model.predict(unknown[0]) == model.predict(unknown[1])


@pytest.mark.parametrize("chances", [(0.09, 0.91), (0.5, 0.5), (0.0, 0.25, 0.75), (1.0, 0.0)])
@pytest.mark.parametrize("seed", [0, 1, 10**30])
def test_the_shares_are_the_chances(chances, seed):
    frame = records(200)
    encoder = Encoder.fit(frame)
    members = [always(k % 2, encoder, frame) for k in range(len(chances))]
    model = MixtureClassifier.from_fitted(members, chances, seed=seed)
    drawn = model.predict_table(records(20_000, 3))["member"]
    shares = np.bincount(drawn, minlength=len(chances)) / len(drawn)
    np.testing.assert_allclose(shares, chances, atol=0.012)  # 3.4 deviations
    assert (shares[np.array(chances) == 0] == 0).all()


def test_another_key_draws_other_lots():
    frame = records(2000, 5)
    one, two = (mixture(0.5, seed).predict(frame) for seed in (0, 1))
    assert (one == two).mean() == pytest.approx(0.5, abs=0.05)


def test_only_the_member_drawn_is_asked():
    model, frame = mixture(0.4), records(300, 2)
    drawn = model.predict_table(frame)["member"].to_numpy()
    asked = {0: [], 1: []}

    def spy(number, answer):
        def ask(X):
            asked[number] += X.index.tolist()
            return answer(X)

        return ask

    for number, member in enumerate(model.members_):
        member.predict_table = spy(number, member.predict_table)
        member.predict = spy(number, member.predict)
    for ask in (model.predict_table, model.predict):
        asked[0].clear()
        asked[1].clear()
        ask(frame)
        for number, rows in asked.items():
            assert rows == np.flatnonzero(drawn == number).tolist()


def test_no_records_no_answers():
    model = mixture()
    assert len(model.predict(records(5)[:0])) == 0
    assert list(model.predict_table(records(5)[:0])) == ["label", "confidence", "member"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    save_model(mixture(0.3), folder / "model")
    asked = records(60, 9)
    asked["seen"] = asked["seen"].astype(str)
    asked.to_csv(folder / "asked.csv", index=False)
    return folder


def labels_of(place):
    return load_model(place / "model").predict_table(pd.read_csv(place / "asked.csv"))["label"]


def test_predict_answers_alone_as_in_a_table(place):
    done = call("predict", "model", "asked.csv", cwd=place, code=0)
    whole = pd.read_csv(io.StringIO(done.out))["label"].tolist()
    assert set(whole) == {"no", "yes"}
    asked = pd.read_csv(place / "asked.csv")
    for row in (whole.index("no"), whole.index("yes")):
        asked.iloc[[row]].to_csv(place / "one.csv", index=False)
        alone = call("predict", "model", "one.csv", cwd=place)
        assert pd.read_csv(io.StringIO(alone.out))["label"].tolist() == [whole[row]]


@pytest.mark.slow
def test_a_service_asked_record_by_record_draws_both_members(place):
    """As a program asks it: 60 requests of one record were all answered by the same member."""
    asked = pd.read_csv(place / "asked.csv").astype(object)
    asked = asked.where(asked.notna(), None).to_dict(orient="records")
    service = Service(load_model(place / "model"))
    Thread(target=service.run, daemon=True).start()
    connection = HTTPConnection("127.0.0.1", service.socket.getsockname()[1], timeout=60)
    found = []
    for record in asked:
        connection.request("POST", "/predict", json.dumps([record]).encode())
        found += json.loads(connection.getresponse().read())["answers"]
    connection.close()
    service.should_exit = True
    assert [answer["label"] for answer in found] == labels_of(place).tolist()
    assert 8 <= sum(answer["label"] == "yes" for answer in found) <= 28  # of 60, chance .3
