"""The named rules of the literature, each with a majority vote (pruning paper, Section 5.2)."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from math import ceil, floor
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.pruning import ordering_kernels as kernels
from algorithms.pruning.searches.base import PruningSearch
from algorithms.pruning.strong.instance import Instance
from framework.algorithm import Outcome
from framework.arrays import Array, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles

VoteThreshold = Literal["majority", "best", "best_balanced"]
Measure = Literal["accuracy", "complementariness", "concurrency", "uwa", "kappa"]
Share = Annotated[float, Field(gt=0, le=1)]

_MEASURES: dict[str, int] = {
    "accuracy": kernels.ACCURACY,
    "complementariness": kernels.COMPLEMENTARINESS,
    "concurrency": kernels.CONCURRENCY,
    "uwa": kernels.UNCERTAINTY,
    "kappa": kernels.KAPPA,
}


class NamedRule(PruningSearch):
    """Base of rules that yield one ensemble; it is asked for with its vote threshold.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
    seed : int
        Not used: nothing is drawn, ties go to the first classifier.
    threshold : {'majority', 'best', 'best_balanced'}
        ``best`` gives the members chosen by majority the threshold of the greatest accuracy,
        ``best_balanced`` that of the greatest balanced accuracy.
    """

    def __init__(
        self, problem: Problem, roles: Roles, *, seed: int, threshold: VoteThreshold = "majority"
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.threshold = threshold
        self._columns = np.ascontiguousarray(self.votes.unpacked.T, dtype=np.uint8)
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    @abstractmethod
    def members(self) -> Array:
        """Return the members that the rule keeps, shape (K,), 1 for each."""

    def propose(self) -> Array | None:
        """Return the rule's ensemble, once."""
        x = self.members().astype(np.int8)
        level = int(x.sum()) // 2
        if self.threshold != "majority" and not self.majority:
            weights = self.weights("accuracy" if self.threshold == "best" else "balanced_accuracy")
            level = Instance.of(self.votes, weights).best_threshold(x).threshold
        self.done, self.reason = True, "the rule gives one ensemble"
        return self.rows(x[np.newaxis], [level])

    def learn(self, batch: Evaluated) -> None:
        """Note the row, and whether it may be returned."""
        self._returned = self.feasible(batch)

    def outcome(self) -> Outcome:
        """Return the row, if it is feasible, as what the rule returns."""
        return Outcome(returned=self._returned)

    def sizes(self, shares: tuple[float, float]) -> range:
        """Return the numbers of members between two shares of the pool, one at least."""
        k = self.votes.k
        return range(max(1, ceil(shares[0] * k - 1e-9)), max(1, floor(shares[1] * k + 1e-9)) + 1)


class FullEnsemble(NamedRule):
    """Keep every classifier (FE): the majority vote of the whole pool.

    Parameters: as for :class:`NamedRule`.
    """

    def members(self) -> Array:
        """Return all."""
        return np.ones(self.votes.k, dtype=np.int8)


class Backfitting(NamedRule):
    """Reduced-error pruning with backfitting (Friedman and Stuetzle 1981; paper, Section 5.2).

    The classifier that helps accuracy most is added; then members are replaced by others while
    accuracy improves; and so on. Of the sizes between two shares of the pool that of the greatest
    accuracy is kept, the smallest of equals.

    Parameters
    ----------
    problem, roles, seed, threshold :
        As for :class:`NamedRule`.
    sizes : two numbers
        Least and greatest share of the pool that is kept.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        threshold: VoteThreshold = "majority",
        sizes: tuple[Share, Share] = (0.2, 0.8),
    ) -> None:
        super().__init__(problem, roles, seed=seed, threshold=threshold)
        self._sizes = self.sizes(sizes)

    def members(self) -> Array:
        """Return the best of the sizes."""
        found, right = kernels.backfitting(self._columns, self.votes.records, self._sizes[-1])
        first = self._sizes[0] - 1
        return np.asarray(found[first + int(np.argmax(right[first:]))])


class KappaPruning(NamedRule):
    """Kappa pruning (Margineantu and Dietterich 1997), in two readings.

    ``pairs`` is the method as published: pairs of classifiers in ascending order of their
    agreement beyond chance, until there are enough members. ``greedy`` is how the pruning paper
    puts it ("similar [to backfitting], but does not revise the greedy choice and optimises the
    kappa-statistic"): the classifier is added with which the ensemble's kappa with the truth is
    greatest. Of the sizes between two shares of the pool that of the greatest accuracy is kept.

    Parameters
    ----------
    problem, roles, seed, threshold :
        As for :class:`NamedRule`.
    reading : {'pairs', 'greedy'}
    sizes : two numbers
        Least and greatest share of the pool that is kept.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        threshold: VoteThreshold = "majority",
        reading: Literal["pairs", "greedy"] = "pairs",
        sizes: tuple[Share, Share] = (0.2, 0.8),
    ) -> None:
        super().__init__(problem, roles, seed=seed, threshold=threshold)
        self.reading = reading
        self._sizes = self.sizes(sizes)

    def members(self) -> Array:
        """Return the best of the sizes."""
        if self.reading == "greedy":
            order, right, _ = kernels.forward(kernels.KAPPA, self._columns, self.votes.records)
        else:
            order = self._by_pairs()
            votes = np.cumsum(self._columns[order].astype(np.int64), axis=0)
            records = self.votes.records
            right = np.array([kernels.right(row, records, m) for m, row in enumerate(votes, 1)])
        sizes = np.array(self._sizes)
        size = sizes[np.argmax(right[sizes - 1])]
        x = np.zeros(self.votes.k, dtype=np.int8)
        x[order[:size]] = 1
        return x

    def _by_pairs(self) -> IntArray:
        """Return the classifiers in the order in which pairs of least agreement bring them."""
        k, weight = self.votes.k, self.votes.records.sum(axis=1)
        U = self._columns.astype(np.int64)
        both = (U * weight) @ U.T
        positive = np.diagonal(both)
        n = int(weight.sum())
        ranked = []
        for i in range(k):
            for j in range(i + 1, k):
                a = int(both[i, j])
                b, c = int(positive[i]) - a, int(positive[j]) - a
                d = n - a - b - c
                below = (a + b) * (b + d) + (a + c) * (c + d)
                # two constant classifiers agree wholly where they agree at all
                agreement = Fraction(2 * (a * d - b * c), below) if below else Fraction(b == c == 0)
                ranked.append((agreement, i, j))
        order = dict.fromkeys(number for _, i, j in sorted(ranked) for number in (i, j))
        return np.array(list(order), dtype=np.int64)


class HillClimbing(NamedRule):
    """Forward selection from the most accurate classifier by a fitness; the best prefix is kept.

    Parameters
    ----------
    problem, roles, seed, threshold :
        As for :class:`NamedRule`.
    fitness : str
        ``accuracy`` (HC-ACC), ``complementariness`` (HC-COM; Martinez-Munoz and Suarez 2004),
        ``concurrency`` (HC-CON; Banfield et al. 2005), ``uwa`` (HC-UWA; Partalas et al. 2010) or
        ``kappa``, of the ensemble with the truth.
    prefix : {'accuracy', 'fitness'}
        What picks the ensemble among those passed through. ``fitness`` is what the paper's text
        says ("the one with best fitness"); for the measures that judge a single addition that is
        nearly always the first one.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        threshold: VoteThreshold = "majority",
        fitness: Measure = "accuracy",
        prefix: Literal["accuracy", "fitness"] = "accuracy",
    ) -> None:
        super().__init__(problem, roles, seed=seed, threshold=threshold)
        self.fitness, self.prefix = fitness, prefix

    def members(self) -> Array:
        """Return the best prefix, the shortest of equals."""
        order, right, values = kernels.forward(
            _MEASURES[self.fitness], self._columns, self.votes.records
        )
        size = 1 + int(np.argmax(right))
        if self.prefix == "fitness" and self.fitness != "accuracy":
            shares = [Fraction(int(a), int(b)) for a, b in values[1:]]
            size = 2 + shares.index(max(shares))
        x = np.zeros(self.votes.k, dtype=np.int8)
        x[order[:size]] = 1
        return x
