"""Building libraries: what is trained, that it is honest, the same anywhere, and goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from framework.data.tables import load_table
from framework.errors import InputError
from framework.experiment.config import check_config
from framework.experiment.single_run import make_problem
from framework.libraries import build as building
from framework.libraries import training_pool
from framework.libraries.build import build_library, obtain_library
from framework.libraries.config import BuildConfig, LibrarySection
from framework.libraries.folder import LIBRARY_FILE
from framework.libraries.folds import _folds, prepare
from framework.libraries.library import Library, load_library
from framework.libraries.measure import measure
from framework.libraries.members import load_encoder, load_member, predictions
from framework.libraries.pool import FAMILIES, plans
from framework.libraries.progress import Lines
from framework.libraries.train import train
from framework.models.estimators import load_estimator

QUIET = Lines(quiet=True)
SYNTHETIC = {"samples": 120, "features": 5, "informative": 3, "seed": 1}
QUICK = ["logistic_regression", "naive_bayes", "decision_tree", "lightgbm"]


def config(**changes: Any) -> BuildConfig:
    base = {
        "name": "small",
        "dataset": {"synthetic": SYNTHETIC},
        "folds": 3,
        "models": 6,
        "families": QUICK,
    }
    return BuildConfig.model_validate({**base, **changes})


def built(folder: Path, **changes: Any) -> Library:
    changes = {"workers": "serial", **changes}
    return build_library(config(), folder, progress=QUIET, **changes)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return built(tmp_path_factory.mktemp("build") / "library")


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take costs from nowhere: measuring takes seconds, and is tested on its own."""

    def made_up(models: dict[str, Path], *_: Any, **__: Any) -> Any:
        return ((name, {"inference_time": 0.1, "memory": 1.0}) for name in models)

    monkeypatch.setattr(building, "measure", made_up)


def folder_of(library: Library) -> Path:
    assert library.folder is not None
    return library.folder


def test_a_pool_goes_through_its_families(library: Library) -> None:
    assert library.ids == (
        "logistic_regression_1",
        "naive_bayes_1",
        "decision_tree_1",
        "lightgbm_1",
        "logistic_regression_2",
        "naive_bayes_2",
    )
    assert library.validation.shape == (6, 90)
    assert library.test is not None
    assert library.test.shape == (6, 30)
    assert library.configs is not None
    assert library.configs[0] == {
        "family": "logistic_regression",
        "C": 1.0,
        "seed": library.configs[0]["seed"],
    }


def test_validation_predictions_are_out_of_fold(library: Library) -> None:
    """The obvious twin: scikit-learn's own cross-validation of scaler and model together."""
    prepared = prepare(config(), "library")
    table = load_table(config().dataset)
    held = [fold.held for fold in prepared.data.folds]
    raw = prepared.encoder.transform(table.features)
    train_rows = [int(np.flatnonzero((raw == row).all(axis=1))[0]) for row in prepared.data.design]
    X, y = table.features.to_numpy()[train_rows], table.labels[train_rows]
    assert np.array_equal(y, library.y_validation)
    cuts = [(np.setdiff1d(np.arange(len(y)), part), part) for part in held]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=500))
    expected = cross_val_predict(model, X, y, cv=cuts, method="predict_proba")[:, 1]
    assert np.allclose(library.validation[0], expected, atol=1e-5)


def test_the_models_on_disk_predict_the_test_table(library: Library) -> None:
    folder = folder_of(library)
    prepared, encoder = prepare(config(), "library"), load_encoder(folder)
    assert encoder == prepared.encoder
    assert library.test is not None
    for row, name in zip(library.test, library.ids, strict=True):
        model = load_member(folder, name)
        found = predictions(model, prepared.data.test, [0, 1])
        assert np.array_equal(found.astype(np.float32), row)


def test_costs_are_measured_per_model(library: Library) -> None:
    assert {name: cost.unit for name, cost in library.costs.items()} == {
        "inference_time": "ms/1000 rows",
        "memory": "MB",
        "disk": "MB",
    }
    assert (library.costs["inference_time"].values > 0).all()
    files = [folder_of(library) / "models" / name / "model.skops" for name in library.ids]
    sizes = [path.stat().st_size / 1e6 for path in files]
    assert np.allclose(library.costs["disk"].values, sizes)


def test_memory_is_what_a_model_takes(tmp_path: Path) -> None:
    """A model with an array of 40 MB in it takes that much, one with nothing almost nothing."""
    from skops import io

    X = np.zeros((10, 2))
    light = DummyClassifier().fit(X, np.arange(10) % 2)
    heavy = DummyClassifier().fit(X, np.arange(10) % 2)
    heavy.ballast_ = np.ones(5_000_000)
    files = {"light": tmp_path / "light.skops", "heavy": tmp_path / "heavy.skops"}
    io.dump(light, files["light"])
    io.dump(heavy, files["heavy"])
    found = dict(measure(files, X, values=False))
    assert found["light"]["memory"] < 2
    assert 38 < found["heavy"]["memory"] < 46


def test_a_build_goes_on_where_it_stopped(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(folder_of(library), folder)
    for file in (LIBRARY_FILE, "validation.npy", "y_validation.npy", "test.npy", "y_test.npy"):
        (folder / file).unlink()
    kept = library.ids[:4]
    for name in library.ids:
        place = folder / "models" / name
        if name in kept:  # as it was before the table was written
            i = library.ids.index(name)
            np.save(place / "validation.npy", library.validation[i])
            np.save(place / "test.npy", library.test[i])  # type: ignore[index]
        else:
            shutil.rmtree(place)
    (folder / ".new.torn").mkdir()
    before = {name: (folder / "models" / name / "model.skops").stat().st_mtime_ns for name in kept}
    again = built(folder)
    assert again.ids == library.ids
    assert np.array_equal(again.validation, library.validation)
    assert np.array_equal(again.test, library.test)  # type: ignore[arg-type]
    for name in kept:  # neither trained nor measured again
        assert (folder / "models" / name / "model.skops").stat().st_mtime_ns == before[name]
    for key in ("memory", "inference_time"):
        assert np.array_equal(again.costs[key].values[:4], library.costs[key].values[:4])
    assert not (folder / ".new.torn").exists()


def test_ray_trains_the_same_models(library: Library, tmp_path: Path, unmeasured: None) -> None:
    on_ray = built(tmp_path / "ray", workers=2)
    assert on_ray.ids == library.ids
    assert np.array_equal(on_ray.validation, library.validation)
    assert np.array_equal(on_ray.test, library.test)  # type: ignore[arg-type]
    assert on_ray.configs == library.configs


def test_a_model_that_fails_is_recorded_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unmeasured: None
) -> None:
    bad = FAMILIES["naive_bayes"].__class__(
        "sklearn.naive_bayes:GaussianNB", None, dict, first={"var_smoothing": -1}, seeded=False
    )
    monkeypatch.setitem(FAMILIES, "naive_bayes", bad)
    small = config(families=["naive_bayes", "decision_tree"], models=2)
    found = build_library(small, tmp_path / "lib", workers="serial", progress=QUIET)
    assert found.ids == ("decision_tree_1",)
    note = json.loads((tmp_path / "lib" / "failed" / "naive_bayes_1.json").read_text())
    assert "var_smoothing" in note["error"]
    with pytest.raises(InputError, match="a model that can be trained, found none: naive_bayes_1"):
        build_library(
            config(families=["naive_bayes"], models=1),
            tmp_path / "none",
            workers="serial",
            progress=QUIET,
        )


def test_another_build_is_refused(library: Library, tmp_path: Path) -> None:
    folder = folder_of(library)
    with pytest.raises(InputError, match=r"found a build that differs in its build \(seed\)"):
        build_library(config(seed=7), folder, progress=QUIET)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="found other files"):
        built(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_changed_model_is_noticed(library: Library, tmp_path: Path) -> None:
    shutil.copytree(folder_of(library), tmp_path / "copy")
    file = tmp_path / "copy" / "models" / "naive_bayes_1" / "model.skops"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(InputError, match="was changed since the library was written"):
        load_member(tmp_path / "copy", "naive_bayes_1")
    with pytest.raises(InputError, match="found none that can be read"):
        load_member(tmp_path / "copy", "naive_bayes_9")


def test_a_section_finds_or_makes_its_library(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unmeasured: None
) -> None:
    assert obtain_library(LibrarySection(path=folder_of(library))) == library
    section = LibrarySection(build=config(models=1))
    with pytest.raises(InputError, match=r"problem.library.build: .*PARETOLAB_CACHE=off"):
        obtain_library(section, progress=QUIET)
    monkeypatch.setenv("PARETOLAB_CACHE", str(tmp_path))
    made = obtain_library(section, workers="serial", progress=QUIET)
    assert made.folder is not None
    assert made.folder.is_relative_to(tmp_path / "libraries")
    monkeypatch.setattr(building, "train_all", None)  # nothing is trained twice
    assert obtain_library(section, progress=QUIET) == made
    assert load_library(made.folder) == made


def test_the_workers_of_a_run_build_its_library(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARETOLAB_CACHE", str(tmp_path))
    asked: list[object] = []

    def train_all(*_: object, workers: object, address: object, **more: object) -> Iterator[None]:
        asked.append((workers, address))
        raise InputError("seen")

    monkeypatch.setattr(building, "train_all", train_all)
    raw = {
        "name": "x",
        "problem": {"kind": "ensemble", "library": {"build": config(models=1).model_dump()}},
        "objectives": [{"metric": "accuracy", "sense": "max"}],
        "algorithm": {"kind": "random"},
        "budget": {"evaluations": 1},
        "workers": "serial",
    }
    for address in (None, "auto"):
        with pytest.raises(InputError, match="seen"):
            make_problem(check_config(raw, Path("x.yaml")), address)
    assert asked == [("serial", None), ("serial", "auto")]


def test_two_processes_that_want_the_same_train_it_once(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads stand in for processes: SQLite's lock is between connections."""
    trained: list[int] = []
    original = training_pool.train_all

    def counted(plans: Any, *args: Any, **more: Any) -> Any:
        trained.append(len(plans))
        return original(plans, *args, **more)

    monkeypatch.setattr(building, "train_all", counted)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(built, tmp_path / "same") for _ in range(2)]
        first, second = (future.result() for future in both)
    assert first == second
    assert trained == [6]


MISTAKES = [
    ({"families": ["knn", "lightgb"]}, "found 'lightgb'; did you mean 'lightgbm'"),
    ({"families": ["ridge"]}, "for a classification, found 'ridge'"),
    ({"families": ["knn", "knn"]}, "each family once"),
    ({"families": []}, "at least 1"),
    ({"name": "../up"}, "first a letter or digit"),
    ({"folds": 1}, "greater than or equal to 2"),
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
    codes = np.array(strata)
    classes = (0, 1, 2, 3)
    if min(np.bincount(codes)[np.unique(codes)]) < 2:
        with pytest.raises(InputError, match="two training records or more of each class"):
            _folds(codes, count, seed, classes, "f")
        return
    folds = _folds(codes, count, seed, classes, "f")
    assert np.array_equal(np.sort(np.concatenate(folds)), np.arange(len(codes)))
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for fold in folds:
        assert set(np.delete(codes, fold)) == set(codes)


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


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_family_trains_and_loads(task: str, tmp_path: Path) -> None:
    """Classifiers with drawn parameters, regressors with the first ones."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    classes = task == "classification"
    frame["target"] = np.arange(60) % 3 if classes else 100 + 10 * frame["a"] + frame["b"] ** 2
    frame.to_csv(tmp_path / "data.csv", index=False)
    dataset = {"path": tmp_path / "data.csv"}
    section = config(dataset=dataset, task=task, families=None, folds=2)
    data = prepare(section, "library").data
    codes = range(3) if classes else None
    drawn = plans(None, 2 * len(FAMILIES), 3, task, len(data.y))
    for plan in [plan for plan in drawn if plan.id.endswith("_2" if classes else "_1")]:
        trained = train(plan, data)
        assert trained.validation.shape == ((len(data.y), 3) if classes else (len(data.y),))
        model = load_estimator(trained.content, plan.id)
        found = predictions(model, data.test, codes).astype(np.float32)
        assert np.array_equal(found, trained.test), plan.id


def test_a_regression_library(tmp_path: Path, unmeasured: None) -> None:
    section = config(
        dataset={"sklearn": "diabetes"}, task="regression", families=["ridge", "lasso"], models=2
    )
    found = build_library(section, tmp_path / "r", workers="serial", progress=QUIET)
    assert found.classes is None
    assert found.y_validation.dtype == np.float64
    error = np.sqrt(((found.validation - found.y_validation) ** 2).mean(axis=1))
    assert (error < 65).all()  # guessing the mean is off by 77


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


@pytest.mark.parametrize("more", [{}, {"families": ["lda", "knn"], "models": 5}])
def test_a_balanced_pool_needs_a_multiple_of_its_families(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="balanced: expected families and a multiple"):
        config(**{"families": None, "models": 4, "balanced": True, **more})


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
        assert len(data.y_validation) == len(data.validation) == len(data.asked)
        shares = [np.mean(y) for y in (data.y, data.y_validation, data.y_test)]
        assert max(shares) - min(shares) < 0.06
        seen.append(len(data.y_test))
    assert sum(seen) == whole


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"folds": 5, "fold": 5}, "fold from 0 to below folds=5"),
        ({"folds": 5, "test": 0.2}, "both"),
    ],
)
def test_impossible_outer_folds_are_refused(split: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(split=split)


def test_outer_folds_survive_being_written_out() -> None:
    section = config(split={"folds": 5, "fold": 2})
    assert BuildConfig.model_validate(section.model_dump(mode="json")) == section


def test_a_library_of_votes_alone(tmp_path: Path) -> None:
    section = config(
        families=["lda", "naive_bayes"],
        models=2,
        measured=False,
        keep_models=False,
        split={"folds": 4, "fold": 1, "validation": 0.3},
    )
    found = build_library(section, tmp_path / "v", workers="serial", progress=QUIET)
    assert dict(found.costs) == {}
    assert not (tmp_path / "v" / "models").exists()
    data = prepare(section, "library").data
    assert found.validation.shape == (2, len(data.validation))
    assert np.array_equal(found.y_validation, data.y_validation)
    plan = plans(section.families, 2, 0, "classification", len(data.y))[0]
    assert np.array_equal(train(plan, data).validation, found.validation[0])
    again = build_library(section, tmp_path / "v", workers="serial", progress=QUIET)
    assert again.fingerprint == found.fingerprint
