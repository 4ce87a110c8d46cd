"""EMSCO: evolutionary multi-stage classifier optimizer (Hamilton and Fulp, Section 3)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.moves import partitions
from algorithms.moves.seen import Seen
from algorithms.moves.steady_state import SHARE_OF_POOL, SteadyState
from framework.algorithm import MaxPending, Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.pareto import pareto_layers
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate
from framework.space import Partition

_ATTEMPTS = 4  # rounds in which the local search looks for genomes that are new


class EMSCO(SteadyState):
    """A genetic algorithm on ordered partitions (Algorithm 3).

    Each generation consists of the elite of the one before and of children. Parents are selected
    by roulette wheel, with a fitness that compares the Pareto rank first and the length of the
    objective vector second. Recombination works on relative stages, and mutation is biased to
    early stages.

    Parameters
    ----------
    problem : Problem
        Over a :class:`~framework.space.Partition`.
    roles : Roles
        The paper's objectives are coverage and accuracy (max) and cost (min). A ``bounded`` metric
        counts as its distance from its worst value, scaled to [0, 1]. A ``ratio`` counts as the
        least value of the generation divided by its value (Equation 5, inverse cost).
    seed : int
    population : int
        Size of a generation.
    mutation_rate, crossover_rate : float
        Probabilities that a child is mutated, and that it is made of two parents (m and r).
    elitism : float
        The paper's b: at least this share of the distinct candidates is kept.
    beta : float
        Bias of mutation to early stages; the greater, the stronger.
    epsilon : float
        Equation 9's epsilon, above 0.
    convergence : int, optional
        The paper's g: stop when the fittest genome is the same for so many generations. The paper
        has 20 in Section 4.3 and none in 4.2, where runs go to 500.
    unique : {'objectives', 'chromosome'}
        What makes two candidates the same for the elite.
    memetic : float
        Share of the children that are made by local search instead: members of the elite after
        one random move (:func:`~algorithms.moves.partitions.wander`) that were not proposed
        before. 0 is the paper's algorithm.
    returns : {'front', 'fittest'}
        The result of the method: the front of all candidates, or one solution, the fittest of the
        last generation (Section 4.3).
    max_pending : int, optional
        Number of candidates that may be pending while the search goes on; if None, it waits for
        each batch. With it, a generation consists of the elite and the latest other candidates; it
        is formed again whenever a fifth of its size has been evaluated, and no genome is proposed
        twice (:meth:`~framework.algorithm.Algorithm.make_asynchronous`).

    Notes
    -----
    Algorithm 3, line by line, and the methods that implement it::

        G_0 <- init()                                  first
        while not converged():                         _check_end
            rank(G_h), sort(G_h, by f)                 _form: pareto_layers, log_fitness
            elite size <- max(ceil(b |G*_h|), |E*_0|)  _elite_of
            G_{h+1} <- G*_h[0 : elite size]            _form: elite
            while |G_{h+1}| < |G|:                     propose
                P_A, P_B <- select()                   _offspring: partitions.breed
                C <- mutate(recombine(P_A, P_B))       _offspring: partitions.breed
                append C to G_{h+1}                    learn
        return N(G_h)                                  outcome

    G*_h has the distinct candidates of generation h, and E*_0 those of rank 0. Where the paper
    leaves room:

    - Algorithm 3 appends children to G_h; they go to G_{h+1}.
    - The elite are the best distinct candidates, ``max(ceil(b |G*|), |E0*|)`` of them; Table 1
      explains the brackets as "next smallest integer" but prints the ceiling.
    - Candidates are distinct if their objective vectors are. By chromosome, as the text has it
      (``unique='chromosome'``), one vector fills the elite on data where thousands of chromosomes
      tie, and the search stalls.
    - An elite as large as the population leaves no room for children: the run ends and says so.
    - ``compress`` runs after recombination, before mutation, which cannot open a gap.
    - Inverse cost uses the least cost of the current generation, so the fitness of a candidate
      changes from generation to generation. Convergence therefore compares genomes.
    - Infeasible candidates rank below all feasible ones, by violation. Failed ones leave the
      generation.
    - Ties in fitness go to the candidate proposed first.
    - Algorithm 3 returns the front of the last generation sorted by fitness. It is ``by_fitness``
      of ``outcome().findings``, with each distinct solution once; files of fronts are sorted by id.
    """

    spaces = (Partition,)
    space: Partition

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Annotated[int, Field(ge=2)] = 300,
        mutation_rate: Rate = 0.075,
        crossover_rate: Rate = 0.8,
        elitism: Rate = 0.2,
        beta: Annotated[float, Field(gt=0)] = 2.0,
        epsilon: Annotated[float, Field(gt=0)] = 0.01,
        convergence: Annotated[int, Field(ge=1)] | None = None,
        unique: Literal["objectives", "chromosome"] = "objectives",
        memetic: Rate = 0.0,
        returns: Literal["front", "fittest"] = "front",
        max_pending: MaxPending = None,
    ) -> None:
        super().__init__(problem, roles, seed=seed, population=population, max_pending=max_pending)
        self._limits = roles.limits()
        self._amount = np.array([kind == "ratio" for kind in roles.kinds()])
        for name, (low, high), amount in zip(roles.names, self._limits, self._amount, strict=True):
            if not math.isfinite(low) or not (amount or math.isfinite(high)):
                raise InputError(f"objectives: emsco needs a bound for {name!r}, found none")
        self.elitism = elitism
        self.mutation_rate, self.crossover_rate = mutation_rate, crossover_rate
        self.epsilon, self.convergence, self.unique = epsilon, convergence, unique
        self._starts = problem.starts()
        self.memetic = memetic
        self._cdf = partitions.beta_binomial_cdf(self.space.k, beta)
        self.elite: Evaluated | None = None  # of the last generation, by id (Section 3.2.2)
        self._generation: Array = np.zeros((0, self.space.d), dtype=self.space.dtype)
        self._weights: FloatArray = np.zeros(0)
        self.fittest: Array | None = None  # of the last generation: Section 4.3's answer
        self._by_fitness: IntArray = np.zeros(0, dtype=np.int64)
        self._unchanged = 0
        self.returns = returns
        self._latest: Evaluated | None = None  # the last evaluations of an asynchronous search

    def outcome(self) -> Outcome:
        findings = {"by_fitness": self._by_fitness.tolist()}
        if self.returns == "front" or self.fittest is None:
            return Outcome(findings)
        return Outcome(findings, returned=self._by_fitness[:1])

    def propose(self) -> Array | None:
        if self.is_steady:
            return self.next_step()
        if not len(self._generation):
            X = self.first(self.population)
        else:
            n = self.population - (0 if self.elite is None else len(self.elite))
            moved = self._moved(round(self.memetic * n))
            X = np.concatenate([self._offspring(n - len(moved)), moved])
        if self.memetic:
            self._seen.add(X)
        return X

    def first(self, n: int) -> Array:
        """Return the problem's starts and then one-stage genomes after mutation (Algorithm 3)."""
        space = self.space
        X = np.empty((n, space.d), dtype=space.dtype)
        mutation = space.k, self.mutation_rate, self._cdf, space.removal
        partitions.first_generation(n, space.n, *mutation, space.values, self.rng, X)
        space.settle(X)
        first, self._starts = self._starts[:n], self._starts[n:]
        X[: len(first)] = first
        return X

    def children(self, n: int) -> Array | None:
        """Return children, some of them made by local search; None before the first generation."""
        if not len(self._generation):
            return None
        moves = int((self.rng.random(n) < self.memetic).sum())
        bred = self._offspring(n - moves)
        return np.concatenate([bred, self._wandered(moves)]) if moves else bred

    def _offspring(self, n: int) -> Array:
        """Return children of parents that are selected by roulette wheel (Algorithm 3)."""
        space, weights = self.space, self._weights.cumsum()
        rates = self.crossover_rate, self.mutation_rate
        variation = space.k, *rates, self._cdf, space.removal, space.n, space.values
        return space.settle(partitions.breed(self._generation, weights, n, *variation, self.rng))

    def _moved(self, count: int) -> Array:
        """Return up to ``count`` new genomes, each one random move away from one of the elite."""
        pieces: list[Array] = [np.empty((0, self.space.d), dtype=self.space.dtype)]
        for _ in range(_ATTEMPTS):
            if count == 0 or self.elite is None:
                break
            rows = self._wandered(count)
            pieces.append(rows[self._seen.add(rows)])
            count -= len(pieces[-1])
        return np.concatenate(pieces)

    def _wandered(self, count: int) -> Array:
        """Return genomes of the elite after one random move."""
        elite = self.elite
        assert elite is not None
        rows = np.array(elite.X[self.rng.integers(len(elite), size=count)])
        self._moves.wander(rows, 1, 1, self.rng)
        return rows

    def learn(self, batch: Evaluated) -> None:
        fresh = self.gathered(batch)
        if fresh is None:
            return
        if self.is_steady:
            latest = fresh if self._latest is None else Evaluated.concat([self._latest, fresh])
            elite = np.zeros(0, dtype=np.int64) if self.elite is None else self.elite.ids
            window = max(self.population - len(elite), math.ceil(self.population * SHARE_OF_POOL))
            self._latest = latest.take(np.arange(max(0, len(latest) - window), len(latest)))
            fresh = self._latest.take(~np.isin(self._latest.ids, elite))
        self._form(fresh)

    def _form(self, fresh: Evaluated) -> None:
        """Form a generation from the elite and fresh candidates, and choose the next elite."""
        generation = [piece for piece in (self.elite, fresh) if piece is not None and len(piece)]
        if not generation:
            return
        rows = Evaluated.concat(generation)
        losses = self.roles.losses(rows.values)
        violation = self.roles.violation(rows.values)
        layers = pareto_layers(losses, violation)
        fitness = partitions.log_fitness(self._gains(losses), layers, self.epsilon)
        self._generation = np.array(rows.X, dtype=self.space.dtype)
        self._weights = np.exp(fitness - fitness.max())
        by_fitness = np.lexsort((rows.ids, -fitness))
        elite = self._elite_of(by_fitness, layers, losses, rows.X)
        self.elite = rows.take(np.sort(elite))
        self._by_fitness = rows.ids[elite[(layers == 0)[elite] & (violation == 0.0)[elite]]]
        self._check_end(rows.X[by_fitness[0]])

    def _gains(self, losses: FloatArray) -> FloatArray:
        """Return the objectives as the paper has them: to maximise, in [0, 1]."""
        low, high = self._limits.T
        excess = losses - low
        span = np.where(self._amount | (high == low), 1.0, high - low)
        rate = (high - losses) / span
        least = excess.min(axis=0)
        with np.errstate(invalid="ignore"):  # 0 / 0: an amount of 0 is as good as can be
            inverse = np.where(excess == 0.0, 1.0, least / excess)
        return np.where(self._amount, inverse, rate)

    def _elite_of(
        self, by_fitness: IntArray, layers: IntArray, losses: FloatArray, X: Array
    ) -> IntArray:
        """Return the positions of the elite: the fittest distinct ones (Section 3.2.2)."""
        identity = losses if self.unique == "objectives" else X
        distinct = by_fitness[Seen().add(identity[by_fitness])]
        best_front = int((layers[distinct] == 0).sum())
        share = math.ceil(round(self.elitism * len(distinct), 9))  # 0.07 * 100 is slightly above 7
        return distinct[: min(max(share, best_front), self.population)]

    def _check_end(self, fittest: Array) -> None:
        same = self.fittest is not None and np.array_equal(fittest, self.fittest)
        self._unchanged = self._unchanged + 1 if same else 0
        self.fittest = fittest.copy()
        # an asynchronous search forms its generation several times for one of the paper's
        forms = 1 / SHARE_OF_POOL if self.is_steady else 1
        if self.convergence is not None and self._unchanged >= self.convergence * forms:
            self.done, self.reason = True, "convergence"
        elif self.is_steady:
            return
        elif self.elite is not None and len(self.elite) >= self.population:
            self.done = True
            self.reason = "elite fills the population; raise algorithm.population"
