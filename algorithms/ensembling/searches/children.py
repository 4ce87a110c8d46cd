"""Children of ensembles, a batch at a time: choice of parents, crossover, mutation, rejection.

Ensembles are count vectors with few members, stored as lists of members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.moves.seen import FIRST_CODE, finished, insert_code, next_word
from framework.arrays import Array, IntArray, WordArray
from framework.jit import njit, permutation

DYNAMIC, DETERMINISTIC, TOURNAMENT = range(3)
CROSSED, MUTATED, RANDOM, BEST = range(4)
"""Columns of the marks of children: whether a child is a cross, whether it is mutated, how many of
its parents were drawn at random, and how many were taken as the best elite."""


class BatchPlan(NamedTuple):
    """How children are made.

    Attributes
    ----------
    random_parent, crossover, mutation : float
        Probabilities of a random parent rather than the best, of two parents rather than one, and
        of mutating a cross, too.
    method : int
        DYNAMIC, DETERMINISTIC or TOURNAMENT choice of parents.
    average : bool
        Whether average crossover is used always, not only if two-point crossover is impossible.
    whole_batch : bool
        Whether rejections are counted over the batch rather than for each child.
    retries : int
        Rejections after which mutation becomes stronger, or all crosses are mutated.
    max_count : int
        Greatest count of a model.
    """

    random_parent: float
    crossover: float
    mutation: float
    method: int
    average: bool
    whole_batch: bool
    retries: int
    max_count: int


@njit
def breed(
    rows: Rows,
    ranked: IntArray,
    start: IntArray,
    plan: BatchPlan,
    table: WordArray,
    rng: np.random.Generator,
    out: Array,
    marks: IntArray,
) -> int:
    """Fill ``out`` with ensembles that were never proposed before; return how many there are.

    Parameters
    ----------
    rows : Rows
        The rows that ``ranked`` numbers.
    ranked : numpy.ndarray of int64, shape (e,)
        The elites, best first; may be empty.
    start : numpy.ndarray of int64, shape (s >= 1, w)
        Members of the start population, ascending in each row, one pick each.
    plan : BatchPlan
    table : numpy.ndarray of uint64
        Codes of the shares proposed so far (see :mod:`algorithms.moves.seen`), with room for a
        batch.
    rng : numpy.random.Generator
    out : numpy.ndarray of int, shape (n, d)
        All zero.
    marks : numpy.ndarray of int64, shape (n, 4)

    Notes
    -----
    For each child (HAPEns, Section 3 and Algorithm 1; r is a vector of counts)::

        with P(crossover):                                    crossed
            r_a, r_b <- two parents                           parents
            I <- the models with a count in either            merge: union
            if |I| >= 3: r <- two-point crossover over I      crossing, inherit
            if |I| < 3 or r = 0: r <- ceil((r_a + r_b) / 2)   inherit
            with P(mutation): r <- mutated r
        else:
            r <- one parent, mutated                          mutate: r[j] += step, j uniform
        if r was proposed before: reject it and try again     insert_code
        after ``retries`` rejected mutants: step += 1         the emergency brake
        after as many rejected crosses: P(mutation) <- 1

    Two ensembles are the same if their counts divided by their greatest common divisors are. The
    emergency brake holds for the rest of the batch. There are fewer than n children if the step of
    mutation exceeds the greatest count.
    """
    d = out.shape[1]
    union, child = np.empty((3, d), dtype=np.int64), np.empty((2, d), dtype=np.int64)
    rejected = np.zeros(2, dtype=np.int64)  # crosses without mutation, mutants
    made, step, mutate_all = 0, 1, False
    while made < len(out) and step <= plan.max_count:
        crossed = rng.random() < plan.crossover
        first, second, drawn = parents(ranked, len(start), crossed, plan, rng)
        size = merge(rows, first, second, start, union)
        a, b = crossing(union, size, plan.average, rng) if crossed else (0, 0)
        pair = crossed and b > a
        for which in range(2 if pair else 1):
            members = inherit(union, size, crossed, a, b, which, child)
            mutated = not crossed or mutate_all or rng.random() < plan.mutation
            if mutated:
                members = mutate(child, members, step, plan.max_count, d, rng)
            if members and insert_code(table, shares_code(child, members)):
                for m in range(members):
                    out[made, child[0, m]] = child[1, m]
                marks[made, CROSSED], marks[made, MUTATED] = crossed, mutated
                marks[made, RANDOM], marks[made, BEST] = drawn
                made += 1
                if not plan.whole_batch:
                    rejected[:] = 0
                if made == len(out):
                    break
                continue
            rejected[int(mutated)] += 1
            if rejected[int(mutated)] == plan.retries:
                rejected[int(mutated)] = 0
                if mutated:
                    step += 1
                else:
                    mutate_all = True
    return made


@njit
def parents(
    ranked: IntArray, starts: int, two: bool, plan: BatchPlan, rng: np.random.Generator
) -> tuple[int, int, tuple[int, int]]:
    """Return two parents (the same one twice without ``two``), and how many were random and best.

    A parent is a row, or -1 - s for row s of the start population, which is used if there are too
    few elites.
    """
    n, wanted = len(ranked), 2 if two else 1
    if n < wanted:
        helper = -1 - int(rng.random() * starts)
        if n:
            return ranked[0], helper, (0, 0)
        other = -1 - int(rng.random() * starts) if two else helper
        return helper, other, (0, 0)
    if plan.method == DYNAMIC:
        at = np.zeros(2, dtype=np.int64)
        randoms = 0
        for p in range(wanted):
            if rng.random() < plan.random_parent:
                at[p] = int(rng.random() * n)
                randoms += 1
        return ranked[at[0]], ranked[at[wanted - 1]], (randoms, wanted - randoms)
    if plan.method == DETERMINISTIC:
        return ranked[0], ranked[wanted - 1], (0, 0)
    i, j = tournament(n, wanted, rng)
    return ranked[i], ranked[j], (0, 0)


@njit
def tournament(n: int, wanted: int, rng: np.random.Generator) -> tuple[int, int]:
    """Return the ranks of two winners (the same one twice if one is wanted) among ``n`` elites.

    Ten elites for each winner take part. One of them wins with a chance in proportion to 0.2^rank
    among these, then another among the rest.
    """
    entries = permutation(n, rng)[: 10 * wanted]
    for i in range(len(entries)):  # few: sorted by insertion
        for j in range(i, 0, -1):
            if entries[j] < entries[j - 1]:
                entries[j - 1], entries[j] = entries[j], entries[j - 1]
    won = np.zeros(2, dtype=np.int64)
    for p in range(wanted):
        total = 0.0
        for r in range(len(entries)):
            total += 0.0 if entries[r] < 0 else 0.2**r
        left = rng.random() * total
        for r in range(len(entries)):
            if entries[r] >= 0:
                won[p] = r
                left -= 0.2**r
                if left < 0.0:
                    break
        chosen = entries[won[p]]
        entries[won[p]] = -1
        won[p] = chosen
    return won[0], won[wanted - 1]


@njit
def merge(rows: Rows, first: int, second: int, start: IntArray, union: IntArray) -> int:
    """Fill ``union`` with the members of either parent; return how many there are.

    Row 0 has the members, ascending, and rows 1 and 2 have the parents' counts of them.
    """
    size = 0
    items_a, counts_a = _vector(rows, first, start)
    items_b, counts_b = _vector(rows, second, start)
    i = j = 0
    while i < len(items_a) or j < len(items_b):
        a_next = j == len(items_b) or (i < len(items_a) and items_a[i] <= items_b[j])
        b_next = i == len(items_a) or (j < len(items_b) and items_b[j] <= items_a[i])
        union[0, size] = items_a[i] if a_next else items_b[j]
        union[1, size] = counts_a[i] if a_next else 0
        union[2, size] = counts_b[j] if b_next else 0
        i += a_next
        j += b_next
        size += 1
    return size


@njit
def _vector(rows: Rows, parent: int, start: IntArray) -> tuple[IntArray, IntArray]:
    """Return the members and counts of a parent."""
    if parent < 0:
        return start[-1 - parent], np.ones(start.shape[1], dtype=np.int64)
    low, high = rows.start[parent], rows.start[parent + 1]
    return rows.items[low:high], rows.counts[low:high]


@njit
def crossing(
    union: IntArray, size: int, average: bool, rng: np.random.Generator
) -> tuple[int, int]:
    """Return the segment [a, b) that two-point crossover swaps; (0, 0) for average crossover.

    Two different points of ``range(size)`` are drawn; a size below 3 is too small.
    """
    if average or size < 3:
        return 0, 0
    a = int(rng.random() * size)
    b = int(rng.random() * (size - 1))
    b += b >= a
    return min(a, b), max(a, b)


@njit
def inherit(
    union: IntArray, size: int, crossed: bool, a: int, b: int, which: int, child: IntArray
) -> int:
    """Fill ``child`` (members, counts) from both parents; return its number of members.

    Without a cross, the child is the first parent. With a segment [a, b), it is parent ``which``
    with the counts of the other one in the segment. Without a segment, or if that leaves no member,
    it is the average of the counts, rounded up.
    """
    members = 0
    if not crossed or b > a:
        for s in range(size):
            swapped = a <= s < b
            count = union[2 - which, s] if swapped else union[1 + which, s]
            if count:
                child[0, members], child[1, members] = union[0, s], count
                members += 1
    if members:
        return members
    for s in range(size):
        child[0, s], child[1, s] = union[0, s], (union[1, s] + union[2, s] + 1) // 2
    return size


@njit
def mutate(
    child: IntArray, members: int, step: int, max_count: int, d: int, rng: np.random.Generator
) -> int:
    """Add ``step`` picks of a model drawn uniformly; return the number of members.

    If the child has one member, another model is drawn. Returns 0 if there is none, or if a count
    exceeds ``max_count``.
    """
    if members == 1:
        if d == 1:
            return 0
        item = int(rng.random() * (d - 1))
        item += item >= child[0, 0]
    else:
        item = int(rng.random() * d)
    at = 0
    while at < members and child[0, at] < item:
        at += 1
    if at == members or child[0, at] != item:
        for m in range(members, at, -1):
            child[0, m], child[1, m] = child[0, m - 1], child[1, m - 1]
        child[0, at], child[1, at] = item, 0
        members += 1
    child[1, at] += step
    return members if child[1, at] <= max_count else 0


@njit
def shares_code(child: IntArray, members: int) -> np.uint64:
    """Return a code of the counts divided by their greatest common divisor."""
    divisor = 0
    for m in range(members):
        divisor = _gcd(child[1, m], divisor)
    h = FIRST_CODE
    for m in range(members):
        h = next_word(h, np.uint64(child[0, m]))
        h = next_word(h, np.uint64(child[1, m] // divisor))
    return finished(h)


@njit
def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@njit
def add_shares(table: WordArray, X: Array) -> None:
    """Put the codes of rows of counts, shape (n, d), into a table that has room for them."""
    child = np.empty((2, X.shape[1]), dtype=np.int64)
    for r in range(len(X)):
        members = 0
        for j in range(X.shape[1]):
            if X[r, j]:
                child[0, members], child[1, members] = j, X[r, j]
                members += 1
        insert_code(table, shares_code(child, members))


_SMALLEST = 1 << 10


class Rows(NamedTuple):
    """Ensembles one after the other; number r has ``items`` and ``counts[start[r]:start[r + 1]]``.

    Attributes
    ----------
    start : numpy.ndarray of int64, shape (n + 1,) at least
    items, counts : numpy.ndarray of int64, shape (members,) at least
        Members, ascending in each ensemble, and how often each is picked.
    """

    start: IntArray
    items: IntArray
    counts: IntArray


class Store:
    """A growing sequence of count vectors; memory is O(members), not O(models)."""

    def __init__(self) -> None:
        self.rows = Rows(*(np.zeros(_SMALLEST, dtype=np.int64) for _ in range(3)))
        self._n = 0

    def add(self, X: Array) -> None:
        """Append rows of counts, shape (n, d)."""
        used = int(self.rows.start[self._n])
        needed = self._n + len(X) + 1, used + int(np.count_nonzero(X))
        self.rows = Rows(
            _grown(self.rows.start, needed[0]),
            _grown(self.rows.items, needed[1]),
            _grown(self.rows.counts, needed[1]),
        )
        _append(self.rows, self._n, X)
        self._n += len(X)


def _grown(array: IntArray, n: int) -> IntArray:
    if n <= len(array):
        return array
    return np.concatenate([array, np.zeros(2 * n - len(array), dtype=np.int64)])


@njit
def _append(rows: Rows, n: int, X: Array) -> None:
    start, items, counts = rows
    at = start[n]
    for r in range(len(X)):
        for j in range(X.shape[1]):
            if X[r, j]:
                items[at], counts[at] = j, X[r, j]
                at += 1
        start[n + r + 1] = at
