"""Pruned votes that run: they answer as the problem counted, and survive saving."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from algorithms.pruning.estimator import PrunedVoting
from algorithms.pruning.model import PrunedVotingClassifier
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.votes import weights_of
from framework.errors import InputError
from framework.libraries.build import build_library
from framework.libraries.config import BuildConfig
from framework.libraries.importing import cross_fitted, from_models
from framework.libraries.library import Cost
from framework.testing import check_model


@pytest.fixture(scope="module")
def fitted():
    """Return models fitted on some records, and others that they have not seen."""
    X, y = make_classification(400, 6, flip_y=0.15, random_state=1)
    labels = np.where(y == 1, "yes", "no")
    models = {
        f"tree_{i}": DecisionTreeClassifier(max_features=2, max_depth=4, random_state=i)
        for i in range(6)
    }
    models["linear"] = LogisticRegression()
    for model in models.values():
        model.fit(X[:200], labels[:200])
    return models, X[200:], labels[200:]


@pytest.mark.parametrize("positive", [None, "no"])
def test_what_runs_is_what_was_counted(fitted, positive):
    models, X, y = fitted
    problem = PruningProblem(from_models(models, X, y), positive=positive)
    label = positive or "yes"
    for genome in problem.space.sample(np.random.default_rng(0), 15):
        members = {name: models[name] for name, bit in zip(models, genome, strict=False) if bit}
        threshold = min(int(genome[-1]), len(members))
        model = PrunedVotingClassifier.from_votes(
            members, threshold, ["no", "yes"], positive=problem.positive
        )
        values = problem.evaluate(genome[np.newaxis])
        predicted = model.predict(X)
        assert (predicted == y).mean() == pytest.approx(values["accuracy"][0])
        assert np.array_equal(predicted == label, model.votes(X) > threshold)
        share = model.predict_proba(X)[:, model.positive_]
        assert np.array_equal(share > 0.5, predicted == label)
        order = np.argsort(model.votes(X), kind="stable")
        assert (np.diff(share[order]) >= 0).all()


@given(st.integers(1, 9), st.data())
def test_one_half_lies_between_the_threshold_and_one_more(size, data):
    threshold = data.draw(st.integers(0, size))
    ones = data.draw(st.integers(0, size))
    frame = pd.DataFrame({"a": [0.0, 1.0]})
    models = {
        str(i): DummyClassifier(strategy="constant", constant=int(i < ones)).fit(frame, [0, 1])
        for i in range(size)
    }
    model = PrunedVotingClassifier.from_votes(models, threshold, [0, 1])
    share = model.predict_proba(frame)[0, 1]
    assert 0.0 <= share <= 1.0
    assert (share > 0.5) == (ones > threshold)
    if ones == size > threshold:
        assert share == 1.0
    if ones == 0:
        assert share == 0.0


def test_it_is_saved_and_loaded(fitted):
    models, X, _ = fitted
    some = {name: models[name] for name in ("tree_0", "linear", "tree_3")}
    model = PrunedVotingClassifier.from_votes(
        some, 0, ["no", "yes"], positive=0, costs={"memory": Cost(np.array([1.0, 2, 3]), "MB")}
    )
    check_model(model, pd.DataFrame(X))
    assert model.predict_cost() == {"memory": 6.0}
    assert "positive above 0" in model.card().title
    assert "more than 0 of the 3 classifiers" in model.card().text


@pytest.mark.parametrize("threshold", [-1, 4, 1.5, True])
def test_a_threshold_that_is_no_number_of_votes_is_refused(fitted, threshold):
    models, _, _ = fitted
    some = {name: models[name] for name in ("tree_0", "linear", "tree_3")}
    with pytest.raises(InputError, match="expected"):
        PrunedVotingClassifier.from_votes(some, threshold, ["no", "yes"])


@pytest.mark.quick(1)
@pytest.mark.parametrize("positive", [0, None])
def test_a_built_library_is_deployed(tmp_path, positive):
    dataset = {"synthetic": {"samples": 200, "features": 6, "informative": 4}}
    raw = {"dataset": dataset, "models": 4, "folds": 2, "families": ["naive_bayes", "lda"]}
    config = BuildConfig.model_validate({"name": "few", **raw})
    library = build_library(config, tmp_path / "few", workers="serial")
    problem = PruningProblem(library, positive=positive)
    genome = problem.genome([1, 0, 1, 1], 1)
    model = problem.decode(genome)
    assert model.names_ == [library.ids[i] for i in (0, 2, 3)]
    assert (model.threshold_, model.positive_) == (1, problem.positive)
    assert model.predict_cost().keys() == set(problem.costs)
    answers = model.predict_table(pd.DataFrame(problem.example()))
    assert set(answers["label"]) <= set(library.classes)


@pytest.mark.parametrize("weights", ["balanced_accuracy", "accuracy", (3, 0, 1, -1)])
@pytest.mark.parametrize("diversity", [None, "f3", (0.1, 0.3)])
def test_pruned_voting_proves_its_choice(fitted, weights, diversity):
    models, X, y = fitted
    pruned = PrunedVoting(models, weights=weights, diversity=diversity).fit(X, y)
    assert pruned.gap_ == 0.0
    assert pruned.incumbent_ == pytest.approx(pruned.bound_)
    assert set(pruned.members_) <= set(models)
    assert len(pruned.members_) >= (1 if diversity is None else 2)
    problem = PruningProblem(from_models(models, X, y))
    cells = pd.crosstab(y, pruned.predict(X)).reindex(
        index=["no", "yes"], columns=["no", "yes"], fill_value=0
    )
    (tn, fp), (fn, tp) = cells.to_numpy()
    n0, n1 = problem.votes.totals
    w = {"balanced_accuracy": (n0, 0, n1, 0), "accuracy": (1, 0, 1, 0)}.get(str(weights), weights)
    assert pruned.incumbent_ == pytest.approx(np.dot(w, [tp, fn, tn, fp]))
    assert pruned.predict_proba(X).shape == (len(X), 2)


def test_pruned_voting_keeps_to_sizes_and_says_what_cannot_be(fitted):
    models, X, y = fitted
    pruned = PrunedVoting(models, max_members=2, threshold="majority").fit(X, y)
    assert len(pruned.members_) <= 2
    assert pruned.threshold_ == len(pruned.members_) // 2
    with pytest.raises(InputError, match="a demand that some ensemble meets"):
        PrunedVoting(models, diversity=(0.99, 1.0)).fit(X, y)
    with pytest.raises(InputError, match="weights: expected"):
        PrunedVoting(models, weights="acc").fit(X, y)


def test_classifiers_that_are_not_fitted_vote_out_of_fold(fitted):
    models, X, y = fitted
    fresh = {name: clone(model) for name, model in models.items()}
    pruned = PrunedVoting(fresh, weights="accuracy").fit(X, y)
    final, crossed = cross_fitted(fresh, X, y, folds=5, seed=0)
    problem = PruningProblem(from_models(final, X, y, out_of_fold=crossed))
    x = np.isin(list(models), pruned.members_)
    assert pruned.incumbent_ == problem.votes.value(
        x, pruned.threshold_, weights_of("accuracy", *problem.votes.totals)
    )
    votes = sum(final[name].predict(X) == "yes" for name in pruned.members_)
    assert np.array_equal(pruned.predict(X) == "yes", votes > pruned.threshold_)


def test_a_list_of_models_gives_them_names(fitted):
    models, X, y = fitted
    named = PrunedVoting(models, weights="accuracy").fit(X, y)
    listed = PrunedVoting(list(models.values()), weights="accuracy").fit(X, y)
    ids = {name: f"model_{i}" for i, name in enumerate(models)}
    assert listed.members_ == [ids[name] for name in named.members_]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"threshold": "unknown"}, "threshold: expected free or majority, found 'unknown'"),
        ({"max_members": 0}, "max_members: expected a number of at least 1, found 0"),
        ({"max_members": 2.5}, "max_members: expected a whole number, found 2.5"),
        ({"budget": -1}, "budget: expected a number of at least 0, found -1"),
        ({"random_state": -1}, "random_state: expected a whole number from 0, found -1"),
        ({"gap": -1}, "gap: expected a number of at least 0, found -1"),
        ({"diversity": (1, 2, 3)}, "diversity: expected 'f2', 'f3' or at most 2 of them"),
        ({"diversity": "f9"}, "diversity: expected 'f2', 'f3' or a list, found 'f9'"),
        ({"models": [("a", 1, 2)]}, "models: expected models, or pairs of a name and a model"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(fitted, parameters, sentence):
    models, X, y = fitted
    with pytest.raises(InputError) as caught:
        PrunedVoting(**{"models": models, **parameters}).fit(X, y)
    assert str(caught.value).startswith(sentence)


def test_models_without_a_name_of_their_library(fitted):
    models, X, y = fitted
    alike = {name: next(iter(models.values())) for name in models}
    with pytest.raises(InputError, match=r"^library: expected classifiers that differ"):
        PrunedVoting(alike).fit(X, y)
    with pytest.raises(InputError, match=r"^library mine: expected classifiers that differ"):
        PruningProblem(from_models(alike, X, y, name="mine"))
