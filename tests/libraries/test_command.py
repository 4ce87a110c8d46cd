"""The command: build, show, import; what it says of mistakes; killed and started again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from framework.libraries.library import load_library
from tests.command import call, refused, start, until

BUILD = {
    "library": {
        "name": "tiny",
        "dataset": {"synthetic": {"samples": 90, "features": 4}},
        "folds": 2,
        "families": ["naive_bayes", "decision_tree"],
        "models": 3,
    }
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    (folder / "library.yaml").write_text(yaml.safe_dump(BUILD))
    arrays = {"validation": "p.npy", "y_validation": "y.npy", "classes": [0, 1], "ids": ["a", "b"]}
    section = {"library": {"name": "mine", "arrays": arrays}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(section))
    return folder


@pytest.fixture(scope="module")
def built(place: Path) -> Any:
    return call("library", "build", "library.yaml", "--workers", "serial", cwd=place, code=0)


@pytest.mark.slow
def test_build_says_what_it_made(built: Any, place: Path) -> None:
    assert "tiny: 3 models, classes 0, 1" in built.out
    assert "library show libraries/tiny" in built.out
    ids = ("naive_bayes_1", "decision_tree_1", "naive_bayes_2")
    assert load_library(place / "libraries" / "tiny").ids == ids


def test_show_lists_models_by_score_or_cost(
    built: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a narrow table is cut into pieces
    library = load_library(place / "libraries" / "tiny")
    shown = call("library", "show", "libraries/tiny", "--by", "disk", cwd=place, code=0)
    rows = [line for line in shown.out.splitlines() if "_1 " in line or "_2 " in line]
    wanted = np.array(library.ids)[np.argsort(library.costs["disk"].values, kind="stable")]
    assert [row.split()[0].lstrip("│┃") or row.split()[1] for row in rows] == list(wanted)
    assert "naive_bayes" in rows[0]


def test_import_of_arrays(place: Path) -> None:
    np.save(place / "p.npy", np.array([[0.25, 0.5, 1.0], [0.0, 0.5, 0.75]]))
    np.save(place / "y.npy", np.array([0, 1, 1]))
    call("library", "import", "mine.yaml", "--out", "mine", cwd=place, code=0)
    assert load_library(place / "mine").ids == ("a", "b")


MISTAKES = [
    (["build", "none.yaml"], "none.yaml: cannot read the configuration"),
    (["build", "library.yaml", "--set", "library.model=3"], "did you mean 'models'"),
    (["build", "library.yaml", "--set", "seed=3"], "the key library alone, found 'seed'"),
    (["build", "library.yaml", "--workers", "0"], "--workers: expected auto"),
    (["import", "mine.yaml", "--out", "libraries"], "expected a new folder"),
    (["show", "libraries/tiny", "--by", "price"], "--by: expected one of id, score, inference"),
    (["show", "."], "expected a library's folder, found no library.json"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes(
    built: Any,
    place: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    refused(capsys, message, "library", *arguments)


@pytest.mark.slow
def test_a_killed_build_goes_on(place: Path) -> None:
    slow = ["--set", "library.families=[random_forest]", "--set", "library.models=3"]
    place_of = ["--out", "killed", "--workers", "serial"]
    arguments = ["library", "build", "library.yaml", *slow, *place_of]
    process = start(*arguments, cwd=place)
    models = place / "killed" / "models"
    until(lambda: models.is_dir() and any(models.iterdir()), 120, 0.01)
    process.kill()
    process.communicate()
    ready = {path.parent.name: path.stat().st_mtime_ns for path in models.glob("*/model.skops")}
    call(*arguments, cwd=place, code=0)
    assert len(load_library(place / "killed")) == 3
    for path in models.glob("*/model.skops"):
        assert path.stat().st_mtime_ns == ready.get(path.parent.name, path.stat().st_mtime_ns)
