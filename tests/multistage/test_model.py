"""The cascade against a slow twin, record by record; what it reads; what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from algorithms.multistage.model import MultiStageClassifier
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.models.calibration import decide
from framework.models.classifiers import LinearProbability
from tests.conftest import covering

STAGES = [["f4", "f1"], ["f0"], ["text", "f2"]]
COSTS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


def data(classes=2, n=240):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=classes, class_sep=0.8, random_state=1
    )
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(5)])
    frame["text"] = np.where(X[:, 0] + X[:, 3] > 0, "up", "down")
    frame.loc[::17, "f0"] = np.nan
    frame.loc[::19, "text"] = None
    return frame, np.array(["a", "b", "c"])[y]


def fitted(classes=2, **more):
    frame, y = data(classes)
    model = MultiStageClassifier(STAGES, COSTS, **{"threshold": 0.75, **more})
    return model.fit(frame, y), frame, y


def slow_twin(model, frame):
    """Return label, confidence, stage, cost and conclusiveness of each record, one at a time."""
    rows = []
    for i in range(len(frame)):
        record, acquired, cost = frame.iloc[[i]], [], 0.0
        for j, stage in enumerate(model.stages_, start=1):
            acquired += stage.tolist()
            cost += sum(model.costs_[f] for f in stage)
            encoded = model.encoder_.transform_features(record, sorted(acquired))
            p = model.classifiers_[j - 1].predict_proba(encoded)[0]
            sure = p.max() >= model.thresholds_[j - 1, p.argmax()] - 1e-9
            if sure:
                break
        label = model.classes_[p.argmax()]
        if not sure and model.reject_label is not None:
            label = model.reject_label
        rows.append((label, p.max(), j, cost, sure))
    return rows


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("classes", "classifier", "threshold", "reject"),
    [
        *covering([2], [None, GaussianNB()], [0.6, {"a": 0.9, "b": 0.55}], [None, "inconclusive"]),
        *covering([3], [GaussianNB(), None], [0.6, {"a": 0.9, "b": 0.55}], ["inconclusive", None]),
    ],
)
def test_same_as_the_slow_twin(classes, classifier, threshold, reject):
    model, frame, _ = fitted(
        classes, classifier=classifier, threshold=threshold, reject_label=reject
    )
    label, confidence, stage, cost, sure = zip(*slow_twin(model, frame), strict=True)
    assert model.predict(frame).tolist() == list(label)
    assert np.allclose(model.confidence(frame), confidence, rtol=0, atol=1e-12)
    assert model.stage_of(frame).tolist() == list(stage)
    assert model.acquisition_cost(frame).tolist() == list(cost)
    assert model.conclusive(frame).tolist() == list(sure)
    assert len(set(stage)) > 1


class Recorder(pd.DataFrame):
    """A frame that remembers which columns were read."""

    _metadata = ["read"]  # noqa: RUF012

    def __getitem__(self, key):
        self.read.extend(key if isinstance(key, list) else [key])
        return super().__getitem__(key)


class Counter(ClassifierMixin, BaseEstimator):
    """A classifier that counts the records it is asked about, and is sure of every second one."""

    def fit(self, X, y):
        self.classes_, self.asked = np.unique(y), []
        return self

    def predict_proba(self, X):
        self.asked.append(len(X))
        sure = np.arange(len(X)) % 2 == 0
        return np.column_stack([np.where(sure, 0.99, 0.5), np.where(sure, 0.01, 0.5)])


def test_only_undecided_records_go_on():
    model, frame, _ = fitted(classifier=Counter())
    model.predict(frame)
    assert [part.asked for part in model.classifiers_] == [[240], [120], [60]]


def test_features_of_later_stages_are_not_read_when_all_records_have_left():
    model, frame, _ = fitted(threshold=0.5)
    recorder = Recorder(frame)
    object.__setattr__(recorder, "read", [])
    model.predict(recorder)
    assert set(recorder.read) == {"f4", "f1"}


def test_later_values_of_records_that_left_may_be_anything():
    model, frame, _ = fitted()
    want = model.outcome(frame)
    poisoned = frame.astype(object)
    for j, stage in enumerate(STAGES, start=1):
        poisoned.loc[want.stage < j, stage] = float("inf")
    poisoned["f3"] = "never acquired"
    got = model.outcome(poisoned)
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    poisoned.loc[want.stage == 3, "f2"] = "poison"
    with pytest.raises(InputError, match="feature 'f2': expected numbers, found 'poison'"):
        model.predict(poisoned)


def test_arrays_are_read_no_further_than_frames():
    frame, y = data()
    X = frame[["f0", "f1", "f2"]].to_numpy()
    model = MultiStageClassifier([[1], [2, 0]]).fit(X, y)
    left = model.stage_of(X) == 1
    poisoned = X.copy()
    poisoned[np.ix_(left, [0, 2])] = np.inf
    assert np.array_equal(model.predict_proba(poisoned), model.predict_proba(X))


def test_ties_at_the_threshold_are_answers():
    just_below = 0.75 - 1e-12
    best, sure = decide(np.array([[just_below, 0.25], [0.25, 0.74], [0.5, 0.5]]), np.full(2, 0.75))
    assert best.tolist() == [0, 1, 0]
    assert sure.tolist() == [True, False, False]


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifier_predicts_as_scikit_learn(classes):
    frame, y = data(classes)
    X = frame[["f1", "f2", "f3"]].to_numpy()
    theirs = LogisticRegression().fit(X, y)
    ours = LinearProbability(theirs.classes_, theirs.coef_, theirs.intercept_)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-12)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    again = LinearProbability.from_array(theirs.classes_, ours.to_array())
    assert np.array_equal(again.predict_proba(X), ours.predict_proba(X))
    assert np.isfinite(ours.predict_proba(np.full((1, 3), 1e300))).all()


def test_linear_classifier_refuses_wrong_shapes():
    with pytest.raises(InputError, match=r"expected coef of shape \(1, D\)"):
        LinearProbability([0, 1], np.ones((2, 3)), np.ones(2))
    with pytest.raises(InputError, match="expected finite coefficients"):
        LinearProbability([0, 1], np.full((1, 3), np.nan), np.ones(1))


@pytest.mark.parametrize("classes", [2, 3])
def test_from_fitted_is_the_fitted_model(classes):
    model, frame, _ = fitted(classes)
    linear = [LinearProbability(c.classes_, c.coef_, c.intercept_) for c in model.classifiers_]
    again = MultiStageClassifier.from_fitted(
        model.encoder_, model.stages_, linear, model.classes_, COSTS, 0.75
    )
    assert np.allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-12)
    assert np.array_equal(again.stage_of(frame), model.stage_of(frame))
    assert again.feature_names_in_.tolist() == list(frame.columns)


def test_from_fitted_refuses_parts_that_do_not_fit():
    encoder = Encoder.fit(np.arange(12.0).reshape(6, 2))
    one = LinearProbability([0, 1], np.ones((1, 1)), np.ones(1))
    with pytest.raises(InputError, match="classifiers: expected 2, one per stage, found 1"):
        MultiStageClassifier.from_fitted(encoder, [[0], [1]], [one], [0, 1], None, 0.5)
    with pytest.raises(InputError, match="classifier of stage 2: expected 2 columns, found 1"):
        MultiStageClassifier.from_fitted(encoder, [[0], [1]], [one, one], [0, 1], None, 0.5)


def test_reject_label_keeps_the_kind_of_the_labels():
    X, y = make_classification(80, class_sep=0.2, random_state=0)
    for reject, kind in ((-1, "i"), ("inconclusive", "O")):
        labels = MultiStageClassifier(threshold=0.95, reject_label=reject).fit(X, y).predict(X)
        assert labels.dtype.kind == kind
        assert reject in labels.tolist()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"stages": []}, "stages: expected one or more, found none"),
        ({"stages": [["f1"], []]}, "stages: expected features in each stage, found none in st"),
        ({"stages": [["f1"], [1]]}, "stages: expected each feature once, found 'f1' again in st"),
        ({"stages": [["ff1"]]}, "expected one of 6 names, found 'ff1'; did you mean 'f1'?"),
        ({"stages": [[6]]}, "expected a position from 0 to 5, found 6"),
        ({"costs": [1, 2]}, "costs: expected shape (6,), one a feature, found (2,)"),
        ({"costs": [-1] * 6}, "costs: expected finite numbers from 0"),
        ({"threshold": 1.5}, "threshold: expected probabilities from 0 to 1, found 1.5"),
        ({"threshold": {"z": 0.5}}, "threshold: expected classes among ['a', 'b'], found 'z'"),
    ],
)
def test_mistakes(parameters, sentence):
    frame, y = data()
    with pytest.raises(InputError) as caught:
        MultiStageClassifier(**parameters).fit(frame, y)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("missing", ["impute", "ask", "reject"])
def test_a_feature_in_two_columns_is_refused(missing):
    model, frame, _ = fitted(reject_label="inconclusive", threshold=0.9)
    model.missing = missing
    for stage in model.stages_[:2]:
        name = model.encoder_.feature_names[stage[0]]
        twice = pd.concat([frame, frame[[name]]], axis=1)
        with pytest.raises(InputError, match=f"expected distinct column names, found '{name}'"):
            model.answers(twice)
    further = frame.assign(further=1)
    further = pd.concat([further, further[["further"]]], axis=1)
    pd.testing.assert_frame_equal(model.answers(further), model.answers(frame))


def test_predict_table():
    model, frame, _ = fitted(reject_label="inconclusive", threshold=0.9)
    shuffled = frame.sample(frac=1, random_state=0).drop(columns="f3").assign(more=1)
    table = model.predict_table(shuffled[shuffled.columns[::-1]])
    assert table.columns.tolist() == ["label", "confidence", "stage", "cost", "missing"]
    assert table.index.tolist() == shuffled.index.tolist()
    want = model.outcome(frame.loc[shuffled.index])
    assert np.array_equal(table["stage"], want.stage)
    assert np.array_equal(table["label"] == "inconclusive", ~want.conclusive)
    assert np.array_equal(table["cost"], model.cumulative_costs()[want.stage - 1])
    with pytest.raises(InputError, match="data: expected a column 'f2', found none of that name"):
        model.predict_table(frame.drop(columns="f2"))
    early, late = (model.encoder_.feature_names[stage[0]] for stage in model.stages_[:2])
    with pytest.raises(InputError, match=f"data: expected a column '{early}', found"):
        model.predict_table(frame.drop(columns=[early, late]))
    assert len(model.predict_table(frame.iloc[:0])) == 0
