"""What is installed: one package from a wheel, every module once, type marks."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
from one_package import SOURCES, _take_out, own_files, rewritten
from setuptools import find_namespace_packages

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FIND = SETTINGS["tool"]["setuptools"]["packages"]["find"]


def installed_packages() -> dict[str, Path]:
    """Return each package that an installation gets, with its folder."""
    found: dict[str, Path] = {}
    for where in FIND["where"]:
        names = find_namespace_packages(str(ROOT / where), FIND["exclude"], FIND["include"])
        found |= {name: ROOT / where / Path(*name.split(".")) for name in names}
    return {name: folder for name, folder in found.items() if any(folder.glob("*.py"))}


def test_every_module_is_installed_once() -> None:
    folders = list(installed_packages().values())
    top = ("framework", "algorithms", "tracking")
    expected = {path.parent for name in top for path in (ROOT / name).rglob("*.py")}
    assert set(folders) == expected
    assert len(folders) == len(expected)


def test_the_face_has_its_own_name_alone() -> None:
    names = installed_packages()
    assert names["paretolab"] == ROOT / "algorithms" / "facade" / "paretolab"
    assert not any(name.startswith("algorithms.facade") for name in names)


def test_what_names_a_module_is_rewritten_in_the_wheel() -> None:
    text = """
from framework import registry
from framework.space import Bits
import tracking.sweep
    from algorithms.hull.network import Network
run("tracking.uri: set", "tracking.sweep.command:Sweep", f"framework.space.{x}")
folder / "tracking.json"; self.tracking.uri; my.framework.space
"""
    expected = """
from paretolab.framework import registry
from paretolab.framework.space import Bits
import paretolab.tracking.sweep
    from paretolab.algorithms.hull.network import Network
run("tracking.uri: set", "paretolab.tracking.sweep.command:Sweep", f"paretolab.framework.space.{x}")
folder / "tracking.json"; self.tracking.uri; my.framework.space
"""
    modules = ["framework.space", "tracking.sweep", "algorithms.hull", "framework.registry"]
    assert rewritten(text, modules) == expected


def test_what_git_does_not_track_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert own_files() is None
    for place in ("ours/module.py", "ours/scratch.py", "configs/private.csv", str(SOURCES)):
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).touch()
    SOURCES.write_text("ours/module.py\nours/scratch.py\nconfigs/private.csv\n")
    Path("PKG-INFO").touch()
    with tarfile.open("made.tar.gz", "w:gz") as archive:
        for name in ("ours", "configs", SOURCES.parent, "PKG-INFO"):
            archive.add(name, f"paretolab-1/{name}")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "ours/module.py"], check=True)
    assert own_files() == frozenset({"ours/module.py"})
    _take_out(Path("made.tar.gz"), Path("kept.tar.gz"), own_files())
    with tarfile.open("kept.tar.gz") as archive:
        archive.extractall("unpacked")
    monkeypatch.chdir("unpacked/paretolab-1")
    files = {path.as_posix() for path in Path().rglob("*") if path.is_file()}
    assert files == {"ours/module.py", "PKG-INFO", SOURCES.as_posix()}
    assert own_files() == frozenset({"ours/module.py"})  # a wheel of the archive has it alone, too


def test_the_changelog_begins_with_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = next(line for line in text.splitlines() if line.startswith("## "))
    assert first.startswith(f"## [{SETTINGS['project']['version']}]")


def test_each_package_says_that_it_is_typed() -> None:
    for name, folder in installed_packages().items():
        if "." not in name:
            assert (folder / "py.typed").is_file(), f"expected {name}/py.typed"
    assert SETTINGS["tool"]["setuptools"]["package-data"]["*"] == ["py.typed"]
