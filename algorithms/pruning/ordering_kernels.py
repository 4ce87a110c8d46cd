"""Greedy pruning by majority vote, in whole numbers: loops over merged patterns.

A record is called positive if more than half of the members vote so. Everything counts records, so
that merged and single records agree to the last tie.
"""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, IntArray
from framework.jit import njit

ACCURACY, COMPLEMENTARINESS, CONCURRENCY, UNCERTAINTY, KAPPA = range(5)


@njit
def right(votes: IntArray, records: IntArray, members: int) -> int:
    """Count the records that a majority of ``members`` calls rightly; votes, shape (P,)."""
    total = 0
    for p in range(len(votes)):
        total += records[p, 1] if 2 * votes[p] > members else records[p, 0]
    return total


@njit
def kappa(votes: IntArray, records: IntArray, members: int) -> tuple[int, int]:
    """Return Cohen's kappa of a majority vote with the truth as a fraction, denominator >= 1."""
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
    """Return how much a candidate would help, as a fraction; more is better.

    Parameters
    ----------
    measure : int
        ``ACCURACY`` and ``KAPPA`` are of the ensemble with it. Per record, where h says whether
        the candidate and e whether the ensemble is right: ``COMPLEMENTARINESS`` 1 for h and not e;
        ``CONCURRENCY`` 2 for h and not e, 1 for h and e, -2 for neither; ``UNCERTAINTY``, with the
        number t of right members: t for h and not e, t - S for e and not h, S - t for both, -t for
        neither, all over S.
    candidate : numpy.ndarray of uint8, shape (P,)
        Its positive votes.
    votes : numpy.ndarray of int64, shape (P,)
        Of the ensemble so far.
    records : numpy.ndarray of int64, shape (P, 2)
    members : int
        Of the ensemble so far, S.
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
    """Add classifiers one by one, the most accurate first, then by fitness, the first of equals.

    Parameters
    ----------
    measure : int
    columns : numpy.ndarray of uint8, shape (K, P)
    records : numpy.ndarray of int64, shape (P, 2)

    Returns
    -------
    order : numpy.ndarray of int64, shape (K,)
    right : numpy.ndarray of int64, shape (K,)
        Records that the first so many call rightly.
    values : numpy.ndarray of int64, shape (K, 2)
        Fitness, a fraction, with which each was added; (0, 1) for the first.

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
    """Add the classifier that helps accuracy most, then replace members while that helps.

    Each member in turn is replaced by the first left-out classifier with which accuracy is
    higher; then all members are gone through anew.

    Parameters
    ----------
    columns : numpy.ndarray of uint8, shape (K, P)
    records : numpy.ndarray of int64, shape (P, 2)
    most : int
        Members of the last ensemble.

    Returns
    -------
    members : numpy.ndarray of int8, shape (most, K)
        The ensemble of each size.
    right : numpy.ndarray of int64, shape (most,)
    """
    k = len(columns)
    out, rights = np.zeros((most, k), dtype=np.int8), np.zeros(most, dtype=np.int64)
    x = np.zeros(k, dtype=np.int8)
    votes = np.zeros(columns.shape[1], dtype=np.int64)
    for size in range(1, most + 1):
        best, found = -1, -1
        for i in range(k):
            if x[i] == 0:
                now = right(votes + columns[i], records, size)
                if now > found:
                    best, found = i, now
        x[best] = 1
        votes += columns[best]
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
                        if now > found:
                            x[i], x[j], found, again = 0, 1, now, True
                            votes = without + columns[j]
                            break
        out[size - 1] = x
        rights[size - 1] = found
    return out, rights
