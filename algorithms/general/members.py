"""Populations that take rows in at any time: what searches without generations are made of."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from pymoo.core.population import Population

from algorithms.general.kernels import crowding
from framework.arrays import Array, FloatArray, IntArray


class Members(ABC):
    """A population; rows compete with its members as soon as they are known."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many members there are."""

    @abstractmethod
    def parents(self, n: int, rng: np.random.Generator) -> Array:
        """Return the genomes of ``n`` pairs of parents, shape (2, n, d)."""

    @abstractmethod
    def absorb(self, X: Array, losses: FloatArray, violation: FloatArray) -> None:
        """Take rows in: genomes (b, d), losses (b, m) and violations (b,)."""


class CrowdedMembers(Members):
    """NSGA-II's: layers and crowding distance decide, and a row replaces one member at most.

    Parameters
    ----------
    size, d, m : int
        Members, genes, objectives.
    dtype : numpy.dtype
        Of the genomes.

    Notes
    -----
    Layers are kept up to date (Li, Deb, Zhang, Suganthan and Chen 2017,
    doi:10.1109/TCYB.2016.2621008), O(n m) a row.
    """

    def __init__(self, size: int, d: int, m: int, dtype: np.dtype[Any]) -> None:
        self._crowd = crowding.empty_crowd(size, m)
        self._genomes: Array = np.zeros((size + 1, d), dtype=dtype)

    def __len__(self) -> int:
        return int(self._crowd.held[0])

    def parents(self, n: int, rng: np.random.Generator) -> Array:
        """Return winners of binary tournaments by layer and crowding distance."""
        pairs = (rng.random((2 * n, 2)) * len(self)).astype(np.int64)
        chosen: IntArray = crowding.winners(self._crowd, pairs, rng.random(2 * n))
        return self._genomes[chosen.reshape(2, n)]

    def absorb(self, X: Array, losses: FloatArray, violation: FloatArray) -> None:
        rows = np.ascontiguousarray(X, dtype=self._genomes.dtype)
        crowding.absorb(self._crowd, self._genomes, rows, losses, violation)


class PymooMembers(Members):
    """The population of an algorithm of pymoo, with its own selection and survival.

    Parameters
    ----------
    search : pymoo's algorithm, set up
    """

    def __init__(self, search: Any) -> None:
        self._search = search

    def __len__(self) -> int:
        return len(self._search.pop) if self._search.is_initialized else 0

    def parents(self, n: int, rng: np.random.Generator) -> Array:
        search = self._search
        pairs = search.mating.selection(
            search.problem,
            search.pop,
            n,
            n_parents=2,
            to_pop=False,
            algorithm=search,
            random_state=rng,
        )
        return np.asarray(search.pop.get("X")[np.asarray(pairs, dtype=np.int64).T])

    def absorb(self, X: Array, losses: FloatArray, violation: FloatArray) -> None:
        rows = Population.new("X", X, "F", losses, "G", violation[:, np.newaxis])
        # NSGA-III switches warnings off for the whole process; RVEA takes arcs of 1 + 1e-16
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            self._search.tell(infills=rows)
