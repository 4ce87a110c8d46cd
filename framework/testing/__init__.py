"""The laws of algorithms, problems, evaluators and models, as functions to run on your own classes.

Each law is a small function that raises AssertionError with what it expected and what it found.
``check_algorithm``, ``check_problem``, ``check_evaluator`` and ``check_model`` run all laws of one
kind; to run each law as a separate test, parametrise over ``ALGORITHM_LAWS``,
``MAX_PENDING_LAWS``, ``PROBLEM_LAWS``, ``EVALUATOR_LAWS``, ``MODEL_LAWS``. ``check_elastic`` checks
an evaluator while events that you supply happen to its workers, such as nodes that join and workers
that die. Laws that need another process, such as a run that is killed, are not checked here.

Examples
--------
>>> from functools import partial
>>> from paretolab import FunctionProblem, Objective, RandomSearch, Roles
>>> problem = FunctionProblem("zdt1", 5)
>>> roles = Roles(problem.metrics, [Objective("f1", "min"), Objective("f2", "min")])
>>> check_algorithm(partial(RandomSearch, batch=20), problem, roles)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.algorithm import Algorithm
from framework.problem import Problem
from framework.roles import Roles
from framework.run.evaluator import Evaluator
from framework.testing.algorithms import ALGORITHM_LAWS, MAX_PENDING_LAWS, certificates_hold
from framework.testing.evaluators import EVALUATOR_LAWS, check_elastic
from framework.testing.models import MODEL_LAWS, check_model
from framework.testing.problems import PROBLEM_LAWS
from framework.testing.tools import AlgorithmCase

__all__ = [
    "ALGORITHM_LAWS",
    "EVALUATOR_LAWS",
    "MAX_PENDING_LAWS",
    "MODEL_LAWS",
    "PROBLEM_LAWS",
    "AlgorithmCase",
    "certificates_hold",
    "check_algorithm",
    "check_elastic",
    "check_evaluator",
    "check_model",
    "check_problem",
]


def check_algorithm(
    make: Callable[..., Algorithm], problem: Problem, roles: Roles, **options: Any
) -> None:
    """Check every law on an algorithm.

    Parameters
    ----------
    make : callable
        ``make(problem, roles, seed=seed)`` returns a fresh algorithm: its class, or a partial
        of it with small parameters.
    problem : Problem
        A problem that the algorithm can search and that is quick to evaluate.
    roles : Roles
    **options
        ``seed``, ``generations``, ``deterministic`` of :class:`AlgorithmCase`.

    Raises
    ------
    AssertionError
        A law is broken; the message names it.
    """
    case = AlgorithmCase(make, problem, roles, **options)
    laws = ALGORITHM_LAWS + (MAX_PENDING_LAWS if case.fresh().evaluations_per_generation else ())
    for law in dict.fromkeys(laws):
        law(case)


def check_problem(problem: Problem, seed: int = 0, n: int = 24) -> None:
    """Check every law on a problem.

    Parameters
    ----------
    problem : Problem
        A problem that is quick to evaluate.
    seed : int
        Seed of the genomes and of the streams that stochastic problems draw from.
    n : int
        Number of random genomes.

    Raises
    ------
    AssertionError
        A law is broken; the message names it.
    """
    for law in PROBLEM_LAWS:
        law(problem, seed, n)


def check_evaluator(make: Callable[[Problem, int], Evaluator], problem: Problem) -> None:
    """Check every law on an evaluator.

    Parameters
    ----------
    make : callable
        ``make(problem, seed)`` returns a fresh evaluator.
    problem : Problem

    Raises
    ------
    AssertionError
        A law is broken; the message names it.
    """
    for law in EVALUATOR_LAWS:
        law(make, problem)
