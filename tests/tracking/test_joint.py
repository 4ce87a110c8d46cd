"""Several processes on one study: every trial once, none lost."""

import os
import subprocess
import time
import traceback

import pandas as pd
import pytest
from optuna.trial import TrialState

from framework.cli.main import main
from framework.errors import InputError
from tests.command import PROGRAM
from tests.tracking import sweeps
from tracking.sweep.study import open_study, retried
from tracking.sweep.trial_runs import TrialOutcome


def content(folder, **changes):
    return sweeps.raw(storage=f"sqlite:///{folder / 'study.db'}", join=True, **changes)


def trials_of(folder):
    return sweeps.study_of(folder / "study.db").trials


def child(work):
    """Do so in a process of its own; return its id."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # else it would go on as a second process of tests
        os._exit(0)
    return pid


def take_part(plan):
    """Take trials and tell them, as a process does."""
    with open_study(plan, plan.sweep.storage, "little", "") as study:
        while (number := study.begin()) is not None:
            with study.alive(number):
                params = study.ask(number)
                time.sleep(0.02)
                study.tell(TrialOutcome(number, params, {"hypervolume": params["problem.noise"]}))


@pytest.fixture
def plan(tmp_path):
    return sweeps.plan_of(tmp_path, content(tmp_path, trials=5, grace=3, sampler="random"))


# --- two processes ----------------------------------------------------------------------------


def test_two_share_the_trials(tmp_path, plan):
    for pid in [child(lambda: take_part(plan)) for _ in range(2)]:
        assert os.waitpid(pid, 0)[1] == 0
    trials = trials_of(tmp_path)
    assert {t.state for t in trials} == {TrialState.COMPLETE}
    assert len(trials) in (5, 6)  # both may have begun the last one
    assert len({t.params["problem.noise"] for t in trials}) == len(trials)
    configured = {"algorithm.batch": 10, "problem.noise": 0.0, "problem.d": 4}
    assert [t.number for t in trials if t.params == configured] == [0]


@pytest.mark.slow
def test_an_interrupted_process_leaves_its_trial_to_others(tmp_path, plan):
    """Also one that has no values yet: its retry gets those that it would have had."""
    start = [{"problem.noise": 0.125}]
    plan = sweeps.plan_of(tmp_path, content(tmp_path, trials=2, grace=3, start=start))
    with open_study(plan, plan.sweep.storage, "little", "") as study:
        for _ in range(2):
            number = study.begin()
            with study.alive(number):
                pass
        assert study.begin() is None  # neither has values, so nobody is waited for
        time.sleep(5)
        assert study.begin() == 2
        assert retried(study.trials()) == {0, 1}
        assert study.begin() == 3
        assert study.ask(3)["problem.noise"] == 0.125
        assert set(study.ask(3)) == set(plan.space)
        with pytest.raises(ValueError, match="FAIL"):
            study.tell(TrialOutcome(1, {}, {"hypervolume": 1.0}))


def test_the_best_trial_may_be_in_the_directory_of_another_process(tmp_path):
    plan = sweeps.plan_of(tmp_path, content(tmp_path, trials=2))
    sweeps.sweep(plan, tmp_path / "first")
    summary, told = sweeps.sweep(plan, tmp_path / "second")
    assert not told
    assert (summary["status"], len(summary["best"])) == ("done", 1)
    assert (tmp_path / "second" / "sweep.html").is_file()


# --- the command ------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_join_and_one_is_killed(tmp_path):
    made = content(tmp_path, trials=6, grace=3)
    made["budget"] = {"evaluations": 20000}  # seconds a trial
    made["sweep"]["search_space"]["algorithm.batch"] = {"low": 2, "high": 9}
    del made["sweep"]["join"]
    path = sweeps.write(tmp_path, made)
    command = [PROGRAM, "sweep", path, "--join", "--quiet"]
    both = [subprocess.Popen(command, cwd=tmp_path) for _ in range(2)]
    # each has begun a trial: one may have ended several before the other begins its first
    while len({j.parents[2] for j in tmp_path.glob("runs/*/trials/*/journal.bin")}) < 2:
        assert all(process.poll() is None for process in both)
        time.sleep(0.05)
    both[0].kill()
    both[0].wait()
    assert both[1].wait() == 0
    trials = trials_of(tmp_path)
    (lost,) = retried(trials)
    (retry,) = [t for t in trials if t.system_attrs.get("failed_trial") == lost]
    assert (trials[lost].state, retry.params) == (TrialState.FAIL, trials[lost].params)
    assert [t.state for t in trials].count(TrialState.COMPLETE) in (6, 7)
    (out,) = [found.parent for found in tmp_path.glob("runs/*/summary.json")]
    frame = pd.read_csv(out / "trials.csv")
    assert sorted(frame["state"].unique()) == ["complete", "lost"]
    # all is done: one more has nothing to do, and one with more trials goes on
    assert main(["resume", str(out), "--quiet"]) == 0
    assert len(trials_of(tmp_path)) == len(trials)


def test_another_configuration_is_refused(tmp_path):
    first = sweeps.plan_of(tmp_path, content(tmp_path, trials=1))
    other = sweeps.plan_of(tmp_path, content(tmp_path, trials=1, seed=3))
    with open_study(first, first.sweep.storage, "little", ""):
        pass
    with (
        pytest.raises(InputError, match="seed is 0 there and 3 here"),
        open_study(other, other.sweep.storage, "little", ""),
    ):
        pass
