"""From probabilities to the bits of a component: what it answers, rightly or not, at which risk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, frozen
from framework.jit import njit


@njit
def decide(
    P: Array,
    thresholds: Array,
    y: Array,
    positive: int,
    slack: float,
    limits: Array,
    bits: Array,
) -> None:
    """Set the bits of one component from probabilities on some records.

    ``bits`` is (planes, words). Plane 0: conclusive (the most likely class, the
    first of equals, reaches its threshold less ``slack``); plane 1: conclusive and right; then,
    where there is a positive class: conclusive and the answer is ``positive``; then, if there: the
    bits of the answer's code, the lowest first; last, for each of ``limits`` but the first, which
    is the threshold of all classes: the class reaches that.
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
    """What makes an answer where errors have costs; no classes: confidences alone decide.

    Attributes
    ----------
    errors : shape (classes, classes)
        Cost of saying the class of the column where that of the row is true.
    slack : float
        Answers whose expected costs differ by no more are equal.
    limits : shape (1 + thresholds,)
        Greatest risk of an answer after the last stage, then at each of the thresholds. Where
        confidences decide: the thresholds that a search chooses from, ascending; none with one.
    parts : shape (classes, classes, error planes)
        Which planes an error sets.
    """

    errors: FloatArray
    slack: float
    limits: FloatArray
    parts: Array


def by_confidence(thresholds: FloatArray) -> RiskRule:
    """Return the rule by which confidences decide, with the thresholds to choose from."""
    nothing = frozen(np.zeros((0, 0))), 0.0
    return RiskRule(*nothing, frozen(thresholds), frozen(np.zeros((0, 0, 0), dtype=bool)))


BY_CONFIDENCE = by_confidence(np.zeros(0))


@njit
def decide_by_risk(P: Array, rule: RiskRule, y: Array, positive: int, bits: Array) -> None:
    """Set the bits of one component where errors have costs; see :func:`decide`.

    The answer is that of least expected cost, the first of equals, and conclusive where that cost
    is at most ``limits[0]``. After the planes of :func:`decide` come those of errors, then one for
    each further limit that says whether the cost is at most that.
    """
    k, n = P.shape
    planes, thresholds = rule.parts.shape[2], len(rule.limits) - 1
    first = bits.shape[0] - planes - thresholds
    expected = np.empty(k)
    for i in range(n):
        for c in range(k):
            expected[c] = 0.0
            for t in range(k):
                expected[c] += P[t, i] * rule.errors[t, c]
        risk = expected.min()
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
