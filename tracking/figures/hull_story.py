"""The content of the pictures of a front's convex hull, read from a run's directory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework.analysis.expected_cost import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.analysis.hulls import facing_hull
from framework.arrays import FloatArray, IntArray
from framework.experiment.run_dir import RunDir
from tracking.figures.story import Story

Staircase = tuple[FloatArray, FloatArray, IntArray]


@dataclass(frozen=True)
class Hull:
    """The hull that a front makes with the points of reference of its problem.

    Attributes
    ----------
    points : numpy.ndarray, shape (n + k, 3)
        The front's solutions, then the points of reference, in the objectives' natural units.
    facets : numpy.ndarray of int64, shape (facets, 3)
        Those seen from the ideal point, by positions in ``points``.
    solutions : int
        How many of the points are solutions.
    """

    points: FloatArray
    facets: IntArray
    solutions: int

    @property
    def corners(self) -> IntArray:
        """Positions of the solutions that are corners, ascending."""
        found = np.unique(self.facets)
        return found[found < self.solutions]


def read_hull(run_dir: RunDir, story: Story) -> Hull | None:
    """Return the hull of a run's front.

    None without points of reference, three bounded objectives, or a volume.
    """
    reference = run_dir.anchors()
    roles = story.roles
    if (
        reference is None
        or not len(reference)
        or len(roles.objectives) != 3
        or not len(story.front)
    ):
        return None
    low, high = roles.bounds().T
    if not np.isfinite([low, high]).all() or (low >= high).any():
        return None
    shares = np.concatenate([(story.front.losses - low) / (high - low), reference])
    facets = facing_hull(shares)
    if not len(facets):
        return None
    return Hull(roles.natural(shares * (high - low) + low), facets, len(story.front))


def error_rates(story: Story) -> Staircase | None:
    """Return rates of false alarms and misses of a front, and the corners of their hull.

    The two rates have a value a solution; the corners are positions in them, by rising rate of
    false alarms, of which (0, 1) and (1, 0), answering one class always, are left out. None where
    the problem has no such rates.
    """
    values = story.front.rows.values
    if FALSE_POSITIVES not in values or FALSE_NEGATIVES not in values or not len(story.front):
        return None
    x, y = values[FALSE_POSITIVES], values[FALSE_NEGATIVES]
    points = np.concatenate([np.column_stack([x, y]), [[0.0, 1.0], [1.0, 0.0]]])
    corners = np.unique(facing_hull(points))
    corners = corners[corners < len(x)]
    return x, y, corners[np.lexsort((-y[corners], x[corners]))]
