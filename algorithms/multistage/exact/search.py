"""The exact global front of ordered partitions, computed in integer arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.multistage.exact import dynamic_programming
from algorithms.multistage.exact.chains import ChainFront, genomes_of, hard_first, prices
from algorithms.multistage.exact.dynamic_programming import Stop, UpperBound
from algorithms.multistage.exact.enumeration import enumerate_chains, enumeration_of
from algorithms.multistage.exact.plan import METRICS, Method, Task, check_roles, choose
from algorithms.multistage.exact.tied import tied_chains
from algorithms.multistage.problem import MultiStageProblem
from algorithms.multistage.stage_tables import StageTables
from framework.algorithm import Algorithm, Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import ContractError, InputError, Unfit
from framework.front import volume
from framework.pareto import nondominated
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Partition

_SETTINGS: dict[Stop, str] = {"memory": "memory_gb", "time": "hours"}


class Exact(Algorithm):
    """The exact front of a multi-stage problem: no candidate dominates a member of it.

    The workers train all 2^n - 1 sub-classifiers. The front is then computed from their bits, in
    integers, and its members are evaluated in one batch, whose values must agree exactly.

    Parameters
    ----------
    problem : Problem
        Of kind ``multistage``, without ``remove_features``, with at most 22 features.
    roles : Roles
        Objectives among coverage, accuracy and cost, in their natural sense; constraints on these.
    seed : int
        Nothing is drawn.
    method : {'auto', 'enumeration', 'dynamic_programming'}
        ``enumeration`` evaluates all chromosomes, divided among the workers, and counts those that
        share an objective vector. ``dynamic_programming`` is for many stages and does not count.
        ``auto`` enumerates if that takes up to about a minute. Otherwise it starts with dynamic
        programming, and enumerates if that has not finished in the time an enumeration takes.
    memory_gb : float
        Limit of the memory of the search besides the sub-classifiers. A Ray worker that enumerates
        needs a table of its own.
    hours : float
        Limit of the time of the search besides training. It is counted in steps at the speed of a
        usual core, so that a search ends at the same step on any machine. An enumeration that is
        estimated to take longer is refused.
    bounds : bool
        If dynamic programming reaches a limit, return the points found so far and an upper bound
        that no candidate exceeds. This is not the exact front, and the summary says so.
    chromosomes : int
        Greatest number of chromosomes to list of those that share an objective vector of the
        front; needs enumeration.

    Raises
    ------
    InputError
        The problem or the roles are of another kind, or the search is not expected to finish
        within the limits; from :meth:`prepare`, if dynamic programming reaches a limit and
        ``bounds`` is false.

    Notes
    -----
    With fewer than three objectives the front is a part of the front of all three. The same holds
    with constraints against bad values (at least some coverage or accuracy, at most some cost):
    whatever dominates a feasible candidate is feasible, too. Constraints in the other direction,
    on coverage or accuracy, need enumeration, which knows the least cost of each (coverage,
    accuracy); on cost they are refused.
    """

    spaces = (Partition,)
    reads = MultiStageProblem

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
        stages: MultiStageProblem = problem.tables()
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
        self._charges, self._cost_scale = stages.charges, stages.cost_scale
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

    def prepare(self, work: Preparation) -> None:
        """Train the sub-classifiers and find the front.

        Raises
        ------
        InputError
            A sub-classifier cannot be trained, or dynamic programming reaches a limit and
            ``bounds`` is false.
        """
        if self._problem is not None:
            keys, done = self._problem.lacking_sets(), 0
            for many in work.workers.build(keys):
                done += many
                work.report("training sub-classifiers", done, len(keys))
        tables, price = hard_first(self._take_tables()), prices(*self._charges)
        found, above = self._search(tables, price, work)
        self._front = found.take(self._best(self._measured(found)))
        if above is not None:
            values = self._measured(above)
            best = self._best(values)
            self._above = {name: column[best] for name, column in values.items()}
        if self.chromosomes:
            walk = enumeration_of(tables, price, self._task.k)
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
            self.prepare(Preparation())
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

    def _search(
        self, tables: StageTables, price: IntArray, work: Preparation
    ) -> tuple[ChainFront, UpperBound | None]:
        """Return points among which the front lies; or attained ones, and what none beats."""
        k, counted = self._task.k, partial(work.report, "going through chains")
        if self.method == "enumeration":
            return enumerate_chains(tables, price, k, work.workers, counted), None
        known = enumerate_chains(tables, price, self._task.seed_stages).front()
        outcome = dynamic_programming.front_of_chains(
            tables,
            price,
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
            return enumerate_chains(tables, price, k, work.workers, counted), None
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
