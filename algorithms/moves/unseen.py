"""Genomes that were not asked for before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from algorithms.moves.seen import Seen
from framework.arrays import Array

_ATTEMPTS = 16


def unseen(
    seen: Seen, n: int, make: Callable[[int], Array], otherwise: Callable[[int], Array]
) -> Array:
    """Return up to ``n`` new genomes, shape (at most n, d), and remember them.

    Repeats are refused and made again, at most so often that a space with nothing left to find
    is noticed.

    Parameters
    ----------
    seen : Seen
        Genomes that were asked for.
    n : int
    make, otherwise : callable
        Return so many genomes, new or not; the second is asked where the first finds none.
    """
    X = make(n)
    new = seen.add(X)
    if new.all():
        return X
    pieces = [X[new]]
    lacking = n - len(pieces[0])
    for attempt in range(2 * _ATTEMPTS):
        X = (make if attempt < _ATTEMPTS else otherwise)(lacking).astype(X.dtype)
        pieces.append(X[seen.add(X)])
        lacking -= len(pieces[-1])
        if not lacking:
            break
    return np.concatenate(pieces)
