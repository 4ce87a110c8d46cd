"""Moves on ordered partitions: EMSCO's operators (paper, Algorithms 1 to 3), neighbours, walks.

A genome has the stage of each item, 0 to k - 1 without gaps, or -1 for an item that is left out.
Further genes, the levels of :class:`~framework.space.Partition`, have functions of their own; the
caller settles them afterwards (``Partition.settle``).
"""

from __future__ import annotations

import math

import numpy as np

from framework.arrays import Array, FloatArray
from framework.jit import copy, njit


def beta_binomial_cdf(most: int, beta: float) -> FloatArray:
    """Tabulate the beta-binomial distribution of Equation 7.

    Row ``m`` has, for j = 0 ... m, the probability that a draw from BB(m, 1, beta) is at most j;
    the rest of the row is 1.

    Returns
    -------
    numpy.ndarray of float64, shape (most + 1, most + 1)

    Notes
    -----
    P[j] = C(m, j) B(j + 1, m - j + beta) / B(1, beta), and with alpha = 1 the ratio of neighbours
    is P[j + 1] / P[j] = (m - j) / (m - j - 1 + beta).
    """
    table = np.ones((most + 1, most + 1))
    for m in range(most + 1):
        p = beta / (beta + m)
        total = 0.0
        for j in range(m):
            total += p
            table[m, j] = total
            p *= (m - j) / (m - j - 1 + beta)
    return table


@njit
def compress_in_place(x: Array) -> int:
    """Close the gaps of one genome and return its stage count (paper, Section 3.1)."""
    d = len(x)
    used = np.zeros(d + 1, dtype=np.bool_)
    for i in range(d):
        if x[i] >= 0:
            used[x[i]] = True
    rename = np.zeros(d + 1, dtype=np.int64)
    stages = 0
    for s in range(d + 1):
        rename[s] = stages
        if used[s]:
            stages += 1
    for i in range(d):
        if x[i] >= 0:
            x[i] = rename[x[i]]
    return stages


@njit
def _draw(row: FloatArray, u: float) -> int:
    j = 0
    while u >= row[j] and j < len(row) - 1:
        j += 1
    return j


@njit
def mutate(
    x: Array,
    stages: int,
    k: int,
    rate: float,
    cdf: FloatArray,
    removal: bool,
    rng: np.random.Generator,
) -> int:
    """Mutate one genome without gaps in place; return its new stage count (Algorithm 1).

    Each gene is redrawn with probability ``rate``, unless its item is the only one in its stage.
    It is drawn from the beta-binomial over {0, ..., min(stages, k - 1)}; the value ``stages`` opens
    a new stage, which exists for the genes that follow. With ``removal``, a redrawn gene becomes -1
    as often as if all values and -1 were equally likely; a removed item may always be redrawn.
    """
    d = len(x)
    count = np.zeros(d + 1, dtype=np.int64)
    for i in range(d):
        if x[i] >= 0:
            count[x[i]] += 1
    for i in range(d):
        if rng.random() > rate:
            continue
        if x[i] >= 0 and count[x[i]] == 1:
            continue
        most = min(stages, k - 1)
        if x[i] >= 0:
            count[x[i]] -= 1
        if removal and rng.random() * (most + 2) < 1.0:
            x[i] = -1
            continue
        j = _draw(cdf[most], rng.random())
        x[i] = j
        count[j] += 1
        if j == stages:
            stages += 1
    return stages


@njit
def recombine(
    a: Array, stages_a: int, b: Array, stages_b: int, child: Array, rng: np.random.Generator
) -> None:
    """Fill ``child`` from two parents (Algorithm 2); gaps are left for ``compress``.

    The number of stages of the child is that of one of the parents or their mean rounded down, each
    with probability 1/3. Each gene comes from either parent, rescaled to the child's number of
    stages by :func:`rescale`. A removed item stays removed.
    """
    option = np.int64(rng.random() * 3.0)
    stages = (stages_a + stages_b) // 2
    if option == 1:
        stages = stages_a
    elif option == 2:
        stages = stages_b
    for i in range(len(child)):
        gene, count = (a[i], stages_a) if rng.random() < 0.5 else (b[i], stages_b)
        child[i] = -1 if gene < 0 else rescale(gene, count, stages)


@njit
def rescale(gene: int, stages: int, new: int) -> int:
    """Map a stage of a system of ``stages`` stages to one of ``new`` stages (Algorithm 2).

    It is round((gene + 1) / stages * new) - 1, at least 0, with halves rounded up, in whole-number
    arithmetic: floor((2 (gene + 1) new + stages) / (2 stages)) is the rounded ratio.
    """
    stage = (2 * (int(gene) + 1) * new + stages) // (2 * stages) - 1
    return max(stage, 0)


@njit
def recombine_rows(A: Array, B: Array, rng: np.random.Generator) -> Array:
    """Return a child of each pair of rows, without gaps and with at least one item."""
    out = np.empty_like(A)
    for r in range(len(A)):
        recombine(A[r], int(A[r].max()) + 1, B[r], int(B[r].max()) + 1, out[r], rng)
        if compress_in_place(out[r]) == 0:
            out[r, int(rng.random() * out.shape[1])] = 0
    return out


@njit
def mutate_rows(
    X: Array, k: int, rate: float, cdf: FloatArray, removal: bool, rng: np.random.Generator
) -> None:
    """Mutate each row of ``X``, genomes without gaps, in place (Algorithm 1)."""
    for r in range(len(X)):
        mutate(X[r], int(X[r].max()) + 1, k, rate, cdf, removal, rng)


@njit
def breed(
    X: Array,
    cumulative: FloatArray,
    children: int,
    k: int,
    crossover_rate: float,
    mutation_rate: float,
    cdf: FloatArray,
    removal: bool,
    items: int,
    values: int,
    rng: np.random.Generator,
) -> Array:
    """Make children: roulette selection, recombination, compression, mutation (Algorithm 3).

    Each level comes from either parent and is redrawn with the mutation rate; levels are not
    settled.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
        The generation.
    cumulative : numpy.ndarray of float64, shape (n,)
        Cumulative selection weights; parents are drawn with replacement.
    children : int
    k : int
        Greatest stage count.
    cdf : numpy.ndarray of float64
        See :func:`beta_binomial_cdf`.
    items, values : int
        The first ``items`` genes are stages; the others are levels, from 0 to ``values - 1``.

    Returns
    -------
    numpy.ndarray, shape (children, d), of the type of ``X``
    """
    n, d = X.shape
    stages = np.empty(n, dtype=np.int64)
    for r in range(n):
        stages[r] = np.int64(X[r, :items].max()) + 1
    out = np.empty((children, d), dtype=X.dtype)
    for r in range(children):
        a = _select(cumulative, rng)
        b = _select(cumulative, rng)
        child = out[r, :items]
        if rng.random() < crossover_rate:
            recombine(X[a, :items], stages[a], X[b, :items], stages[b], child, rng)
            for j in range(items, d):
                out[r, j] = X[a, j] if rng.random() < 0.5 else X[b, j]
        elif rng.random() < 0.5:
            copy(X[a], out[r])
        else:
            copy(X[b], out[r])
        count = compress_in_place(child)
        if count == 0:  # every feature removed: give one back
            child[np.int64(rng.random() * items)] = 0
            count = 1
        mutate(child, count, k, mutation_rate, cdf, removal, rng)
        _redraw(out[r], items, mutation_rate, values, rng)
    return out


@njit
def _redraw(x: Array, items: int, rate: float, values: int, rng: np.random.Generator) -> None:
    """Draw each level of a genome again with probability ``rate``."""
    for j in range(items, len(x)):
        if rng.random() < rate:
            x[j] = int(rng.random() * values)


@njit
def _select(cumulative: FloatArray, rng: np.random.Generator) -> int:
    at = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return min(int(at), len(cumulative) - 1)


@njit
def first_generation(
    size: int,
    d: int,
    k: int,
    rate: float,
    cdf: FloatArray,
    removal: bool,
    values: int,
    rng: np.random.Generator,
    out: Array,
) -> None:
    """Fill ``out`` (size, any) with mutants of the one-stage genome (paper, init()).

    Genes behind those of the ``d`` items are levels, drawn uniformly from 0 to ``values - 1`` and
    not settled.
    """
    out[:] = 0
    for r in range(size):
        mutate(out[r, :d], 1, k, rate, cdf, removal, rng)
        _redraw(out[r], d, 1.0, values, rng)


def log_fitness(gains: FloatArray, layers: Array, epsilon: float) -> FloatArray:
    """Return the logarithm of Equation 9 for each row of a generation.

    f = gamma^rank * E, with E the length of the gains, gamma = max E / min E + epsilon, and ranks
    counted from 0, the worst layer. The logarithm does not overflow where there are many ranks.

    Parameters
    ----------
    gains : numpy.ndarray of float64, shape (n, m)
        Objectives to maximise, in [0, 1].
    layers : numpy.ndarray of int64, shape (n,)
        0 = non-dominated.
    """
    length = np.maximum(np.sqrt((gains**2).sum(axis=1)), 1e-12)
    log_gamma = math.log(float(length.max()) / float(length.min()) + epsilon)
    return np.asarray((layers.max() - layers) * log_gamma + np.log(length))


def neighbourhood_size(n: int, k: int) -> int:
    """Return the greatest possible number of neighbours of ``n`` items in ``k`` stages."""
    return n * (2 * k + 2) + n * (n - 1) // 2 + k


@njit
def neighbours(x: Array, k: int, removal: bool, out: Array) -> int:
    """Fill ``out`` with all genomes one move away from ``x``; return their number.

    The moves: an item goes to another stage, or to a new one before, between or after the stages;
    two items of different stages are swapped; two neighbouring stages are merged; with
    ``removal``, an item is left out (unless it is the last one) or taken in again. A genome may
    occur more than once, and ``x`` itself may occur.

    Parameters
    ----------
    x : numpy.ndarray of int, shape (d,)
        A genome without gaps.
    k : int
        Greatest number of stages.
    removal : bool
        Whether items may be left out.
    out : numpy.ndarray, shape (at least neighbourhood_size(d, k), d)

    Notes
    -----
    O(d^2 + d k) neighbours, O(d) time each.
    """
    stages = int(x.max()) + 1
    count = _moved(x, stages, k, out, 0)
    count = _swapped(x, out, count)
    for s in range(stages - 1):
        copy(x, out[count])
        for i in range(len(x)):
            if x[i] > s:
                out[count, i] -= 1
        count += 1
    if removal and (x >= 0).sum() > 1:
        for i in range(len(x)):
            if x[i] >= 0:
                copy(x, out[count])
                out[count, i] = -1
                compress_in_place(out[count])
                count += 1
    return count


@njit
def _moved(x: Array, stages: int, k: int, out: Array, count: int) -> int:
    """Append each item moved to each other stage, and to a new stage at each place."""
    sizes = np.zeros(stages, dtype=np.int64)
    for i in range(len(x)):
        if x[i] >= 0:
            sizes[x[i]] += 1
    for i in range(len(x)):
        for s in range(stages):
            if s != x[i]:
                copy(x, out[count])
                out[count, i] = s
                compress_in_place(out[count])
                count += 1
        is_alone = x[i] >= 0 and sizes[x[i]] == 1  # its stage disappears, so a new one has room
        if stages == k and not is_alone:
            continue
        for place in range(stages + 1):
            _insert(x, i, place, out[count])
            count += 1
    return count


@njit
def _insert(x: Array, item: int, place: int, y: Array) -> None:
    """Set ``y`` to ``x`` with an item alone in a new stage before stage ``place``."""
    for j in range(len(x)):
        y[j] = x[j] + (x[j] >= place)
    y[item] = place
    compress_in_place(y)


@njit
def _swapped(x: Array, out: Array, count: int) -> int:
    """Append each exchange of two items of different stages."""
    for i in range(len(x)):
        for j in range(i):
            if x[i] != x[j]:
                copy(x, out[count])
                out[count, i] = x[j]
                out[count, j] = x[i]
                count += 1
    return count


def level_neighbours(x: Array, n: int, values: int, used: int, out: Array) -> int:
    """Fill ``out`` with the genomes in which one of the ``used`` levels differs; count them.

    Parameters
    ----------
    x : numpy.ndarray of int, shape (d,)
        The stages of ``n`` items, then levels from 0 to ``values - 1``.
    out : numpy.ndarray, shape (at least (d - n) (values - 1), d)
    """
    count = 0
    for gene in range(n, min(len(x), n + used)):
        for level in range(values):
            if level != x[gene]:
                out[count] = x
                out[count, gene] = level
                count += 1
    return count


def redraw_levels(X: Array, n: int, values: int, rate: float, rng: np.random.Generator) -> None:
    """Draw levels, the genes from ``n`` on, again in place, each with probability ``rate``."""
    levels = X[:, n:]
    again = rng.random(levels.shape) < rate
    levels[again] = rng.integers(0, values, size=int(again.sum()))


@njit
def wander(
    X: Array, k: int, removal: bool, fewest: int, most: int, rng: np.random.Generator
) -> None:
    """Change each row of ``X`` by a random walk of ``fewest`` to ``most`` steps, in place.

    A step moves an item to another stage or to a new one at a random place, or swaps two items
    (with probability 1/3); with ``removal`` it may leave the item out. Some steps change nothing.
    """
    for r in range(len(X)):
        steps = fewest + int(rng.random() * (most - fewest + 1))
        for _ in range(steps):
            _step(X[r], k, removal, rng)


@njit
def _step(x: Array, k: int, removal: bool, rng: np.random.Generator) -> None:
    i = int(rng.random() * len(x))
    if rng.random() < 1.0 / 3.0:
        j = int(rng.random() * len(x))
        x[i], x[j] = x[j], x[i]
        return
    stages = int(x.max()) + 1
    lowest = -1 if removal else 0
    places = stages + 1 if stages < k else 0
    target = lowest + int(rng.random() * (stages + places - lowest))
    if target >= stages:
        _insert(x, i, target - stages, x)
    elif target >= 0 or x[i] < 0 or (x >= 0).sum() > 1:
        x[i] = target
        compress_in_place(x)
