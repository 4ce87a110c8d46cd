"""Turns class probabilities into the bits of a component: which records it answers, and how."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, frozen
from framework.jit import njit


@njit
def decide(
    P: Array, thresholds: Array, y: Array, positive: int, slack: float, limits: Array, bits: Array
) -> None:
    """Set the bits of one component from the probabilities ``P`` (classes, records).

    The answer to a record is its most likely class, the first of equals. It is conclusive if its
    probability is at least the threshold of the class less ``slack``. The planes of ``bits``
    (planes, words) are, in this order:

    - conclusive;
    - conclusive and right, by the true classes ``y``;
    - conclusive and ``positive``, unless that is -1;
    - the bits of the answer's code where it is conclusive, the lowest first; there may be none;
    - for each of ``limits`` from the second on: the probability reaches this threshold. The first
      one is the threshold of all classes. There are none unless a search chooses the threshold.
    """
    k, n = P.shape
    first = 3 if positive >= 0 else 2
    codes = len(bits) - max(len(limits) - 1, 0)
    for word in range((n + 63) >> 6):
        sure, right, called = np.uint64(0), np.uint64(0), np.uint64(0)
        for i in range(word << 6, min(n, (word + 1) << 6)):
            best, greatest = 0, P[0, i]
            for c in range(1, k):
                if P[c, i] > greatest:
                    best, greatest = c, P[c, i]
            place = np.uint64(i & 63)  # no branches: no processor could predict them
            answer = np.uint64(greatest >= thresholds[best] - slack) << place
            sure |= answer
            right |= answer & (np.uint64(best == y[i]) << place)
            called |= answer & (np.uint64(best == positive) << place)
            for p in range(first, codes):
                bits[p, word] |= answer & (np.uint64(best >> (p - first) & 1) << place)
            for p in range(codes, len(bits)):
                bits[p, word] |= np.uint64(greatest >= limits[1 + p - codes] - slack) << place
        bits[0, word] = sure
        bits[1, word] = right
        if positive >= 0:
            bits[2, word] = called


class RiskRule(NamedTuple):
    """How a component answers where errors have costs; with no classes, confidences alone decide.

    Attributes
    ----------
    errors : shape (classes, classes)
        Cost of answering the class of the column where that of the row is true.
    slack : float
        Answers whose expected costs differ by no more than this are equally good.
    limits : shape (1 + thresholds,)
        Greatest risk (expected cost) of an answer of the last stage, then at each of the
        thresholds. Where confidences decide: the thresholds that a search chooses from, ascending;
        none if there is only one.
    parts : shape (classes, classes, error planes)
        Which planes an error sets.
    """

    errors: FloatArray
    slack: float
    limits: FloatArray
    parts: Array


def by_confidence(thresholds: FloatArray) -> RiskRule:
    """Return the rule of answers by confidence, with the thresholds that a search chooses from."""
    nothing = frozen(np.zeros((0, 0))), 0.0
    return RiskRule(*nothing, frozen(thresholds), frozen(np.zeros((0, 0, 0), dtype=bool)))


BY_CONFIDENCE = by_confidence(np.zeros(0))


@njit
def decide_by_risk(P: Array, rule: RiskRule, y: Array, positive: int, bits: Array) -> None:
    """Set the bits of one component where errors have costs.

    The answer is that of least expected cost, the first of equals. It is conclusive if this cost is
    at most ``limits[0]``. The planes are those of :func:`decide`, but instead of its last ones come
    those of errors, and then one for each further limit: the expected cost is at most that.
    """
    k, n = P.shape
    planes, thresholds = rule.parts.shape[2], len(rule.limits) - 1
    first = bits.shape[0] - planes - thresholds
    expected = np.empty(k)
    for i in range(n):
        risk = np.inf
        for c in range(k):
            expected[c] = 0.0
            for t in range(k):
                expected[c] += P[t, i] * rule.errors[t, c]
            risk = min(risk, expected[c])
        said = 0
        while expected[said] > risk + rule.slack:
            said += 1
        if risk > rule.limits[0]:
            continue
        word, bit = i >> 6, np.uint64(1) << np.uint64(i & 63)
        bits[0, word] |= bit
        if said == y[i]:
            bits[1, word] |= bit
        if said == positive:
            bits[2, word] |= bit
        codes = 3 if positive >= 0 else 2
        for p in range(codes, first):
            if said >> (p - codes) & 1:
                bits[p, word] |= bit
        for p in range(planes):
            if rule.parts[y[i], said, p]:
                bits[first + p, word] |= bit
        for p in range(thresholds):
            if risk <= rule.limits[1 + p]:
                bits[first + planes + p, word] |= bit
