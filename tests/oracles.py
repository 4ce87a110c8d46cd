"""Slow, obviously right twins of what the package does fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Tell whether losses ``a`` are nowhere worse than ``b`` and somewhere better."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


def nondominated(losses: np.ndarray) -> list[bool]:
    """Compare all pairs; of equal rows the first counts."""
    keep = []
    for i, row in enumerate(losses):
        beaten = any(dominates(other, row) for other in losses)
        repeated = any(np.array_equal(other, row) for other in losses[:i])
        keep.append(not beaten and not repeated)
    return keep


def hypervolume(losses: np.ndarray, reference: np.ndarray) -> float:
    """Add up the grid cells between all coordinates that some point dominates."""
    m = losses.shape[1]
    axes = [np.unique(np.append(losses[:, j], reference[j])) for j in range(m)]
    axes = [axis[axis <= reference[j]] for j, axis in enumerate(axes)]
    total = 0.0
    for cell in np.ndindex(*[max(len(axis) - 1, 0) for axis in axes]):
        corner = [axes[j][cell[j]] for j in range(m)]
        if any(all(row <= corner) for row in losses):
            total += float(np.prod([axes[j][cell[j] + 1] - axes[j][cell[j]] for j in range(m)]))
    return total


def igd_plus(losses: np.ndarray, reference_set: np.ndarray) -> float:
    """Average the distances from reference points to the regions that the losses dominate."""
    distances = [
        min(float(np.sqrt((np.maximum(row - point, 0.0) ** 2).sum())) for row in losses)
        for point in reference_set
    ]
    return float(np.mean(distances))


def epsilon_additive(losses: np.ndarray, reference_set: np.ndarray) -> float:
    """Shift until every reference point is weakly dominated."""
    return max(min(float((row - point).max()) for row in losses) for point in reference_set)


def compress(genome: Sequence[int]) -> list[int]:
    """Close gaps as the EMSCO paper words it: while a stage j is missing, j + 1 becomes j."""
    stages = list(genome)
    while True:
        top = max(stages)
        missing = [j for j in range(top + 1) if j not in stages]
        if not missing:
            return stages
        j = missing[0]
        stages = [stage - 1 if stage > j else stage for stage in stages]
