"""The votes of a pool as merged patterns, and the confusion matrices of its ensembles.

Records on which the same classifiers vote positive are one *pattern*, with its numbers of negative
and of positive records. An ensemble of members ``x`` with threshold ``L`` calls a record positive
if it has more than ``L`` votes of members (pruning paper, Section 3). A pattern is stored as bits
of 64-bit words, so that votes are counted for 64 classifiers at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms.moves.bits import pack, popcount, unpack
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray, frozen
from framework.errors import InputError
from framework.jit import njit


class Weights(NamedTuple):
    """The value of a record in each cell of the confusion matrix (Equation 1)."""

    true_positive: float = 1
    false_negative: float = 0
    true_negative: float = 1
    false_positive: float = 0


class Rate(NamedTuple):
    """A rate as a weighted sum of the confusion matrix, divided by ``of``; both whole numbers."""

    weights: Weights
    of: int


def rates_of(n0: int, n1: int) -> dict[str, Rate]:
    """Return the rates that ``n0`` negative and ``n1`` positive records have, by name."""
    return {
        "accuracy": Rate(Weights(1, 0, 1, 0), n0 + n1),
        "balanced_accuracy": Rate(Weights(n0, 0, n1, 0), 2 * n0 * n1),
        "true_positive_rate": Rate(Weights(1, 0, 0, 0), n1),
        "true_negative_rate": Rate(Weights(0, 0, 1, 0), n0),
        "false_positive_rate": Rate(Weights(0, 0, 0, 1), n0),
        "false_negative_rate": Rate(Weights(0, 1, 0, 0), n1),
    }


@dataclass(frozen=True)
class VoteTable:
    """The votes of ``K`` classifiers, where records with equal votes are merged.

    Attributes
    ----------
    patterns : numpy.ndarray of uint64, shape (P, words)
        Bit ``k`` of a row is 1 if classifier ``k`` votes positive.
    records : numpy.ndarray of int64, shape (P, 2)
        Negative and positive records with these votes.
    k : int
    pattern_of : numpy.ndarray of int64, shape (N,)
        The pattern of each record.
    """

    patterns: WordArray
    records: IntArray
    k: int
    pattern_of: IntArray

    @classmethod
    def of(cls, votes: BoolArray, positive: BoolArray) -> VoteTable:
        """Merge records.

        Parameters
        ----------
        votes : numpy.ndarray of bool, shape (K, N)
        positive : numpy.ndarray of bool, shape (N,)
            Which records are of the positive class.
        """
        patterns, which = np.unique(pack(votes.T), axis=0, return_inverse=True)
        records = np.zeros((len(patterns), 2), dtype=np.int64)
        pattern_of = which.ravel().astype(np.int64)
        np.add.at(records, (pattern_of, positive.astype(np.int64)), 1)
        return cls(patterns, records, len(votes), pattern_of)

    @property
    def totals(self) -> tuple[int, int]:
        """Numbers of negative and of positive records, N0 and N1."""
        n0, n1 = self.records.sum(axis=0).tolist()
        return n0, n1

    @property
    def unpacked(self) -> BoolArray:
        """The patterns, one column per classifier, shape (P, K)."""
        return unpack(self.patterns, self.k).astype(bool)

    def histograms(self, X: Array) -> IntArray:
        """Count records by class and votes: (n, 2, K + 1) for ensembles (n, K)."""
        counts = histograms(self.patterns, self.records, pack(X > 0))
        return np.asarray(counts[:, :, : self.k + 1])

    def positives(self, X: Array, thresholds: Array) -> IntArray:
        """Return false and true positives, shape (n, 2)."""
        above = np.arange(self.k + 1) > np.asarray(thresholds)[:, np.newaxis]
        return np.asarray((self.histograms(X) * above[:, np.newaxis]).sum(axis=2))

    def net_weights(self, weights: Weights) -> tuple[FloatArray, float]:
        """Return the gain of calling each pattern positive, (P,), and the value of calling none so.

        Weights that are whole numbers give whole numbers, exact below 2^53.
        """
        n0, n1 = self.totals
        up = weights.true_positive - weights.false_negative
        down = weights.false_positive - weights.true_negative
        constant = n1 * weights.false_negative + n0 * weights.true_negative
        c = self.records.astype(np.float64) @ np.array([down, up], dtype=np.float64)
        return np.asarray(c), float(constant)

    def value(self, x: Array, threshold: int, weights: Weights) -> float:
        """Return the weighted sum of the confusion matrix (Equation 1) of one ensemble."""
        c, constant = self.net_weights(weights)
        votes = self.unpacked @ (np.asarray(x) > 0).astype(np.int64)
        return float(c[votes > threshold].sum() + constant)


def confusion_rates(fp: Array, tp: Array, n0: Any, n1: Any) -> list[FloatArray]:
    """Return accuracy, balanced accuracy and the four rates, each of the shape of ``fp``.

    Parameters
    ----------
    fp, tp : numpy.ndarray of whole numbers, shape (n,) or (n, b)
        False and true positives.
    n0, n1 : int or numpy.ndarray, shape (b,)
        Negative and positive records. A class without records has rates of 0 and is left out of
        balanced accuracy.
    """
    tn, fn = n0 - fp, n1 - tp
    accuracy = (tp + tn) / (n0 + n1)
    both = (tp * n0 + tn * n1) / np.maximum(2 * n0 * n1, 1)
    negative, positive = np.maximum(n0, 1), np.maximum(n1, 1)
    return [
        accuracy,
        np.where((n0 > 0) & (n1 > 0), both, accuracy),
        tp / positive,
        tn / negative,
        fp / negative,
        fn / positive,
    ]


def weights_of(
    name: str | Sequence[float], n0: int, n1: int, where: str = "algorithm.weights"
) -> Weights:
    """Return the weights with a name, or four numbers as weights.

    Parameters
    ----------
    name : {'accuracy', 'balanced_accuracy', 'recall'} or four numbers
        The numbers are those of a true positive, false negative, true negative and false positive.
        ``balanced_accuracy`` stands for N0 and N1, a multiple of the paper's theta-weighted
        function, which has the same maximum (Theorem 1).
    n0, n1 : int
        Negative and positive records.
    where : str
        The key, for messages.

    Raises
    ------
    InputError
        There is no such name, there are not four finite numbers, or right and wrong answers have
        the same weights.
    """
    if isinstance(name, str):
        named = {
            "accuracy": Weights(1, 0, 1, 0),
            "balanced_accuracy": Weights(n0, 0, n1, 0),
            "recall": Weights(1, 0, 0, 0),
        }
        if name not in named:
            raise InputError(
                f"{where}: expected {', '.join(named)} or four numbers (of a true positive, false "
                f"negative, true negative, false positive), found {name!r}"
            )
        return named[name]
    try:
        numbers = np.array([float(number) for number in name])
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (4,) or not np.isfinite(numbers).all():
        raise InputError(
            f"{where}: expected four finite numbers (of a true positive, false negative, true "
            f"negative, false positive), found {list(name)}"
        )
    if numbers[0] == numbers[1] and numbers[2] == numbers[3]:
        raise InputError(
            f"{where}: expected weights under which ensembles differ, found {list(name)}: right "
            "and wrong answers are worth the same"
        )
    return Weights(*(int(v) if v.is_integer() else v for v in numbers.tolist()))


@njit
def histograms(patterns: WordArray, records: IntArray, members: WordArray) -> IntArray:
    """Count records by class and number of votes.

    Parameters
    ----------
    patterns : numpy.ndarray of uint64, shape (P, words)
    records : numpy.ndarray of int64, shape (P, 2)
        Negative and positive records of each pattern.
    members : numpy.ndarray of uint64, shape (n, words)
        One row per ensemble.

    Returns
    -------
    numpy.ndarray of int64, shape (n, 2, 64 words + 1)
        ``[r, c, v]`` counts the records of class ``c`` with ``v`` votes of ensemble ``r``.

    Notes
    -----
    O(n P words). The counts for any threshold L follow: records with more votes are positive.
    """
    words = patterns.shape[1]
    out = np.zeros((len(members), 2, 64 * words + 1), dtype=np.int64)
    for r in range(len(members)):
        for p in range(len(patterns)):
            votes = 0
            for w in range(words):
                votes += popcount(patterns[p, w] & members[r, w])
            out[r, 0, votes] += records[p, 0]
            out[r, 1, votes] += records[p, 1]
    return out


@njit
def called_positive(patterns: WordArray, members: WordArray, thresholds: IntArray) -> BoolArray:
    """Return which patterns have more votes than an ensemble's threshold, shape (n, P)."""
    out = np.empty((len(members), len(patterns)), dtype=np.bool_)
    for r in range(len(members)):
        for p in range(len(patterns)):
            votes = 0
            for w in range(patterns.shape[1]):
                votes += popcount(patterns[p, w] & members[r, w])
            out[r, p] = votes > thresholds[r]
    return out


def pair_credits(credit: FloatArray, X: Array) -> FloatArray:
    """Return the least and the mean pairwise failure credit of ensembles.

    Parameters
    ----------
    credit : numpy.ndarray of float64, shape (K, K)
    X : numpy.ndarray, shape (n, K)
        One row per ensemble, above 0 for a member.

    Returns
    -------
    numpy.ndarray of float64, shape (n, 2)
        Zeros for ensembles of one member.
    """
    return _pair_credits(frozen(credit), np.ascontiguousarray(X > 0))


@njit
def _pair_credits(credit: FloatArray, X: BoolArray) -> FloatArray:
    out = np.zeros((len(X), 2))
    for r in range(len(X)):
        members = np.flatnonzero(X[r])
        if len(members) < 2:
            continue
        least, total = np.inf, 0.0
        for k in members:
            of_member = 0.0
            for other in members:
                if other != k:
                    of_member += credit[k, other]
            least, total = min(least, of_member), total + of_member
        out[r, 0] = min(least / (len(members) - 1), 1.0)
        out[r, 1] = min(total / (len(members) * (len(members) - 1)), 1.0)
    return out
