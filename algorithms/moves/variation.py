"""Neighbourhoods, random walks, crossover and mutation for each kind of search space."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from algorithms.moves import counts, integers, partitions, reals
from framework.arrays import Array
from framework.space import Bits, Box, Counts, Integers, Partition, Space


def moved(space: Space, X: Array) -> Array:
    """Return the neighbours (m, d) of genomes (n, d); those of several genomes occur repeatedly."""
    moves, blocks = variation(space), [X[:0]]
    for x in np.ascontiguousarray(X, dtype=space.dtype):
        room = np.empty((moves.room(x), space.d), dtype=space.dtype)
        blocks.append(room[: moves.neighbours(x, room)])
    return np.concatenate(blocks)


class Variation(ABC):
    """Neighbourhoods, random walks and genetic operators of one space.

    Every row returned belongs to the space.

    Attributes
    ----------
    dtype : numpy.dtype
        Type of the genes that genetic operators work on: int64, or float64 in a box.
    usual : tuple of float
        The rates of mutation and of crossover that suit the space.
    mutation_rate, crossover_rate : float
        The arguments, or the usual rates where they are None.
    """

    dtype: np.dtype[np.generic] = np.dtype(np.int64)
    usual: tuple[float, float] = (0.075, 0.8)

    def __init__(
        self, space: Space, mutation_rate: float | None, crossover_rate: float | None
    ) -> None:
        self.space = space
        mutation, crossover = self.usual
        self.mutation_rate = mutation if mutation_rate is None else mutation_rate
        self.crossover_rate = crossover if crossover_rate is None else crossover_rate

    @abstractmethod
    def room(self, x: Array) -> int:
        """Return the greatest possible number of neighbours of genome ``x``."""

    @abstractmethod
    def neighbours(self, x: Array, out: Array) -> int:
        """Fill ``out``, shape (at least room(x), d), with neighbours of ``x``; return how many."""

    @abstractmethod
    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        """Change each row by a random walk of ``fewest`` to ``most`` steps, in place."""

    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` random genomes, of the type of the space."""
        return self.first(n, rng).astype(self.space.dtype)

    @abstractmethod
    def first(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` genomes for the first generation of a genetic algorithm."""

    @abstractmethod
    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        """Return a child of each pair of rows."""

    @abstractmethod
    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        """Mutate the rows of ``X`` in place and return it."""

    def crossed(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        """Return a child of each pair: recombined with ``crossover_rate``, otherwise that of A."""
        A, B = A.astype(self.dtype), B.astype(self.dtype)
        if self.crossover_rate >= 1.0:
            return self.recombine(A, B, rng)
        separate = rng.random(len(A)) >= self.crossover_rate
        if separate.all():
            return A
        return np.where(separate[:, np.newaxis], A, self.recombine(A, B, rng))

    def children(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        """Return a child of each pair of rows: :meth:`crossed`, then mutated."""
        return self.mutate(self.crossed(A, B, rng), rng)


SPACES: tuple[type[Space], ...] = (Partition, Counts, Bits, Integers, Box)
"""The spaces for which there is a variation."""


def variation(
    space: Space,
    mutation_rate: float | None = None,
    crossover_rate: float | None = None,
    beta: float = 2.0,
) -> Variation:
    """Return the variation of a space.

    Parameters
    ----------
    space : Space
        One of :data:`SPACES`.
    mutation_rate : float, optional
        Probability that a gene is mutated (ordered partitions, subsets, boxes), or that one more
        move follows each move (counts, whole numbers). If None: 0.075, or on subsets and boxes one
        gene in a genome on average.
    crossover_rate : float, optional
        Probability that a child has two parents. If None: 0.8, but 0.9 on subsets and 1 on boxes.
    beta : float
        EMSCO's bias to early stages (ordered partitions).

    Raises
    ------
    TypeError
        There is no variation for the space.
    """
    if isinstance(space, Partition):
        return _Partitions(space, mutation_rate, crossover_rate, beta)
    if isinstance(space, Counts):
        return _Counts(space, mutation_rate, crossover_rate)
    if isinstance(space, Bits):
        return _Bits(space, mutation_rate, crossover_rate)
    if isinstance(space, Integers):
        return _Integers(space, mutation_rate, crossover_rate)
    if isinstance(space, Box):
        kind = _Mixed if space.whole.any() else _Reals
        return kind(space, mutation_rate, crossover_rate)
    raise TypeError(f"expected a space of SPACES, found {space!r}")


class _Partitions(Variation):
    """EMSCO's operators, and the moves of local search on ordered partitions.

    Where a space has levels, genes behind those of the items, a move sets one of them to any other
    value, mutation draws each again with its rate, and a child has each from either parent.
    """

    space: Partition

    def __init__(
        self, space: Partition, mutation: float | None, crossover: float | None, beta: float
    ) -> None:
        super().__init__(space, mutation, crossover)
        self.n, self.k, self.removal = space.n, space.k, space.removal
        self.levels, self.values = space.levels, space.values
        self.cdf = partitions.beta_binomial_cdf(space.k, beta)

    def room(self, x: Array) -> int:
        return partitions.neighbourhood_size(self.n, self.k) + self.levels * (self.values - 1)

    def neighbours(self, x: Array, out: Array) -> int:
        if not self.levels:
            return partitions.neighbours(x, self.k, self.removal, out)
        items = np.empty((len(out), self.n), dtype=out.dtype)
        count = partitions.neighbours(x[: self.n].copy(), self.k, self.removal, items)
        out[:count, : self.n], out[:count, self.n :] = items[:count], x[self.n :]
        self.space.settle(out[:count])
        used = int(x[: self.n].max()) + self.space.last
        return count + partitions.level_neighbours(x, self.n, self.values, used, out[count:])

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        partitions.wander(items := self._items(X), self.k, self.removal, fewest, most, rng)
        self._put(X, items, 1.0 / (1 + self.levels), rng)

    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        return self.space.sample_by_size(rng, n)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        X = self.mutate(np.zeros((n, self.space.d), np.int64), rng)
        if self.levels:
            partitions.redraw_levels(X, self.n, self.values, 1.0, rng)
        return self.space.settle(X)

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        if not self.levels:
            return partitions.recombine_rows(A, B, rng)
        items = partitions.recombine_rows(self._items(A), self._items(B), rng)
        either = rng.random((len(A), self.levels)) < 0.5
        levels = np.where(either, A[:, self.n :], B[:, self.n :])
        return self.space.settle(np.concatenate([items, levels], axis=1))

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        items, rate = self._items(X), self.mutation_rate
        partitions.mutate_rows(items, self.k, rate, self.cdf, self.removal, rng)
        self._put(X, items, rate, rng)
        return X

    def _items(self, X: Array) -> Array:
        """Return the genes of the items, contiguous as kernels expect them."""
        return np.ascontiguousarray(X[:, : self.n]) if self.levels else X

    def _put(self, X: Array, items: Array, rate: float, rng: np.random.Generator) -> None:
        """Set the genes of the items and draw levels again with probability ``rate``, in place."""
        if self.levels:
            X[:, : self.n] = items
            partitions.redraw_levels(X, self.n, self.values, rate, rng)
            self.space.settle(X)


class _Counts(Variation):
    """Moves on counts and subsets; all counts are zero only where the space allows that."""

    def __init__(
        self, space: Counts | Bits, mutation: float | None, crossover: float | None
    ) -> None:
        super().__init__(space, mutation, crossover)
        self.max_count = int(space.upper[0])
        self.empty = bool(space.contains(np.zeros((1, space.d), space.dtype))[0])

    def room(self, x: Array) -> int:
        return counts.neighbourhood_size(x)

    def neighbours(self, x: Array, out: Array) -> int:
        return counts.neighbours(x, self.max_count, self.empty, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        counts.wander(X, self.max_count, self.empty, fewest, most, rng)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        return counts.first_rows(n, self.space.d, rng)

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return counts.recombine_rows(A, B, self.empty, rng)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        counts.mutate_rows(X, self.max_count, self.empty, self.mutation_rate, rng)
        return X


class _Bits(_Counts):
    """Genomes of fair coins, single-point crossover, flips of bits, and neighbours of subsets."""

    def __init__(self, space: Bits, mutation: float | None, crossover: float | None) -> None:
        self.usual = (1.0 / space.d, 0.9)
        super().__init__(space, mutation, crossover)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        return rng.integers(0, 2, size=(n, self.space.d))

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return counts.single_point_crossover(A, B, rng.random(len(A)))

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        counts.flip_bits(X, self.mutation_rate, rng.random(X.shape))
        return X


class _Reals(Variation):
    """Simulated binary crossover, polynomial mutation, and steps along one axis."""

    dtype = np.dtype(np.float64)

    def __init__(self, space: Box, mutation: float | None, crossover: float | None) -> None:
        self.usual = (1.0 / space.d, 1.0)
        super().__init__(space, mutation, crossover)

    def room(self, x: Array) -> int:
        return reals.neighbourhood_size(x)

    def neighbours(self, x: Array, out: Array) -> int:
        return reals.neighbours(x, self.space.lower, self.space.upper, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        for x in X:
            for _ in range(rng.integers(fewest, most + 1)):
                out = np.empty((self.room(x), self.space.d))
                count = self.neighbours(x, out)
                if count:
                    x[:] = out[rng.integers(count)]

    def first(self, n: int, rng: np.random.Generator) -> Array:
        return self.space.sample(rng, n)

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        U = rng.random((len(A), 2 * self.space.d))
        return reals.recombine_rows(A, B, self.space.lower, self.space.upper, U)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        U = rng.random((len(X), 2 * self.space.d))
        reals.mutate_rows(X, self.space.lower, self.space.upper, self.mutation_rate, U)
        return X

    def children(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        if self.crossover_rate < 1.0:
            return super().children(A, B, rng)
        U = rng.random((2, len(A), 2 * self.space.d))
        return reals.child_rows(A, B, self.space.lower, self.space.upper, self.mutation_rate, U)


class _Mixed(_Reals):
    """The operators of reals for real genes, and others for whole genes, which have no order.

    A whole gene comes from either parent, mutation draws it again, and each of its other values
    makes a neighbour.
    """

    def __init__(self, space: Box, mutation: float | None, crossover: float | None) -> None:
        super().__init__(space, mutation, crossover)
        self.whole = space.whole
        self.values = np.where(self.whole, space.upper - space.lower, 0).astype(np.int64)

    def room(self, x: Array) -> int:
        return super().room(x) + int(self.values.sum())

    def neighbours(self, x: Array, out: Array) -> int:
        count = self._moved(x, out)
        for j in np.flatnonzero(self.whole):
            others = np.arange(self.space.lower[j], self.space.upper[j] + 1)
            others = others[others != x[j]]
            out[count : count + len(others)] = x
            out[count : count + len(others), j] = others
            count += len(others)
        return count

    def _moved(self, x: Array, out: Array) -> int:
        """Fill ``out`` with the neighbours in real genes; return how many."""
        count = super().neighbours(x, out)
        moved = out[:count][(out[:count] != x)[:, ~self.whole].any(axis=1)]
        out[: (count := len(moved))] = moved
        return count

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        ends = np.cumsum(self.values)  # values are counted, as there may be billions
        for x in X:
            for _ in range(rng.integers(fewest, most + 1)):
                out = np.empty((super().room(x), self.space.d))
                count = self._moved(x, out)
                if not (total := count + int(ends[-1])):
                    continue
                if (other := int(rng.integers(total)) - count) < 0:
                    x[:] = out[count + other]
                    continue
                j = int(np.searchsorted(ends, other, side="right"))
                value = self.space.lower[j] + other - (ends[j] - self.values[j])
                x[j] = value + (value >= x[j])

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        either = np.where(rng.random(A.shape) < 0.5, A, B)
        return np.where(self.whole, either, super().recombine(A, B, rng))

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        drawn = np.where(
            rng.random(X.shape) < self.mutation_rate, self.space.sample(rng, len(X)), X
        )
        X[:] = np.where(self.whole, drawn, super().mutate(X.copy(), rng))
        return X

    def children(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return Variation.children(self, A, B, rng)


class _Integers(Variation):
    """Moves on vectors of picks of items, followed by ordered numbers."""

    def __init__(self, space: Integers, mutation: float | None, crossover: float | None) -> None:
        super().__init__(space, mutation, crossover)
        self.members = space.members
        self.lower, self.upper = space.lower.astype(np.int64), space.upper.astype(np.int64)

    def room(self, x: Array) -> int:
        return integers.neighbourhood_size(x, self.members)

    def neighbours(self, x: Array, out: Array) -> int:
        return integers.neighbours(x, self.lower, self.upper, self.members, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        integers.wander(X, self.lower, self.upper, self.members, fewest, most, rng)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        X = self.space.sample(rng, n).astype(np.int64)
        if self.members:
            picks = counts.first_rows(n, self.members, rng)
            rows = picks & (self.upper[: self.members] > 0)
            X[:, : self.members] = np.where(
                rows.any(axis=1, keepdims=True), rows, X[:, : self.members]
            )
        return X

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return integers.recombine_rows(A, B, self.members, rng)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        integers.mutate_rows(X, self.lower, self.upper, self.members, self.mutation_rate, rng)
        return X
