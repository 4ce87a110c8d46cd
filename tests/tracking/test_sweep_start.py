"""Settings that a sweep tries first."""

import pytest
import yaml

from tests.tracking import sweeps
from tracking.sweep.sampling import draw_trial

SPACE = {
    "algorithm.kind": {"choices": ["random", "nsga2"]},
    "algorithm.batch": {"low": 5, "high": 20, "when": {"algorithm.kind": "random"}},
    "problem.noise": {"low": 0, "high": 0.2},
    "problem.d": {"choices": [3, 4, 5]},
}


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2", "qmc"])
def test_settings_come_first_and_the_rest_is_drawn(tmp_path, sampler):
    start = [
        {"problem.noise": 0.125, "algorithm.kind": "random", "algorithm.batch": 7, "problem.d": 5},
        {"problem.noise": 0.0625},
    ]
    content = sweeps.raw(search_space=SPACE, start=start, sampler=sampler)
    plan, drawn = sweeps.plan_of(tmp_path, content), []
    while len(drawn) < 4:
        drawn.append(draw_trial(plan, drawn))
    own = {"algorithm.kind": "random", "algorithm.batch": 10, "problem.noise": 0, "problem.d": 4}
    assert drawn[0].params == own
    assert drawn[1].params == start[0]
    assert drawn[2].params["problem.noise"] == 0.0625 != drawn[3].params["problem.noise"]
    # the configuration is tried where the search space has it only
    content["problem"]["d"] = 7
    assert draw_trial(sweeps.plan_of(tmp_path, content), []).params == start[0]


def test_an_earlier_sweep(tmp_path, plain):
    earlier, _ = sweeps.sweep(sweeps.plan_of(tmp_path, sweeps.raw(trials=4)), tmp_path / "old")
    content = sweeps.raw(trials=2, start=["old", {"problem.d": 3}])
    content["budget"] = {"generations": 4}
    plan = sweeps.plan_of(tmp_path, content)
    sweeps.sweep(plan, tmp_path / "new")
    _, _, params, _ = sweeps.trials(tmp_path / "new")[1]
    assert params == earlier["best"][0]["params"]
    # the directory is no longer needed
    kept = yaml.safe_load((tmp_path / "new" / "sweep.yaml").read_text())["start"]
    assert kept == [params, {"problem.d": 3}]
