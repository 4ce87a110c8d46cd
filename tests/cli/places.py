"""What the tests of the command share."""

from __future__ import annotations

METRICS = [
    "coverage",
    "accuracy",
    "cost",
    "stages",
    "inconclusive_rate",
    "false_positive_rate",
]


def front_of(directory):
    return (directory / "front.csv").read_bytes()
