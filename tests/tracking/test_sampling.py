"""Samplers that need a package of their own: CMA-ES and Gaussian processes."""

import pytest
from optuna.trial import TrialState, create_trial

from framework.errors import InputError
from tests.tracking import sweeps
from tracking.sweep.sampling import draw_trial

SPACE = {"problem.noise": {"low": 0, "high": 0.2}, "algorithm.batch": {"low": 2, "high": 60}}


def test_cmaes_comes_closer_from_the_attributes_of_trials_alone(tmp_path):
    pytest.importorskip("cmaes")
    plan, drawn = sweeps.plan_of(tmp_path, sweeps.raw(search_space=SPACE, sampler="cmaes")), []
    values = []
    while len(drawn) < 60:
        trial = draw_trial(plan, drawn)
        off = 10 * (trial.params["problem.noise"] - 0.15), trial.params["algorithm.batch"] - 50
        values.append(off[0] ** 2 + (off[1] / 58) ** 2)
        told = {"params": trial.params, "distributions": trial.distributions}
        told["system_attrs"] = trial.system_attrs
        drawn.append(create_trial(state=TrialState.COMPLETE, value=-values[-1], **told))
    assert sum(values[-15:]) < 0.2 * sum(values[1:16])


@pytest.mark.parametrize(
    ("sampler", "package", "trials"),
    [
        ("cmaes", "cmaes", 6),
        pytest.param("gp", "torch", 14, marks=pytest.mark.slow),  # ten are drawn at random first
    ],
)
def test_twice_is_the_same(tmp_path, sampler, package, trials):
    pytest.importorskip(package)
    plan = sweeps.plan_of(tmp_path, sweeps.raw(search_space=SPACE, sampler=sampler, trials=trials))
    for name in ("a", "b"):
        sweeps.sweep(plan, tmp_path / name)
    assert sweeps.trials(tmp_path / "a") == sweeps.trials(tmp_path / "b")
    assert len(sweeps.trials(tmp_path / "a")) == trials


@pytest.mark.parametrize(("sampler", "package"), [("cmaes", "cmaes"), ("gp", "torch")])
def test_without_its_package_the_extra_of_a_sampler_is_named(
    tmp_path, monkeypatch, sampler, package
):
    monkeypatch.setattr("tracking.sweep.config.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"package {package} .*'paretolab\[{sampler}\]'"):
        sweeps.plan_of(tmp_path, sweeps.raw(search_space=SPACE, sampler=sampler))


@pytest.mark.parametrize(
    "changes",
    [
        {"search_space": {"problem.noise": {"low": 0, "high": 0.2}}},
        {"search_space": {**SPACE, "problem.d": {"choices": [3, 4]}}},
        {"constraints": [{"metric": "wall_s", "at_most": 10}]},
    ],
    ids=["one key", "choices", "constraints"],
)
def test_what_cmaes_cannot_search_is_refused(tmp_path, changes, monkeypatch):
    monkeypatch.setattr("tracking.sweep.config.find_spec", lambda name: object())
    content = sweeps.raw(**{"search_space": SPACE, "sampler": "cmaes", **changes})
    with pytest.raises(InputError, match="expected for cmaes two keys or more"):
        sweeps.plan_of(tmp_path, content)
