"""Sections `sweep`: what is right is read, and each mistake is one line that says what to do."""

from __future__ import annotations

from itertools import product

import pytest
import yaml

from framework.errors import InputError
from tests.tracking import sweeps
from tracking.sweep.sampling import draw_trial

SPACE = "sweep.search_space"


def complaint(folder, content, *overrides):
    with pytest.raises(InputError) as error:
        sweeps.plan_of(folder, content, *overrides)
    return str(error.value).replace(f"{folder}/", "")


def test_a_right_one_is_read(tmp_path):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(), "sweep.trials=7", "budget.generations=2")
    assert (plan.sweep.trials, plan.config.budget.generations) == (7, 2)
    assert plan.whole == {"algorithm.batch"}
    assert plan.configured() == {"algorithm.batch": 10, "problem.noise": 0.0, "problem.d": 4}
    config = plan.config_with({"algorithm.batch": 5, "problem.d": 3})
    assert (config.algorithm.batch, config.problem.d) == (5, 3)
    assert config.problem.name == "zdt1"


@pytest.mark.parametrize(
    ("key", "dimension", "line"),
    [
        (
            "algorithm.bach",
            {"low": 1, "high": 2},
            "unknown key; expected a dotted key of the configuration, found 'algorithm.bach'; did "
            "you mean 'algorithm.batch'?",
        ),
        (
            "trials",
            {"low": 1, "high": 2},
            "unknown key; expected a dotted key of the configuration, found 'trials'",
        ),
        ("problem.noise", {"low": 0.2, "high": 0.1}, "expected low below high, found 0.2 and 0.1"),
        (
            "problem.noise",
            {"low": 0, "high": 0.1, "log": True},
            "expected low above 0 where log is true, found 0",
        ),
        ("problem.noise", {"low": 0}, "expected low and high, or choices; found no value for high"),
        (
            "problem.noise",
            {"low": 0, "high": 1, "choices": [0, 1]},
            "expected low and high, or choices alone; found both",
        ),
        ("problem.noise", {"choices": [0.1, 0.1]}, "expected each choice once, found [0.1, 0.1]"),
        (
            "problem.noise",
            {"lo": 0, "high": 1},
            "unknown key; expected one of low, high, log, whole, choices, when; found 'lo'; "
            "did you mean 'low'?",
        ),
        ("problem.noise", {"low": -1, "high": 1}, "expected a number of at least 0, found -1.0"),
        ("algorithm.batch", {"low": 1, "high": 2.5}, "expected a whole number, found 2.5"),
        (
            "problem.name",
            {"choices": ["zdt1", "zdt9"]},
            "zejd2, zejd3; found 'zdt9'; did you mean 'zdt2'?",
        ),
        (
            "problem.name",
            {"low": 1, "high": 2},
            "expected a text, found 1.0",
        ),
    ],
)
def test_mistakes_in_the_search_space(tmp_path, key, dimension, line):
    found = complaint(tmp_path, sweeps.raw(search_space={key: dimension}))
    assert found.startswith(f"little.yaml: {SPACE}")
    assert found.endswith(line)
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"sampler": "x"},
            "sweep.sampler: expected 'tpe', 'random', 'nsga2', 'qmc', 'cmaes', 'gp' or "
            "'grid', found 'x'",
        ),
        (
            {"directions": [{"metric": "hypervolume", "sense": "maximal"}]},
            "sweep.directions.0.sense: expected 'min' or 'max', found 'maximal'",
        ),
        (
            {"directions": [{"metric": "wall_s", "sense": "min"}] * 2},
            "sweep.directions: expected each metric once, found wall_s, wall_s",
        ),
        ({"search_space": {}}, "sweep.search_space: expected at least 1 of them, found {}"),
    ],
)
def test_mistakes_in_the_section(tmp_path, changes, line):
    found = complaint(tmp_path, sweeps.raw(**changes))
    assert found == f"little.yaml: {line}"


def test_an_unknown_key(tmp_path):
    found = complaint(tmp_path, sweeps.raw(trails=3))
    assert found.startswith("little.yaml: sweep.trails: unknown key; expected one of search_space,")
    assert found.endswith("; found 'trails'; did you mean 'trials'?")


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


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"directions": [{"metric": "best_f9", "sense": "min"}]},
            "sweep.directions.0.metric: expected one of hypervolume, "
            "hypervolume_expected, front_size, evaluations, "
            "wall_s, best_f1, best_f2; found 'best_f9'; did you mean 'best_f2'?",
        ),
        (
            {"directions": [{"metric": "share_of_reference", "sense": "max"}]},
            "found 'share_of_reference'; it needs sweep.reference",
        ),
        (
            {
                "directions": [{"metric": "share_of_reference", "sense": "max"}],
                "reference": "no.csv",
            },
            "expected a CSV or Parquet file, found no such file",
        ),
    ],
)
def test_mistakes_that_need_the_problem(tmp_path, changes, line):
    plan = sweeps.plan_of(tmp_path, sweeps.raw(**changes))
    with pytest.raises(InputError) as error:
        sweeps.sweep(plan, tmp_path / "out")
    assert line in str(error.value)


def test_an_unknown_kind_of_storage_is_refused_when_the_file_is_read(tmp_path):
    with pytest.raises(InputError, match=r"sweep\.storage: expected an address that begins with"):
        sweeps.plan_of(tmp_path, sweeps.raw(storage="nodialect://x"))


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
    assert "problem.noise: expected choices, which a grid is made of" in complaint(
        tmp_path, content
    )
