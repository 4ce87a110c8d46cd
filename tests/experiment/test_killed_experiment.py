"""An experiment that is killed, wherever that is, ends in the tables that it would have had."""

from __future__ import annotations

import signal

import pytest

from tests import killing
from tests.command import assert_each_row_once, call
from tests.experiment import small
from tests.experiment.test_experiment import tables


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    small.write(folder, small.raw())
    done = call("experiment", "little.yaml", "--out", "out", "--quiet", cwd=folder)
    assert done.code == 0, done.err
    return tables(folder / "out")


def steps(folder, *arguments, last):
    """Run the command, to be killed at its ``last``-th step; tell whether it was."""
    done = call(*arguments, "--quiet", cwd=folder, env=killing.environment(last))
    assert done.code in (0, -signal.SIGKILL), done.err
    return done.code != 0


# 670 steps or so: the start, cells in the middle and the last one, tables and figures
@pytest.mark.slow
@pytest.mark.parametrize("last", [40, *range(100, 640, 80)])
@pytest.mark.parametrize("again", ["experiment", "resume"])
def test_a_killed_command(whole, tmp_path, last, again):
    small.write(tmp_path, small.raw())
    assert steps(tmp_path, "experiment", "little.yaml", "--out", "out", last=last)
    begun = (tmp_path / "out" / "config.yaml").is_file()
    arguments = ["experiment", "little.yaml", "--out", "out"]
    if again == "resume" and begun:
        arguments = ["resume", "out"]
    done = call(*arguments, "--quiet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert tables(tmp_path / "out") == whole
    for journal in tmp_path.glob("out/cells/*/*/*/journal.bin"):
        assert_each_row_once(journal)


@pytest.mark.slow
def test_killed_again_and_again(whole, tmp_path):
    """Each time it gets a little further, and in the end through."""
    small.write(tmp_path, small.raw())
    command = ("experiment", "little.yaml", "--out", "out")
    kills = [steps(tmp_path, *command, last=last) for last in (150, 250, 350)]
    assert all(kills)
    done = call(*command, "--quiet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert tables(tmp_path / "out") == whole
