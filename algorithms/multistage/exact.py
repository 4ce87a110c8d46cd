"""Exact: the global front of ordered partitions, proven by integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.multistage import programme
from algorithms.multistage.chains import Found, hard_first, surjections
from algorithms.multistage.enumeration import enumerate_chains, table_bytes
from framework.algorithm import Algorithm
from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.errors import ContractError, InputError
from framework.front import nondominated
from framework.problem import Problem
from framework.problems.stage_tables import StageTables
from framework.problems.stages import MultiStageProblem
from framework.roles import Roles

METRICS = ("coverage", "accuracy", "cost")
FEATURES_AT_MOST = 22
_QUICK_SECONDS = 60.0  # up to here chains are enumerated: that counts chromosomes as well
_SEED_CHAINS = 50_000_000  # chains looked at to give the programme a good start
_LEAST_ROWS = 100_000  # states that the programme needs room for to be worth a try


class Exact(Algorithm):
    """The exact front of a multi-stage problem: no candidate that beats a member exists.

    All 2^n - 1 sub-classifiers are trained; then the front is found from their bits, in integers,
    and its members are asked for in one batch. What the evaluator answers must agree to the bit.

    Parameters
    ----------
    problem : Problem
        Of kind ``multistage``, without ``remove_features``, with at most 22 features.
    roles : Roles
        Objectives among coverage, accuracy and cost, in their natural sense; constraints on these.
    seed : int
        Nothing is drawn.
    method : {'auto', 'enumeration', 'programme'}
        ``enumeration`` goes through all chromosomes and counts those that share a vector;
        ``programme`` is for many stages and does not count. ``auto`` enumerates up to about a
        minute's work.
    memory_gb : float
        What the search may hold besides the sub-classifiers.
    hours : float
        An enumeration that is estimated to take longer is refused.

    Raises
    ------
    InputError
        The problem or the roles are of another kind, or the search cannot finish within the
        settings; from :meth:`ask`, where the programme runs out of memory on the way.

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
        method: Literal["auto", "enumeration", "programme"] = "auto",
        memory_gb: Annotated[float, Field(gt=0)] = 4.0,
        hours: Annotated[float, Field(gt=0)] = 1.0,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        stages = problem.unwrapped
        if not isinstance(stages, MultiStageProblem):
            raise InputError(
                "algorithm.kind: exact needs a problem of kind multistage, found "
                f"{type(stages).__name__}; take another algorithm"
            )
        if stages.space.removal:
            raise InputError(
                "algorithm.kind: exact takes every feature, found problem.remove_features: true; "
                "set it to false or take another algorithm"
            )
        self._costs, self._cost_scale = stages.costs, stages.cost_scale
        self._records, self._stages = stages.data.n_validation, stages.space.k
        self._solutions = stages.space.size
        self.memory_gb, self.hours = memory_gb, hours
        one_way = _check_roles(roles)
        self.method, self.plan = self._choose(method, one_way, stages.data.validation_words)
        self._tables_of: Callable[[], StageTables] | None = stages.tables
        self._tables: StageTables | None = None
        self._values: dict[str, FloatArray] = {}
        self._chromosomes: list[int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._hold_tables()  # what is pickled does without the problem
        return self.__dict__

    def propose(self) -> Array | None:
        tables = self._hold_tables()
        found = self._search(hard_first(tables))
        values = self._measured(found)
        feasible = np.flatnonzero(self.roles.violation(values) == 0.0)
        losses = self.roles.losses(values)
        front = feasible[nondominated(losses[feasible])]
        front = front[np.lexsort(losses[front].T[::-1])]
        if len(front) == 0:
            self.done, self.reason = True, "no candidate meets the constraints"
            return None
        found = found.take(front)
        self._values = {name: column[front] for name, column in values.items()}
        self._chromosomes = None if found.chromosomes is None else found.chromosomes.tolist()
        return found.genomes(len(self._costs)).astype(self.space.dtype)

    def learn(self, batch: Evaluated) -> None:
        for name, column in self._values.items():
            wrong = np.flatnonzero((batch.values[name] != column) & batch.ok)
            if len(wrong):
                i = wrong[0]
                raise ContractError(
                    f"exact: expected {name} {column[i]!r} of genome {batch.X[i].tolist()}, found "
                    f"{batch.values[name][i]!r} evaluated: one of the two computes it wrongly"
                )
        self.done, self.reason = True, "the exact front is complete"
        if batch.errors:
            self.reason = f"{len(batch.errors)} members of the exact front could not be evaluated"

    def findings(self) -> Mapping[str, Any]:
        """Return the method and, by row of the front, how many chromosomes share its measures.

        None where they were not counted.
        """
        return {
            "method": self.method, "candidates": self._solutions, "chromosomes": self._chromosomes,
        }  # fmt: skip

    def _hold_tables(self) -> StageTables:
        if self._tables is None:
            assert self._tables_of is not None
            self._tables, self._tables_of = self._tables_of(), None
        return self._tables

    def _search(self, tables: StageTables) -> Found:
        """Return points among which the front lies."""
        k = self._stages
        if self.method == "enumeration":
            return enumerate_chains(tables, self._costs, k)
        n = len(self._costs)
        few = max(j for j in range(1, k + 1) if _solutions(n, j) <= _SEED_CHAINS)
        known = enumerate_chains(tables, self._costs, few)
        room = self._rows(len(tables.everyone))
        try:
            return programme.front_of_chains(tables, self._costs, k, known.front(), room)
        except MemoryError:
            raise InputError(
                f"algorithm.memory_gb: the dynamic programme needs more than {self.memory_gb:g} "
                "GB on these data; raise it or lower problem.max_stages (there is no front: what "
                "was found so far may be beaten)"
            ) from None

    def _measured(self, found: Found) -> dict[str, FloatArray]:
        """Return the measures of points, with the problem's signs."""
        values = found.values(self._records, self._cost_scale)
        for name in METRICS:
            natural = "min" if name == "cost" else "max"
            if self.roles.measures[name].sense != natural:
                values[name] = -values[name]
        return values

    def _rows(self, words: int) -> int:
        """Return how many states of the programme fit into the memory."""
        sets = 2 ** len(self._costs)
        fixed = sets * (32 * words + 2 * self._records)
        fixed += sets * programme.set_bytes(words, self._records) + table_bytes(self._records, 4)
        # while they grow there are old ones and new ones
        return int((self.memory_gb * 1e9 - fixed) / 1.5 / programme.row_bytes(words))

    def _choose(
        self, method: str, one_way: bool, words: int
    ) -> tuple[Literal["enumeration", "programme"], str]:
        """Return the method and the plan, or refuse what cannot be done within the settings."""
        n = len(self._costs)
        if n > FEATURES_AT_MOST:
            raise InputError(
                f"algorithm.kind: exact trains all 2^n - 1 sub-classifiers, found n={n} features "
                f"({2**n - 1:,}), at most {FEATURES_AT_MOST} can be done; take another algorithm"
            )
        seconds = self._solutions * (3 + words) * 1e-9
        memory = 2**n * (56 * words + 2 * self._records + 8)
        memory += table_bytes(self._records, self._stages)
        fits = memory <= self.memory_gb * 1e9
        text = f"exact: {2**n - 1:,} sub-classifiers, "
        counting = (
            f"then all {self._solutions:,} candidates one by one, about {_duration(seconds)} and "
            f"{memory / 1e9:.2g} GB"
        )
        room = self._rows(words) >= _LEAST_ROWS and one_way and self._stages > 1
        by_hand = method == "enumeration" or (method == "auto" and not room)
        patience = 3600 * self.hours if by_hand else _QUICK_SECONDS
        if method != "programme" and fits and seconds <= patience:
            return "enumeration", text + counting
        if room and method != "enumeration":
            return "programme", (
                f"{text}then a dynamic programme over {2**n:,} feature sets for {self._solutions:,}"
                f" candidates, within {self.memory_gb:g} GB; its time depends on the data"
            )
        raise InputError(
            f"algorithm: exact cannot finish within memory_gb={self.memory_gb:g} and "
            f"hours={self.hours:g}: {text.removeprefix('exact: ')}{counting}"
            + ("" if one_way else ", and constraints leave no other method")
            + "; raise these, lower problem.max_stages or take another algorithm"
        )


def _check_roles(roles: Roles) -> bool:
    """Tell whether all constraints bound the worse side alone; refuse roles that are not known."""
    for objective in roles.objectives:
        if objective.metric not in METRICS:
            raise InputError(
                f"objectives: exact knows {', '.join(METRICS)}, found {objective.metric!r}; take "
                "another algorithm"
            )
        sense = roles.measures[objective.metric].sense
        if objective.sense != sense:
            raise InputError(
                f"objectives: exact takes {objective.metric} with sense {sense}, found "
                f"{objective.sense}; take another algorithm"
            )
    one_way = True
    for constraint in roles.constraints:
        if constraint.metric not in METRICS:
            raise InputError(
                f"constraints: exact knows {', '.join(METRICS)}, found {constraint.metric!r}; "
                "take another algorithm"
            )
        largest_best = roles.measures[constraint.metric].sense == "max"
        other_way = constraint.at_most if largest_best else constraint.at_least
        if other_way is not None and constraint.metric == "cost":
            raise InputError(
                "constraints: exact takes a greatest cost, found a least one; take another "
                "algorithm"
            )
        one_way &= other_way is None
    return one_way


def _solutions(n: int, k: int) -> int:
    return sum(surjections(n, j) for j in range(1, k + 1))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
