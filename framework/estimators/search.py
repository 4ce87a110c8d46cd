"""Run a registered search from Python: roles by the names of metrics, budget, workers, progress."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from framework import registry
from framework.algorithm import Algorithm
from framework.analysis import choose as decide
from framework.batch import Evaluated
from framework.errors import InputError
from framework.experiment.config import RunConfig, check
from framework.experiment.options import AlgorithmOptions
from framework.experiment.single_run import LastProgress, evaluator_for
from framework.front import Archive, Front
from framework.problem import Problem
from framework.roles import Constraint, Objective, Roles
from framework.run.display import Display, in_notebook
from framework.run.driver import Driver
from framework.settings import Budget

_PATIENCE = 2.0  # seconds after which a bar appears that was not asked for


def roles_for(
    problem: Problem, objectives: Sequence[str], constraints: Sequence[str] = ()
) -> Roles:
    """Return roles with some metrics as objectives, each in its own sense.

    Parameters
    ----------
    problem : Problem
    objectives : sequence of str
        Names of metrics.
    constraints : sequence of str
        Constraints such as ``cost<=50`` or ``coverage>=0.8``.

    Raises
    ------
    InputError
        The problem lacks a metric, or a constraint has another form.
    """
    senses = {metric.name: metric.sense for metric in problem.metrics}
    bounds = [_constraint(text) for text in constraints]
    used = {"objectives": list(objectives), "constraints": [bound.metric for bound in bounds]}
    for place, names in used.items():
        for name in names:
            if name not in senses:
                raise InputError(
                    f"{place}: expected metrics ({', '.join(senses)}), found {name!r}"
                    f"{registry.nearest(name, senses)}"
                )
    return Roles(problem.metrics, [Objective(name, senses[name]) for name in objectives], bounds)


def _constraint(text: str) -> Constraint:
    condition = decide.parse_condition(text, "constraints")
    if condition.operator not in ("<=", ">="):
        raise InputError(f"constraints: expected METRIC<=NUMBER or METRIC>=NUMBER, found {text!r}")
    side = "at_most" if condition.operator == "<=" else "at_least"
    return Constraint(condition.metric, **{side: condition.value})


class Searched(NamedTuple):
    """The result of a search; ``evaluated`` has the batches of all evaluations."""

    algorithm: Algorithm | None
    front: Front
    evaluated: Sequence[Evaluated]


class _Everything(Archive):
    """An archive that also keeps all evaluations."""

    def __init__(self, roles: Roles) -> None:
        super().__init__(roles)
        self.evaluated: list[Evaluated] = []

    def add(self, batch: Evaluated) -> None:
        self.evaluated.append(batch)
        super().add(batch)


def search(
    problem: Problem,
    roles: Roles,
    algorithm: str | Mapping[str, Any],
    budget: int | Mapping[str, Any],
    seed: int,
    *,
    verbose: bool | None = False,
    workers: int | str = "serial",
) -> Searched:
    """Run a registered search.

    Parameters
    ----------
    algorithm : str or mapping
        Registered name, or a section ``algorithm`` of a configuration:
        ``{"kind": "local_search"}``.
    budget : int or mapping
        Number of evaluations, or a section ``budget``: ``{"generations": 50}``.
    verbose : bool, optional
        True shows the progress by a bar in a terminal, which stays, or by lines in a notebook.
        None shows a bar in a terminal if the search takes longer than two seconds, and removes it
        at the end.
    workers : int or str
        As in a configuration; ``serial`` means this process.

    Raises
    ------
    InputError
        There is no such search, or a parameter of it or of the budget is unknown.
    """
    options = check(AlgorithmOptions, algorithm, "algorithm")
    limits = budget if isinstance(budget, Mapping) else {"evaluations": budget}
    ends = check(Budget, limits, "budget")
    if isinstance(workers, bool) or not (
        workers in ("serial", "auto", "all") or (isinstance(workers, int) and workers >= 1)
    ):
        raise InputError(
            f"workers: expected serial, auto, all or a whole number from 1, found {workers!r}"
        )
    searched = options.make(problem, roles, seed)
    last, everything = LastProgress(), _Everything(roles)
    wanted = RunConfig.model_construct(workers=workers, seed=seed)
    started = evaluator_for(wanted, problem, None, last, lambda line: None)
    shown = verbose if in_notebook() else sys.stderr.isatty() and verbose is not False
    display = Display(quiet=not shown, delay=0 if verbose else _PATIENCE, transient=not verbose)
    with started as (evaluator, _), display:
        driver = Driver(problem, searched, evaluator, budget=ends, callbacks=[last, display])
        driver.archive = everything
        return Searched(searched, driver.run(), everything.evaluated)
