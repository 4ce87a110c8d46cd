"""What type checkers see of ``import paretolab``: mypy reads this file, and nothing runs it.

An error that it stops to see is an unused ``ignore``, of which it complains here.
"""

# mypy: warn-unused-ignores, enable-error-code="assignment"
from __future__ import annotations

import paretolab
from paretolab import Budget, Front, SerialEvaluator


class Mine(paretolab.FunctionProblem):
    pass


def best(problem: paretolab.Problem, algorithm: paretolab.Algorithm) -> int:
    front: Front = paretolab.search(
        problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=3)
    )
    return paretolab.choose(front, best="f1")


def words() -> tuple[paretolab.RunResult, str]:
    return paretolab.run("quickstart.yaml", quiet=True), paretolab.__version__


def mistakes() -> None:
    paretolab.serch()  # type: ignore[attr-defined]
    paretolab.run = "another type"  # type: ignore[assignment]
