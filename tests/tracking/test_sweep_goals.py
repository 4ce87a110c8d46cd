"""What a trial is worth and which is the best: repeats, splits, constraints, several goals."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from optuna.trial import TrialState, create_trial
from scipy import stats

from framework.cli.main import main
from framework.experiment.run_dir import RunDir
from framework.front import volume
from tests.tracking import sweeps
from tracking.sweep.report import ranked, rule
from tracking.sweep.sampling import draw_trial

TWO = [{"metric": "hypervolume", "sense": "max"}, {"metric": "wall_s", "sense": "min"}]


pytestmark = pytest.mark.usefixtures("plain")


def told(number, values, violation=0.0):
    trial = create_trial(state=TrialState.COMPLETE, values=values, constraints={"some": violation})
    trial.number = number
    return trial


def order(plan, rows, violations=()):
    broken = dict(enumerate(violations))
    trials = [told(i, row, broken.get(i, 0.0)) for i, row in enumerate(rows)]
    found, n_best = ranked(plan, trials)
    return [trial.number for trial in found], n_best


# --- repeats ----------------------------------------------------------------------------------


def test_a_mean_has_its_interval(tmp_path, capsys):
    path, out = sweeps.write(tmp_path, sweeps.raw(repeats=3, trials=2)), tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out)]) == 0
    frame = pd.read_csv(out / "trials.csv")
    for number, row in frame.iterrows():
        trial = RunDir(out / "trials" / f"{number:03d}")
        runs = trial.children()
        values = [run.summary()["indicators"]["hypervolume"] for run in runs]
        assert trial.summary()["repeats"] == len(set(values)) == 3
        ends = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        assert row["hypervolume"] == pytest.approx(np.mean(values), abs=1e-12)
        assert row["hypervolume_interval"] == pytest.approx((ends[1] - ends[0]) / 2, abs=1e-12)
        assert len({run.config().problem.d for run in runs}) == 1
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["best"][0]["intervals"]) == {"hypervolume"}
    shown = capsys.readouterr()
    assert " ± " in shown.out
    assert " ± " in shown.err


def split_sweep(**changes):
    """Return a sweep of a multi-stage problem of a hundred records."""
    content = sweeps.raw(search_space={"algorithm.batch": {"low": 5, "high": 20}}, **changes)
    content["problem"] = {
        "kind": "multistage",
        "dataset": {"synthetic": {"samples": 120, "features": 4, "informative": 3, "seed": 1}},
        "split": {"seed": 5},
        "threshold": 0.7,
        "max_stages": 2,
        "remove_features": True,
    }
    content["objectives"] = [{"metric": "accuracy", "sense": "max"}]
    content["objectives"] += [{"metric": "coverage", "sense": "max"}]
    return content


@pytest.mark.slow
def test_repeats_on_other_splits(tmp_path):
    sweeps.swept(tmp_path, split_sweep(repeats=3, resplit=True, trials=2))
    for number, _, _, (value,) in sweeps.trials(tmp_path / "out"):
        trial = RunDir(tmp_path / "out" / "trials" / f"{number:03d}")
        runs = trial.children()
        assert [run.config().problem.split["seed"] for run in runs] == [5, 6, 7]
        assert len({run.config().seed for run in runs}) == 3
        assert len({run.summary()["problem_fingerprint"] for run in runs}) == 3
        found = [run.summary()["indicators"]["hypervolume"] for run in runs]
        assert value == pytest.approx(np.mean(found), abs=1e-12)
        assert not trial.front_file.exists()  # the values of other splits do not compare


def test_trials_may_be_judged_by_what_is_expected(tmp_path):
    direction = {"metric": "hypervolume_expected", "sense": "max"}
    sweeps.swept(tmp_path, split_sweep(directions=[direction], trials=1))
    ((_, _, _, (value,)),) = sweeps.trials(tmp_path / "out")
    run = RunDir(tmp_path / "out" / "trials" / "000")
    front = run.front()
    names = ["expected_accuracy", "expected_coverage"]
    losses = -np.column_stack([front.expected[name] for name in names])
    assert value == pytest.approx(volume(losses, front.roles), abs=1e-12)
    assert value < run.summary()["indicators"]["hypervolume"]


# --- constraints ------------------------------------------------------------------------------


def test_constraints_come_before_values(tmp_path, capsys):
    content = sweeps.raw(constraints=[{"metric": "evaluations", "at_most": 60}], sampler="random")
    path, out = sweeps.write(tmp_path, content), tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out)]) == 0
    frame = pd.read_csv(out / "trials.csv")
    assert (frame["keeps_constraints"] == (frame["evaluations"] <= 60)).all()
    assert 0 < frame["keeps_constraints"].sum() < 12
    keeping = frame[frame["keeps_constraints"]]
    best = keeping.loc[keeping["hypervolume"].idxmax()]
    assert best["hypervolume"] < frame["hypervolume"].max()
    summary = json.loads((out / "summary.json").read_text())
    assert [trial["trial"] for trial in summary["best"]] == [best["trial"]]
    assert summary["trials_keeping_constraints"] == len(keeping)
    assert "(not evaluations at most 60)" in capsys.readouterr().err


def test_when_none_keeps_them(tmp_path, capsys):
    content = sweeps.raw(constraints=[{"metric": "best_f1", "at_most": -1}], trials=2)
    path, out = sweeps.write(tmp_path, content), tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out)]) == 0
    assert "no trial keeps the constraints" in capsys.readouterr().err
    assert not (out / "best.yaml").exists()
    assert json.loads((out / "summary.json").read_text())["best"] == []


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_samplers_note_handled_constraints(tmp_path, sampler):
    """Where noise has to be large, more trials have a large one."""

    def share(**changes):
        content = sweeps.raw(sampler=sampler, trials=60, batch=10, **changes)
        content["sweep"]["directions"] = [{"metric": "best_f1", "sense": "min"}]
        del content["sweep"]["search_space"]["algorithm.batch"]
        content["budget"] = {"evaluations": 4}
        plan, drawn = sweeps.plan_of(tmp_path, content), []
        while len(drawn) < 60:
            trial = draw_trial(plan, drawn)
            noise = trial.params["problem.noise"]
            known = {"constraints": {"c": 0.1 - noise}} if "constraints" in changes else {}
            known |= {"params": trial.params, "distributions": trial.distributions}
            attrs = trial.system_attrs
            drawn.append(create_trial(value=noise, system_attrs=attrs, **known))
        return np.mean([trial.params["problem.noise"] >= 0.1 for trial in drawn[20:]])

    assert share(constraints=[{"metric": "front_size", "at_least": 1}]) > share() + 0.2


# --- the rule ---------------------------------------------------------------------------------


def test_in_order_of_worth(tmp_path):
    """The stumble: a third of the hypervolume in a fifth of the time was called the best."""
    rows = [[0.33, 0.09], [0.82, 0.47], [0.81, 0.30], [0.70, 0.29], [0.80, 0.46]]
    plan = sweeps.plan_of(tmp_path, sweeps.raw(directions=TWO))
    assert order(plan, rows) == ([2, 1, 3, 0, 4], 4)
    assert rule(plan) == "within 5% of the best hypervolume the best wall_s"
    strict = sweeps.plan_of(tmp_path, sweeps.raw(directions=TWO, tolerance=0))
    assert order(strict, rows)[0][0] == 1
    near = sweeps.plan_of(tmp_path, sweeps.raw(directions=TWO, choose="nearest"))
    assert order(near, [[0.9, 0.5], [0.6, 0.1], [0.3, 0.0]])[0] == [1, 0, 2]
    assert order(plan, [[0.9, 0.5], [0.6, 0.1], [0.3, 0.0]])[0] == [0, 1, 2]
    for rearranged in permutations(rows):
        found, n_best = order(plan, rearranged)
        assert (rearranged[found[0]], n_best) == ([0.81, 0.30], 4)


def test_constraints_and_the_rule(tmp_path):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(directions=TWO))
    rows = [[0.9, 0.1], [0.5, 0.5], [0.4, 0.2], [0.3, 0.3]]
    assert order(plan, rows, [0.2, 0.0, 0.0, 0.0]) == ([1, 2, 3, 0], 2)
    assert order(plan, rows, [0.2, 0.1, 0.3, 0.4]) == ([1, 0, 2, 3], 0)


def test_the_rule_may_change_in_a_study(tmp_path):
    sweeps.swept(tmp_path, sweeps.raw(directions=TWO, trials=2))
    summary, shown = sweeps.swept(tmp_path, sweeps.raw(directions=TWO, trials=2, choose="nearest"))
    assert (summary["trials_complete"], shown) == (2, [])
