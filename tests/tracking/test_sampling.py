"""The sampler that needs a package of its own: Gaussian processes."""

import pytest

from framework.errors import InputError
from tests.tracking import sweeps

SPACE = {"problem.noise": {"low": 0, "high": 0.2}, "algorithm.batch": {"low": 2, "high": 60}}


@pytest.mark.slow
def test_twice_is_the_same(tmp_path):
    pytest.importorskip("torch")
    content = sweeps.raw(search_space=SPACE, sampler="gp", trials=14)  # ten are drawn at random
    plan = sweeps.plan_of(tmp_path, content)
    for name in ("a", "b"):
        sweeps.sweep(plan, tmp_path / name)
    assert sweeps.trials(tmp_path / "a") == sweeps.trials(tmp_path / "b")
    assert len(sweeps.trials(tmp_path / "a")) == 14


def test_without_its_package_the_extra_of_a_sampler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tracking.sweep.config.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"package torch .*'paretolab\[gp\]'"):
        sweeps.plan_of(tmp_path, sweeps.raw(search_space=SPACE, sampler="gp"))
