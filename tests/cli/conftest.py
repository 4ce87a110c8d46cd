"""A folder with a configuration, the command in it, and a finished run."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def finished(place, command):
    """Run the small configuration once; return the finished process."""
    done = command("run", "small.yaml", "--out", "first")
    assert done.code == 0, done.err
    done.dir = place / "first"
    return done
