"""Machine code that a package brings is loaded where it fits, and nothing else is."""

import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import pytest

from framework.compiling import SENTENCE, SOON, Compiling
from framework.machine_code import MANIFEST, digests
from tests.command import run_program

ROOT = Path(__file__).parents[1]
KERNEL = """
from framework.jit import njit
from toy.numbers import FACTOR

@njit
def times(x):
    return FACTOR * x
"""
ASK = """
import sys
from pathlib import Path
from framework import machine_code
machine_code.FOLDER = Path(sys.argv[1])
from toy.kernel import times
print(times(3), "loaded" if sum(times.stats.cache_hits.values()) else "compiled")
"""


class Package:
    """A package with one kernel, and the machine code that it brings."""

    def __init__(self, room: Path) -> None:
        self.room, self.folder, self.brought = room, room / "toy", room / "brought"

    def write(self, kernel: str, factor: int) -> None:
        (self.folder / "kernel.py").write_text(kernel)
        (self.folder / "numbers.py").write_text(f"FACTOR = {factor}\n")

    def ask(self, **variables: str) -> str:
        """Call the kernel in a new process; return the answer and where its code was from."""
        path = os.pathsep.join([str(self.room), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"XDG_CACHE_HOME": str(self.room / "cache"), **variables}
        command = [sys.executable, "-c", ASK, str(self.brought)]
        done = run_program(command, env=environment, check=True)
        return done.stdout.strip()

    def fill(self) -> None:
        """Write it, and do what scripts/kernels.py does."""
        self.folder.mkdir()
        (self.folder / "__init__.py").touch()
        self.write(KERNEL, 7)
        assert self.ask(NUMBA_CACHE_DIR=str(self.brought)) == "21 compiled"
        (self.brought / MANIFEST).write_text(json.dumps(digests(self.brought)))

    def beside(self) -> list[Path]:
        return list(self.folder.rglob("*.nb[ic]"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Package:
    made = Package(tmp_path_factory.mktemp("filled"))
    made.fill()
    return made


@pytest.fixture
def package(filled: Package, tmp_path: Path) -> Package:
    """Return a copy elsewhere, as where a package is installed."""
    shutil.copytree(filled.room, tmp_path, dirs_exist_ok=True)
    return Package(tmp_path)


def test_machine_code_that_is_brought_is_loaded_whatever_the_dates_of_sources(package):
    os.utime(package.folder / "kernel.py", (1, 1))
    assert package.ask() == "21 loaded"
    assert not package.beside()


@pytest.mark.slow
def test_changed_sources_are_compiled_and_kept_beside_them(package):
    package.write(KERNEL.replace("FACTOR * x", "x * FACTOR + 1"), 7)
    assert package.ask() == "22 compiled"
    assert package.beside()
    assert package.ask() == "22 loaded"


@pytest.mark.slow
def test_a_number_of_another_module_is_part_of_the_code(package):
    package.write(KERNEL, 8)
    assert package.ask() == "24 compiled"


class _Planted:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return Path.touch, (self.place,)


@pytest.mark.parametrize("kind", ["*.nbi", "*.nbc"])
def test_a_file_that_the_manifest_does_not_list_so_is_not_opened(package, kind):
    place = package.room / "ran"
    planted = pickle.dumps(_Planted(place))
    for file in package.brought.rglob(kind):
        file.write_bytes(planted)
    assert package.ask() == "21 compiled"
    assert not place.exists()


def test_machine_code_without_a_manifest_is_not_opened(package):
    (package.brought / MANIFEST).unlink()
    assert package.ask() == "21 compiled"


def test_a_kernel_runs_where_no_machine_code_can_be_written(package):
    package.write(KERNEL, 9)
    (package.folder / "__pycache__").write_text("no folder")
    (package.room / "cache").write_text("no folder")
    assert package.ask() == package.ask() == "27 compiled"


def test_a_user_is_told_once_that_compiling_takes_longer(monkeypatch):
    now, told = [0.0], []
    monkeypatch.setattr("framework.compiling.time.perf_counter", lambda: now[0])
    clock = Compiling()
    clock.watched_by(told.append)
    clock.begin()
    now[0] = SOON / 2
    clock.begin()  # what the first one calls
    clock.end()
    clock.end()
    now[0] = 10 * SOON  # nothing was compiled in between
    clock.begin()
    assert not told
    now[0] = 11 * SOON
    clock.begin()
    clock.begin()
    assert told == [SENTENCE]
