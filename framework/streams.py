"""Many independent random streams from one seed.

The algorithm draws from its own stream. Each candidate of a stochastic problem has a stream that
depends only on the seed and the candidate's id, so that values depend neither on batches nor on
workers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framework.arrays import IntArray

_ALGORITHM, _ROW, _REPEAT, _RESAMPLES = range(4)


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the stream that a key tells from all others of the same seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def algorithm_stream(seed: int) -> np.random.Generator:
    """Return the stream that the algorithm of a run draws from."""
    return stream(seed, _ALGORITHM)


def repeat_seed(seed: int, repeat: int) -> int:
    """Return the seed of the ``repeat``-th repetition (from 0); the first has the seed itself."""
    if repeat == 0:
        return seed
    return int(np.random.SeedSequence(seed, spawn_key=(_REPEAT, repeat)).generate_state(1)[0])


def resample_stream(seed: int, *, again: bool = False) -> np.random.Generator:
    """Return the stream for resamples of a run's records or, with ``again``, of the resamples."""
    return stream(seed, _RESAMPLES, 1) if again else stream(seed, _RESAMPLES)


class CandidateStreams:
    """A random generator for each candidate of a batch, made when it is first used."""

    def __init__(self, seed: int, ids: IntArray) -> None:
        self.seed, self.ids = seed, ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> np.random.Generator:
        return stream(self.seed, _ROW, int(self.ids[i]))

    def __iter__(self) -> Iterator[np.random.Generator]:
        return (self[i] for i in range(len(self)))
