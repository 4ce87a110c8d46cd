"""What is not installed is named with the command that installs it."""

import os
import sys
from importlib.metadata import requires

import pytest

from framework import extras, registry
from framework.errors import InputError
from tests.command import run_program, small, write

WITHOUT = """
import sys
from importlib.machinery import PathFinder


class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in {packages}
        return None if absent else PathFinder.find_spec(name, path, target)


sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture
def core_only(tmp_path, monkeypatch):
    """Let child processes find no optional package."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    text = WITHOUT.format(packages=set(extras.EXTRAS))
    (hidden / "sitecustomize.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments):
    program = [sys.executable, "-m", "paretolab", *map(str, arguments)]
    return run_program(program, env=os.environ)


def test_every_extra_is_one_of_the_package():
    asked = {
        line.split(";")[1].split("==")[1].strip(" '\"")
        for line in requires("paretolab")
        if "extra ==" in line
    }
    assert set(extras.EXTRAS.values()) <= asked


def test_pictures_and_logs_that_cannot_be_made_stop_no_run(core_only):
    config = small(tracking={"uri": "sqlite:///mlflow.db"})
    done = command("run", write(core_only / "run.yaml", config), "--out", "r")
    assert done.returncode == 0, done.stderr
    assert (core_only / "r" / "front.csv").is_file()
    said = " ".join((done.stdout + done.stderr).split())
    assert "pip install 'paretolab[plots]'" in said
    assert "pip install 'paretolab[mlflow]'" in said


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("ray", ("run", "run.yaml", "--workers", "2")),
        ("mlflow", ("ui",)),
        pytest.param("completion", ("completion", "bash"), marks=pytest.mark.slow),
        pytest.param(
            "pymoo",
            ("run", "run.yaml", "--set", "algorithm={kind: nsga3, population: 10}"),
            marks=pytest.mark.slow,  # plug-ins are tried below, in this process
        ),
    ],
)
def test_what_is_asked_for_is_named_with_its_extra(core_only, extra, arguments):
    write(core_only / "run.yaml", small())
    done = command(*arguments)
    assert done.returncode == 2
    assert f"pip install 'paretolab[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_of_another_package_is_left_alone():
    assert extras.missing(ModuleNotFoundError("no", name="somebody_elses")) is None
    assert extras.missing(ModuleNotFoundError("no", name="ray")) is None  # it is installed


def test_plug_ins_say_which_extra_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymoo", None)
    monkeypatch.delitem(sys.modules, "algorithms.general.pymoo_searches", raising=False)
    monkeypatch.setattr(extras, "installed", lambda package: False)
    for name in [name for name in sys.modules if name.startswith("pymoo.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match=r"nsga3.*paretolab\[pymoo\]"):
        registry.load("algorithms", "nsga3")
