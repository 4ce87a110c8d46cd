"""Trials that end early: the same ones, at the same row, whoever runs them."""

import json

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState, create_trial

from framework.cli.main import main
from framework.experiment.run_dir import RunDir
from framework.front import Front
from tests.tracking import sweeps
from tracking.sweep.config import PruneConfig
from tracking.sweep.sampling import pruning_limits

MEDIAN = {"kind": "median", "at": [20, 40], "startup": 3}
HALVING = {"kind": "halving", "at": [10, 20, 40], "eta": 2}


pytestmark = pytest.mark.usefixtures("plain")


def pruned(prune, **changes):
    made = sweeps.raw(prune=prune, trials=16, **changes)
    made["budget"] = {"evaluations": 60}
    made["sweep"]["search_space"]["algorithm.batch"] = {"low": 2, "high": 15}
    return made


def told(number, state, rungs):
    value = list(rungs.values())[-1]
    trial = create_trial(state=state, value=value, intermediate_values=rungs)
    trial.number = number
    return trial


@pytest.mark.quick(1)
@pytest.mark.parametrize("prune", [MEDIAN, HALVING], ids=["median", "halving"])
def test_a_trial_ends_where_the_study_says(tmp_path, prune):
    plan = sweeps.plan_of(tmp_path, pruned(prune))
    summary, shown = sweeps.sweep(plan, tmp_path / "out")
    trials = sweeps.study_of(tmp_path / "out" / "optuna.db").trials
    assert summary["trials_complete"] + summary["trials_pruned"] == 16
    assert 0 < summary["trials_pruned"] < 12
    for trial in trials:
        # what it had to reach rests on the batches before its own
        begun = trial.number - trial.number % plan.sweep.batch
        before = [*trials[:begun], *map(_running, trials[begun : trial.number])]
        bounds = pruning_limits(plan.sweep.prune, "max", before)
        assert trial.user_attrs["limits"] == {str(step): v for step, v in bounds.items()}
        worse = [s for s, v in trial.intermediate_values.items() if v < bounds.get(s, v)]
        assert worse == ([max(trial.intermediate_values)] if trial.state.name == "PRUNED" else [])
        run = RunDir(tmp_path / "out" / "trials" / f"{trial.number:03d}")
        with run.journal() as journal:
            for step, value in trial.intermediate_values.items():
                batch = trial.params["algorithm.batch"]
                rows = -(-step // batch)  # whole batches
                front = Front.from_journal(journal, run.roles(), run.front().gene_names, upto=rows)
                assert front.hypervolume() == value
        (ended,) = [t.outcome for t in shown if t.outcome.number == trial.number]
        assert bool(ended.pruned) == (trial.state.name == "PRUNED") == bool(worse)
        assert (run.summary()["stopped"] == "evaluations") != bool(worse)
    frame = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert frame["state"].tolist() == [trial.state.name.lower() for trial in trials]
    assert (frame["hypervolume"].isna() == (frame["state"] == "pruned")).all()
    assert frame["hypervolume_at_20"].notna().sum() >= summary["trials_complete"]


def _running(trial):
    return create_trial(
        state=TrialState.RUNNING, params=trial.params, distributions=trial.distributions
    )


def test_the_median_is_that_of_optuna():
    rng = np.random.default_rng(0)
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=3)
    )
    prune, decided = PruneConfig(**MEDIAN), []
    for _ in range(40):
        bounds = pruning_limits(prune, "max", study.trials)
        trial, value, ended = study.ask(), 0.0, False
        for step in prune.at:
            value += rng.random()  # rising, as hypervolume does
            trial.report(value, step)
            assert trial.should_prune() == (value < bounds.get(step, value))
            ended = trial.should_prune()
            if ended:
                break
        decided.append(ended)
        study.tell(trial, None if ended else value, TrialState.PRUNED if ended else None)
    assert 0 < sum(decided) < 40


def test_brackets_keep_one_of_eta():
    prune = PruneConfig(kind="halving", at=[10, 100], eta=3)  # brackets 0, 1, 2 in turn
    before = [
        told(n, TrialState.PRUNED if n == 3 else TrialState.COMPLETE, {10: n / 10, 100: n})
        for n in range(18)
    ]
    # the next one is trial 18, of bracket 0, with 0, 3, 6, 9, 12, 15: seven, of which two go on
    assert pruning_limits(prune, "max", before) == {10: 1.2, 100: 12}
    assert pruning_limits(prune, "min", before) == {10: 0.3, 100: 3}
    assert pruning_limits(prune, "max", [*before, _running(before[0])]) == {100: 13}  # bracket 1
    assert pruning_limits(prune, "max", [*before, *[_running(before[0])] * 2]) == {}  # bracket 2
    assert pruning_limits(prune, "max", []) == {}


@pytest.mark.slow
def test_the_command_says_so(tmp_path, capsys):
    path = sweeps.write(tmp_path, pruned(MEDIAN, sampler="random"))
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr()
    assert "pruned at 20 evaluations, hypervolume 0." in output.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert f"; {summary['trials_pruned']} pruned" in output.out


@pytest.mark.slow
def test_ray_prunes_the_same(tmp_path, capsys):
    path = sweeps.write(tmp_path, pruned(HALVING))
    for name, workers in (("one", "serial"), ("two", "2")):
        out = str(tmp_path / name)
        assert main(["sweep", str(path), "--out", out, "--workers", workers, "--quiet"]) == 0
    assert sweeps.trials(tmp_path / "one") == sweeps.trials(tmp_path / "two")
    assert pd.read_csv(tmp_path / "one" / "trials.csv")["state"].eq("pruned").any()
