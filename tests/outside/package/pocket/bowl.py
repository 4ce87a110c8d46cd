"""A test function."""

import numpy as np

from paretolab import Box, Function


def _bowl(X):
    return np.column_stack([(X * X).mean(axis=1), ((1 - X) * (1 - X)).mean(axis=1)])


def _high(d):
    return 1.0, 1.0


def _box(d):
    return Box(np.zeros(d), np.ones(d))


BOWL = Function("distances to two corners", _bowl, "min", _high, _box, least_d=1, usual_d=4)
