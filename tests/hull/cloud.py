"""A problem whose objectives are its genes, and twins of the hull searches that hide nothing."""

import numpy as np

from algorithms.hull.kernels.hull3d import Hull3D
from framework.problem import Problem
from framework.roles import Metric
from framework.space import Box
from tests.conftest import roles_of
from tests.landscape import generations


class Genes(Problem):
    """The genes, of [0, 1], are the losses."""

    def __init__(self, m: int = 3, anchors=None, steps: int | None = None) -> None:
        self.space = Box(np.zeros(m), np.ones(m))
        self.metrics = tuple(Metric(f"f{j}", "min", steps=steps) for j in range(m))
        self._anchors = anchors
        self.fingerprint = f"{type(self).__name__}/{m}/{steps}"

    def anchors(self, metrics):
        return self._anchors

    def evaluate(self, X, streams):
        return dict(zip(self.metric_names, X.T, strict=True))


class Cloud(Genes):
    """The genes are rounded to ``steps`` steps."""

    def __init__(self, steps: int, anchors=None) -> None:
        super().__init__(3, anchors, steps)
        self.steps = steps

    def evaluate(self, X, streams):
        return super().evaluate(np.rint(X * self.steps) / self.steps, streams)


def searched(cls, problem, evaluations, **parameters):
    """Return a search of a problem after so many evaluations."""
    algorithm = cls(problem, roles_of(problem), seed=0, **parameters)
    for _ in generations(algorithm, problem, rows=evaluations):
        pass
    return algorithm


class Twin:
    """3DFCH-EMOA with lists and hulls made anew: Algorithms 1, 2, 5, 6 and 7 as they are printed.

    ``mode`` is ``oldest`` or ``birth``. Points are tuples of whole numbers.
    """

    def __init__(self, fixed, size, mode="oldest"):
        self.fixed, self.size, self.mode = fixed, size, mode
        self.frontal, self.queue = [], []  # (id, point)

    def hull(self, members):
        return Hull3D(np.array([*self.fixed, *(point for _, point in members)]))

    def corners(self, members):
        """Return the members at extreme points; of equal ones the first."""
        hull = self.hull(members)
        points = np.array([*self.fixed, *(point for _, point in members)])
        extreme = {tuple(points[v].tolist()) for v in hull.vertices}
        kept, seen = [], {tuple(point) for point in self.fixed}
        for member in members:
            if member[1] in extreme and member[1] not in seen:
                kept.append(member)
                seen.add(member[1])
        return kept

    def volume6(self):
        return self.hull(self.frontal).volume6

    def add(self, id, point):
        known = [*self.frontal, (id, point)]
        corners = self.corners(known)
        displaced = [member for member in self.frontal if member not in corners]
        if (id, point) not in corners:
            self.queue.append((id, point))
        self.frontal = corners
        self.queue += displaced
        if len(self.frontal) + len(self.queue) > self.size:
            self.drop()

    def drop(self):
        if self.queue:
            gone = self.queue[0] if self.mode == "oldest" else min(self.queue)
            self.queue.remove(gone)
            return
        whole = self.volume6()

        def lost(member):
            rest = [other for other in self.frontal if other != member]
            return whole - self.hull(rest).volume6, member[0]

        self.frontal.remove(min(self.frontal, key=lost))
