"""Ensembles as a problem: what they measure, what they refuse, what travels to workers."""

import functools
import hashlib
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.naive_bayes import GaussianNB

from algorithms.ensembling.problem import EnsembleConfig, EnsembleProblem, fingerprint_of
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost, Library
from tests.made_up_libraries import made_up


def rows(*counts):
    return np.array(counts, dtype=np.int32)


def test_measures_of_a_worked_example():
    library = made_up(3, n=90)
    problem = EnsembleProblem(library, score=["roc_auc", "accuracy"])
    assert problem.metric_names == (
        "roc_auc",
        "accuracy",
        "inference_time",
        "memory",
        "members",
        "picks",
        "loss_correlation",
        "config_similarity",
    )
    assert problem.gene_names == ("model_0", "model_1", "model_2")
    found = problem.evaluate(rows([1, 0, 2], [0, 1, 0]))
    time, memory = library.costs["inference_time"].values, library.costs["memory"].values
    mean = (library.validation[0] + 2 * library.validation[2].astype(float)) / 3
    assert found["roc_auc"][0] == pytest.approx(roc_auc_score(library.y_validation, mean))
    assert found["accuracy"][0] == ((mean > 0.5) == library.y_validation).mean()
    assert found["inference_time"].tolist() == [time[0] + time[2], time[1]]
    assert found["memory"].tolist() == [memory[0] + memory[2], memory[1]]
    assert found["members"].tolist() == [2, 1]
    assert found["picks"].tolist() == [3, 1]
    losses = np.abs(library.y_validation - library.validation.astype(float))
    assert found["loss_correlation"][0] == pytest.approx(
        abs(np.corrcoef(losses[0], losses[2])[0, 1]), abs=1e-6
    )
    assert found["loss_correlation"][1] == found["config_similarity"][1] == 1.0
    units = {metric.name: metric.unit for metric in problem.metrics}
    assert units["memory"] == "MB"


def test_test_values_come_from_the_test_records_unrounded():
    library = made_up(4, m=70)
    problem = EnsembleProblem(library)
    X = rows([1, 2, 0, 5])
    found = problem.evaluate_test(X)
    mean = (X[0][:, None] * library.test.astype(float)).sum(axis=0)
    assert found["roc_auc"][0] == pytest.approx(roc_auc_score(library.y_test, mean), abs=1e-15)
    assert found["memory"] == problem.evaluate(X)["memory"]
    assert EnsembleProblem(replace(library, test=None, y_test=None)).evaluate_test(X) is None


def test_multiplying_all_counts_changes_no_score():
    problem = EnsembleProblem(made_up(5, classes=3), max_count=100)
    X = problem.space.sample(np.random.default_rng(0), 20) % 10
    X[:, 0] += (X == 0).all(axis=1)
    once, thrice = problem.evaluate(X), problem.evaluate(3 * X)
    for name in problem.metric_names:
        same = 3 * once[name] if name == "picks" else once[name]
        assert np.array_equal(thrice[name], same), name


def test_an_empty_row_fails_alone():
    problem = EnsembleProblem(made_up(3))
    X = rows([0, 0, 0], [0, 1, 0])
    found = problem.evaluate(X)
    assert all(np.isnan(column[0]) and not np.isnan(column[1]) for column in found.values())
    assert problem.explain(X[0]) == "expected a model picked at least once, found none"
    assert problem.explain(X[1]) is None
    assert not problem.space.contains(X).all()
    with pytest.raises(ValueError, match="counts from 0 to 50, found 0 to 51"):
        problem.evaluate(rows([0, 51, 0]))
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        problem.evaluate(rows([0, 1]))


def test_what_travels_holds_the_tables_once():
    problem = EnsembleProblem(made_up(20, n=5000, m=10))
    assert len(pickle.dumps(problem)) < 1.3 * 20 * 5000 * 4


def test_fingerprints_tell_problems_apart():
    library = made_up(4)
    problems = [
        EnsembleProblem(library),
        EnsembleProblem(library, max_count=9),
        EnsembleProblem(library, score="accuracy"),
        EnsembleProblem(library, costs=["memory"]),
        EnsembleProblem(made_up(4, seed=1)),
        EnsembleProblem(replace(library, costs={"memory": library.costs["memory"]})),
    ]
    assert len({problem.fingerprint for problem in problems}) == len(problems)
    assert EnsembleProblem(library).fingerprint == problems[0].fingerprint
    assert fingerprint_of(replace(library, fingerprint="mine")) == "mine"


@pytest.mark.parametrize(
    ("costs", "more", "message"),
    [
        ({}, {"costs": ["memry"]}, "did you mean 'memory'"),
        ({}, {"score": []}, "expected one or more different scores"),
        ({}, {"score": ["accuracy", "accuracy"]}, "different scores"),
        ({"picks": Cost(np.ones(4))}, {}, "a cost named 'picks'; rename it"),
    ],
)
def test_what_is_refused(costs, more, message):
    library = made_up(4)
    with pytest.raises(InputError, match=message):
        EnsembleProblem(replace(library, costs=library.costs | costs), **more)


def test_predictions_alone_are_no_model():
    with pytest.raises(
        InputError, match="expected fitted models to export, found predictions alone"
    ):
        EnsembleProblem(made_up(4)).decode(np.ones(4))


def test_a_score_may_be_one_or_several():
    one = EnsembleConfig.model_validate({"library": {"path": "here"}, "score": "accuracy"})
    assert one.score == ("accuracy",)
    assert one.max_count == 50


def test_decoded_ensembles_predict_what_was_scored(tmp_path):
    """A library's folder with fitted models becomes an estimator that repeats the table."""
    from skops import io

    frame, y = load_iris(return_X_y=True, as_frame=True)
    encoder = Encoder.fit(frame)
    X = encoder.transform(frame)
    models = {"bayes": GaussianNB().fit(X, y), "linear": LogisticRegression().fit(X, y)}
    (tmp_path / "encoder.json").write_text(json.dumps(encoder.to_json()))
    for name, model in models.items():
        content = io.dumps(model)
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "model.skops").write_bytes(content)
        digest = {"sha256": hashlib.sha256(content).hexdigest()}
        (tmp_path / "models" / name / "model.json").write_text(json.dumps(digest))
    frame.head(2).to_csv(tmp_path / "example.csv", index=False)
    library = Library(
        ids=tuple(models),
        validation=np.stack([m.predict_proba(X) for m in models.values()]).astype(np.float32),
        y_validation=y.to_numpy(),
        classes=("setosa", "versicolor", "virginica"),
        costs={"memory": Cost(np.array([1.0, 2.5]), "MB")},
        folder=tmp_path,
    )
    problem = EnsembleProblem(library, score=["accuracy", "log_loss"])
    x = np.array([1, 3], dtype=np.int32)
    model, found = problem.decode(x), problem.evaluate(x[None, :])
    assert model.score(frame, np.array(library.classes)[y]) == found["accuracy"][0]
    proba = model.predict_proba(frame)
    losses = -np.log(proba[np.arange(len(y)), y])
    assert np.isclose(losses.mean(), found["log_loss"][0], rtol=1e-6)
    least, greatest = problem.outcomes(x[None]).ends()["log_loss"]
    assert (least[0], greatest[0]) == (0.0, pytest.approx(losses.max(), rel=1e-5))
    assert model.predict_cost() == {"memory": found["memory"][0]}
    assert len(model.predict_table(pd.DataFrame(problem.example()))) == 2
    assert problem.decode(np.array([0, 1])).names_ == ["linear"]


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_alternatives_are_equal_weights_the_best_model_and_one_answer(classes):
    scores = {0: ("rmse", "r2"), 2: ("roc_auc", "accuracy", "f1"), 3: ("roc_auc", "log_loss")}
    library = made_up(k=5, n=60, classes=classes, seed=1)
    problem = EnsembleProblem(library, score=scores[classes])
    pool, best, same = problem.alternatives()
    weights = np.random.default_rng(0).integers(0, 3, (60, 3))
    y, P = library.y_validation, library.validation
    for one in (pool, best, same):
        found = one.outcomes.metrics(weights)
        assert tuple(found) == one.outcomes.names == problem.metric_names
        assert tuple(one.test) == problem.metric_names
    singles, mean = best.outcomes.metrics(weights), pool.outcomes.metrics(weights)
    assert best.points == library.ids
    assert best.best == scores[classes]
    answer = same.outcomes.metrics(weights)
    for b, drawn in enumerate(weights.T):
        rows = np.repeat(np.arange(60), drawn)
        if classes:
            score = functools.partial(roc_auc_score, y[rows], multi_class="ovr")
            assert answer["roc_auc"][0, b] == 0.5
        else:

            def score(p):
                return root_mean_squared_error(y[rows], p)  # noqa: B023

            far = score(np.full(len(rows), y.mean()))
            assert answer["rmse"][0, b] == pytest.approx(far)
        name = problem.score[0]
        assert mean[name][0, b] == pytest.approx(score(P.mean(axis=0)[rows]), abs=1e-4)
        assert singles[name][3, b] == pytest.approx(score(P[3][rows]), abs=1e-4)
        if classes == 2:
            share = max(y[rows].mean(), 1 - y[rows].mean())
            assert answer["accuracy"][0, b] in (share, pytest.approx(1 - share))
    assert (mean["members"] == 5).all()
    assert (answer["members"] == 0).all()
    assert (singles["members"] == 1).all()


def test_scores_without_outcomes_have_no_alternatives():
    problem = EnsembleProblem(made_up(k=4, n=40, classes=2), score="average_precision")
    assert problem.alternatives() == []
