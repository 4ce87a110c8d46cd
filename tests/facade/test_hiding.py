"""In a clone, a package of the user's that hides one of ours is named in one sentence."""

import sys
from pathlib import Path

import pytest

from paretolab.hiding import PACKAGES
from tests.command import PROGRAM, SMALL, environment, run_program, write


@pytest.fixture(params=PACKAGES)
def hider(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A package of the user's with the name of one of ours."""
    folder = tmp_path / str(request.param)
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    return folder


def said(command: list[object], cwd: Path, **variables: str) -> tuple[int, str]:
    done = run_program(command, cwd=cwd, env=environment(**variables))
    return done.returncode, done.stderr


def test_in_the_current_folder(hider: Path) -> None:
    code, text = said([sys.executable, "-c", "import paretolab; paretolab.run"], hider.parent)
    assert code == 1
    last = text.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: expected {hider.name!r} to be paretolab's own package")
    assert f"found {hider}, which hides it; rename" in last


def test_beside_the_script(hider: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    script = hider.parent / "script.py"
    script.write_text("from paretolab import run")
    code, text = said([sys.executable, script], tmp_path_factory.mktemp("elsewhere"))
    assert code == 1
    assert f"found {hider}, which hides it" in text.strip().splitlines()[-1]


def test_in_the_command(hider: Path) -> None:
    code, text = said([PROGRAM, "list"], hider.parent, PYTHONPATH=str(hider.parent))
    assert code == 2
    assert text.startswith(f"paretolab: expected {hider.name!r} to be paretolab's own package")
    assert text.count("\n") == 1


def test_the_command_does_not_look_in_the_current_folder(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')")
    config = write(tmp_path / "small.yaml", SMALL)
    code, text = said([PROGRAM, "run", config, "--no-plots", "--out", tmp_path / "run"], tmp_path)
    assert code == 0, text
