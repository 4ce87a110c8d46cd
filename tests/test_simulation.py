"""Virtual workers: the front of a run, and the efficiency that arithmetic gives."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.general.pymoo_searches import NSGAII
from algorithms.general.random_search import RandomSearch
from framework.errors import InputError
from framework.journal import Journal
from framework.problems.functions import FunctionProblem
from framework.run.driver import run
from framework.run.evaluator import SerialEvaluator, evaluate_candidates
from framework.run.simulation import simulate
from framework.run.virtual_workers import Answers, Crew, RowTimes
from framework.settings import Budget
from framework.testing.expect import same_front
from tests.command import call
from tests.conftest import roles_of

PROBLEM = FunctionProblem("zdt1", 4)
ROLES = roles_of(PROBLEM)
ANSWERS = Answers()


def search(crew, times, rows=400):
    def make():
        return NSGAII(PROBLEM, ROLES, seed=0, population=20, max_pending=64)

    return simulate(PROBLEM, make, 0, crew, times, Budget(evaluations=rows), ANSWERS)


@pytest.mark.parametrize(
    "crew",
    [
        Crew(1),
        Crew(7),
        Crew(100),
        Crew(8, copies=True),
        Crew(8, lifetime=40.0),
        Crew(1, joining=((5.0, 9),)),
    ],
)
def test_front_is_that_of_a_run(crew):
    algorithm = NSGAII(PROBLEM, ROLES, seed=0, population=20, max_pending=64)
    expected = run(PROBLEM, algorithm, SerialEvaluator(PROBLEM), budget=Budget(evaluations=400))
    found = search(crew, RowTimes(0.5, 1.0))
    same_front(expected, found.front, f"{crew}")
    assert found.tally.rows == 400
    assert (found.tally.copies > 0) == crew.copies
    assert (found.tally.lost > 0) == (crew.lifetime is not None)


def test_even_rows_take_the_time_that_arithmetic_says():
    found = search(Crew(16), RowTimes(100.0))
    assert found.tally.seconds == pytest.approx(400 / 16 * 100, rel=0.01)
    assert found.tally.efficiency == pytest.approx(1.0, rel=0.01)


def test_generations_wait_for_their_slowest_row():
    def make():
        return NSGAII(PROBLEM, ROLES, seed=0, population=20)

    times = RowTimes(100.0, 1.0)
    found = simulate(PROBLEM, make, 0, Crew(20), times, Budget(evaluations=100), Answers())
    slowest = sum(times.of(np.arange(at, at + 20)).max() for at in range(0, 100, 20))
    assert found.tally.seconds == pytest.approx(slowest, rel=0.01)
    assert found.tally.useful == pytest.approx(times.of(np.arange(100)).sum())


def test_the_driver_is_what_many_workers_wait_for():
    crew = Crew(1000, request_seconds=0.01)
    make = RandomSearch(PROBLEM, ROLES, seed=0, batch=400)
    found = simulate(
        PROBLEM, lambda: make, 0, crew, RowTimes(0.5), Budget(evaluations=400), ANSWERS
    )
    assert found.tally.driver >= 8 * 0.01  # requests of 50 ms of work at most, 0.1 rows
    assert found.tally.efficiency < 0.2


def test_workers_that_join_work():
    alone = search(Crew(1), RowTimes(10.0))
    joined = search(Crew(1, joining=((100.0, 15),)), RowTimes(10.0))
    assert joined.tally.seconds < alone.tally.seconds / 8
    assert joined.tally.efficiency > 0.9


def test_rows_take_what_they_took_in_a_run(tmp_path):
    """A journal of batches of 4 rows: 2 s, 4 s and 40 s."""
    X = np.zeros((12, 4))
    rows = evaluate_candidates(PROBLEM, 0, np.arange(12), X)
    path = tmp_path / "journal.sqlite"
    with Journal(path, {}, metrics=("f1", "f2"), d=4, dtype=X.dtype) as journal:
        with pytest.raises(InputError, match="expected a run with rows"):
            RowTimes.of_run(journal)
        for number, end in enumerate((2.0, 6.0, 46.0)):
            journal.append(rows.take(np.arange(4 * number, 4 * number + 4)), end)
        own, machine = (RowTimes.of_run(journal, of_machine=flag) for flag in (False, True))
    expected = [0.5] * 4 + [1.0] * 4 + [10.0] * 4
    assert own.of(np.arange(12)).tolist() == machine.of(np.arange(12)).tolist() == expected
    assert own.of(np.array([12, 20]), attempt=1).tolist() == [0.5, 10.0]
    again = machine.of(np.arange(12), attempt=1).tolist()
    assert again != expected
    assert set(again) <= {0.5, 1.0, 10.0}
    found = search(Crew(1), own, rows=40)
    assert found.tally.seconds == pytest.approx(3 * 46 + 2.0, rel=1e-6)


def test_command(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(
        "name: s\nproblem: {kind: function, name: zdt1, d: 4}\n"
        "objectives: [{metric: f1, sense: min}, {metric: f2, sense: min}]\n"
        "algorithm: {kind: nsga2, population: 20, max_pending: 32}\nbudget: {evaluations: 200}\n"
    )
    arguments = ["--workers", "1,8", "--sigma", "1", "--late", "0.1:5"]
    done = call("simulate", "run.yaml", *arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "the front is the same for every number of workers" in done.out
    assert (
        call(
            "run", "run.yaml", "--no-plots", "--out", "out", "--workers", "serial", cwd=tmp_path
        ).code
        == 0
    )
    timed = call("simulate", "run.yaml", "--times", "out", "--workers", "1", cwd=tmp_path)
    assert timed.code == 0, timed.err
    unknown = call("simulate", "run.yaml", "--times", "nowhere", cwd=tmp_path)
    assert unknown.code == 2
    assert "--times nowhere: expected a finished run with --workers serial" in unknown.err
    wrong = call("simulate", "run.yaml", "--workers", "1,x", cwd=tmp_path)
    assert wrong.code == 2
    assert "--workers: expected numbers" in wrong.err
