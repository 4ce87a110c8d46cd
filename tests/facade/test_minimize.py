"""Any Python function, searched as a run."""

import json
import sys
from functools import lru_cache, partial, wraps

import numba
import numpy as np
import pytest

import paretolab
from framework.algorithm import fitting
from framework.errors import InputError, JournalError
from framework.experiment.run_dir import RunDir
from framework.problems.python_function import PythonFunction
from framework.space import Box
from tests.command import call
from tests.toys import two_of_mixed

SPACE = {"x": (-1.0, 2.0), "n": (0, 3), "kind": ["a", "b", "c"], "c": (0.01, 100, "log")}
search = partial(paretolab.minimize, track=False, quiet=True, plots=False, workers="serial")


def test_finds_the_front_of_mixed_parameters(tmp_path):
    found = search(two_of_mixed, SPACE, ["f", "g"], budget=2_000, out=tmp_path / "run")
    near = [p for p in found.parameters if 0.1 < p["x"] < 0.9]
    assert len(near) > 10
    assert {p["n"] for p in found.parameters} == {0}
    assert "a" not in {p["kind"] for p in found.parameters}
    for p, f, g in zip(found.parameters, *found.front.rows.values.values(), strict=True):
        assert two_of_mixed(**p) == (f, g)
    assert found.table[list(SPACE)].to_dict("records") == found.parameters
    assert repr(found.front).startswith(f"Front({len(found.parameters)} solutions: f ")
    # the true front is f = x^2, g = (x - 1)^2
    losses = np.column_stack([found.front.rows.values[name] for name in ("f", "g")])
    assert np.median(np.sqrt(losses).sum(axis=1)) < 1.05


def test_arrays_and_single_calls_give_one_front(tmp_path):
    def circle(x, g):
        return {"f": x**2 + g**2, "g": -((x - 1) ** 2) - g**2}

    space, objectives = {"x": (-1.0, 2.0), "g": (-1.0, 1.0)}, {"f": "min", "g": "max"}
    single, arrays = (
        search(circle, space, objectives, vectorised=v, budget=600, out=tmp_path / str(v))
        for v in (False, True)
    )
    assert np.array_equal(single.front.X, arrays.front.X)
    assert 0 < single.front.hypervolume() < 1
    assert list(single.table) == ["f", "g", "x", "g (parameter)"]


def test_goes_on_with_more_evaluations_and_refuses_another_function(tmp_path):
    def first(v):
        return v[0] ** 2 + v[1]

    whole = search(first, [(-1.0, 1.0), (0, 3)], ["f"], budget=500, out=tmp_path / "whole")
    search(first, [(-1.0, 1.0), (0, 3)], "f", budget=200, out=tmp_path / "parts")
    found = search(first, [(-1.0, 1.0), (0, 3)], ["f"], budget=500, out=tmp_path / "parts")
    assert np.array_equal(found.front.X, whole.front.X)
    with pytest.raises(InputError, match="no fewer than the 500 evaluations"):
        search(first, [(-1.0, 1.0), (0, 3)], ["f"], budget=300, out=tmp_path / "parts")
    with pytest.raises(JournalError, match="gives others for the same parameters"):
        search(lambda v: v[0], [(-1.0, 1.0), (0, 3)], ["f"], out=tmp_path / "parts")
    with pytest.raises(JournalError, match="another's"):  # its text is another
        search(lambda v: first(v), [(-1.0, 1.0), (0, 3)], ["f"], out=tmp_path / "parts")


class Scaled:
    """A callable object, whose method is one as well, that counts its calls."""

    def __init__(self, by):
        self.by, self.calls = by, 0

    def __call__(self, a):
        self.calls += 1
        return a * self.by


def closure(by):
    return lambda a: a * by


def decorated(by):
    def wrap(function):
        return wraps(function)(lambda a: by * function(a))

    @wrap
    def same(a):
        return a

    return same


@pytest.mark.parametrize(
    "make",
    [
        closure,
        decorated,
        Scaled,
        lambda by: Scaled(by).__call__,
        lambda by: partial(lambda a, by: a * by, by=by),
        lambda by: [lambda a: a * 1, lambda a: a * 2][by - 1],
        lambda by: lru_cache(closure(by)),
        lambda by: numba.njit(closure(by)),
    ],
)
def test_a_function_that_captures_another_value_is_refused(make, tmp_path):
    space = {"a": (0, 20)}
    search(make(1), space, "f", algorithm="grid", budget=10, out=tmp_path / "run")
    with pytest.raises(JournalError, match="gives others for the same parameters"):
        search(make(2), space, "f", algorithm="grid", budget=21, out=tmp_path / "run")
    whole = search(make(1), space, "f", algorithm="grid", budget=21, out=tmp_path / "run")
    assert whole.summary["evaluations"] == 21


@pytest.mark.slow
def test_the_command_chooses_and_says_who_can_go_on(tmp_path):
    search(two_of_mixed, SPACE, ["f", "g"], budget=200, out=tmp_path / "run")
    chosen = call("choose", "run", "--best", "f", cwd=tmp_path)
    assert chosen.code == 0, chosen.err
    assert not chosen.err
    more = call("resume", "run", "--set", "budget.evaluations=300", cwd=tmp_path)
    assert more.code != 0
    assert "expected the program that has tests.toys.two_of_mixed, found none" in more.err


def fails(x):
    raise RuntimeError("no licence")


@pytest.mark.parametrize(
    ("function", "space", "objectives", "sentence"),
    [
        (fails, {"x": (0.0, 1.0)}, ["f"], "all .* evaluations failed.*no licence"),
        (abs, {"x": [0.0, 1.0]}, ["f"], r"expected \(0.0, 1.0\) for all numbers between"),
        (abs, {"x": (1, 1)}, ["f"], r"space: x: expected \(low, high\) with low < high"),
        (abs, {"x": (0.0, 1.0, "log")}, ["f"], "'log'.* with low > 0"),
        (abs, {"x": "abc"}, ["f"], "space: x: expected"),
        (abs, {"x": []}, ["f"], "space: x: expected"),
        (abs, {}, ["f"], "found 0 parameters and 1 objectives"),
        (abs, {"x": (0, 5)}, {"f": "most"}, "expected 'min' or 'max', found 'most'"),
        (
            abs,
            {"x": (0, 5)},
            ["f", "f"],
            r"objectives: expected different names, found \['f', 'f'\]",
        ),
        (abs, {"x": (0.0, 10**400)}, ["f"], "space: x: expected bounds from -1e"),
        (abs, {"x": (-(10**30), 0)}, ["f"], "space: x: expected bounds from -9.0"),
        (lambda v: (1, 2, 3), [(0, 9)], ["f"], "expected one number for each of f"),
        (lambda v: {"h": 1}, [(0, 9)], ["f"], "expected values of f, found h"),
        (abs, [(0, 9)], ["id"], "expected another name than 'id', a column"),
        (abs, [(0, 9)], ["f", "test_f"], "expected another name than 'test_f', a column"),
        (abs, [(0, 9)], ["gene_f"], "expected another name than 'gene_f', a column"),
    ],
)
def test_mistakes(tmp_path, function, space, objectives, sentence):
    with pytest.raises(InputError, match=sentence):
        search(function, space, objectives, budget=100, out=tmp_path / "run")


def test_what_genes_stand_for():
    problem = PythonFunction(two_of_mixed, SPACE, ["f", "g"])
    assert isinstance(problem.space, Box)
    assert problem.gene_names == ("x", "n", "kind", "log10_c")
    X = problem.space.sample(np.random.default_rng(0), 500)
    assert problem.space.contains(X).all()
    designs = problem.arguments(X)
    assert {d["n"] for d in designs} == {0, 1, 2, 3}
    assert {d["kind"] for d in designs} == {"a", "b", "c"}
    assert min(d["c"] for d in designs) < 0.05 < 20 < max(d["c"] for d in designs)
    X[0, 1] = 0.5
    assert not problem.space.contains(X)[0]
    assert {"nsga2", "local_search", "random"} <= set(fitting(problem))
    two = PythonFunction(two_of_mixed, {**SPACE, "n": (1, 7, "choice")}, ["f", "g"])
    assert {d["n"] for d in two.arguments(two.space.sample(np.random.default_rng(0), 50))} == {1, 7}


def test_whole_numbers_of_more_than_32_bits_are_genes():
    problem = PythonFunction(two_of_mixed, {"n": (0, 2**40), "m": (0, 9)}, ["f", "g"])
    designs = problem.arguments(problem.space.sample(np.random.default_rng(0), 50))
    assert 2**32 < max(d["n"] for d in designs) <= 2**40


def test_an_algorithm_of_another_type_is_refused(tmp_path):
    with pytest.raises(InputError, match="minimize: algorithm: expected a section"):
        search(abs, {"x": (0, 5)}, "f", algorithm=None, out=tmp_path / "run")


def test_an_infinite_value_is_a_failure(tmp_path):
    """Compiled code compares the losses, and ended the process at some infinite ones."""

    def barrier(x, n, kind, c):
        return x**2, (x - 1) ** 2, c, float("inf") if x < 0 else n

    found = search(barrier, SPACE, ["f", "g", "h", "i"], budget=500, out=tmp_path / "run")
    assert min(p["x"] for p in found.parameters) >= 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rows_failed"] > 20


def test_a_function_that_ends_the_program_fails_its_candidate(tmp_path):
    def first(v):
        if v[0] > 0.5:
            sys.exit("too large")
        return v[0] ** 2

    found = search(first, [(-1.0, 1.0)], ["f"], budget=100, out=tmp_path / "run")
    assert all(p["x0"] <= 0.5 for p in found.parameters)
    batches = RunDir(tmp_path / "run").journal().evaluations()
    errors = [error for batch in batches for error in batch.errors.values()]
    assert set(errors) == {"RuntimeError: the function called sys.exit('too large')"}


def test_objectives_may_have_the_prefix_of_test_figures(tmp_path):
    def square(v):
        return {"test_f": v[0] ** 2, "g": -v[0]}

    objectives = ["test_f", "g"]
    found = search(square, [(-1.0, 1.0)], objectives, budget=100, out=tmp_path / "run")
    front = RunDir(tmp_path / "run").front()
    assert front.test is None
    np.testing.assert_array_equal(front.rows.values["test_f"], found.front.rows.values["test_f"])
