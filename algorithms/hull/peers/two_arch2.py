"""Two_Arch2: one archive for convergence, one for diversity."""

from __future__ import annotations

import numpy as np

from algorithms.hull.peers.base import PeerSearch, Size
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit
from framework.pareto import nondominated
from framework.problem import Problem
from framework.roles import Roles
from framework.settings import Rate

_KAPPA = 0.05


class TwoArch2(PeerSearch):
    """Two_Arch2: an archive by epsilon indicator, and one of distant non-dominated members.

    Parameters
    ----------
    population, mutation_rate, crossover_rate
        See :class:`~algorithms.hull.peers.base.PeerSearch`; ``population`` is the size of either
        archive.

    Notes
    -----
    Wang, Jiao and Yao 2015, doi:10.1109/TEVC.2014.2350987. A generation is ``population``
    recombined children (a parent of the convergence archive by binary tournament, one of the
    diversity archive) and as many mutants of the convergence archive. Diversity is counted in the
    L(1/m) norm. The diversity archive is returned. O(n^2) a generation, and O(n) a deletion.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        population: Size = 100,
        mutation_rate: Rate | None = None,
        crossover_rate: Rate | None = None,
    ) -> None:
        super().__init__(
            problem,
            roles,
            seed=seed,
            population=population,
            mutation_rate=mutation_rate,
            crossover_rate=crossover_rate,
        )
        self._convergent: BoolArray = np.zeros(0, dtype=bool)
        self._diverse: BoolArray = np.zeros(0, dtype=bool)

    def children(self) -> Array:
        """Return recombined children, then mutants."""
        n, rng = self.population, self.rng
        convergent, diverse = np.flatnonzero(self._convergent), np.flatnonzero(self._diverse)
        pairs = convergent[rng.integers(len(convergent), size=(n, 2))]
        one, two = self.F[pairs[:, 0]], self.F[pairs[:, 1]]
        second = (two <= one).all(axis=1) & (two < one).any(axis=1)
        first = (one <= two).all(axis=1) & (one < two).any(axis=1)
        lot = rng.random(n) < 0.5
        winner = np.where(first | (lot & ~second), pairs[:, 0], pairs[:, 1])
        other = diverse[rng.integers(len(diverse), size=n)]
        crossed = self._moves.crossed(self.X[winner], self.X[other], rng)
        mutants = self.X[convergent[rng.integers(len(convergent), size=n)]]
        return np.concatenate([crossed, self._moves.mutate(mutants.copy(), rng)])

    def select(self) -> None:
        """Update either archive with all that is new."""
        new = len(self.X) - len(self._convergent)
        grown = np.ones(new, dtype=bool)
        convergent = np.flatnonzero(np.concatenate([self._convergent, grown]))
        diverse = np.flatnonzero(np.concatenate([self._diverse, grown]))
        chosen = [
            convergent[_convergence(self.F[convergent], self.population)],
            diverse[_diversity(self.F[diverse], self.population, self.rng)],
        ]
        masks = []
        for rows in chosen:
            mask = np.zeros(len(self.X), dtype=bool)
            mask[rows] = True
            masks.append(mask)
        kept = masks[0] | masks[1]
        self._convergent, self._diverse = masks[0][kept], masks[1][kept]
        self.keep(kept)

    def returned(self) -> IntArray:
        """Return the diversity archive."""
        return np.flatnonzero(self._diverse)


def _scaled(F: FloatArray) -> FloatArray:
    low, high = F.min(axis=0), F.max(axis=0)
    return np.ascontiguousarray((F - low) / np.where(high > low, high - low, 1.0))


@njit
def _weed(F: FloatArray, size: int) -> BoolArray:
    """Delete the row of least fitness by the epsilon indicator until ``size`` are left."""
    n, m = F.shape
    loss = np.empty((n, n))
    fitness = np.empty(n)
    for j in range(n):
        worst = 0.0
        for i in range(n):
            gap = F[i, 0] - F[j, 0]
            for k in range(1, m):
                gap = max(gap, F[i, k] - F[j, k])
            loss[i, j] = gap
            worst = max(worst, abs(gap))
        fitness[j] = 1.0
        for i in range(n):
            loss[i, j] = np.exp(-loss[i, j] / (worst if worst > 0.0 else 1.0) / _KAPPA)
            fitness[j] -= loss[i, j]
    alive = np.ones(n, dtype=np.bool_)
    for _ in range(n - size):
        gone = -1
        for j in range(n):
            if alive[j] and (gone < 0 or fitness[j] < fitness[gone]):
                gone = j
        alive[gone] = False
        for j in range(n):
            fitness[j] += loss[gone, j]
    return alive


def _convergence(F: FloatArray, size: int) -> BoolArray:
    if len(F) <= size:
        return np.ones(len(F), dtype=bool)
    kept: BoolArray = _weed(_scaled(F), size)
    return kept


def _diversity(F: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Return non-dominated rows: all, or the ends and then the most distant ones."""
    best = np.flatnonzero(nondominated(F))
    if len(best) <= size:
        return best
    G = F[best]
    ends = np.unique(np.concatenate([G.argmin(axis=0), G.argmax(axis=0)]))
    if len(ends) > size:
        ends = np.sort(rng.permutation(ends)[:size])
    rows: IntArray = _spread(np.ascontiguousarray(G), ends, size, 1.0 / G.shape[1])
    return best[rows]


@njit
def _spread(F: FloatArray, ends: IntArray, size: int, p: float) -> IntArray:
    """Return ``size`` rows: ``ends``, then always the one farthest from all chosen (L_p)."""
    n = len(F)
    chosen = np.empty(size, dtype=np.int64)
    nearest = np.full(n, np.inf)
    count = 0
    while count < size:
        row = ends[count] if count < len(ends) else int(np.argmax(nearest))
        chosen[count] = row
        count += 1
        for i in range(n):
            total = 0.0
            for k in range(F.shape[1]):
                total += abs(F[i, k] - F[row, k]) ** p
            nearest[i] = min(nearest[i], total)
        nearest[row] = -1.0
    return chosen
