"""The greedy rules of the literature, each with a majority vote (pruning paper, Section 5.2).

A record is called positive if more than half of the members vote so. Records are counted in whole
numbers, so that merged patterns and single records give the same result in every tie.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from math import ceil, floor
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.instance import Instance
from algorithms.pruning.searches.base import PruningSearch
from framework.algorithm import Outcome
from framework.arrays import Array, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.jit import copy, njit
from framework.problem import Problem
from framework.roles import Roles

VoteThreshold = Literal["majority", "best", "best_balanced"]
Measure = Literal["accuracy", "complementariness", "concurrency", "uwa", "kappa"]
Share = Annotated[float, Field(gt=0, le=1)]

ACCURACY, COMPLEMENTARINESS, CONCURRENCY, UNCERTAINTY, KAPPA = range(5)
_MEASURES: dict[str, int] = {
    "accuracy": ACCURACY,
    "complementariness": COMPLEMENTARINESS,
    "concurrency": CONCURRENCY,
    "uwa": UNCERTAINTY,
    "kappa": KAPPA,
}


class NamedRule(PruningSearch):
    """Base of rules that choose one ensemble, which is proposed with its vote threshold.

    Parameters
    ----------
    problem : Problem
        Of kind ``pruning``.
    roles : Roles
    seed : int
        Not used: nothing is drawn, ties go to the first classifier.
    threshold : {'majority', 'best', 'best_balanced'}
        Members are chosen for the majority vote. ``best`` then sets the threshold with the greatest
        accuracy, ``best_balanced`` that with the greatest balanced accuracy.
    """

    front_only = True

    def __init__(
        self, problem: Problem, roles: Roles, *, seed: int, threshold: VoteThreshold = "majority"
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        self.threshold = threshold
        self._columns = np.ascontiguousarray(self.votes.unpacked.T, dtype=np.uint8)
        self._returned: IntArray = np.zeros(0, dtype=np.int64)

    @abstractmethod
    def members(self) -> Array:
        """Return the members that the rule keeps, shape (K,), with a 1 for each."""

    def first(self, order: IntArray, size: int) -> Array:
        """Return the first ``size`` classifiers of an order as members, shape (K,)."""
        x = np.zeros(self.votes.k, dtype=np.int8)
        x[order[:size]] = 1
        return x

    def propose(self) -> Array | None:
        x = self.members().astype(np.int8)
        level = int(x.sum()) // 2
        if self.threshold != "majority" and not self.majority:
            weights = self.weights("accuracy" if self.threshold == "best" else "balanced_accuracy")
            level = Instance.of(self.votes, weights).best_threshold(x).threshold
        self.done, self.reason = True, "the rule gives one ensemble"
        return self.rows(x[np.newaxis], [level])

    def learn(self, batch: Evaluated) -> None:
        self._returned = self.feasible(batch)

    def outcome(self) -> Outcome:
        return Outcome(returned=self._returned)


class FullEnsemble(NamedRule):
    """Keep every classifier (FE): the majority vote of the whole pool."""

    front_only = False  # nothing is chosen

    def members(self) -> Array:
        return np.ones(self.votes.k, dtype=np.int8)


class SizedRule(NamedRule):
    """Base of rules that keep the most accurate of their ensembles within a range of sizes.

    Parameters
    ----------
    sizes : two numbers
        Least and greatest share of the pool that is kept.
    problem, roles, **options
        As for :class:`NamedRule`.

    Raises
    ------
    InputError
        No whole number of classifiers lies within ``sizes``.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        sizes: tuple[Share, Share] = (0.2, 0.8),
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        k = self.votes.k
        least, most = max(1, ceil(sizes[0] * k - 1e-9)), max(1, floor(sizes[1] * k + 1e-9))
        if least > most:
            raise InputError(
                f"algorithm.sizes: expected two shares of the {k} classifiers of the library "
                f"between which there is a whole number of them, found {list(sizes)}; widen them"
            )
        self._sizes = np.arange(least, most + 1)


class Backfitting(SizedRule):
    """Reduced-error pruning with backfitting (Friedman and Stuetzle 1981; paper, Section 5.2).

    The classifier that increases accuracy most is added, then members are replaced by others while
    accuracy improves, and so on. Among the sizes of :class:`SizedRule`, the ensemble with the
    greatest accuracy is kept, of equals the smallest.
    """

    def members(self) -> Array:
        prefixes, rights = backfitting(self._columns, self.votes.records, self._sizes[-1])
        first = self._sizes[0] - 1
        return np.asarray(prefixes[first + int(np.argmax(rights[first:]))])


class KappaPruning(SizedRule):
    """Kappa pruning (Margineantu and Dietterich 1997), in two readings.

    ``pairs`` is the method as published: pairs of classifiers in ascending order of their
    agreement beyond chance, until there are enough members. ``greedy`` follows the pruning paper
    ("similar [to backfitting], but does not revise the greedy choice and optimises the
    kappa-statistic"): each step adds the classifier with which the ensemble's kappa with the truth
    is greatest. Among the sizes of :class:`SizedRule`, the most accurate ensemble is kept.

    Parameters
    ----------
    reading : {'pairs', 'greedy'}
        Whether members are added by pairs of least agreement, or one by one.
    problem, roles, **options
        As for :class:`SizedRule`.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        reading: Literal["pairs", "greedy"] = "pairs",
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self.reading = reading
        self.front_only = reading == "greedy"  # pairs are not chosen by the ensembles' accuracy

    def members(self) -> Array:
        if self.reading == "greedy":
            order, rights, _ = forward(KAPPA, self._columns, self.votes.records)
        else:
            order = self._by_pairs()
            votes = np.cumsum(self._columns[order].astype(np.int64), axis=0)
            records = self.votes.records
            rights = np.array([right(row, records, m) for m, row in enumerate(votes, 1)])
        return self.first(order, self._sizes[np.argmax(rights[self._sizes - 1])])

    def _by_pairs(self) -> IntArray:
        """Return the classifiers in the order of their first pair, least agreement first."""
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
                # of two constant classifiers: they agree on every record or on none
                agreement = Fraction(2 * (a * d - b * c), below) if below else Fraction(b == c == 0)
                ranked.append((agreement, i, j))
        order = dict.fromkeys(number for _, i, j in sorted(ranked) for number in (i, j))
        return np.array(list(order), dtype=np.int64)


class HillClimbing(NamedRule):
    """Forward selection by a fitness, from the most accurate classifier; the best prefix is kept.

    Parameters
    ----------
    fitness : str
        ``accuracy`` (HC-ACC), ``complementariness`` (HC-COM; Martinez-Munoz and Suarez 2004),
        ``concurrency`` (HC-CON; Banfield et al. 2005), ``uwa`` (HC-UWA; Partalas et al. 2010) or
        ``kappa``, of the ensemble with the truth.
    prefix : {'accuracy', 'fitness'}
        What decides which of the ensembles on the way is kept. ``fitness`` is what the paper's text
        says ("the one with best fitness"); with the measures that judge a single addition, that is
        nearly always the first ensemble.
    problem, roles, **options
        As for :class:`NamedRule`.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        fitness: Measure = "accuracy",
        prefix: Literal["accuracy", "fitness"] = "accuracy",
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self.fitness, self.prefix = fitness, prefix

    def members(self) -> Array:
        """Return the best prefix, of equals the shortest."""
        order, rights, values = forward(_MEASURES[self.fitness], self._columns, self.votes.records)
        size = 1 + int(np.argmax(rights))
        if self.prefix == "fitness" and self.fitness != "accuracy":
            shares = [Fraction(int(a), int(b)) for a, b in values[1:]]
            size = 2 + shares.index(max(shares))
        return self.first(order, size)


@njit
def right(votes: IntArray, records: IntArray, members: int) -> int:
    """Count the records that a majority of ``members`` answers correctly; votes (P,)."""
    total = 0
    for p in range(len(votes)):
        total += records[p, 1] if 2 * votes[p] > members else records[p, 0]
    return total


@njit
def kappa(votes: IntArray, records: IntArray, members: int) -> tuple[int, int]:
    """Return Cohen's kappa of a majority vote with the truth, as numerator and denominator >= 1."""
    tp = fp = tn = fn = 0
    for p in range(len(votes)):
        if 2 * votes[p] > members:
            fp += records[p, 0]
            tp += records[p, 1]
        else:
            tn += records[p, 0]
            fn += records[p, 1]
    below = (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn)
    return 2 * (tp * tn - fn * fp), max(below, 1)


@njit
def fitness(
    measure: int, candidate: Array, votes: IntArray, records: IntArray, members: int
) -> tuple[int, int]:
    """Return how much a classifier would help an ensemble, as a fraction; more is better.

    Parameters
    ----------
    measure : int
        ``ACCURACY`` and ``KAPPA`` are those of the ensemble with the candidate. The others are sums
        over records, where h says whether the candidate and e whether the ensemble is right.
        ``COMPLEMENTARINESS``: 1 for h and not e. ``CONCURRENCY``: 2 for h and not e, 1 for both, -2
        for neither. ``UNCERTAINTY``, divided by S, with t right members: t for h and not e, t - S
        for e and not h, S - t for both, -t for neither.
    candidate : numpy.ndarray of uint8, shape (P,)
        The candidate's positive votes.
    votes : numpy.ndarray of int64, shape (P,)
        The positive votes of the ensemble so far.
    records : numpy.ndarray of int64, shape (P, 2)
    members : int
        The number of members of the ensemble so far, S.
    """
    if measure == ACCURACY:
        return right(votes + candidate, records, members + 1), 1
    if measure == KAPPA:
        return kappa(votes + candidate, records, members + 1)
    total = 0
    for p in range(len(votes)):
        called = 2 * votes[p] > members
        for c in range(2):
            if records[p, c] == 0:
                continue
            h, e = candidate[p] == c, called == (c == 1)
            sure = votes[p] if c == 1 else members - votes[p]
            worth = 0
            if h and not e:
                worth = 1 if measure == COMPLEMENTARINESS else 2
                if measure == UNCERTAINTY:
                    worth = sure
            elif h and e:
                worth = 1 if measure == CONCURRENCY else 0
                if measure == UNCERTAINTY:
                    worth = members - sure
            elif e:
                if measure == UNCERTAINTY:
                    worth = sure - members
            else:
                worth = -2 if measure == CONCURRENCY else 0
                if measure == UNCERTAINTY:
                    worth = -sure
            total += worth * records[p, c]
    return total, (members if measure == UNCERTAINTY else 1)


@njit
def forward(measure: int, columns: Array, records: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Add classifiers one by one, the most accurate first, then by fitness; of equals the first.

    Parameters
    ----------
    measure : int
    columns : numpy.ndarray of uint8, shape (K, P)
    records : numpy.ndarray of int64, shape (P, 2)

    Returns
    -------
    order : numpy.ndarray of int64, shape (K,)
    right : numpy.ndarray of int64, shape (K,)
        Records that each prefix answers correctly.
    values : numpy.ndarray of int64, shape (K, 2)
        The fitness with which each classifier was added, as a fraction; (0, 1) for the first.

    Notes
    -----
    O(K^2 P).
    """
    k = len(columns)
    order, rights = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    values = np.zeros((k, 2), dtype=np.int64)
    values[:, 1] = 1
    votes, used = np.zeros(columns.shape[1], dtype=np.int64), np.zeros(k, dtype=np.bool_)
    for step in range(k):
        best, above, below = -1, 0, 1
        for i in range(k):
            if used[i]:
                continue
            by = measure if step else ACCURACY
            a, b = fitness(by, columns[i], votes, records, step)
            if best < 0 or a * below > above * b:
                best, above, below = i, a, b
        order[step], used[best] = best, True
        votes += columns[best]
        rights[step] = right(votes, records, step + 1)
        if step:
            values[step, 0], values[step, 1] = above, below
    return order, rights, values


@njit
def backfitting(columns: Array, records: IntArray, most: int) -> tuple[Array, IntArray]:
    """Add the classifier that increases accuracy most, then replace members while that helps.

    The first member whose replacement by another classifier increases accuracy is replaced by the
    first such classifier; then all members are tried again.

    Parameters
    ----------
    columns : numpy.ndarray of uint8, shape (K, P)
    records : numpy.ndarray of int64, shape (P, 2)
    most : int
        Number of members of the last ensemble.

    Returns
    -------
    members : numpy.ndarray of int8, shape (most, K)
        The ensemble of each size.
    right : numpy.ndarray of int64, shape (most,)
        Records that it answers correctly.
    """
    k = len(columns)
    out, rights = np.zeros((most, k), dtype=np.int8), np.zeros(most, dtype=np.int64)
    x = np.zeros(k, dtype=np.int8)
    votes = np.zeros(columns.shape[1], dtype=np.int64)
    for size in range(1, most + 1):
        best, value = -1, -1
        for i in range(k):
            if x[i] == 0:
                now = right(votes + columns[i], records, size)
                if now > value:
                    best, value = i, now
        x[best] = 1
        votes = votes + columns[best]
        again = True
        while again:
            again = False
            for i in range(k):
                if again or x[i] == 0:
                    continue
                without = votes - columns[i]
                for j in range(k):
                    if x[j] == 0:
                        now = right(without + columns[j], records, size)
                        if now > value:
                            x[i], x[j], value, again = 0, 1, now, True
                            votes = without + columns[j]
                            break
        copy(x, out[size - 1])
        rights[size - 1] = value
    return out, rights
