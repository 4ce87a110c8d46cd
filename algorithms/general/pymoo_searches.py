"""Searches of pymoo, with variation operators that fit the space or, to compare, with its own."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pymoo.algorithms.moo import sms
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.algorithms.moo.rvea import RVEA as PymooRVEA
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling
from pymoo.core.termination import NoTermination
from pymoo.operators.crossover.ux import UX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.sampling.rnd import IntegerRandomSampling
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.termination.max_gen import MaximumGenerationTermination
from pymoo.util.ref_dirs import get_reference_directions

from algorithms.moves.steady_state import SteadyState
from algorithms.moves.variation import Variation
from framework.algorithm import Outcome, known_horizon, name_of
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError, Unfit
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Partition


class PymooSearch(SteadyState):
    """A search with pymoo's selection and survival and paretolab's variation operators.

    Parameters
    ----------
    problem : Problem
        Over a :class:`~framework.space.Partition`, :class:`~framework.space.Counts`,
        :class:`~framework.space.Bits`, :class:`~framework.space.Integers` or
        :class:`~framework.space.Box`.
    roles, **options
        See :class:`~algorithms.moves.steady_state.SteadyState`.

    Notes
    -----
    - On ordered partitions, the first generation, recombination with compression, and mutation
      are those of EMSCO (Algorithms 1 and 2). On counts, the first genomes are subsets whose size
      is uniform on a logarithmic scale, a child has each count from either parent, and mutation is
      one pick more, one less, a member dropped, or one swapped for another model. Whole numbers
      have the same operators; an ordered number of a child lies between those of its parents, and
      mutation moves it by one step or to any value. Subsets: fair coins, single-point crossover,
      flips of bits. Boxes: simulated binary crossover and polynomial mutation, both with
      distribution index 20.
    - A population contains no genome twice.
    - pymoo takes its random numbers from this algorithm's stream only.
    - Losses are scaled to [0, 1] by the bounds of metrics, if they have some, because pymoo
      compares some differences with absolute thresholds.
    - Constraints are handled as in pymoo: feasible candidates come first, the others by violation.
      Failed ones are left out.
    - If a whole generation fails, the next one is made from the same parents.
    - The run ends when 100 attempts at mating give no new genome.

    pymoo: Blank and Deb 2020, doi:10.1109/ACCESS.2020.2990567.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self._search = self._pymoo(
            self.population,
            sampling=_Init(self._moves),
            crossover=_Recombine(self._moves),
            mutation=_Mutate(self._moves),
            eliminate_duplicates=True,
        )
        self._search.setup(
            PymooProblem(
                n_var=self.space.d,
                n_obj=len(roles.objectives),
                n_ieq_constr=1,
                xl=self.space.lower,
                xu=self.space.upper,
                vtype=float if self.space.dtype.kind == "f" else int,
            ),
            termination=self._termination(self.population),
        )
        self._search.random_state = self.rng
        self._children: Any = None

    def _termination(self, population: int) -> Any:
        """Return a termination for pymoo's schedules; what ends the search is the budget."""
        return NoTermination()

    @abstractmethod
    def _pymoo(self, population: int, **parts: Any) -> Any:
        """Return pymoo's algorithm with a population size and the operators ``parts``."""

    def propose(self) -> Array | None:
        if self.is_steady:
            return self.next_step()
        self._children = self._search.ask()
        if self._children is None:
            self.done, self.reason = True, "no new genome from mating"
            return None
        return np.array(self._children.get("X"), dtype=self.space.dtype)

    def learn(self, batch: Evaluated) -> None:
        rows = self.gathered(batch)
        if rows is None or not len(rows):
            return
        losses = self.roles.scaled_losses(rows.values)
        violation = self.roles.violation(rows.values)
        children = Population.new("X", rows.X) if self.is_steady else self._children[batch.ok]
        children.set("F", losses)
        children.set("G", violation[:, np.newaxis])
        children.set("row", rows.ids)
        _tell(self._search, children)
        self._children = None

    def children(self, n: int) -> Array | None:
        search = self._search
        if not search.is_initialized:
            return None
        pairs = search.mating.selection(
            search.problem,
            search.pop,
            n,
            n_parents=2,
            to_pop=False,
            algorithm=search,
            random_state=self.rng,
        )
        first, second = search.pop.get("X")[np.asarray(pairs, dtype=np.int64).T]
        return self._moves.children(first, second, self.rng)


class _Directed(PymooSearch):
    """A search around reference directions; unless asynchronous, it returns its members."""

    def outcome(self) -> Outcome:
        if self.is_steady or not self._search.is_initialized:
            return Outcome()
        members = self._search.pop
        feasible = members.get("CV")[:, 0] <= 0.0
        return Outcome(returned=np.sort(members.get("row").astype(np.int64)[feasible]))


class NSGAIII(_Directed):
    """NSGA-III: non-dominated sorting and niches around reference directions.

    The directions are the finest simplex lattice (Das and Dennis 1998) of at most ``population``
    points. A parent is the less infeasible of two random members. Parameters: those of
    :class:`PymooSearch`. Without ``max_pending`` the last members are returned, as PlatEMO does.

    Deb and Jain 2014, doi:10.1109/TEVC.2013.2281535.
    """

    def _pymoo(self, population: int, **parts: Any) -> Any:
        directions = _directions(self, population)
        # pymoo's tournament draws from the operating system's entropy where violations tie
        selection = TournamentSelection(func_comp=_less_infeasible)
        return NSGA3(directions, pop_size=population, selection=selection, **parts)


class RVEA(_Directed):
    """RVEA: reference vectors, and angles that weigh more as the search goes on.

    Parameters
    ----------
    horizon : int
        Evaluations after which angles have their full weight; in a configuration, those of the
        budget if left out.
    alpha : float
        Exponent of the weight of angles (2 in the paper); the greater, the later it grows.
    population, mutation_rate, crossover_rate, beta
        See :class:`PymooSearch`. Directions are those of :class:`NSGAIII`; there are at most as
        many members.

    Notes
    -----
    Cheng, Jin, Olhofer and Sendhoff 2016, doi:10.1109/TEVC.2016.2519378. Vectors are adapted ten
    times (fr = 0.1). The schedule counts generations, so there is no ``max_pending``. The last
    members are returned.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        horizon: Annotated[int, Field(ge=1)] | None = None,
        alpha: Annotated[float, Field(gt=0)] = 2.0,
        population: Annotated[int, Field(ge=2)] = 300,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
        beta: Annotated[float, Field(gt=0)] = 2.0,
    ) -> None:
        self.horizon, self.alpha = known_horizon(horizon), alpha
        super().__init__(
            problem,
            roles,
            seed=seed,
            population=population,
            mutation_rate=mutation_rate,
            crossover_rate=crossover_rate,
            beta=beta,
        )

    def _termination(self, population: int) -> Any:
        return MaximumGenerationTermination(max(1, -(-self.horizon // population)))

    def _pymoo(self, population: int, **parts: Any) -> Any:
        directions = _directions(self, population)
        return PymooRVEA(directions, alpha=self.alpha, pop_size=population, **parts)


class SMSEMOA(PymooSearch):
    """SMS-EMOA: non-dominated sorting and hypervolume contributions.

    A generation makes ``population`` children and drops the least contributors one by one (the
    original makes one child at a time). Parameters: :class:`PymooSearch`.

    Beume, Naujoks and Emmerich 2007, doi:10.1016/j.ejor.2006.08.008.
    """

    def _pymoo(self, population: int, **parts: Any) -> Any:
        _several(self.roles, name_of(type(self)))
        # pymoo's tournament does not pickle
        selection = TournamentSelection(func_comp=_dominating)
        return sms.SMSEMOA(pop_size=population, selection=selection, **parts)


class PymooNSGAII(PymooSearch):
    """NSGA-II as users of pymoo have it on whole numbers, to compare with.

    Uniform crossover of four in five pairs, and polynomial mutation (index 3) that is rounded. They
    know nothing of partitions: what is no genome is repaired to a similar one. ``nsga2`` has the
    operators of EMSCO.

    Parameters
    ----------
    population : int
        Number of survivors, and of children in each generation.
    """

    spaces = (Partition,)

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Annotated[int, Field(ge=2)] = 100,
    ) -> None:
        super().__init__(problem, roles, seed=seed, population=population)

    def _pymoo(self, population: int, **parts: Any) -> Any:
        assert isinstance(self.space, Partition)
        parts |= {
            "sampling": IntegerRandomSampling(),
            "crossover": UX(prob=0.8),
            "mutation": PM(prob=1.0, eta=3.0, vtype=float),
            "repair": _Repair(self.space),
        }
        return NSGA2(pop_size=population, **parts)


def _tell(search: Any, evaluated: Any) -> None:
    """Let pymoo's algorithm select among its members and evaluated candidates."""
    # NSGA-III switches warnings off for the whole process; RVEA takes arccos(1 + 1e-16)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        search.tell(infills=evaluated)


def _directions(search: PymooSearch, population: int) -> FloatArray:
    """Return the finest simplex lattice of at most ``population`` points."""
    m, kind = len(search.roles.objectives), name_of(type(search))
    _several(search.roles, kind)
    cuts = 1
    while math.comb(cuts + m, m - 1) <= population:
        cuts += 1
    if math.comb(cuts + m - 1, m - 1) > population:
        raise InputError(
            f"algorithm.population: {kind} needs at least {m} for {m} objectives, found "
            f"{population}"
        )
    return np.asarray(get_reference_directions("das-dennis", m, n_partitions=cuts))


def _several(roles: Roles, kind: str) -> None:
    if len(roles.objectives) < 2:
        raise Unfit(f"objectives: {kind} needs at least two, found one")


def _less_infeasible(
    pop: Any, P: IntArray, *, random_state: np.random.Generator, **_: Any
) -> IntArray:
    """Return the one of each pair (n, 2) that violates less, by lot if none does; (n, 1)."""
    violation = pop.get("CV")[:, 0][P]
    return _winners(P, violation[:, 0] - violation[:, 1], random_state)


def _dominating(pop: Any, P: IntArray, *, random_state: np.random.Generator, **_: Any) -> IntArray:
    """Return the one of each pair that violates less or else dominates, by lot if none does."""
    violation, losses = pop.get("CV")[:, 0][P], pop.get("F")[P]
    better = (losses[:, 0] <= losses[:, 1]).all(axis=1)
    worse = (losses[:, 0] >= losses[:, 1]).all(axis=1)
    lead = violation[:, 0] - violation[:, 1]
    return _winners(P, np.where(lead == 0.0, worse * 1.0 - better, lead), random_state)


def _winners(P: IntArray, lead: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the first of each pair if ``lead`` is negative, the second if positive; (n, 1)."""
    first = np.where(lead == 0.0, rng.random(len(P)) < 0.5, lead < 0.0)
    return np.where(first, P[:, 0], P[:, 1])[:, np.newaxis]


class _Init(Sampling):  # type: ignore[misc]
    """The first genomes of the space."""

    def __init__(self, moves: Variation) -> None:
        super().__init__()
        self.moves = moves

    def _do(
        self, problem: Any, n_samples: int, *_: Any, random_state: Any = None, **__: Any
    ) -> Array:
        return self.moves.first(n_samples, random_state)


class _Recombine(Crossover):  # type: ignore[misc]
    """A child of two genomes."""

    def __init__(self, moves: Variation) -> None:
        super().__init__(n_parents=2, n_offsprings=1, prob=moves.crossover_rate)
        self.moves = moves

    def _do(self, problem: Any, X: Array, *_: Any, random_state: Any = None, **__: Any) -> Array:
        A, B = X[0].astype(self.moves.dtype), X[1].astype(self.moves.dtype)
        return self.moves.recombine(A, B, random_state)[np.newaxis]


class _Mutate(Mutation):  # type: ignore[misc]
    """A mutated genome."""

    def __init__(self, moves: Variation) -> None:
        super().__init__(prob=1.0)
        self.moves = moves

    def _do(self, problem: Any, X: Array, *_: Any, random_state: Any = None, **__: Any) -> Array:
        return self.moves.mutate(X.astype(self.moves.dtype), random_state)


class _Repair(Repair):  # type: ignore[misc]
    """Genomes similar to vectors of real numbers within the bounds of the genes."""

    def __init__(self, space: Partition) -> None:
        super().__init__()
        self.space = space

    def _do(self, problem: Any, X: Array, **_: Any) -> Array:
        return self.space.repaired(np.rint(X)).astype(np.int64)
