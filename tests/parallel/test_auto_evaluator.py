"""Serial or Ray: the evaluator that measures first moves to Ray where that pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.errors import ClusterError
from framework.parallel.auto_evaluator import AutoEvaluator
from framework.problem import Problem
from framework.run.evaluator import Evaluator, SerialEvaluator
from tests.parallel.asking import (
    Make,
    assert_same,
    gene_sets,
    genomes,
    score,
)
from tests.ray_toys import PartsToy, Sphere, power


def auto(
    problem: Problem, start: Callable[[], Evaluator], left: float | None
) -> tuple[AutoEvaluator, list[str]]:
    said: list[str] = []
    evaluator = AutoEvaluator(
        problem, 7, start_ray=start, remaining=lambda: left, report=said.append
    )
    return evaluator, said


def never() -> Evaluator:
    raise AssertionError("Ray was started for nothing")


def test_auto_stays_serial_for_little_work() -> None:
    problem, X = Sphere(noise=0.1), genomes(300)
    evaluator, said = auto(problem, never, 0.9)
    assert_same(score(evaluator, X), score(SerialEvaluator(problem, 7), X))
    evaluator.close()
    assert len(said) == 1
    assert said[0].startswith("scored in this process")


@pytest.mark.slow
def test_auto_moves_to_ray_within_the_first_batch(make: Make) -> None:
    problem, X = Sphere(seconds=0.05, noise=0.1), genomes(500)
    evaluator, said = auto(problem, lambda: make(Sphere(noise=0.1)), 1.0)
    found = score(evaluator, X)
    assert_same(found, score(SerialEvaluator(Sphere(noise=0.1), 7), X))
    evaluator.close()
    assert len(said) == 1
    assert said[0].startswith("scored on Ray from now on: about ")


def test_auto_reckons_with_the_budget_left(make: Make) -> None:
    problem = Sphere(seconds=0.02)
    evaluator, said = auto(problem, lambda: make(Sphere()), 0.999)
    score(evaluator, genomes(10))
    score(evaluator, genomes(10), 10)
    assert said[0].startswith("scored on Ray from now on")


def test_auto_stays_where_ray_cannot_start() -> None:
    def broken() -> Evaluator:
        raise ClusterError("Ray cannot start on this machine")

    problem = Sphere(seconds=0.001)
    evaluator, said = auto(problem, broken, 0.99999)
    score(evaluator, genomes(40))
    evaluator.close()
    assert len(said) == 1
    assert "although" in said[0]
    assert "Ray cannot start" in said[0]


@pytest.mark.slow
def test_auto_hands_parts_and_pieces_to_ray_where_that_pays(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framework.preparation._COMPONENTS_AT_ONCE", 5)
    problem, X = PartsToy(tmp_path / "log"), gene_sets(40)
    keys = problem.missing_components(X)
    evaluator, said = auto(problem, never, 1.0)
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert sum(evaluator.build(keys[:20])) == 20
    assert not said
    monkeypatch.setattr("framework.parallel.auto_evaluator.RAY_PAYS_SECONDS", 1e-9)
    evaluator, said = auto(problem, lambda: make(problem), 1.0)
    assert sum(evaluator.build(keys[20:])) == len(keys) - 20
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert len(said) == 1
    evaluator.close()
    evaluator, said = auto(problem, lambda: make(problem), 1.0)
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert said[0].startswith("scored on Ray from now on")
    assert set(Counter(problem.log.read_text().split()).values()) == {1}
