"""What came of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: values, or why there are none.

    Attributes
    ----------
    number : int
        Of the trial, from 0.
    params : mapping of str to value
        What was tried, by dotted key.
    values : mapping of str to float
        What it is worth, by direction; empty where it failed or was pruned.
    bounded : mapping of str to float
        Values of the metrics of the constraints.
    violations : mapping of str to float
        By constraint how far it is from being kept; 0 or less where it is.
    intervals : mapping of str to float
        Half the 95% interval of each value, where there are repeats.
    rungs : mapping of int to float
        Values on the way, by evaluations.
    pruned : int
        The evaluations after which it was ended early; 0 where it was not.
    error : str
        Why there are no values; empty where there are.
    again : bool
        Whether a machine failed, not the trial, which is to be tried again.
    """

    number: int
    params: Mapping[str, Any]
    values: Mapping[str, float] = field(default_factory=dict)
    bounded: Mapping[str, float] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, float] = field(default_factory=dict)
    rungs: Mapping[int, float] = field(default_factory=dict)
    pruned: int = 0
    error: str = ""
    again: bool = False
