"""How a search moves in a space: one object a kind of space, for all searches that need one."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from algorithms.moves import counts as moves
from algorithms.moves import integers
from algorithms.moves import partition_neighbours as neighbours
from algorithms.moves import partition_operators as operators
from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.jit import njit
from framework.space import Bits, Counts, Integers, Partition, Space


class Variation(ABC):
    """Neighbourhoods, random walks and genetic operators of one space.

    Every row returned belongs to the space.
    """

    @abstractmethod
    def room(self, x: Array) -> int:
        """Return how many neighbours genome ``x`` has at most."""

    @abstractmethod
    def neighbours(self, x: Array, out: Array) -> int:
        """Fill ``out``, shape (at least room(x), d), with genome x's neighbours; count them."""

    @abstractmethod
    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        """Take each row on a random walk of ``fewest`` to ``most`` steps, in place."""

    @abstractmethod
    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` random genomes, of the space's type."""

    @abstractmethod
    def first(self, n: int, rng: np.random.Generator) -> Array:
        """Return a genetic algorithm's first ``n`` genomes, as int64."""

    @abstractmethod
    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        """Return a child of each pair of rows, int64."""

    @abstractmethod
    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        """Mutate the rows of ``X``, int64, in place and return it."""


def variation(kind: str, space: Space, rate: float = 0.0, beta: float = 2.0) -> Variation:
    """Return the variation of a space.

    Parameters
    ----------
    kind : str
        Who asks, for the message.
    space : Space
    rate : float
        Of mutation: of a gene (ordered partitions); of another move after each (all others).
    beta : float
        EMSCO's bias to early stages (ordered partitions).

    Raises
    ------
    InputError
        A space that nothing is known of.
    """
    if isinstance(space, Partition):
        return _Partitions(space, rate, beta)
    if isinstance(space, Counts | Bits):
        return _Picks(space, rate)
    if isinstance(space, Integers):
        return _Integers(space, rate)
    raise InputError(
        f"algorithm.kind: {kind} searches ordered partitions, counts, subsets and whole numbers "
        f"(problem kinds multistage, ensemble, pruning), found a space of kind "
        f"{type(space).__name__}; take another algorithm"
    )


class _Partitions(Variation):
    """EMSCO's operators, and the moves of local search on ordered partitions."""

    def __init__(self, space: Partition, rate: float, beta: float) -> None:
        self.space, self.rate = space, rate
        self.n, self.k, self.removal = space.n, space.k, space.removal
        self.cdf = operators.beta_binomial_cdf(space.k, beta)

    def room(self, x: Array) -> int:
        return neighbours.neighbourhood_size(self.n, self.k)

    def neighbours(self, x: Array, out: Array) -> int:
        return neighbours.neighbours(x, self.k, self.removal, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        neighbours.wander(X, self.k, self.removal, fewest, most, rng)

    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        return self.space.sample_by_size(rng, n)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        return self.mutate(np.zeros((n, self.n), np.int64), rng)

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return _recombined(A, B, rng)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        _mutate_rows(X, self.k, self.rate, self.cdf, self.removal, rng)
        return X


class _Picks(Variation):
    """Moves on counts and subsets; all zero only where the space has that."""

    def __init__(self, space: Counts | Bits, rate: float) -> None:
        self.d, self.dtype, self.rate = space.d, space.dtype, rate
        self.max_count = int(space.upper[0])
        self.empty = bool(space.contains(np.zeros((1, space.d), space.dtype))[0])

    def room(self, x: Array) -> int:
        return moves.neighbourhood_size(x)

    def neighbours(self, x: Array, out: Array) -> int:
        return moves.neighbours(x, self.max_count, self.empty, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        moves.wander(X, self.max_count, self.empty, fewest, most, rng)

    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        return self.first(n, rng).astype(self.dtype)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        return moves.first_rows(n, self.d, rng)

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return moves.recombine_rows(A, B, self.empty, rng)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        moves.mutate_rows(X, self.max_count, self.empty, self.rate, rng)
        return X


class _Integers(Variation):
    """Moves on vectors of picks followed by ordered numbers."""

    def __init__(self, space: Integers, rate: float) -> None:
        self.space, self.rate = space, rate
        self.members, self.dtype = space.members, space.dtype
        self.lower, self.upper = space.lower.astype(np.int64), space.upper.astype(np.int64)

    def room(self, x: Array) -> int:
        return integers.neighbourhood_size(x, self.members)

    def neighbours(self, x: Array, out: Array) -> int:
        return integers.neighbours(x, self.lower, self.upper, self.members, out)

    def wander(self, X: Array, fewest: int, most: int, rng: np.random.Generator) -> None:
        integers.wander(X, self.lower, self.upper, self.members, fewest, most, rng)

    def scatter(self, n: int, rng: np.random.Generator) -> Array:
        return self.first(n, rng).astype(self.dtype)

    def first(self, n: int, rng: np.random.Generator) -> Array:
        X = self.space.sample(rng, n).astype(np.int64)
        if self.members:
            picks = moves.first_rows(n, self.members, rng)
            rows = picks & (self.upper[: self.members] > 0)
            X[:, : self.members] = np.where(
                rows.any(axis=1, keepdims=True), rows, X[:, : self.members]
            )
        return X

    def recombine(self, A: Array, B: Array, rng: np.random.Generator) -> Array:
        return integers.recombine_rows(A, B, self.members, rng)

    def mutate(self, X: Array, rng: np.random.Generator) -> Array:
        integers.mutate_rows(X, self.lower, self.upper, self.members, self.rate, rng)
        return X


@njit
def _recombined(A: Array, B: Array, rng: np.random.Generator) -> Array:
    """Return a child of each pair of rows, without gaps, at least one item kept."""
    out = np.empty_like(A)
    for r in range(len(A)):
        operators.recombine(A[r], int(A[r].max()) + 1, B[r], int(B[r].max()) + 1, out[r], rng)
        if operators.compress_in_place(out[r]) == 0:
            out[r, int(rng.random() * out.shape[1])] = 0
    return out


@njit
def _mutate_rows(
    X: Array, k: int, rate: float, cdf: FloatArray, removal: bool, rng: np.random.Generator
) -> None:
    for r in range(len(X)):
        operators.mutate(X[r], int(X[r].max()) + 1, k, rate, cdf, removal, rng)
