"""Gaussian processes as the sampler of a sweep, where torch is installed."""

from __future__ import annotations

import pytest

from framework.errors import InputError
from tests.tracking import sweeps
from tracking.sweep.config import SweepPlan

TRIALS = 14  # the first ten are drawn at random


def plan_of(folder, **changes) -> SweepPlan:
    return sweeps.plan_of(folder, sweeps.raw(sampler="gp", trials=TRIALS, **changes))


@pytest.mark.slow  # 10 s
def test_a_sweep_twice_is_the_same(tmp_path):
    pytest.importorskip("torch")
    plan = plan_of(tmp_path)
    for name in ("a", "b"):
        sweeps.sweep(plan, tmp_path / name)
    trials = sweeps.trials(tmp_path / "a")
    assert trials == sweeps.trials(tmp_path / "b")
    assert len(trials) == TRIALS


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tracking.sweep.config.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"package torch .* pip install 'paretolab\[gp\]'"):
        plan_of(tmp_path)
