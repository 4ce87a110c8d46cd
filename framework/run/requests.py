"""How rows are sent to workers: how many at once, and when an answer is late.

The workers of a cluster and those of the simulator follow the same rules.
"""

from __future__ import annotations

from math import ceil

CHUNK_SECONDS = 0.05  # work in a request: a hundred times what sending it costs
_SMALL_SECONDS = 0.005  # less work than this is never divided
_LATE_SECONDS = 2.0  # from which a request may be late,
_LATE_TIMES = 3.0  # and how many times what it should take


def request_size(rows: int, workers: int, seconds: float) -> int:
    """Return how many of ``rows`` waiting rows the next request takes.

    Parameters
    ----------
    rows, workers : int
    seconds : float
        What a row takes, positive.
    """
    if rows * seconds <= _SMALL_SECONDS:
        return rows
    fair = max(ceil(rows / max(1, workers)), int(_SMALL_SECONDS / seconds))
    return max(1, min(rows, fair, int(CHUNK_SECONDS / seconds)))


def patience(rows: int, seconds: float) -> float:
    """Return the seconds after which a request is late, and an idle worker may do it again.

    Parameters
    ----------
    rows : int
        In the request.
    seconds : float
        What a row takes on average.
    """
    return max(_LATE_SECONDS, _LATE_TIMES * rows * seconds)
