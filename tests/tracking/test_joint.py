"""Several processes on one study: every trial once, none lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState, create_trial

from framework.cli.main import main
from framework.errors import InputError
from tests.command import PROGRAM
from tests.tracking import sweeps
from tracking.sweep.joint import JointStudy, current
from tracking.sweep.study import BEAT, LOST, RETRY, SURPLUS, open_study
from tracking.sweep.trial_runs import TrialOutcome


def content(folder, **changes):
    return sweeps.raw(storage=f"sqlite:///{folder / 'study.db'}", join=True, **changes)


def trials_of(folder):
    url = f"sqlite:///{folder / 'study.db'}"
    return optuna.load_study(study_name="little", storage=url).trials


def child(work):
    """Do so in a process of its own; return its id."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return pid


def take_part(plan, seconds=0.0, hangs_at=None):
    """Take trials and tell them, as a process does; hang in the ``hangs_at``-th."""
    with open_study(plan, plan.sweep.storage, "little") as study:
        joint, taken = JointStudy(plan, study), 0
        while (number := joint.begin()) is not None:
            taken += 1
            with joint.alive(number):
                time.sleep(1e6 if taken == hangs_at else seconds)
            params = study.ask(number)
            joint.tell(TrialOutcome(number, params, {"hypervolume": params["problem.noise"]}))


@pytest.fixture
def plan(tmp_path):
    return sweeps.plan_of(tmp_path, content(tmp_path, trials=5, grace=0.5, sampler="random"))


# --- two processes ----------------------------------------------------------------------------


def test_two_share_the_trials(tmp_path, plan):
    for pid in [child(lambda: take_part(plan, 0.02)) for _ in range(2)]:
        assert os.waitpid(pid, 0)[1] == 0
    trials = trials_of(tmp_path)
    ended = [t for t in trials if SURPLUS not in t.user_attrs]
    assert [t.state for t in ended] == [TrialState.COMPLETE] * 5
    assert len({t.params["problem.noise"] for t in ended}) == 5
    configured = {"algorithm.batch": 10, "problem.noise": 0.0, "problem.d": 4}
    assert [t.number for t in trials if t.params == configured] == [0]


def test_one_that_is_killed_loses_nothing(tmp_path, plan):
    hanging = child(lambda: take_part(plan, hangs_at=2))
    while not (tmp_path / "study.db").exists() or not any(
        BEAT in trial.user_attrs for trial in _seen(tmp_path)
    ):
        time.sleep(0.05)
    os.kill(hanging, signal.SIGKILL)
    os.waitpid(hanging, 0)
    take_part(plan)
    trials = trials_of(tmp_path)
    (lost,) = [trial for trial in trials if LOST in trial.user_attrs]
    assert (lost.number, lost.state) == (1, TrialState.FAIL)
    (retry,) = [trial for trial in trials if RETRY in trial.user_attrs]
    assert retry.user_attrs[RETRY] == 1
    assert retry.params == lost.params
    assert [t.state for t in current(trials, 5)] == [TrialState.COMPLETE] * 5
    assert len(trials) == 6


def _seen(folder):
    try:
        return trials_of(folder)
    except Exception:  # it is being made
        return []


# --- who is who -------------------------------------------------------------------------------


def told(state=TrialState.COMPLETE, **attributes):
    value = 1.0 if state == TrialState.COMPLETE else None
    return create_trial(state=state, value=value, user_attrs=attributes)


def numbered(*trials):
    for number, trial in enumerate(trials):
        trial.number = number
    return list(trials)


def test_which_trials_count():
    trials = numbered(
        told(),
        told(TrialState.FAIL, lost=True),
        told(),
        told(TrialState.FAIL, retry_of=1, lost=True),
        told(TrialState.FAIL, retry_of=1, surplus=True),
        told(TrialState.FAIL, surplus=True),
        told(retry_of=3),
    )
    assert [trial.number for trial in current(trials, 3)] == [0, 6, 2]
    # one that came back before it was ended as lost was not lost
    assert [t.number for t in current(numbered(told(lost=True), told(retry_of=0)), 1)] == [0]
    assert [t.number for t in current(numbered(told(TrialState.FAIL, lost=True)), 1)] == [0]


def test_what_is_begun_in_excess_is_given_back(tmp_path):
    """Two that see the same gap: the second one leaves it, as numbers are given once."""
    plan = sweeps.plan_of(tmp_path, content(tmp_path, trials=1, grace=0.1))
    with open_study(plan, plan.sweep.storage, "little") as study:
        joint = JointStudy(plan, study)
        assert joint._afresh() == 0
        assert joint._afresh() is None
        lost = study.trials()[0]
        joint._give_up(0)
        assert joint._again(lost) == 2
        assert joint._again(lost) is None
        states = [(trial.number, SURPLUS in trial.user_attrs) for trial in study.trials()]
        assert states == [(0, False), (1, True), (2, False), (3, True)]
        # what comes of a lost trial after all is not told
        assert not joint.tell(TrialOutcome(0, {}, {"hypervolume": 1.0}))
        assert joint.tell(TrialOutcome(2, {}, {"hypervolume": 1.0}))
        assert joint.begin() is None
        assert joint.done() == 1


def test_a_trial_lost_before_it_had_values_gets_its_own(tmp_path):
    plan = sweeps.plan_of(tmp_path, content(tmp_path, trials=2, start=[{"problem.noise": 0.125}]))
    with open_study(plan, plan.sweep.storage, "little") as study:
        joint = JointStudy(plan, study)
        assert joint._afresh() == 0
        study.add(create_trial(state=TrialState.RUNNING))
        joint._give_up(1)
        number = joint._again(study.trials()[1])
        assert study.ask(number)["problem.noise"] == 0.125
        assert set(study.ask(number)) == set(plan.space)


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
    while len(list(tmp_path.glob("runs/*/trials/*/journal.bin"))) < 2:
        assert all(process.poll() is None for process in both)
        time.sleep(0.05)
    both[0].kill()
    both[0].wait()
    assert both[1].wait() == 0
    trials = trials_of(tmp_path)
    assert sum(LOST in trial.user_attrs for trial in trials) == 1
    assert [t.state for t in current(trials, 6)] == [TrialState.COMPLETE] * 6
    (out,) = [found.parent for found in tmp_path.glob("runs/*/summary.json")]
    frame = pd.read_csv(out / "trials.csv")
    assert sorted(frame["state"].unique()) == ["complete", "lost"]
    # all is done: one more has nothing to do, and one with more trials goes on
    assert main(["resume", str(out), "--quiet"]) == 0
    assert len(trials_of(tmp_path)) == 7


def test_a_shared_study_needs_a_place(tmp_path):
    made = content(tmp_path)
    made["sweep"]["storage"] = None
    with pytest.raises(InputError, match="expected a database that all processes reach, such as"):
        sweeps.plan_of(tmp_path, made)


def test_nobody_shares_a_grid(tmp_path):
    space = {"problem.d": {"choices": [3, 4]}}
    made = content(tmp_path, sampler="grid", search_space=space, trials=2)
    with pytest.raises(InputError, match="expected another one than grid"):
        sweeps.plan_of(tmp_path, made)


def test_workers_are_processes(tmp_path):
    with pytest.raises(InputError, match="expected workers auto or serial"):
        sweeps.plan_of(tmp_path, content(tmp_path), "workers=4")


def test_another_configuration_is_refused(tmp_path):
    first = sweeps.plan_of(tmp_path, content(tmp_path, trials=1))
    other = sweeps.plan_of(tmp_path, content(tmp_path, trials=1, seed=3))
    with open_study(first, first.sweep.storage, "little"):
        pass
    with (
        pytest.raises(InputError, match="seed is 0 there and 3 here"),
        open_study(other, other.sweep.storage, "little"),
    ):
        pass
