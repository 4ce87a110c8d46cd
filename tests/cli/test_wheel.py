"""The wheel alone, in an environment without the repository: init, run, choose, predict."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCES = ("framework", "algorithms", "tracking")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with an environment: the wheel, and the dependencies that are here."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", str(source), cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    (wheel,) = (source / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    run(*pip, "--no-index", str(wheel), cwd=folder)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "dependencies.pth").write_text("\n".join({*others, *site.getsitepackages()}))
    shutil.rmtree(source)
    return folder


def run(*command, cwd):
    variables = environment(PARETOLAB_CACHE="off")
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_init_run_choose_and_predict_work(place):
    paretolab = os.path.join(place, "env", "bin", "paretolab")
    found = run(
        os.path.join(place, "env", "bin", "python"),
        *("-c", "import framework, paretolab; print(framework.__file__, paretolab.__file__)"),
        cwd=place,
    )
    assert all(str(place) in path for path in found.split())
    run(paretolab, "init", "multistage", "--out", "mine", cwd=place)
    assert "nothing is wrong" in run(paretolab, "check", "mine/multistage.yaml", cwd=place)
    search = ["--set", "budget={evaluations: 300}", "--workers", "serial", "--no-mlflow"]
    shown = run(paretolab, "run", "mine/multistage.yaml", *search, cwd=place)
    assert "runs/loans-001/report.html" in shown
    pick = ["--best", "accuracy", "--export", "models/loans", "--no-mlflow"]
    run(paretolab, "choose", "runs/loans-001", *pick, cwd=place)
    answers = run(paretolab, "predict", "models/loans", "mine/loans.csv", cwd=place)
    assert answers.splitlines()[0] == "label,confidence,stage,cost,missing"
    assert len(answers.splitlines()) == 901
