"""Sparse networks and mixtures as models that are deployed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.hull.model import SparseNetworkClassifier
from framework.errors import InputError
from framework.models.mixture import MixtureClassifier
from framework.models.store import load_model, save_model
from framework.testing import MODEL_LAWS
from tests.conftest import network


def sparse(seed=0, **section):
    problem = network(**section)
    x = problem.space.sample(np.random.default_rng(seed), 1)[0]
    return problem, x, problem.decode(x)


def frame(problem, n=40, seed=0):
    rng = np.random.default_rng(seed)
    names = list(problem.example())
    return pd.DataFrame(rng.normal(size=(n, len(names))), columns=names)


def mixture():
    problem, _, one = sparse(0)
    return problem, MixtureClassifier.from_fitted(
        [one, sparse(1)[2]], [1, 3], seed=5, expected={"false_positive_rate": 0.25}
    )


@pytest.mark.quick(2)
@pytest.mark.parametrize("law", MODEL_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("make", [lambda: sparse()[::2], mixture], ids=["sparse", "mixture"])
def test_models_keep_the_laws(make, law, tmp_path):
    problem, model = make()
    law(model, frame(problem), tmp_path)


HOLDOUT = {"measure": {"kind": "holdout"}}


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"gates": "neurons"},
        {"finetune": 2},
        {"thresholds": 32},
        {"thresholds": 32, "finetune": 2, "gates": "neurons"},
        {"thresholds": 32, "gates": "magnitude", **HOLDOUT},
    ],
    ids=str,
)
def test_the_model_decides_as_the_search_did(section):
    problem, x, model = sparse(3, **section)
    values = problem.evaluate(x[None], None)
    outputs = model._outputs(problem.validation.columns.T[: len(problem.validation)])
    answered, positive = model._answered(outputs), problem.validation.positive
    assert (answered & ~positive).sum() / (~positive).sum() == values["false_positive_rate"][0]
    assert (~answered & positive).sum() / positive.sum() == values["false_negative_rate"][0]
    assert model.connections_ == values["connections"][0]


def test_labels_and_probabilities_agree():
    problem, _, model = sparse()
    records = frame(problem, 300)
    proba = model.predict_proba(records)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.predict(records) == model.classes_[(proba[:, 1] > 0.5).astype(int)]).all()
    assert (model.predict(records.to_numpy()) == model.predict(records)).all()
    table = model.predict_table(records.assign(more=1)[::-1])
    assert (table["label"][::-1] == model.predict(records)).all()


def test_of_a_mixture_the_probability_is_the_chance_of_the_members_that_say_so(tmp_path):
    problem, model = mixture()
    records = frame(problem, 300)
    answers = [member.predict(records) for member in model.members_]
    both = answers[0] == answers[1]
    np.testing.assert_allclose(model.predict_proba(records).max(axis=1), np.where(both, 1.0, 0.75))
    save_model(model, tmp_path / "model")
    assert "false_positive_rate 0.25" in (tmp_path / "model" / "README.md").read_text("utf-8")


def test_pruned_weights_are_not_stored(tmp_path):
    problem, x, model = sparse()
    save_model(model, tmp_path / "model")
    weights = np.load(tmp_path / "model" / "weights.npy")
    assert (weights[problem.masks(x[None])[0] == 0] == 0).all()
    loaded = load_model(tmp_path / "model")
    records = frame(problem)
    assert (loaded.predict(records) == model.predict(records)).all()
    assert "connections" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


def test_parts_that_do_not_fit_are_refused():
    problem, _, model = sparse()
    parts = {
        "encoder": model.encoder_,
        "sizes": model.sizes_,
        "weights": model.weights_,
        "biases": model.biases_,
        "mask": model.mask_,
        "classes": model.classes_,
    }
    for change, message in (
        ({"sizes": [5, 2, 3]}, "2 outputs"),
        ({"weights": model.weights_[1:]}, "as long a mask"),
        ({"mask": model.mask_ * 3}, "0 and 1"),
        ({"biases": model.biases_ * np.nan}, "finite"),
    ):
        with pytest.raises(InputError, match=message):
            SparseNetworkClassifier.from_fitted(**{**parts, **change})
    for members, chances, message in (
        ([model], [-1.0], "from 0, one above it"),
        ([model], [0.5, 0.5], "one a member"),
        ([LogisticRegression()], [1.0], "deployable"),
    ):
        with pytest.raises(InputError, match=message):
            MixtureClassifier.from_fitted(members, chances)
    with pytest.raises(InputError, match="column"):
        model.predict_table(frame(problem).iloc[:, 1:])
    for made in (model, MixtureClassifier()):
        with pytest.raises(InputError, match="not trained here"):
            made.fit(np.zeros((2, 2)), [0, 1])
