"""A sweep that is killed, wherever that is, ends as the study that it would have been."""

import os
import random
import re
import signal
import sqlite3
from contextlib import closing

import pytest

from tests import killing
from tests.command import call
from tests.conftest import first
from tests.killing import Steps
from tests.tracking import sweeps
from tracking.sweep.study import open_study
from tracking.sweep.trial_runs import TrialOutcome

SAMPLERS = ["tpe", "random", "nsga2", "qmc"]
TIME = re.compile(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*'")


def content(database):
    """Return all that a database holds but moments: rows, identifiers, notes of samplers."""
    with closing(sqlite3.connect(database)) as db:
        return [TIME.sub("'moment'", line) for line in db.iterdump()]


def drive(plan, database):
    """Take a study to its end; the second trial of every five fails, bad ones are pruned."""
    with open_study(plan, f"sqlite:///{database}", "study", "") as study:
        todo, size = study.unfinished(), plan.sweep.batch
        for batch in sorted({number // size for number in todo}):
            numbers = [number for number in todo if number // size == batch]
            params = {number: study.ask(number) for number in numbers}
            for number in numbers:
                if number % 5 == 1:
                    study.tell(TrialOutcome(number, params[number], error="it was its turn"))
                    continue
                value = params[number]["problem.noise"] + number % 3
                rungs = {step: step * value for step in plan.sweep.prune.at}
                limits = study.limits(number)
                worse = [step for step, v in rungs.items() if v < limits.get(step, v)]
                outcome = TrialOutcome(
                    number,
                    params[number],
                    values={} if worse else {"hypervolume": value},
                    bounded={"front_size": value},
                    violations={"front_size at most 1": value - 1},
                    intervals={"hypervolume": value / 10},
                    rungs=rungs,
                    pruned=max(worse, default=0),
                )
                study.tell(outcome)


def driven(plan, database, last=None):
    """Do so in a process that is killed at its ``last``-th step; return whether it ended."""
    child = os.fork()
    if not child:
        Steps(last)
        drive(plan, database)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert status == 0
    return True


@pytest.fixture(params=first(*SAMPLERS))
def plan(request, tmp_path):
    # by a sampler's rules: TPE draws at random until it knows ten, NSGA-II has ten a generation
    prune = {"kind": "median", "at": [2, 5], "startup": 3}
    content = sweeps.raw(sampler=request.param, trials=16, batch=2, prune=prune)
    return sweeps.plan_of(tmp_path, content)


def test_killed_again_and_again(plan, tmp_path):
    drive(plan, tmp_path / "whole.db")
    expected = content(tmp_path / "whole.db")
    assert any("PRUNED" in line for line in expected)
    rng, kills = random.Random(plan.sweep.sampler), 0
    while not driven(plan, tmp_path / "killed.db", rng.randint(1, 400)):
        kills += 1
    assert kills >= 3
    assert content(tmp_path / "killed.db") == expected


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 26, 5))  # in parts, which end in time on a busy machine
def test_killed_at_any_step(plan, tmp_path, step):
    """Every fifth step of a study that is long enough for each sampler's own way."""
    drive(plan, tmp_path / "whole.db")
    expected = content(tmp_path / "whole.db")
    while not driven(plan, tmp_path / f"{step}.db", step):
        assert driven(plan, tmp_path / f"{step}.db")
        assert content(tmp_path / f"{step}.db") == expected, f"killed at step {step}"
        step += 25
    assert step > 300


# --- the command ------------------------------------------------------------------------------


def command(folder, *arguments, last=None):
    """Run the installed command, to be killed at its ``last``-th step; tell whether it was."""
    env = {} if last is None else killing.environment(last)
    done = call(*arguments, "--quiet", cwd=folder, env=env)
    assert done.code in ([0] if last is None else [0, -signal.SIGKILL]), done.err
    return done.code != 0


def outcome(out):
    """Return what a sweep leaves, but for moments and durations."""
    names = [*out.glob("trials/*/front.csv"), out / "trials.csv", out / "best.yaml"]
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in names}
    study = [re.sub(r"little-\w{8}", "little", line) for line in content(out / "optuna.db")]
    return files, study


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep that nothing incidents."""
    folder = tmp_path_factory.mktemp("whole")
    sweeps.write(folder, sweeps.raw(trials=4))
    assert not command(folder, "sweep", "little.yaml", "--out", "out")
    found = outcome(folder / "out")
    assert len(found[0]) == 6
    return found


@pytest.mark.slow
@pytest.mark.parametrize("last", range(20, 500, 40))
def test_a_killed_command(whole, tmp_path, last):
    sweeps.write(tmp_path, sweeps.raw(trials=4))
    assert command(tmp_path, "sweep", "little.yaml", "--out", "out", last=last)
    begun = (tmp_path / "out" / "config.yaml").is_file()
    again = ["resume", "out"] if begun else ["sweep", "little.yaml", "--out", "out"]
    assert not command(tmp_path, *again)
    assert outcome(tmp_path / "out") == whole
