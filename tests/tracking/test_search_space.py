"""Keys of a sweep that are tried beside some values of another only."""

from pathlib import Path

import pandas as pd
import pytest
from optuna.trial import TrialState, create_trial

from framework.cli.arguments import SHIPPED
from framework.errors import InputError
from framework.experiment.config import changed
from framework.experiment.run_dir import RunDir
from tests.tracking import sweeps
from tracking.sweep.config import load_plan
from tracking.sweep.sampling import draw_trial

EVOLUTION = ["nsga2", "sms_emoa"]
SPACE = {
    "algorithm.population": {"choices": [10, 20], "when": {"algorithm.kind": EVOLUTION}},
    "algorithm.batch": {"low": 5, "high": 20, "when": {"algorithm.kind": "random"}},
    "algorithm.kind": {"choices": ["random", *EVOLUTION]},
    "problem.d": {"choices": [3, 4, 5]},
}


def content(space=None, **changes):
    return sweeps.raw(search_space=SPACE if space is None else space, **changes)


def test_a_sweep_over_searches(tmp_path, plain):
    summary, _ = sweeps.swept(tmp_path, content(trials=14))
    assert (summary["trials_complete"], summary["trials_failed"]) == (14, 0)
    seen = set()
    for number, _, params, _ in sweeps.trials(tmp_path / "out"):
        kind = params["algorithm.kind"]
        own = "algorithm.batch" if kind == "random" else "algorithm.population"
        assert set(params) == {"algorithm.kind", "problem.d", own}
        config = RunDir(tmp_path / "out" / "trials" / f"{number:03d}").config()
        assert config.algorithm.kind == kind
        assert dict(config.algorithm)[own.removeprefix("algorithm.")] == params[own]
        seen.add(kind)
    assert seen == {"random", "nsga2", "sms_emoa"}
    _, _, first, _ = sweeps.trials(tmp_path / "out")[0]
    assert first == {"algorithm.kind": "random", "algorithm.batch": 10, "problem.d": 4}
    frame = pd.read_csv(tmp_path / "out" / "trials.csv")
    assert (frame["algorithm.batch"].isna() == (frame["algorithm.kind"] != "random")).all()
    assert (frame["algorithm.population"].isna() == (frame["algorithm.kind"] == "random")).all()


@pytest.mark.slow
def test_pictures_have_gaps(tmp_path):
    sweeps.swept(tmp_path, content(trials=12))
    assert '"none"' in (tmp_path / "out" / "sweep.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("sampler", ["random", "nsga2", "qmc", "tpe"])
def test_every_sampler_keeps_to_the_conditions(tmp_path, sampler):
    plan, drawn = sweeps.plan_of(tmp_path, content(sampler=sampler)), []
    for number in range(30):
        trial = draw_trial(plan, drawn)
        own = "batch" if trial.params["algorithm.kind"] == "random" else "population"
        assert set(trial.params) == {"algorithm.kind", "problem.d", f"algorithm.{own}"}
        told = {"params": trial.params, "distributions": trial.distributions}
        told["system_attrs"] = trial.system_attrs
        drawn.append(create_trial(state=TrialState.COMPLETE, value=float(number % 7), **told))


def test_items_of_lists_are_drawn_one_by_one():
    plan = load_plan(SHIPPED / "sweeps" / "pruning.yaml")
    drawn = draw_trial(plan, []).params
    weights = [drawn[f"algorithm.weights.{i}"] for i in range(4)]
    assert len(set(weights)) == 4
    config = changed(plan.config, drawn, Path("sweep"))
    assert list(config.algorithm.weights) == weights


def test_items_of_lists_are_first_tried_as_configured():
    only = {f"algorithm.weights.{i}": {"low": -1.0, "high": 2.0} for i in range(4)}
    plan = load_plan(SHIPPED / "sweeps" / "pruning.yaml", [f"sweep.search_space={only}"])
    assert list(draw_trial(plan, []).params.values()) == [1, 0, 1, 0]


def test_whole_numbers_by_request(tmp_path):
    space = {"problem.noise": {"low": 0, "high": 3, "whole": True}}
    plan = sweeps.plan_of(tmp_path, content(space, sampler="random"))
    assert {draw_trial(plan, []).params["problem.noise"]} <= {0, 1, 2, 3}
    assert [key for key, d in plan.space.items() if d.whole] == ["problem.noise"]


# --- Gaussian processes, which need a package of their own --------------------------------------

WIDE = {"problem.noise": {"low": 0, "high": 0.2}, "algorithm.batch": {"low": 2, "high": 60}}


@pytest.mark.slow
def test_gaussian_processes_draw_twice_the_same(tmp_path):
    pytest.importorskip("torch")
    content = sweeps.raw(search_space=WIDE, sampler="gp", trials=14)  # ten are drawn at random
    plan = sweeps.plan_of(tmp_path, content)
    for name in ("a", "b"):
        sweeps.sweep(plan, tmp_path / name)
    assert sweeps.trials(tmp_path / "a") == sweeps.trials(tmp_path / "b")
    assert len(sweeps.trials(tmp_path / "a")) == 14


def test_without_its_package_the_extra_of_a_sampler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("framework.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"package torch, .*'paretolab\[gp\]'; or take tpe"):
        sweeps.plan_of(tmp_path, sweeps.raw(search_space=WIDE, sampler="gp"))
