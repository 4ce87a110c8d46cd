"""A folder with a configuration, the command in it, and a finished run."""

import shutil
from types import SimpleNamespace

import pytest

from tests.command import call, small, write


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a configuration and the cache of its sub-classifiers."""
    folder = tmp_path_factory.mktemp("cli")
    write(folder / "small.yaml", small())
    return folder


@pytest.fixture(scope="module")
def command(place):
    def run(*arguments, **more):
        env = {"PARETOLAB_CACHE": str(place / "cache"), **more.pop("env", {})}
        return call(*arguments, cwd=place, env=env, **more)

    return run


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Run the small configuration once for all modules; return the finished process."""
    folder = tmp_path_factory.mktemp("ran")
    write(folder / "small.yaml", small())
    env = {"PARETOLAB_CACHE": str(folder / "cache")}
    done = call("run", "small.yaml", "--out", "first", cwd=folder, env=env, code=0)
    done.dir = folder
    return done


@pytest.fixture(scope="module")
def finished(ran, place):
    """Return the finished process, with a copy of its run in the folder of the module."""
    for name in ("first", "cache"):
        shutil.copytree(ran.dir / name, place / name, dirs_exist_ok=True)
    return SimpleNamespace(code=0, out=ran.out, err=ran.err, dir=place / "first")
