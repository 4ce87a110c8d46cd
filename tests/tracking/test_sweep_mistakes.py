"""Mistakes of the section `sweep`: each is one line with its place and what was expected."""

import pytest

from framework.errors import InputError
from tests.tracking import sweeps
from tests.tracking.test_search_space import SPACE
from tests.tracking.test_sweep_goals import split_sweep
from tests.tracking.test_sweep_pruning import HALVING, MEDIAN, pruned


def space(**keys):
    """Return a sweep over these keys, with ``__`` for the dot."""
    return sweeps.raw(search_space={key.replace("__", "."): v for key, v in keys.items()})


def noise(**dimension):
    return space(problem__noise=dimension)


def beside(**keys):
    """Return a sweep over several searches and these keys."""
    return sweeps.raw(search_space=SPACE | space(**keys)["sweep"]["search_space"])


def batch(**when):
    """Return a sweep over several searches with a key that counts beside something."""
    return beside(algorithm__batch={"low": 5, "high": 20, **when})


def directions(*metrics):
    return [{"metric": metric, "sense": "min"} for metric in metrics]


def started(value):
    return sweeps.raw(
        search_space=SPACE | {"problem.noise": {"low": 0, "high": 0.2}}, start=[value]
    )


NOISE = "problem.noise: expected"
ONE_OR_TWO = {"low": 1, "high": 2}
GRID = {"sampler": "grid", "search_space": {"problem.d": {"choices": [3, 4]}}, "trials": 2}
UNKNOWN = "sweep.search_space: unknown key; expected a dotted"
BESIDE = "algorithm.batch.low: beside algorithm.kind nsga2: unknown key; expected one of "
WHEN = "when: expected a key of the search space that has choices, found"
MISTAKES = [
    # keys
    (
        space(algorithm__bach=ONE_OR_TWO),
        f"{UNKNOWN} key of the configuration, found 'algorithm.bach'; did you mean "
        "'algorithm.batch'?",
    ),
    (space(trials=ONE_OR_TWO), UNKNOWN),
    (space(), "search_space: expected at least 1 of them, found {}"),
    (sweeps.raw(trails=3), "sweep.trails: unknown key; expected one of search_space,"),
    (sweeps.raw(trails=3), "; found 'trails'; did you mean 'trials'?"),
    # their values
    (noise(low=0.2, high=0.1), "problem.noise: expected low below high, found 0.2 and 0.1"),
    (noise(low=0, high=0.1, log=True), f"{NOISE} low above 0 where log is true, found 0"),
    (noise(low=0), "problem.noise: expected low and high, or choices; found no value for high"),
    (noise(low=0, high=1, choices=[0, 1]), f"{NOISE} low and high, or choices alone; found both"),
    (noise(choices=[0.1, 0.1]), "problem.noise: expected each choice once, found [0.1, 0.1]"),
    (
        noise(lo=0, high=1),
        "problem.noise.lo: unknown key; expected one of low, high, log, whole, choices, when; "
        "found 'lo'; did you mean 'low'?",
    ),
    (noise(low=-1, high=1), "problem.noise.low: expected a number of at least 0, found -1.0"),
    (
        space(algorithm__batch={"low": 1, "high": 2.5}),
        "algorithm.batch.high: expected a whole number, found 2.5",
    ),
    (
        space(problem__name={"choices": ["zdt1", "zdt9"]}),
        "zejd2, zejd3; found 'zdt9'; did you mean 'zdt2'?",
    ),
    (space(problem__name=ONE_OR_TWO), "problem.name.low: expected a text, found 1.0"),
    (beside(problem__noise={"choices": [0]}), f"{NOISE} at least 2 choices, found [0]"),
    (
        beside(problem__noise={"low": 0, "high": 0.5, "whole": True}),
        "problem.noise: expected whole ends, found 0 and 0.5",
    ),
    # keys that count beside some values of others
    (batch(), BESIDE),
    (batch(when={"algorithm.kind": "nsga2"}), BESIDE),
    (
        batch(when={"algorithm.kin": "random"}),
        f"algorithm.batch.{WHEN} 'algorithm.kin'; did you mean 'algorithm.kind'?",
    ),
    (
        batch(when={"algorithm.kind": "emsco"}),
        "algorithm.batch.when.algorithm.kind: expected one of the choices random, nsga2, "
        "sms_emoa; found ['emsco']",
    ),
    (
        beside(problem__noise={"low": 0, "high": 1, "when": {"problem.d": 3, "problem.m": 2}}),
        f"problem.noise.{WHEN} 'problem.m'",
    ),
    (
        space(
            problem__d={"choices": [3, 4], "when": {"problem.noise": 0}},
            problem__noise={"choices": [0, 1], "when": {"problem.d": 3}},
        ),
        "without a circle, found",
    ),
    (
        space(
            algorithm__kind={"choices": ["random", "nsga2"]},
            problem__d={"choices": [3, 4], "when": {"algorithm.kind": "random"}},
            problem__noise={"choices": [0, 1], "when": {"problem.d": 3, "algorithm.kind": "nsga2"}},
        ),
        "problem.noise.when: expected what can be, found what never holds",
    ),
    # samplers
    (
        sweeps.raw(sampler="x"),
        "sweep.sampler: expected 'tpe', 'random', 'nsga2', 'qmc', 'gp' or 'grid', found 'x'",
    ),
    (sweeps.raw(search_space=SPACE, sampler="grid", trials=2), "expected none in a grid"),
    (sweeps.raw(**GRID, start=[{"problem.d": 4}]), "start: expected none in a grid"),
    # what a trial is worth
    (
        sweeps.raw(directions=[{"metric": "hypervolume", "sense": "maximal"}]),
        "sweep.directions.0.sense: expected 'min' or 'max', found 'maximal'",
    ),
    (
        sweeps.raw(directions=directions("wall_s", "wall_s")),
        "sweep.directions: expected each metric once, found wall_s, wall_s",
    ),
    (split_sweep(resplit=True), "sweep.resplit: expected repeats of at least 2, found 1"),
    (
        sweeps.raw(resplit=True, repeats=2),
        "sweep.resplit: expected a problem that splits its records by a key split.seed, found",
    ),
    # trials that end early
    (pruned(MEDIAN | {"at": [40, 20]}), "expected rising numbers of at least 1"),
    (pruned(MEDIAN | {"eta": 2}), "expected eta with kind halving, found it with median"),
    (pruned(HALVING | {"startup": 2}), "expected startup with kind median, found it"),
    (pruned(MEDIAN | {"at": [60]}), "expected less than budget.evaluations (60), found 60"),
    (
        pruned(MEDIAN, repeats=2),
        "sweep.prune: expected trials of one run, found repeats: 2; leave out one of the two",
    ),
    (
        pruned(MEDIAN, directions=directions("wall_s")),
        "sweep.prune: expected one direction that a search has on its way",
    ),
    # settings that are tried first
    (
        started({"problem.nois": 0}),
        "sweep.start.0: expected keys of the search space, found 'problem.nois'; did you mean "
        "'problem.noise'?",
    ),
    (
        started({"problem.noise": 0.5}),
        f"sweep.start.0.{NOISE} a value of the search space, found 0.5",
    ),
    (
        sweeps.raw(
            search_space=SPACE | {"problem.d": {"low": 4, "high": 8}}, start=[{"problem.d": 5.5}]
        ),
        "sweep.start.0.problem.d: expected a whole number of the search space, found 5.5",
    ),
    (
        started({"algorithm.batch": 10}),
        "sweep.start.0.algorithm.batch: expected it beside algorithm.kind random, found it without",
    ),
    (
        started("nowhere"),
        "sweep.start.0: expected the directory of a sweep that has ended, found none",
    ),
    # a study of several processes
    (sweeps.raw(storage="nodialect://x"), "sweep.storage: expected an address that begins with"),
    (
        sweeps.raw(storage="sqlite:///mlflow.db") | {"tracking": {"uri": "sqlite:///mlflow.db"}},
        "sweep.storage: expected a database for Optuna alone, found the one of tracking.uri",
    ),
    (sweeps.raw(join=True), "expected a database that all processes reach, such as"),
    (sweeps.raw(storage="sqlite:///study.db", join=True, **GRID), "expected another one than grid"),
    (
        sweeps.raw(storage="sqlite:///study.db", join=True) | {"workers": 4},
        "expected workers auto or serial",
    ),
]


@pytest.mark.parametrize(("content", "line"), MISTAKES, ids=[line for _, line in MISTAKES])
def test_a_mistake_is_one_line(tmp_path, content, line):
    with pytest.raises(InputError) as error:
        sweeps.plan_of(tmp_path, content)
    found = str(error.value)
    assert found.startswith(f"{tmp_path}/little.yaml: ")
    assert line in found
    assert len(found.splitlines()) == 1
