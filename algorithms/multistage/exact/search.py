"""Exact: the global front of ordered partitions, proven by integer arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.multistage.exact import dynamic_programming
from algorithms.multistage.exact.chains import ChainFront, genomes_of, hard_first
from algorithms.multistage.exact.dynamic_programming import Stop, UpperBound
from algorithms.multistage.exact.enumeration import enumerate_chains, enumeration_of
from algorithms.multistage.exact.plan import METRICS, Method, Task, check_roles, choose
from algorithms.multistage.exact.tables import StageTables
from algorithms.multistage.exact.tied import tied_chains
from algorithms.multistage.problem import MultiStageProblem
from framework.algorithm import Algorithm, Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import ContractError, InputError, Unfit
from framework.front import nondominated, volume
from framework.long_work import LongWork
from framework.problem import Problem
from framework.roles import Roles

_SETTINGS: dict[Stop, str] = {"memory": "memory_gb", "time": "hours"}


class Exact(Algorithm):
    """The exact front of a multi-stage problem: no candidate that beats a member exists.

    All 2^n - 1 sub-classifiers are trained by the workers; then the front is found from their
    bits, in integers, and its members are asked for in one batch. What the evaluator answers must
    agree to the bit.

    Parameters
    ----------
    problem : Problem
        Of kind ``multistage``, without ``remove_features``, with at most 22 features.
    roles : Roles
        Objectives among coverage, accuracy and cost, in their natural sense; constraints on these.
    seed : int
        Nothing is drawn.
    method : {'auto', 'enumeration', 'dynamic_programming'}
        ``enumeration`` goes through all chromosomes and counts those that share a vector; the
        workers share the chains. ``dynamic_programming`` is for many stages and does not count.
        ``auto`` enumerates up to about a minute's work; beyond, it enumerates only if dynamic
        programming has not finished in the time that takes.
    memory_gb : float
        What the search may hold besides the sub-classifiers. A Ray worker that goes through
        chains holds a table of its own.
    hours : float
        What the search may take besides training, as counted in steps at a usual core's pace: it
        ends at the same step on any machine. An enumeration estimated to take longer is refused.
    bounds : bool
        Where the programme meets a limit, return what it has: attained points, and an upper bound
        that no candidate beats. That is not the exact front, and says so.
    chromosomes : int
        Most chromosomes to list of those that share a vector of the front; needs enumeration.

    Raises
    ------
    InputError
        The problem or the roles are of another kind, or the search cannot finish within the
        settings; from :meth:`prepare`, where the programme meets a limit on the way and no bounds
        were asked for.

    Notes
    -----
    Objectives fewer than three, and constraints, only filter: the front of some of the objectives
    is a part of the front of all three, and so is that of the candidates within bounds against
    the worse (coverage or accuracy at least, cost at most), since what dominates a candidate is
    within them too. Bounds the other way are taken by the enumeration alone, which knows the
    least cost of each (coverage, accuracy), and not for cost.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        method: Literal["auto", "enumeration", "dynamic_programming"] = "auto",
        memory_gb: Annotated[float, Field(gt=0)] = 4.0,
        hours: Annotated[float, Field(gt=0)] = 1.0,
        bounds: bool = False,
        chromosomes: Annotated[int, Field(ge=0)] = 0,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        stages = problem.tables()
        if not isinstance(stages, MultiStageProblem):
            raise Unfit(
                "algorithm.kind: exact needs the sub-classifiers of a multi-stage problem, found "
                f"none in {type(problem).__name__}"
            )
        if stages.space.removal:
            raise Unfit(
                "algorithm.kind: exact takes every feature, found problem.remove_features: true; "
                "set it to false"
            )
        data = stages.data
        self._task = Task(
            len(stages.costs),
            stages.space.k,
            data.n_validation,
            data.validation_words,
            memory_gb,
            hours,
        )
        self._costs, self._cost_scale = stages.costs, stages.cost_scale
        self._names = problem.gene_names
        self.bounds, self.chromosomes = bounds, chromosomes
        one_way = check_roles(roles)
        self._falls_back = method == "auto" and self._task.enumerable
        self.method: Method
        self.method, self.plan = choose(
            self._task, method, one_way=one_way, counted=chromosomes > 0, bounds=bounds
        )
        self._problem: MultiStageProblem | None = stages  # until its tables are taken
        self._tables: StageTables | None = None  # until the front is found
        self._front: ChainFront | None = None
        self._stopped: Stop | None = None
        self._above: dict[str, FloatArray] = {}
        self._listed: tuple[IntArray, Array] | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._front is None:
            self._take_tables()  # what is pickled does without the problem
        return self.__dict__

    def prepare(self, work: LongWork) -> None:
        """Train the sub-classifiers and find the front.

        Raises
        ------
        InputError
            A sub-classifier cannot be trained, or the programme meets a limit and no bounds were
            asked for.
        """
        if self._problem is not None:
            keys, done = self._problem.lacking_sets(), 0
            for many in work.workers.build(keys):
                done += many
                work.report("training sub-classifiers", done, len(keys))
        tables = hard_first(self._take_tables())
        found, above = self._search(tables, work)
        self._front = found.take(self._best(self._measured(found)))
        if above is not None:
            values = self._measured(above)
            best = self._best(values)
            self._above = {name: column[best] for name, column in values.items()}
        if self.chromosomes:
            walk = enumeration_of(tables, self._costs, self._task.k)
            self._listed = tied_chains(
                walk,
                self._front,
                self.chromosomes,
                work.workers,
                partial(work.report, "listing chromosomes, chains"),
            )
        self._tables = None

    def propose(self) -> Array | None:
        if self._front is None:
            self.prepare(LongWork())
        assert self._front is not None
        if len(self._front) == 0:
            self.done, self.reason = True, "no candidate meets the constraints"
            return None
        return self._front.genomes(self._task.n).astype(self.space.dtype)

    def learn(self, batch: Evaluated) -> None:
        assert self._front is not None
        for name, column in self._measured(self._front).items():
            wrong = np.flatnonzero((batch.values[name] != column) & batch.ok)
            if len(wrong):
                i = wrong[0]
                raise ContractError(
                    f"exact: expected {name} {column[i]!r} of genome {batch.X[i].tolist()}, found "
                    f"{batch.values[name][i]!r} evaluated: one of the two computes it wrongly"
                )
        self.done, self.reason = True, "the exact front is complete"
        if self._stopped is not None:
            gap = self._volumes()["gap"]
            self.reason = (
                f"algorithm.{_SETTINGS[self._stopped]}: not proven exact, a lower bound of the "
                f"front (upper_bound.csv is the upper one; {gap:.1%} of its hypervolume is between)"
            )
        if batch.errors:
            self.reason = f"{len(batch.errors)} members of the front could not be evaluated"

    def outcome(self) -> Outcome:
        """Return how the front was found, whether it is exact, and the tables asked for.

        In ``findings`` ``chromosomes`` has, by row of the front, how many share its metrics; None
        where they were not counted. Bounds have the hypervolume of each and ``gap``, the share of
        the upper one's that the lower one lacks.

        The tables are ``chromosomes`` (id of the front's row, genome) and ``upper_bound``, whose
        rows are not attained; every candidate is at most as good as one of them.
        """
        return Outcome(self._findings(), tables=self._listings())

    def _findings(self) -> dict[str, Any]:
        counts = None if self._front is None else self._front.chromosomes
        found = {
            "method": self.method,
            "exact": self._front is not None and self._stopped is None,
            "candidates": self._task.candidates,
            "chromosomes": None if counts is None else counts.tolist(),
        }
        if self._stopped is not None:
            found |= {"stopped_by": _SETTINGS[self._stopped], "hypervolume": self._volumes()}
        return found

    def _listings(self) -> dict[str, Mapping[str, Array]]:
        tables: dict[str, Mapping[str, Array]] = {}
        if self._listed is not None:
            members, chains = self._listed
            genomes = genomes_of(chains, self._task.n)
            genes = {f"gene_{name}": genomes[:, j] for j, name in enumerate(self._names)}
            tables["chromosomes"] = {"id": members, **genes}
        if self._stopped is not None:
            tables["upper_bound"] = self._above
        return tables

    def _take_tables(self) -> StageTables:
        if self._tables is None:
            assert self._problem is not None
            self._tables, self._problem = self._problem.stage_tables(), None
        return self._tables

    def _search(self, tables: StageTables, work: LongWork) -> tuple[ChainFront, UpperBound | None]:
        """Return points among which the front lies; or attained ones, and what none beats."""
        k, counted = self._task.k, partial(work.report, "going through chains")
        if self.method == "enumeration":
            return enumerate_chains(tables, self._costs, k, work.workers, counted), None
        known = enumerate_chains(tables, self._costs, self._task.seed_stages).front()
        outcome = dynamic_programming.front_of_chains(
            tables,
            self._costs,
            k,
            known,
            self._task.limits(self._falls_back),
            bounds=self.bounds and not self._falls_back,
            report=partial(work.report, "following feature sets"),
        )
        if outcome.stopped is None:
            return outcome.found, None
        if self._falls_back:
            self.method = "enumeration"
            return enumerate_chains(tables, self._costs, k, work.workers, counted), None
        if outcome.above is None:
            setting = _SETTINGS[outcome.stopped]
            raise InputError(
                f"algorithm.{setting}: the dynamic programme needs more than "
                f"{getattr(self._task, setting):g} on these data; raise it, lower "
                "problem.max_stages, or set algorithm.bounds: true for a lower and an upper bound "
                "(there is no front: what was found so far may be beaten)"
            )
        self._stopped = outcome.stopped
        return outcome.found, outcome.above

    def _best(self, values: Mapping[str, FloatArray]) -> IntArray:
        """Return the feasible rows that no other one dominates, by their losses."""
        feasible = np.flatnonzero(self.roles.violation(values) == 0.0)
        losses = self.roles.losses(values)
        front = feasible[nondominated(losses[feasible])]
        return front[np.lexsort(losses[front].T[::-1])]

    def _measured(self, points: ChainFront | UpperBound) -> dict[str, FloatArray]:
        """Return the metrics of points, with the problem's signs."""
        values = points.values(self._task.records, self._cost_scale)
        for name in METRICS:
            natural = "min" if name == "cost" else "max"
            if self.roles.metrics[name].sense != natural:
                values[name] = -values[name]
        return values

    def _volumes(self) -> dict[str, float]:
        """Return the hypervolume of the lower and of the upper bound, and the gap between them."""
        assert self._front is not None
        lower = volume(self.roles.losses(self._measured(self._front)), self.roles)
        upper = volume(self.roles.losses(self._above), self.roles)
        return {"lower": lower, "upper": upper, "gap": 1.0 - lower / upper if upper else 0.0}
