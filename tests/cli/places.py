"""What the tests of the command share."""

from __future__ import annotations

import importlib.util

METRICS = [
    "coverage",
    "accuracy",
    "cost",
    "stages",
    "inconclusive_rate",
    "false_positive_rate",
]
NO_RAY = importlib.util.find_spec("framework.parallel.ray_evaluator") is None


def front_of(directory):
    return (directory / "front.csv").read_bytes()
