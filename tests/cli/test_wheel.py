"""The wheel alone, beside packages of the user's that are called as ours are in the repository."""

import os
import shutil
import site
import sys
from pathlib import Path

import pytest

from tests.command import PROGRAM, environment, run_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCES = ("framework", "algorithms", "tracking")

STRAY = (  # what people leave in a clone
    *("mlflow.db", "mine.ipynb", "runs/x-001/front.csv", "framework/scratch.py"),
    "configs/mine.yaml",
    *("algorithms/mine/__init__.py", "framework/cli/templates/multistage/private.csv"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with an environment: the wheel, and the dependencies that are here."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in (*SOURCES, "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "scripts/one_package.py"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    run("git", "init", "-q", cwd=source)
    run("git", "add", "-A", cwd=source)
    for name in STRAY:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
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
    for name in SOURCES:  # of the user's, first on the path of `python -c` and of scripts here
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('the package of the user')")
    return folder


def run(*command, cwd):
    variables = environment(PARETOLAB_CACHE="off")
    variables.pop("PYTHONPATH", None)
    done = run_program(command, cwd=cwd, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_package_is_installed(place):
    (packages,) = (place / "env" / "lib").glob("python*/site-packages")
    ours = {path.name for path in packages.iterdir() if "paretolab" in path.name}
    others = {"__pycache__", "_virtualenv.py", "dependencies.pth", "pip", "setuptools"}
    assert {path.name for path in packages.iterdir()} - others == ours
    assert {name.split("-")[0] for name in ours} == {"paretolab"}
    for name in STRAY:
        assert not list(packages.rglob(name)), name


def test_it_is_imported_beside_packages_of_the_same_names(place):
    code = (
        "import paretolab; from paretolab.framework.space import Bits; "
        "assert paretolab.Bits is Bits; print(paretolab.__file__)"
    )
    python = os.path.join(place, "env", "bin", "python")
    assert str(place / "env") in run(python, "-c", code, cwd=place)


def test_configurations_are_installed(place):
    paretolab = os.path.join(place, "env", "bin", "paretolab")
    assert "paretolab run configs/emsco/heart.yaml" in run(
        paretolab, "init", "--list", "--all", cwd=place
    )
    assert "nothing is wrong" in run(paretolab, "check", "configs/quickstart.yaml", cwd=place)
    for name in ("cascade", "ensembling", "experiment", "hull", "pruning"):
        assert name in run(paretolab, "init", name, "--out", f"init-{name}", cwd=place)


def test_init_run_choose_and_predict_work(place):
    paretolab = os.path.join(place, "env", "bin", "paretolab")
    run(paretolab, "init", "multistage", "--out", "mine", cwd=place)
    assert "nothing is wrong" in run(paretolab, "check", "mine/multistage.yaml", cwd=place)
    search = ["--set", "budget={evaluations: 300}", "--no-mlflow"]
    shown = run(paretolab, "run", "mine/multistage.yaml", *search, "--workers", "2", cwd=place)
    assert "runs/loans-001/report.html" in shown
    run(paretolab, "run", "mine/multistage.yaml", *search, "--workers", "serial", cwd=place)
    first, second = (place / "runs" / f"loans-00{i}" / "front.csv" for i in (1, 2))
    assert first.read_bytes() == second.read_bytes()
    pick = ["--best", "accuracy", "--export", "models/loans", "--no-mlflow"]
    run(paretolab, "choose", "runs/loans-001", *pick, cwd=place)
    answers = run(paretolab, "predict", "models/loans", "mine/loans.csv", cwd=place)
    assert answers.splitlines()[0] == "label,confidence,stage,cost,missing"
    assert len(answers.splitlines()) == 901


def test_models_and_runs_of_a_clone_are_read_and_the_other_way_round(place):
    wheel = os.path.join(place, "env", "bin", "paretolab")
    clone = str(PROGRAM)
    run(wheel, "init", "multistage", "--out", "two", cwd=place)
    for one, other in ((wheel, clone), (clone, wheel)):
        out = f"runs/by-{'wheel' if one is wheel else 'clone'}"
        short = ["--set", "budget={evaluations: 200}", "--workers", "serial", "--no-mlflow"]
        run(one, "run", "two/multistage.yaml", "--out", out, *short, cwd=place)
        run(one, "choose", out, "--export", f"{out}-model", "--no-mlflow", cwd=place)
        longer = ["--set", "budget.evaluations=400", "--no-plots", "--no-mlflow"]
        run(other, "resume", out, *longer, cwd=place)
        assert "label," in run(other, "predict", f"{out}-model", "two/loans.csv", cwd=place)
