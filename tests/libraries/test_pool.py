"""What a build trains on what: pools and their families, folds, outer splits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from framework.data.splits import MeasureConfig, fold_records
from framework.errors import InputError
from framework.libraries.build import build_library
from framework.libraries.config import BuildConfig, LibrarySection, measured_as
from framework.libraries.library import group_of
from framework.libraries.members import predictions
from framework.libraries.pool import FAMILIES, plans
from framework.libraries.problem import describe
from framework.libraries.training import prepare, train
from framework.security import load_estimator
from tests.libraries.builds import SYNTHETIC, config

MISTAKES = [
    ({"families": ["knn", "lightgb"]}, "found 'lightgb'; did you mean 'lightgbm'"),
    ({"families": ["ridge"]}, "for a classification, found 'ridge'"),
    ({"families": ["knn", "knn"]}, "each family once"),
    ({"families": []}, "at least 1"),
    ({"name": "../up"}, "first a letter or digit"),
    ({"folds": 1}, "greater than or equal to 2"),
    ({"families": None, "models": 4, "balanced": True}, "expected families and a multiple"),
    ({"families": ["lda", "knn"], "models": 5, "balanced": True}, "families and a multiple"),
    ({"split": {"folds": 5, "fold": 5}}, "fold from 0 to below folds=5"),
    ({"split": {"folds": 5, "test": 0.2}}, "both"),
    ({"latency": True, "measured": False}, "latency: expected true only where models are measured"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_in_the_section(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_data_too_small_for_the_folds() -> None:
    few = {"synthetic": {**SYNTHETIC, "samples": 20}}
    with pytest.raises(InputError, match=r"library.folds: .*for each of 10 folds, found 16"):
        prepare(config(dataset=few, folds=10), "library")


@given(st.lists(st.integers(0, 3), min_size=8, max_size=60), st.integers(2, 4), st.integers(0, 9))
def test_folds_are_a_partition_that_keeps_every_class(
    strata: list[int], count: int, seed: int
) -> None:
    codes, classes = np.array(strata), (0, 1, 2, 3)
    if min(np.bincount(codes)[np.unique(codes)]) < 2:
        with pytest.raises(InputError, match="two training records or more of each class"):
            fold_records(codes, count, seed, "f", classes)
        return
    fold_of = fold_records(codes, count, seed, "f", classes)
    assert set(fold_of.tolist()) == set(range(count))
    assert np.ptp(np.bincount(fold_of)) <= 1
    for fold in range(count):
        assert set(codes[fold_of != fold]) == set(codes)


@given(st.integers(1, 80), st.integers(0, 20), st.sampled_from(["classification", "regression"]))
@settings(max_examples=15)
def test_a_smaller_pool_begins_a_larger_one(models: int, seed: int, task: str) -> None:
    large = plans(None, models + 7, seed, task, 100)
    assert plans(None, models, seed, task, 100) == large[:models]
    assert len({plan.id for plan in large}) == len(large)
    assert len({json.dumps(plan.config) for plan in large}) == len(large)
    counts = {family: sum(p.family == family for p in large) for family in FAMILIES}
    assert all(counts[name] <= family.most for name, family in FAMILIES.items())


def test_slow_families_are_left_out_of_large_data() -> None:
    families = {plan.family for plan in plans(None, 20, 0, "classification", 40_000)}
    assert families.isdisjoint({"svm", "gradient_boosting"})
    assert [p.family for p in plans(["svm"], 1, 0, "classification", 40_000)] == ["svm"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_family_trains_and_loads(task: str, tmp_path: Path) -> None:
    """Classifiers with drawn parameters, regressors with the first ones."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    classes = task == "classification"
    frame["target"] = np.arange(60) % 3 if classes else 100 + 10 * frame["a"] + frame["b"] ** 2
    frame.to_csv(tmp_path / "data.csv", index=False)
    section = config(dataset={"path": tmp_path / "data.csv"}, task=task, families=None, folds=2)
    data = prepare(section, "library").data
    codes = range(3) if classes else None
    drawn = plans(None, 2 * len(FAMILIES), 3, task, len(data.y))
    for plan in [plan for plan in drawn if plan.id.endswith("_2" if classes else "_1")]:
        trained = train(plan, data)
        assert trained.validation.shape == ((len(data.y), 3) if classes else (len(data.y),))
        model = load_estimator(trained.content, plan.id)
        found = predictions(model, data.test, codes).astype(np.float32)
        assert np.array_equal(found, trained.test), plan.id


def test_a_balanced_pool_has_as_many_of_each_family(tmp_path: Path) -> None:
    families = ["lda", "naive_bayes", "decision_tree", "knn"]
    drawn = plans(families, 40, 0, "classification", 100, balanced=True)
    for size in range(4, 41, 4):
        counts = [sum(p.family == name for p in drawn[:size]) for name in families]
        assert counts == [size // 4] * 4
    assert plans(families, 20, 0, "classification", 100, balanced=True) == drawn[:20]
    with_subsets = {p.family for p in drawn if "drawn_features" in p.parameters}
    assert with_subsets == {"lda", "naive_bayes", "decision_tree"}  # knn has enough to vary
    data = prepare(config(families=families, folds=2), "library").data
    found = [train(plan, data) for plan in drawn[4:6]]
    assert not np.array_equal(found[0].validation, found[1].validation)
    assert load_estimator(found[0].content, "lda").n_features_in_ == data.design.shape[1]


def test_outer_folds_and_held_out_validation_records_are_disjoint() -> None:
    seen = []
    for fold in range(5):
        split = {"folds": 5, "fold": fold, "validation": 0.3, "seed": 3}
        data = prepare(config(split=split), "library").data
        parts = [data.design, data.validation, data.test]
        assert data.validation is not None
        assert data.folds == ()
        whole = sum(map(len, parts))
        assert [len(part) / whole for part in parts] == pytest.approx([0.56, 0.24, 0.2], abs=0.02)
        assert len(data.validation) == len(data.y_table)
        shares = [np.mean(y) for y in (data.y, data.y_table, data.y_test)]
        assert max(shares) - min(shares) < 0.06
        seen.append(len(data.y_test))
    assert sum(seen) == whole


def test_each_repeat_predicts_every_record_by_models_that_have_not_seen_it() -> None:
    data = prepare(config(repeats=2), "library").data
    n = len(data.y)
    assert np.array_equal(data.y_table, np.tile(data.y, 2))
    assert np.array_equal(data.units, np.tile(np.arange(n), 2))
    for repeat in range(2):
        its = [fold.held_out for fold in data.folds[3 * repeat : 3 * repeat + 3]]
        assert np.array_equal(np.sort(np.concatenate(its)), np.arange(n))
    assert not np.array_equal(data.folds[0].held_out, data.folds[3].held_out)
    predicted = train(plans(["naive_bayes"], 1, 0, "classification", n)[0], data).validation
    fold = data.folds[4]
    others = np.setdiff1d(np.arange(n), fold.held_out)
    model = GaussianNB(var_smoothing=1e-9).fit(fold.design[others], data.y[others])
    expected = model.predict_proba(fold.design[fold.held_out])[:, 1].astype(np.float32)
    assert np.array_equal(predicted[n + fold.held_out], expected)


def visits(tmp_path: Path, **split: object) -> BuildConfig:
    """Return the build of a pool on five visits of each of 40 persons."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 5)
    frame = pd.DataFrame(rng.normal(size=(200, 3)).round(6), columns=["a", "b", "c"])
    frame = frame.assign(person=person, day=np.arange(200), ill=person % 2)
    frame.to_csv(tmp_path / "visits.csv", index=False)
    dataset = {"path": str(tmp_path / "visits.csv"), "target": "ill"}
    build = {"name": "visits", "dataset": dataset, "folds": 4, "repeats": 1, "split": split}
    families = {"families": ["naive_bayes"], "models": 1, "measured": False}
    return BuildConfig.model_validate(build | families)


@pytest.mark.parametrize("validation", [None, 0.4])
def test_records_of_a_group_are_in_one_part_one_fold_and_one_unit(tmp_path, validation) -> None:
    built = visits(tmp_path, group="person", validation=validation)
    prepared = prepare(built, "library")
    data = prepared.data
    assert data.design.shape[1] == 3  # the person is no feature
    assert np.bincount(data.units).tolist() == [5] * (data.units.max() + 1)
    if validation is not None:
        assert data.units.max() + 1 == 12
        return
    for fold in data.folds:
        assert not set(data.units[fold.held_out]) & set(data.units[fold.fitted])
        assert np.array_equal(fold.rows, fold.held_out)
    library = build_library(built, tmp_path / "library", workers="serial")
    assert group_of(tmp_path / "library") == "person"
    about = describe(library, "")
    assert (library.validation.shape, about["out_of_fold"]) == ((1, 150), 150)
    assert about["measure"] == "cross-validation, 4 folds"
    by_chance = prepare(visits(tmp_path), "library")
    assert ["division" in of.about for of in (prepared, by_chance)] == [True, False]
    assert by_chance.data.design.shape[1] == 4


def test_copies_are_told_and_kept_together_if_asked(tmp_path) -> None:
    visits(tmp_path)
    frame = pd.read_csv(tmp_path / "visits.csv").head(90)
    pd.concat([frame, frame[:40], frame[:40]]).to_csv(tmp_path / "twice.csv", index=False)

    def build(**split):
        config = visits(tmp_path, **split)
        dataset = config.dataset.model_copy(update={"path": tmp_path / "twice.csv"})
        return prepare(config.model_copy(update={"dataset": dataset}), "library")

    fallen, together, apart = build(), build(copies="together"), build(copies="apart")
    (note,) = fallen.about["notes"]
    assert note.startswith("80 of 170 records have the features of another one and are divided")
    assert "notes" not in together.about
    assert "notes" not in apart.about
    for fold in together.data.folds:
        rows = {tuple(row) for row in together.data.design[fold.held_out]}
        assert not rows & {tuple(row) for row in together.data.design[fold.fitted]}
    tested = {tuple(row) for row in together.data.test}
    assert not tested & {tuple(row) for row in together.data.design}
    assert np.array_equal(fallen.data.design, apart.data.design)


def test_folds_follow_each_other_in_time(tmp_path) -> None:
    built = visits(tmp_path, time="day")
    data = prepare(built, "library").data
    assert [fold.fitted.max() < fold.held_out.min() for fold in data.folds] == [True] * 4
    assert len(data.y_table) == sum(len(fold.held_out) for fold in data.folds) < len(data.y)
    predicted = train(plans(["naive_bayes"], 1, 0, "classification", 150)[0], data).validation
    assert predicted.shape == data.y_table.shape
    sliding = visits(tmp_path, time="day", window="sliding")
    assert len(prepare(sliding, "library").data.folds[-1].fitted) < len(data.folds[-1].fitted)


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ({"group": "person", "folds": 4}, "expected group with test, found folds"),
        ({"window": "sliding"}, "expected window only with time"),
        ({"copies": "together", "folds": 4}, "expected copies with test, found folds"),
        ({"copies": "together", "time": "day"}, "expected copies: apart with time"),
        ({"group": "persn"}, "did you mean 'person'"),
    ],
)
def test_what_cannot_divide_a_pool_is_said(tmp_path, split, sentence) -> None:
    with pytest.raises((InputError, ValueError), match=sentence):
        prepare(visits(tmp_path, **split), "library")


def test_problems_say_what_a_pool_is_measured_on() -> None:
    def measured(measure: dict[str, object] | None, **build: object) -> BuildConfig:
        section = LibrarySection(build=config(**build))
        wanted = None if measure is None else MeasureConfig.model_validate(measure)
        found = measured_as(section, wanted).build
        assert found is not None
        return found

    crossed = {"kind": "cross_validation", "folds": 4, "repeats": 2}
    assert measured(None) == config()
    assert measured(crossed, split={"validation": 0.4}) == config(folds=4, repeats=2)
    assert measured({"kind": "holdout"}, split={"validation": 0.4}).split.validation == 0.4
    assert measured({"kind": "holdout"}).split.validation == pytest.approx(1 / 3)
    with pytest.raises(InputError, match=r"problem\.measure: expected together with"):
        measured_as(LibrarySection(path=Path("there")), MeasureConfig(kind="holdout"))


def test_outer_folds_survive_being_written_out() -> None:
    section = config(split={"folds": 5, "fold": 2})
    assert BuildConfig.model_validate(section.model_dump(mode="json")) == section


def test_groups_that_leave_a_fold_empty_are_refused():
    """Whoever fitted without that fold had records to fit on, but none to answer."""
    units = np.array([0, 0, 0, 1, 1, 1, 2, 3])
    with pytest.raises(InputError, match=r"fill 4 folds, found that large ones fill 3; lower"):
        fold_records(np.array([0, 0, 0, 1, 1, 1, 0, 1]), 4, 0, "f", units=units)
