"""Sections `sweep`: what is right is read, and each mistake is one line that says what to do."""

from itertools import product

import pytest
import yaml

from framework.errors import InputError
from tests.tracking import sweeps
from tracking.sweep.sampling import draw_trial


def complaint(folder, content, *overrides):
    with pytest.raises(InputError) as error:
        sweeps.plan_of(folder, content, *overrides)
    return str(error.value).replace(f"{folder}/", "")


def test_a_right_one_is_read(tmp_path):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(), "sweep.trials=7", "budget.generations=2")
    assert (plan.sweep.trials, plan.config.budget.generations) == (7, 2)
    assert [key for key, d in plan.space.items() if d.whole] == ["algorithm.batch"]
    assert plan.configured() == {"algorithm.batch": 10, "problem.noise": 0.0, "problem.d": 4}
    config = plan.config_with({"algorithm.batch": 5, "problem.d": 3})
    assert (config.algorithm.batch, config.problem.d) == (5, 3)
    assert config.problem.name == "zdt1"


def test_all_mistakes_at_once(tmp_path):
    content = sweeps.raw(trials=0, search_space={"a": {}, "b": {}})
    content["budget"] = {}
    found = complaint(tmp_path, content).splitlines()
    assert len(found) == 2
    assert found[0].startswith("little.yaml: budget: expected one of")
    assert found[1] == "little.yaml: sweep.trials: expected a number of at least 1, found 0"
    found = complaint(tmp_path, sweeps.raw(search_space={"a": {}, "b": {}})).splitlines()
    assert len(found) == 2


def test_no_section_and_repetitions_of_the_run(tmp_path):
    content = sweeps.raw()
    assert complaint(tmp_path, content, "repeats=3") == (
        "little.yaml: repeats: expected 1 in a sweep (sweep.repeats averages over seeds), found 3"
    )
    del content["sweep"]
    assert "expected a sweep, found a run; use `paretolab run" in complaint(tmp_path, content)


SHARE = [{"metric": "share_of_reference", "sense": "max"}]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"directions": [{"metric": "best_f9", "sense": "min"}]},
            "sweep.directions.0.metric: expected one of hypervolume, hypervolume_expected, "
            "front_size, evaluations, wall_s, best_f1, best_f2; found 'best_f9'; did you mean "
            "'best_f2'?",
        ),
        ({"directions": SHARE}, "found 'share_of_reference'; it needs sweep.reference"),
        (
            {"directions": SHARE, "reference": "no.csv"},
            "expected a CSV or Parquet file, found no such file",
        ),
        (
            {"constraints": [{"metric": "cost", "at_most": 1}]},
            "sweep.constraints.0.metric: expected one of hyper",
        ),
    ],
)
def test_mistakes_that_need_the_problem(tmp_path, changes, line):
    with pytest.raises(InputError) as error:
        sweeps.swept(tmp_path, sweeps.raw(**changes))
    assert line in str(error.value)


def test_what_is_kept_reads_as_the_same_sweep(tmp_path):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(trials=1, reference=None))
    sweeps.sweep(plan, tmp_path / "out")
    kept = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    kept["sweep"] = yaml.safe_load((tmp_path / "out" / "sweep.yaml").read_text())
    (tmp_path / "out" / "both.yaml").write_text(yaml.safe_dump(kept))
    again = sweeps.load_plan(tmp_path / "out" / "both.yaml")
    assert again.identity() == plan.identity()


def test_a_grid_has_every_combination_once(tmp_path):
    space = {"problem.d": {"choices": [3, 4, 5]}, "algorithm.batch": {"choices": [5, 20]}}
    content = sweeps.raw(search_space=space, sampler="grid", trials=6)
    plan, drawn = sweeps.plan_of(tmp_path, content), []
    while len(drawn) < 6:
        drawn.append(draw_trial(plan, drawn))
    points = {(trial.params["problem.d"], trial.params["algorithm.batch"]) for trial in drawn}
    assert points == set(product([3, 4, 5], [5, 20]))
    assert complaint(tmp_path, content, "sweep.trials=7") == (
        "little.yaml: sweep.trials: expected at most the grid's 6 points, found 7"
    )
    content["sweep"]["search_space"]["problem.noise"] = {"low": 0, "high": 0.2}
    line = "problem.noise: expected choices, which a grid is made of"
    assert line in complaint(tmp_path, content)
