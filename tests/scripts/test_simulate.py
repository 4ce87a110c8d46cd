"""Virtual workers: the front of a run, and the efficiency that arithmetic gives."""

from __future__ import annotations

import numpy as np
import pytest
from simulate import main
from virtual_workers import Answers, EvaluationTimes, Workers, simulate

from algorithms.general.baselines import RandomSearch
from algorithms.general.pymoo_searches import NSGAII
from framework.errors import InputError
from framework.journal import Journal
from framework.problems.functions import FunctionProblem
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator, evaluate_candidates
from framework.settings import Budget
from framework.testing.tools import same_front
from tests.command import call
from tests.conftest import roles_of

PROBLEM = FunctionProblem("zdt1", 4)
ROLES = roles_of(PROBLEM)
ANSWERS = Answers()


def search(workers, times, rows=400):
    def make():
        return NSGAII(PROBLEM, ROLES, seed=0, population=20, max_pending=64)

    return simulate(PROBLEM, make, 0, workers, times, Budget(evaluations=rows), ANSWERS)


@pytest.mark.parametrize(
    "workers",
    [
        Workers(1),
        Workers(7),
        Workers(100),
        Workers(8, copies=True),
        Workers(8, lifetime=40.0),
        Workers(1, joining=((5.0, 9),)),
    ],
)
def test_front_is_that_of_a_run(workers):
    algorithm = NSGAII(PROBLEM, ROLES, seed=0, population=20, max_pending=64)
    expected = run(PROBLEM, algorithm, SerialEvaluator(PROBLEM), budget=Budget(evaluations=400))
    found = search(workers, EvaluationTimes(0.5, 1.0))
    same_front(expected, found.front, f"{workers}")
    assert found.statistics.rows == 400
    assert (found.statistics.copies > 0) == workers.copies
    assert (found.statistics.lost > 0) == (workers.lifetime is not None)


def test_even_rows_take_the_time_that_arithmetic_says():
    found = search(Workers(16), EvaluationTimes(100.0))
    assert found.statistics.seconds == pytest.approx(400 / 16 * 100, rel=0.01)
    assert found.statistics.efficiency == pytest.approx(1.0, rel=0.01)


def test_generations_wait_for_their_slowest_row():
    def make():
        return NSGAII(PROBLEM, ROLES, seed=0, population=20)

    times = EvaluationTimes(100.0, 1.0)
    found = simulate(PROBLEM, make, 0, Workers(20), times, Budget(evaluations=100), Answers())
    slowest = sum(times.of(np.arange(at, at + 20)).max() for at in range(0, 100, 20))
    assert found.statistics.seconds == pytest.approx(slowest, rel=0.01)
    assert found.statistics.useful == pytest.approx(times.of(np.arange(100)).sum())


def test_the_driver_is_what_many_workers_wait_for():
    workers = Workers(1000, request_seconds=0.01)
    make = RandomSearch(PROBLEM, ROLES, seed=0, batch=400)
    found = simulate(
        PROBLEM, lambda: make, 0, workers, EvaluationTimes(0.5), Budget(evaluations=400), ANSWERS
    )
    assert found.statistics.driver >= 8 * 0.01  # requests of 50 ms of work at most, 0.1 rows
    assert found.statistics.efficiency < 0.2


def test_workers_that_join_work():
    alone = search(Workers(1), EvaluationTimes(10.0))
    joined = search(Workers(1, joining=((100.0, 15),)), EvaluationTimes(10.0))
    assert joined.statistics.seconds < alone.statistics.seconds / 8
    assert joined.statistics.efficiency > 0.9


def test_rows_take_what_they_took_in_a_run(tmp_path):
    """A journal of batches of 4 rows: 2 s, 4 s and 40 s."""
    X = np.zeros((12, 4))
    rows = evaluate_candidates(PROBLEM, 0, np.arange(12), X)
    path = tmp_path / "journal.sqlite"
    with Journal(path, {}, metrics=("f1", "f2"), d=4, dtype=X.dtype) as journal:
        with pytest.raises(InputError, match="expected a run with rows"):
            EvaluationTimes.of_run(journal)
        for number, end in enumerate((2.0, 6.0, 46.0)):
            journal.append(rows.take(np.arange(4 * number, 4 * number + 4)), end)
        own, machine = (EvaluationTimes.of_run(journal, of_machine=flag) for flag in (False, True))
    expected = [0.5] * 4 + [1.0] * 4 + [10.0] * 4
    assert own.of(np.arange(12)).tolist() == machine.of(np.arange(12)).tolist() == expected
    assert own.of(np.array([12, 20]), attempt=1).tolist() == [0.5, 10.0]
    again = machine.of(np.arange(12), attempt=1).tolist()
    assert again != expected
    assert set(again) <= {0.5, 1.0, 10.0}
    found = search(Workers(1), own, rows=40)
    assert found.statistics.seconds == pytest.approx(3 * 46 + 2.0, rel=1e-6)


def test_script(tmp_path, monkeypatch, capsys):
    config = tmp_path / "run.yaml"
    config.write_text(
        "name: s\nproblem: {kind: function, name: zdt1, d: 4}\n"
        "objectives: [{metric: f1, sense: min}, {metric: f2, sense: min}]\n"
        "algorithm: {kind: nsga2, population: 20, max_pending: 32}\nbudget: {evaluations: 200}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run.yaml", "--workers", "1,8", "--sigma", "1", "--late", "0.1:5"]) == 0
    assert "the front is the same for every number of workers" in capsys.readouterr().out
    done = call(
        "run", "run.yaml", "--no-plots", "--out", "out", "--workers", "serial", cwd=tmp_path
    )
    assert done.code == 0
    assert main(["run.yaml", "--times", "out", "--workers", "1"]) == 0
    assert main(["run.yaml", "--times", "nowhere"]) == 2
    expected = "--times nowhere: expected a finished run with --workers serial"
    assert expected in capsys.readouterr().err
    assert main(["run.yaml", "--workers", "1,x"]) == 2
    assert "--workers: expected numbers" in capsys.readouterr().err
