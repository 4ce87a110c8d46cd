"""NSGA-II: non-dominated layers, crowding distances and binary tournaments, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.moves.seen import Seen
from algorithms.moves.steady_state import SteadyState
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.pareto import pareto_layers
from framework.problem import Problem
from framework.roles import Roles


class NSGAII(SteadyState):
    """NSGA-II: non-dominated sorting and crowding distance.

    Children of members that win binary tournaments compete with the members: the best
    ``population`` of them all survive, by Pareto layer and within a layer by crowding distance.

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
    Deb, Pratap, Agarwal and Meyarivan 2002, doi:10.1109/4235.996017. Where it leaves room:

    - No genome is proposed twice. The run ends when neither mating nor chance finds a new one.
    - Of candidates in a layer that have equal objectives, only the first has its crowding distance,
      and the others have 0. Otherwise, where many genomes tie, one vector fills the population.
    - Feasible candidates come first, then the others by violation. Failed ones are left out.
    - Variation operators fit the space: those of EMSCO on ordered partitions, moves on counts,
      single-point crossover and flips on subsets, on boxes simulated binary crossover and
      polynomial mutation with distribution index 20.

    A generation costs one non-dominated sort of members and children.
    """

    def __init__(self, problem: Problem, roles: Roles, **options: Any) -> None:
        super().__init__(problem, roles, **options)
        self.genomes: Array = np.zeros((0, self.space.d), dtype=self.space.dtype)
        self.losses: FloatArray = np.zeros((0, len(roles.objectives)))
        self._violation: FloatArray = np.zeros(0)
        self._place: IntArray = np.zeros(0, dtype=np.int64)  # 0 for the best; equal for ties

    def propose(self) -> Array | None:
        return self.next_step()

    def children(self, n: int) -> Array | None:
        if not len(self.genomes):
            return None
        first, second = self.rng.integers(len(self.genomes), size=(2, 2 * n))
        lead = self._place[second] - self._place[first]
        lead = np.where(lead == 0, self.rng.random(2 * n) - 0.5, lead)
        parents = self.genomes[np.where(lead > 0, first, second)]
        return self._moves.children(parents[:n], parents[n:], self.rng)

    def learn(self, batch: Evaluated) -> None:
        rows = self.gathered(batch)
        if rows is None or not len(rows):
            return
        genomes = np.concatenate([self.genomes, rows.X])
        losses = np.concatenate([self.losses, self.roles.losses(rows.values)])
        violation = np.concatenate([self._violation, self.roles.violation(rows.values)])
        layer = pareto_layers(losses, violation)
        distance = crowding_distances(losses, layer)
        best = np.lexsort((-distance, layer))[: self.population]
        self.genomes, self.losses, self._violation = genomes[best], losses[best], violation[best]
        layer, distance = layer[best], distance[best]
        worse = (layer[1:] != layer[:-1]) | (distance[1:] != distance[:-1])
        self._place = np.concatenate([[0], np.cumsum(worse)])


def crowding_distances(losses: FloatArray, layer: IntArray) -> FloatArray:
    """Return the crowding distance of each row within its layer.

    It is the sum over the objectives of the gap between the two neighbours of the row, as a share
    of the range of the layer; it is infinite at the ends of an objective. An objective without a
    range adds nothing. Of equal rows only the first has a distance; the others have 0.

    Parameters
    ----------
    losses : numpy.ndarray of float64, shape (n, m)
    layer : numpy.ndarray of int64, shape (n,)
        0, 1, ..., each number at least once.

    Returns
    -------
    numpy.ndarray of float64, shape (n,)
    """
    distance = np.zeros(len(losses))
    first = Seen().add(np.column_stack([losses, layer]))
    losses, layer = losses[first], layer[first]
    last = np.cumsum(np.bincount(layer)) - 1  # of each layer, where rows are sorted by layers
    start = np.concatenate([[0], last[:-1] + 1])
    total = np.zeros(len(losses))
    inside = np.sort(layer)[1:-1]
    for column in losses.T:
        order = np.lexsort((column, layer))
        values = column[order]
        spans = values[last] - values[start]
        spans[spans == 0.0] = np.inf
        total[order[1:-1]] += (values[2:] - values[:-2]) / spans[inside]
        total[order[start]] = total[order[last]] = np.inf
    distance[first] = total
    return distance
