"""The exact front over small ensembles: singles, pairs, triples and so on, each evaluated once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb, gcd
from typing import Annotated

import numpy as np
from pydantic import Field

from algorithms.ensembling.searches.base import CountsSearch
from framework.arrays import Array, IntArray
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Roles

MOST_ENSEMBLES = 10_000_000
"""Greatest number of ensembles that are enumerated."""


class SmallEnsembles(CountsSearch):
    """Evaluate every ensemble of few members and few picks once.

    The run's front is then the exact front over these ensembles.

    Parameters
    ----------
    problem : Problem
        With the space :class:`~framework.space.Counts`.
    roles : Roles
    seed : int
        Not used: nothing is random.
    members : int
        Greatest number of different models.
    picks : int, optional
        Greatest number of picks; the same as ``members`` if None.
    batch : int
        Greatest number of ensembles in a batch.

    Raises
    ------
    InputError
        There are more than 10 million ensembles.

    Notes
    -----
    Of ensembles with the same shares, such as counts (1, 1) and (2, 2), only the first is
    evaluated. There are at most ``sum_m C(K, m) C(picks, m)``.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        members: Annotated[int, Field(ge=1)] = 2,
        picks: Annotated[int, Field(ge=1)] | None = None,
        batch: Annotated[int, Field(ge=1)] = 1000,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.batch = batch
        self.max_pending = 4 * batch
        picks = members if picks is None else picks
        self._sizes = min(members, picks, self.space.d)
        sizes = range(1, self._sizes + 1)
        total = sum(comb(self.space.d, m) * comb(picks, m) for m in sizes)
        if total > MOST_ENSEMBLES:
            raise InputError(
                f"algorithm.members: small_ensembles goes through at most {MOST_ENSEMBLES:,} "
                f"ensembles, found up to {total:,} of at most {members} members and {picks} picks; "
                "take fewer members or picks"
            )
        self._patterns = [patterns(m, picks, self.max_count) for m in sizes]
        # the current number of members less one, and the next ensemble of that size
        self._size, self._next = 0, 0
        self._sets = self._all_sets()

    def propose(self) -> Array | None:
        while self._size < self._sizes:
            shape = len(self._sets), len(self._patterns[self._size])
            if self._next < shape[0] * shape[1]:
                return self._some(shape)
            self._size, self._next = self._size + 1, 0
            self._sets = self._all_sets()
        self.done, self.reason = True, "every small ensemble was proposed"
        return None

    def _some(self, shape: tuple[int, int]) -> Array:
        stop = min(self._next + self.batch, shape[0] * shape[1])
        members, pattern = np.unravel_index(np.arange(self._next, stop), shape)
        self._next = stop
        X = np.zeros((len(members), self.space.d), dtype=self.space.dtype)
        picks = self._patterns[self._size][pattern].astype(X.dtype)
        np.put_along_axis(X, self._sets[members], picks, axis=1)
        return X

    def _all_sets(self) -> IntArray:
        """Return all sets of members of the current size, shape (n, size)."""
        if self._size >= self._sizes:
            return np.zeros((0, 1), dtype=np.int64)
        return np.array(list(combinations(range(self.space.d), self._size + 1)), dtype=np.int64)


def patterns(members: int, picks: int, max_count: int) -> IntArray:
    """Return the counts that ``members`` members can have, no two with the same shares.

    Parameters
    ----------
    members : int
    picks : int
        Greatest sum of counts.
    max_count : int
        Greatest count.

    Returns
    -------
    numpy.ndarray of int64, shape (n, members)
        Positive counts without a common divisor.
    """
    primitive = [counts for counts in _sums(members, picks, max_count) if gcd(*counts) == 1]
    return np.array(primitive, dtype=np.int64).reshape(len(primitive), members)


def _sums(members: int, picks: int, max_count: int) -> Iterator[tuple[int, ...]]:
    """Yield all positive counts of at most ``max_count`` with a sum of at most ``picks``."""
    if members == 0:
        yield ()
        return
    for first in range(1, min(max_count, picks - members + 1) + 1):
        for rest in _sums(members - 1, picks - first, max_count):
            yield first, *rest
