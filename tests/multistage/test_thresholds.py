"""Thresholds of confidence that a search chooses: bits, metrics, searches and models."""

import numpy as np
import pandas as pd
import pytest

from algorithms.multistage.decision import confidences_of
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.multistage.model import MultiStageClassifier
from framework.errors import InputError
from framework.models.store import load_model, save_model
from tests.conftest import covering
from tests.multistage.data import patients

COSTS = {"a": 0.1, "b": 2.0, "c": 12.0}
GRID = confidences_of(2)
VALUES = [0.45, 0.6, 0.8]
OBJECTIVES = ["coverage", "accuracy", "cost"]


def searched(algorithm="grid", **more):
    setting = {"costs": COSTS, "threshold": VALUES, "max_stages": 3, "budget": 100_000} | more
    return ParetoMultiStage(algorithm=algorithm, **setting).fit(*patients(300))


@pytest.fixture(scope="module", params=[False, True], ids=["one threshold", "per stage"])
def fitted(request):
    # on a hold-out a deployed model answers the records that were scored
    more = {"measure": "holdout", "remove_features": True}
    return searched(threshold_per_stage=request.param, **more)


def test_each_level_is_a_problem_of_that_threshold(fitted):
    """Bits, scores and records: a design with one threshold is that of a problem which has it."""
    problem, n = fitted.problem_, 3
    stages = problem.space.sample(np.random.default_rng(0), 40)[:, :n]
    used = stages.max(axis=1)[:, None] + 1
    for level, threshold in enumerate(VALUES):
        X = np.full((len(stages), problem.space.d), level, dtype=problem.space.dtype)
        X[:, :n] = stages
        X[:, n:][np.arange(problem.space.levels) >= used] = 0
        assert problem.space.contains(X).all()
        alone = searched(
            threshold=threshold, measure="holdout", remove_features=True, budget=1
        ).problem_
        assert alone.space.levels == 0
        values, wanted = problem.evaluate(X), alone.evaluate(stages)
        assert values.keys() == wanted.keys()
        for name, column in wanted.items():
            assert np.array_equal(values[name], column), name
        assert np.array_equal(problem.answers(X).codes, alone.answers(stages).codes)


def test_tables_of_the_front_show_the_thresholds_of_the_model(fitted):
    names = fitted.problem_.gene_names[3:]
    assert set(fitted.front_.columns) > set(names)
    for id, row in fitted.front_.iterrows():
        of_stages = fitted.choose(id=id).thresholds_[:, 0].tolist()
        wanted = of_stages if len(names) > 1 else of_stages[:1]
        assert row[list(names)].dropna().tolist() == wanted


def test_thresholds_may_be_an_array():
    given = searched(threshold=np.array(VALUES), budget=50)
    pd.testing.assert_frame_equal(given.front_, searched(budget=50).front_)


def test_a_model_in_files_keeps_its_thresholds(fitted, tmp_path):
    X, _ = patients(50, seed=9)
    model = fitted.choose(best="accuracy")
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.thresholds_, model.thresholds_)
    assert again.predict_table(X).equals(model.predict_table(X))
    step = again.next_features(X.iloc[0].to_dict())
    label = again.predict_table(X)["label"].iloc[0]
    assert step["label"] == label or step["status"] == "inconclusive"


def test_readme_says_the_threshold_of_each_stage(tmp_path):
    X, y = patients(100)
    model = MultiStageClassifier([["a"], ["b", "c"]], threshold=[0.9, 0.6]).fit(X, y)
    save_model(model, tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert "confidence that an answer needs at stage 2" in text
    assert "| sepsis | 0.9 | 0.6 |" in text
    plain = MultiStageClassifier([["a"], ["b", "c"]], threshold=0.6).fit(X, y)
    assert (model.stage_of(X) == 2).sum() > (plain.stage_of(X) == 2).sum()
    with pytest.raises(InputError, match="expected one, or 2, one for each stage, found 3"):
        MultiStageClassifier([["a"], ["b", "c"]], threshold=[0.5, 0.6, 0.7]).fit(X, y)


@pytest.mark.parametrize("method", ["enumeration", "dynamic_programming"])
def test_the_exact_front_is_that_of_all_designs(method):
    more = {"random_state": 3, "objectives": OBJECTIVES}
    found = [
        searched(algorithm, **more).front_[OBJECTIVES].drop_duplicates().sort_values(OBJECTIVES)
        for algorithm in ({"kind": "exact", "method": method}, "grid")
    ]
    assert len(found[0]) > 5
    assert np.array_equal(found[0].to_numpy(), found[1].to_numpy())


def test_bounds_of_an_exact_search_are_of_all_thresholds():
    whole = searched("exact").front_[OBJECTIVES].to_numpy()
    kind = {"kind": "exact", "method": "dynamic_programming", "bounds": True, "hours": 1e-12}
    search = searched(kind)
    above = search.algorithm_.outcome().tables["upper_bound"]
    bound = np.column_stack([above[name] for name in OBJECTIVES]) * [-1, -1, 1]
    for row in whole * [-1, -1, 1]:
        assert (bound <= row + 1e-12).all(axis=1).any()


def test_exact_refuses_a_threshold_for_each_stage():
    with pytest.raises(InputError, match="exact takes one threshold for all stages"):
        searched("exact", threshold_per_stage=True)


@pytest.mark.parametrize(
    ("algorithm", "per_stage"),
    covering(["local_search", "emsco", "nsga2", "random"], [False, True]),
)
def test_searches_find_most_of_a_small_front(algorithm, per_stage):
    more = {"threshold_per_stage": per_stage, "max_stages": 2, "objectives": OBJECTIVES}
    whole = {tuple(row) for row in searched(**more).front_[OBJECTIVES].to_numpy()}
    kind = {"kind": algorithm} | ({"population": 150} if algorithm in ("emsco", "nsga2") else {})
    front = searched(kind, **more, budget=1500).front_[OBJECTIVES]
    own = {tuple(row) for row in front.to_numpy()}
    assert len(whole & own) >= 0.8 * len(whole)


@pytest.mark.parametrize("algorithm", ["local_search", "emsco"])
def test_no_front_lies_behind_one_classifier_with_a_reject_threshold(algorithm):
    """As long as the search may evaluate that classifier at each threshold at all."""
    size = {"local_search": "batch", "emsco": "population"}[algorithm]
    search = ParetoMultiStage(
        costs=COSTS, algorithm={"kind": algorithm, size: len(GRID)}, budget=len(GRID)
    ).fit(*patients(300))
    rival = search.problem_.alternatives()[0].outcomes
    everyone = np.ones((len(search.problem_.data.y_held), 1))
    rows = rival.metrics(everyone)
    losses = np.column_stack([rows[name][:, 0] for name in OBJECTIVES]) * [-1, -1, 1]
    front = search.front_[OBJECTIVES].to_numpy() * [-1, -1, 1]
    for loss in losses:
        assert (front <= loss + 1e-12).all(axis=1).any()


@pytest.mark.parametrize("classes", [2, 3, 4, 7, 10, 100, 3000])
def test_the_least_threshold_answers_each_record(classes):
    thresholds = confidences_of(classes)
    assert 0 < thresholds[0] <= max(1 / classes, 0.001)
    assert (np.diff(thresholds) > 0).all()
    assert (2.01 * thresholds[:-1] >= thresholds[1:]).all() or classes == 3000
    assert thresholds[-9:].tolist() == GRID.tolist()


def test_with_several_classes_all_records_can_have_an_answer():
    rng = np.random.default_rng(0)
    y = rng.integers(7, size=400)
    X = np.eye(7)[y] @ rng.normal(size=(7, 4)) + 2 * rng.normal(size=(400, 4))
    front = ParetoMultiStage(budget=300).fit(X, y).front_
    assert front["coverage"].max() == 1


def test_one_value_is_no_choice():
    problem = searched(threshold=[0.8], budget=1).problem_
    assert problem.space.levels == 0
    assert (
        problem.components_fingerprint
        == searched(threshold=0.8, budget=1).problem_.components_fingerprint
    )
