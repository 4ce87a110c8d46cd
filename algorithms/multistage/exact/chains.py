"""Chains of feature sets: a representation of ordered partitions for exact searches.

A chromosome with stages Q1, Q2, ... is the chain of sets acquired so far: Q1, Q1 + Q2, ..., all
features. Sets are bit masks. The metrics of a chain are whole numbers: records with an answer,
with the right answer, and the cost over all records in fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from algorithms.moves.bits import pack, unpack
from algorithms.multistage.bit_planes import StageTables
from algorithms.multistage.kernels.scoring import Charges
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.pareto import nondominated


class Prices(NamedTuple):
    """What a record that goes through a chain pays, in fixed point.

    Attributes
    ----------
    of_set : numpy.ndarray of int64, shape (2^n,)
        Price of the features of every set; no set costs more than one that contains it.
    of_stage : int
        Price of each stage that the record reaches.
    """

    of_set: IntArray
    of_stage: int = 0

    @property
    def features(self) -> int:
        return len(self.of_set).bit_length() - 1


class Vectors(NamedTuple):
    """Objective values of chains, attained or as a bound.

    Attributes
    ----------
    answered : numpy.ndarray of int64, shape (m,)
        Number of records with an answer.
    rate : numpy.ndarray of float64, shape (m,)
        Share of the answers that are right; 0 without answers.
    cost : numpy.ndarray of int64, shape (m,)
        Sum over all records, in fixed point.
    """

    answered: IntArray
    rate: FloatArray
    cost: IntArray

    def values(self, records: int, cost_scale: int) -> dict[str, FloatArray]:
        """Return the metrics in their units, as the problem computes them."""
        return {
            "coverage": self.answered / records,
            "accuracy": self.rate,
            "cost": self.cost / (cost_scale * records),
        }

    def best(self) -> BoolArray:
        """Return which vectors no other one dominates, shape (m,)."""
        return nondominated(np.column_stack([-self.answered, -self.rate, self.cost]))

    def with_further(self, others: Vectors) -> Vectors:
        """Return the non-dominated ones of these vectors and others."""
        answered, rate = (
            np.append(self.answered, others.answered),
            np.append(self.rate, others.rate),
        )
        cost = np.append(self.cost, others.cost)
        best = Vectors(answered, rate, cost).best()
        return Vectors(answered[best], rate[best], cost[best])


@dataclass(frozen=True)
class ChainFront:
    """Points of objective values, each with a chain that has these values.

    Attributes
    ----------
    answered, right, cost : numpy.ndarray of int64, shape (m,)
        Number of records with an answer, of those with the right one, and the cost over all
        records.
    chains : numpy.ndarray of int, shape (m, stages - 1)
        Sets acquired up to each stage but the last, in any order; 0 where there is no such stage.
    chromosomes : numpy.ndarray of int64, shape (m,), or None
        How many chains have the values of the point; None where they were not counted.
    levels : numpy.ndarray of int64, shape (m,), or None
        Gene value of the threshold that all stages share; None where there is no choice.
    """

    answered: IntArray
    right: IntArray
    cost: IntArray
    chains: Array
    chromosomes: IntArray | None = None
    levels: IntArray | None = None

    def __len__(self) -> int:
        return len(self.answered)

    @property
    def vectors(self) -> Vectors:
        rate = self.right / np.maximum(self.answered, 1)
        return Vectors(self.answered, rate, self.cost)

    def take(self, rows: BoolArray | IntArray) -> ChainFront:
        """Return the points under a mask or at positions."""
        counts = None if self.chromosomes is None else self.chromosomes[rows]
        levels = None if self.levels is None else self.levels[rows]
        answered, right, cost = self.answered[rows], self.right[rows], self.cost[rows]
        return ChainFront(answered, right, cost, self.chains[rows], counts, levels)

    def front(self) -> ChainFront:
        """Return the non-dominated points."""
        return self.take(self.vectors.best())

    def genomes(self, n: int) -> IntArray:
        """Return the stage of each of ``n`` features, from 0, and then the threshold, if a gene."""
        stages = genomes_of(self.chains, n)
        return stages if self.levels is None else np.column_stack([stages, self.levels])

    def values(self, records: int, cost_scale: int) -> dict[str, FloatArray]:
        """Return the metrics in their units."""
        return self.vectors.values(records, cost_scale)


def of_levels(fronts: Sequence[ChainFront]) -> ChainFront:
    """Merge the fronts of all thresholds; equal points become one, with the sum of their counts."""
    if len(fronts) == 1:
        return fronts[0]
    answered, right, cost, chains = (
        np.concatenate([getattr(front, name) for front in fronts])
        for name in ("answered", "right", "cost", "chains")
    )
    rows = np.column_stack([answered, right, cost])
    _, first, same = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    counts = None
    if all(front.chromosomes is not None for front in fronts):
        counts = np.zeros(len(rows), dtype=np.int64)
        np.add.at(counts, first[same.ravel()], np.concatenate([f.chromosomes for f in fronts]))
    levels = np.repeat(np.arange(len(fronts)), [len(front) for front in fronts])
    return ChainFront(answered, right, cost, chains, counts, levels).take(np.sort(first))


@dataclass(frozen=True)
class RiskFront:
    """Points of objective values, each with a design that has these values.

    Attributes
    ----------
    answered, loss, cost : numpy.ndarray of int64, shape (m,)
        Number of records with an answer; the cost of errors and of records without an answer; the
        cost of features. Costs are sums over all records, in fixed point.
    chains, levels : numpy.ndarray of int, shape (m, n)
        Sets acquired up to each stage but the last, the largest first, and the gene value of the
        threshold there; 0 where there is no such stage.
    """

    answered: IntArray
    loss: IntArray
    cost: IntArray
    chains: Array
    levels: Array

    chromosomes: ClassVar[None] = None  # they are not counted

    def __len__(self) -> int:
        return len(self.loss)

    def take(self, rows: BoolArray | IntArray) -> RiskFront:
        """Return the points under a mask or at positions."""
        columns = self.answered, self.loss, self.cost, self.chains, self.levels
        return RiskFront(*(column[rows] for column in columns))

    def genomes(self, n: int, levels: int) -> IntArray:
        """Return the stage of each of ``n`` features, from 0, and then ``levels`` thresholds."""
        X = np.zeros((len(self), n + levels), dtype=np.int64)
        X[:, :n] = genomes_of(self.chains, n)
        for x, chain, thresholds in zip(X, self.chains, self.levels, strict=True):
            ascending = thresholds[: np.count_nonzero(chain)][::-1]  # that of the first stage first
            x[n : n + min(levels, len(ascending))] = ascending[:levels]
        return X

    def values(self, records: int, cost_scale: int) -> dict[str, FloatArray]:
        """Return the metrics in their units, as the problem computes them."""
        whole = cost_scale * records
        return {
            "risk": self.loss / whole,
            "total_cost": (self.loss + self.cost) / whole,
            "cost": self.cost / whole,
            "coverage": self.answered / records,
        }


def genomes_of(chains: Array, n: int) -> IntArray:
    """Return the stage of each of ``n`` features, from 0: the number of sets without it."""
    sets = chains[:, :, None]
    outside = (sets > 0) & (sets >> np.arange(n) & 1 == 0)
    return np.asarray(outside.sum(axis=1), dtype=np.int64)


def prices(charges: Charges) -> Prices:
    """Return the cost of every set, and of every stage."""
    table = np.zeros(1 << len(charges.of_feature), dtype=np.int64)
    for i, cost in enumerate(charges.of_feature.tolist()):
        table[1 << i : 2 << i] = table[: 1 << i] + cost
    sets = np.arange(len(table))
    for panel, cost in enumerate(charges.of_panel.tolist()):
        members = sum(1 << int(i) for i in np.flatnonzero(charges.panel_of == panel))
        table[(sets & members) > 0] += cost
    return Prices(table, charges.of_stage)


def surjections(n: int, k: int) -> int:
    """Count the ordered partitions of n items into exactly k stages (EMSCO paper, Equation 1)."""
    return sum((-1) ** (k - i) * math.comb(k, i) * i**n for i in range(k + 1))


def hard_first(tables: StageTables) -> StageTables:
    """Return the tables with their records sorted by how many sets answer them, the fewest first.

    Records that stay undecided for long then share the first words.
    """
    order = np.argsort(unpack(tables.conclusive, tables.records).sum(axis=0), kind="stable")
    conclusive, right = (
        pack(unpack(rows, tables.records)[:, order]) for rows in (tables.conclusive, tables.right)
    )
    return StageTables(conclusive, right, tables.everyone, tables.records)
