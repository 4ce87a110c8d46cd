"""Searches over ensembles: loss against one cost, as in the paper."""

import numpy as np

from framework.pareto import hypervolume
from framework.roles import Objective, Roles
from tests import searching


def two_roles(problem, *constraints, cost="memory"):
    """Return loss against one cost."""
    return Roles(
        problem.metrics, [Objective("roc_auc", "max"), Objective(cost, "min")], constraints
    )


def searched(cls, problem, roles=None, evaluations=600, seed=0, **parameters):
    """Return the algorithm, the front and the record of a run."""
    roles = roles or two_roles(problem)
    return searching.searched(cls, problem, roles, evaluations, seed, **parameters)


def volume(record, roles, rows):
    """Return the hypervolume of some rows of a run, within the roles' bounds."""
    losses = roles.losses({name: record.column(name)[rows] for name in roles.metrics})
    bounds = roles.bounds()
    scaled = (losses - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    return hypervolume(scaled, np.ones(2))
