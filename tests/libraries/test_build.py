"""Building libraries: what is trained, that it is honest, the same anywhere, and goes on."""

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from framework.batch import Evaluated
from framework.data.datasets import load_table
from framework.errors import InputError
from framework.experiment.config import RunConfig, check
from framework.experiment.single_run import make_problem
from framework.libraries import build as building
from framework.libraries import training
from framework.libraries.build import build_library, obtain_library
from framework.libraries.config import BuildConfig, LibrarySection
from framework.libraries.library import LIBRARY_FILE, Library, load_library
from framework.libraries.measure import LATENCY_UNITS, UNITS, measure
from framework.libraries.members import call_times, load_encoder, load_member, predictions
from framework.libraries.pool import FAMILIES, plans
from framework.libraries.training import prepare, train
from framework.run.display import Display
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from tests.libraries.builds import QUICK, config

QUIET = Display(quiet=True)


def built(folder: Path, section: BuildConfig | None = None, **how: Any) -> Library:
    how = {"workers": "serial", "display": QUIET} | how
    return build_library(section or config(), folder, **how)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return built(tmp_path_factory.mktemp("build") / "library")


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take costs from nowhere: measuring takes seconds, and is tested on its own."""

    def made_up(models: dict[str, Path], *_: Any, **__: Any) -> Any:
        return ((name, {"inference_time": 0.1, "memory": 1.0, "disk": 0.5}) for name in models)

    monkeypatch.setattr(building, "measure", made_up)


def folder_of(library: Library) -> Path:
    assert library.folder is not None
    return library.folder


def test_a_pool_goes_through_its_families(library: Library) -> None:
    again = ("logistic_regression_2", "naive_bayes_2")
    assert library.ids == (*(f"{family}_1" for family in QUICK), *again)
    assert library.validation.shape == (6, 90)
    assert library.test is not None
    assert library.test.shape == (6, 30)
    assert library.configs is not None
    seed = library.configs[0]["seed"]
    assert library.configs[0] == {"family": "logistic_regression", "C": 1.0, "seed": seed}


def test_validation_predictions_are_out_of_fold(library: Library) -> None:
    """The obvious twin: scikit-learn's own cross-validation of scaler and model together."""
    prepared = prepare(config(), "library")
    table = load_table(config().dataset)
    held = [fold.held_out for fold in prepared.data.folds]
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
    units = {"inference_time": "ms/1000 rows", "memory": "MB", "disk": "MB"}
    assert {name: cost.unit for name, cost in library.costs.items()} == units
    assert (library.costs["inference_time"].values > 0).all()
    files = [folder_of(library) / "models" / name / "model.skops" for name in library.ids]
    sizes = [path.stat().st_size / 1e6 for path in files]
    assert np.allclose(library.costs["disk"].values, sizes)
    calls = call_times(library)
    assert calls is not None
    assert (calls >= 0).all()
    assert (calls <= library.costs["inference_time"].values).all()
    assert call_times(replace(library, folder=None)) is None


def front_of(raw: dict[str, Any]) -> Evaluated:
    """Return what a short search finds, every metric of it."""
    checked = check(RunConfig, raw, Path("felt.yaml"))
    problem = make_problem(checked)
    algorithm = checked.algorithm.make(problem, checked.roles(problem), checked.seed)
    return search(problem, algorithm, SerialEvaluator(problem), budget=checked.budget).rows


@pytest.mark.slow
def test_latencies_are_costs_where_they_are_asked_for(tmp_path: Path) -> None:
    """They are metrics of ensembles, weighted and pruned, and a limit keeps two models apart.

    Without it the two together, which alone are diverse, are on the front.
    """
    asked = config(families=["naive_bayes", "lightgbm"], models=2, latency=True)
    found = built(tmp_path / "felt", asked)
    assert {name: cost.unit for name, cost in found.costs.items()} == UNITS | LATENCY_UNITS
    for name in LATENCY_UNITS:
        assert (found.costs[name].values > 0).all()
    p50, p95 = (found.costs[f"latency_1_{which}"].values for which in ("p50", "p95"))
    for kind, diversity in (("ensemble", "loss_correlation"), ("pruning", "pfc_mean")):
        raw = {
            "name": "felt",
            "problem": {"kind": kind, "library": {"path": str(tmp_path / "felt")}},
            "objectives": [
                {"metric": diversity, "sense": "max" if kind == "pruning" else "min"},
                {"metric": "latency_1_p50", "sense": "min"},
            ],
            "algorithm": {"kind": "random"},
            "budget": {"evaluations": 40},
        }
        limit = {"metric": "latency_1_p95", "at_most": p95.min()}
        free, limited = (front_of({**raw, "constraints": some}) for some in ([], [limit]))
        assert LATENCY_UNITS.keys() <= free.values.keys()
        together = free.X[:, :2].astype(bool).all(axis=1)
        assert together.any()
        assert np.allclose(free.values["latency_1_p95"][together], p95.sum())
        assert np.allclose(free.values["latency_1_p50"][together], p50.sum())
        assert len(limited) > 0
        assert (limited.values["latency_1_p95"] == p95.min()).all()


@pytest.mark.slow
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
    (folder / ".paretolab-torn").mkdir()
    os.utime(folder / ".paretolab-torn", (0, 0))
    before = {name: (folder / "models" / name / "model.skops").stat().st_mtime_ns for name in kept}
    again = built(folder)
    assert again.ids == library.ids
    assert np.array_equal(again.validation, library.validation)
    assert np.array_equal(again.test, library.test)  # type: ignore[arg-type]
    for name in kept:  # neither trained nor measured again
        assert (folder / "models" / name / "model.skops").stat().st_mtime_ns == before[name]
    for key in ("memory", "inference_time"):
        assert np.array_equal(again.costs[key].values[:4], library.costs[key].values[:4])
    assert not (folder / ".paretolab-torn").exists()


@pytest.mark.slow
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
    found = built(tmp_path / "lib", config(families=["naive_bayes", "decision_tree"], models=2))
    assert found.ids == ("decision_tree_1",)
    note = json.loads((tmp_path / "lib" / "failed" / "naive_bayes_1.json").read_text())
    assert "var_smoothing" in note["error"]
    with pytest.raises(InputError, match="a model that can be trained, found none: naive_bayes_1"):
        built(tmp_path / "none", config(families=["naive_bayes"], models=1))


def test_another_build_is_refused(library: Library, tmp_path: Path) -> None:
    folder = folder_of(library)
    with pytest.raises(InputError, match=r"found a build that differs in its build \(seed\)"):
        build_library(config(seed=7), folder, display=QUIET)
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
        obtain_library(section)
    monkeypatch.setenv("PARETOLAB_CACHE", str(tmp_path))
    made = obtain_library(section)
    assert made.folder is not None
    assert made.folder.is_relative_to(tmp_path / "libraries")
    monkeypatch.setattr(building, "train_all", None)  # nothing is trained twice
    assert obtain_library(section) == made
    assert load_library(made.folder) == made
    assert made.folds == load_library(made.folder).folds == 3


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
            make_problem(check(RunConfig, raw, Path("x.yaml")), address)
    assert asked == [("serial", None), ("serial", "auto")]


def test_two_processes_that_want_the_same_train_it_once(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads stand in for processes: SQLite's lock is between connections."""
    trained: list[int] = []
    original = training.train_all

    def counted(plans: Any, *args: Any, **more: Any) -> Any:
        trained.append(len(plans))
        return original(plans, *args, **more)

    monkeypatch.setattr(building, "train_all", counted)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(built, tmp_path / "same") for _ in range(2)]
        first, second = (future.result() for future in both)
    assert first == second
    assert trained == [6]


def test_a_regression_library(tmp_path: Path, unmeasured: None) -> None:
    section = config(
        dataset={"sklearn": "diabetes"}, task="regression", families=["ridge", "lasso"], models=2
    )
    found = built(tmp_path / "r", section)
    assert found.classes is None
    assert found.y_validation.dtype == np.float64
    error = np.sqrt(((found.validation - found.y_validation) ** 2).mean(axis=1))
    assert (error < 65).all()  # guessing the mean is off by 77


def test_a_library_of_votes_alone(tmp_path: Path) -> None:
    split = {"folds": 4, "fold": 1, "validation": 0.3}
    alone = {"measured": False, "keep_models": False}
    section = config(families=["lda", "naive_bayes"], models=2, split=split, **alone)
    found = built(tmp_path / "v", section)
    assert dict(found.costs) == {}
    assert not (tmp_path / "v" / "models").exists()
    data = prepare(section, "library").data
    assert found.validation.shape == (2, len(data.validation))
    assert np.array_equal(found.y_validation, data.y_table)
    plan = plans(section.families, 2, 0, "classification", len(data.y))[0]
    assert np.array_equal(train(plan, data).validation, found.validation[0])
    assert built(tmp_path / "v", section).fingerprint == found.fingerprint
