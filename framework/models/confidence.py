"""When a prediction is confident enough: one rule for the search and for deployed models."""

from __future__ import annotations

import numpy as np

from framework.arrays import BoolArray, FloatArray, IntArray

CONFIDENCE_SLACK = 1e-9
"""How far below its threshold a probability may be, so that a tie does not hang on rounding."""


def decide(probabilities: FloatArray, thresholds: FloatArray) -> tuple[IntArray, BoolArray]:
    """Return the most likely class of each record (the first of equals), and if that is confident.

    Parameters
    ----------
    probabilities : float64 (n, K)
    thresholds : float64 (K,)
        The probability that an answer of each class needs.

    Returns
    -------
    best : int64 (n,)
    confident : bool (n,)
    """
    best = probabilities.argmax(axis=1)
    highest = probabilities[np.arange(len(best)), best]
    return best, highest >= thresholds[best] - CONFIDENCE_SLACK
