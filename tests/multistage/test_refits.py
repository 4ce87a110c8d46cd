"""Classifiers of folds and of all records on every record, and ranges of what fitting anew does."""

import numpy as np
import pandas as pd
import pytest

from algorithms.multistage.estimator import ParetoMultiStage
from framework.answers import AnswerOutcomes
from framework.outcomes import RecordOutcomes
from tests.multistage.data import FOLDS, config_of, genomes, parts_of, problem_of

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    "more",
    [
        {},
        pytest.param(
            {"classifier": {"kind": "gaussian_nb"}, "calibration": "sigmoid"},
            marks=pytest.mark.slow,
        ),
        {"measure": {**FOLDS, "repeats": 2}, "positive": "high"},
        {"rates": ["precision:high", "matthews"], "positive": "high"},
        {"missing": "inconclusive"},
    ],
    ids=["plain", "calibrated", "repeats", "rates", "stopping"],
)
def test_folds_answer_their_own_records_as_measured_and_models_all_as_exported(table_file, more):
    more = {"measure": FOLDS, **more, "remove_features": True}
    problem, config = problem_of(table_file, **more), config_of(table_file, **more)
    table, pooled, _, (fold_of, *_) = parts_of(config)
    X = genomes(problem, 12)
    outcomes, found = problem.outcomes(X), problem.refits(X)
    assert found.fold_of.tolist() == fold_of.tolist()
    n, (*folds, whole) = len(fold_of), found.models
    for k, model in enumerate(folds):
        own = (fold_of == k).astype(float)[:, None]
        first = np.concatenate([own, np.zeros((outcomes.records - n, 1))])
        wanted = outcomes.metrics(first)
        for name, column in model.metrics(own).items():
            assert column == pytest.approx(wanted[name], nan_ok=True), name
    everyone = np.ones((n, 1))
    claimed = whole.metrics(everyone)
    for i in range(4):
        answers = problem.decode(X[i]).predict_table(table.features.iloc[pooled])
        answered = (answers["label"].astype(str) != "inconclusive").to_numpy()
        assert claimed["coverage"][i, 0] == pytest.approx(answered.mean())
        assert claimed["cost"][i, 0] == pytest.approx(answers["cost"].mean())
        least, most = (end[i] for end in whole.ends()["cost"])
        assert least <= answers["cost"].min() + 1e-9
        assert answers["cost"].max() <= most + 1e-9
        assert n * whole.figures(everyone)[1]["accuracy"][i, 0] == pytest.approx(answered.sum())


@pytest.mark.quick(3)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rates": ["precision:high", "matthews"], "positive": "high"},
        {"missing": "inconclusive", "positive": "low"},
        {
            "decision": {"errors": {"high": 9}, "no_answer": 3, "thresholds": [1, 2]},
            "threshold": None,
        },
        {"threshold": None, "max_stages": 2, "measure": {**FOLDS, "repeats": 2}},
    ],
    ids=["plain", "rates", "stopping", "costs", "thresholds"],
)
def test_folds_are_counted_as_their_answers_are(table_file, tmp_path, classes, more):
    frame, path = pd.read_csv(table_file), tmp_path / "table.csv"
    frame["label"] = frame["label"].replace({"middle": "low"} if classes == 2 else {})
    frame.to_csv(path, index=False)
    problem = problem_of(path, **{"measure": FOLDS, **more})
    X, unions = genomes(problem, 20), np.random.default_rng(0).random((4, 9)) < 0.5
    refits, searched = problem.refits(X), problem.outcomes(X)
    every_fold = np.resize(refits.fold_of, searched.records)
    for model in [*refits.models, searched]:
        folds = refits.fold_of if model is not searched else every_fold
        counted = model.figures_of_folds(folds, unions, model.names)
        by_hand = RecordOutcomes.figures_of_folds(model, folds, unions, model.names)
        of_answers = AnswerOutcomes.of(problem.measures, model.answers())
        ends, ends_by_hand = model.ends(), of_answers.ends()
        for kind, wanted in zip([*counted, ends], [*by_hand, ends_by_hand], strict=True):
            assert list(kind) == list(wanted)
            for name, column in kind.items():
                assert np.array_equal(column, wanted[name], equal_nan=True), name


@pytest.mark.parametrize("rated", [False, True])
def test_metrics_say_how_many_records_they_are_about(table_file, rated):
    more = {"rates": ["recall:high", "f1:low", "precision:high"]} if rated else {}
    problem = problem_of(table_file, measure=FOLDS, positive="high", **more)
    X, (truth, classes) = genomes(problem, 20), problem.truth()
    outcomes = problem.outcomes(X)
    weights = np.random.default_rng(0).integers(0, 3, (len(truth), 4)).astype(float)
    found = {k: of * weights.sum(axis=0) for k, of in outcomes.figures(weights)[1].items()}
    said, high = outcomes.answers().codes, classes.index("high")
    there = [(said >= 0) & (truth == k) for k in range(len(classes))]
    counts = [mask.astype(float) @ weights for mask in there]
    total = sum(counts)
    wanted = dict.fromkeys(("recall", "false_negative_rate"), counts[high])
    wanted |= {"accuracy": total, "false_positive_rate": total - counts[high]}
    wanted |= dict.fromkeys(("balanced_accuracy", "worst_recall"), np.min(counts, axis=0))
    if rated:
        wanted["recall:high"] = counts[high]
        wanted["precision:high"] = (said == high).astype(float) @ weights
    assert set(found) >= set(wanted) & set(problem.metric_names)
    for name in wanted.keys() & found.keys():
        assert found[name] == pytest.approx(wanted[name]), name


def test_without_folds_that_divide_the_records_nothing_is_fitted_anew(table_file):
    problem = problem_of(table_file)
    assert problem.refits(genomes(problem)) is None


def _xor(rng, n):
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    X[:, 2:4] += 0.8 * (2 * y[:, None] - 1) * [1.0, 0.6]
    return pd.DataFrame(X, columns=list("abcde")), y ^ (rng.random(n) < 0.1)


@pytest.mark.slow
def test_ranges_hold_the_coverage_and_the_cost_of_trees():
    """As without the shift, a third to a half of them do not."""
    held = []
    tree = {"kind": "decision_tree", "max_depth": 5, "min_samples_leaf": 8}
    setting = {"classifier": tree, "threshold": 0.75, "max_stages": 2, "remove_features": True}
    setting |= {"reject_label": "none", "budget": 150}
    for seed in range(3):
        frame, y = _xor(np.random.default_rng(seed), 3400)
        search = ParetoMultiStage(random_state=seed, **setting).fit(frame[:400], y[:400])
        front = search.front_
        for id in front.index[:: max(len(front) // 8, 1)]:
            table = search.choose(id=int(id)).predict_table(frame[400:])
            true = {"coverage": (table["label"] != "none").mean(), "cost": table["cost"].mean()}
            for name, value in true.items():
                low, high = front.loc[id, [f"{name}_low", f"{name}_high"]]
                held.append(low - 1e-9 <= value <= high + 1e-9)
    assert len(held) > 30
    assert np.mean(held) >= 0.93


def test_fits_that_are_kept_change_nothing(table_file, monkeypatch):
    def figures():
        problem = problem_of(table_file, measure=FOLDS)
        X = genomes(problem, 12)
        problem.evaluate(X)
        weights = np.random.default_rng(3).integers(0, 3, (len(problem.data.y), 2))
        return [model.metrics(weights) for model in problem.refits(X).models], problem.data.folds

    kept, folds = figures()
    assert all(fold.data.logistic_fits._coefficients for fold in folds)
    monkeypatch.setattr("algorithms.multistage.records._CACHE", 0)
    fitted, folds = figures()
    assert not any(fold.data.logistic_fits._coefficients for fold in folds)
    for one, other in zip(kept, fitted, strict=True):
        for name, column in one.items():
            assert np.array_equal(column, other[name], equal_nan=True), name
