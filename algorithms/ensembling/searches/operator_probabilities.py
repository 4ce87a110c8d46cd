"""Adaptive probabilities of random parents, of crossover, and of mutation after crossover."""

from __future__ import annotations

from collections import deque

import numpy as np

from algorithms.ensembling.searches.children import BEST, CROSSED, MUTATED, RANDOM
from framework.arrays import FloatArray, IntArray

_WINDOW = 10  # batches
_LIMITS = np.array([[0.05, 0.95], [0.1, 0.9], [0.1, 0.9]])


class OperatorProbabilities:
    """Three probabilities, each of a choice between two ways of making children.

    The probability of a way is the share of the mean loss of the *other* way's children in the sum
    of both means. The means are over the last ten batches, with more than two children of each
    way, and the probabilities are clipped.

    Parameters
    ----------
    every : int
        Batches between two adjustments.
    by_child : bool
        How a cross counts for the choice of parents. False: each of its parents counts, so that
        one of a random parent and the best one counts on both sides. True: it counts once, where
        its parents were both random or both the best, and else on neither side.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (3,)
        Of a random parent (not the best one), of crossover (not mutation alone), and of mutation
        after crossover; 0.5 at first.
    """

    def __init__(self, every: int, by_child: bool = False) -> None:
        self.every, self.by_child = every, by_child
        self.values: FloatArray = np.full(3, 0.5)
        self._batches = 0
        self._window: deque[FloatArray] = deque(maxlen=_WINDOW)

    def learn(self, marks: IntArray, loss: FloatArray) -> None:
        """Learn from a batch of children.

        Parameters
        ----------
        marks : numpy.ndarray of int64, shape (n, 4)
            See :data:`algorithms.ensembling.searches.children.CROSSED`.
        loss : numpy.ndarray of float64, shape (n,)
            Not negative.
        """
        crossed, mutated = marks[:, CROSSED], marks[:, MUTATED]
        random, best = marks[:, RANDOM], marks[:, BEST]
        if self.by_child:
            random, best = (random > 0) & (best == 0), (best > 0) & (random == 0)
        sides = np.stack(
            [
                random,
                best,
                crossed,
                1 - crossed,
                crossed * mutated,
                crossed * (1 - mutated),
            ]
        )
        self._window.append(np.stack([(sides * loss).sum(axis=1), sides.sum(axis=1)]))
        self._batches += 1
        if self._batches % self.every == 0:
            self._adjust()

    def _adjust(self) -> None:
        totals, numbers = np.sum(self._window, axis=0).reshape(2, 3, 2)
        for j, (low, high) in enumerate(_LIMITS):
            if (numbers[j] > 2).all():
                this, other = totals[j] / numbers[j]
                share = other / (this + other) if this + other > 0 else 0.5
                self.values[j] = min(max(share, low), high)
