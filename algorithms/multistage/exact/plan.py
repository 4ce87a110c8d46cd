"""Chooses how an exact search proceeds, or explains why it is impossible, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from algorithms.multistage.exact import dynamic_programming
from algorithms.multistage.exact.chains import surjections
from algorithms.multistage.exact.enumeration import table_bytes
from framework.errors import InputError, Unfit
from framework.roles import Roles

METRICS = ("coverage", "accuracy", "cost")
FEATURES_AT_MOST = 22
_QUICK_SECONDS = 60.0  # up to here chains are enumerated: that counts chromosomes as well
_SEED_CHAINS = 50_000_000  # chains looked at to give the programme a good start
_LEAST_ROWS = 100_000  # states that the programme needs room for to be worth a try

Method = Literal["enumeration", "dynamic_programming"]


@dataclass(frozen=True)
class Task:
    """The size of an exact search, and the limits of its memory and time.

    Attributes
    ----------
    n, k : int
        Features and most stages.
    records, words : int
        Validation records, and machine words of a bit each.
    memory_gb, hours : float
    """

    n: int
    k: int
    records: int
    words: int
    memory_gb: float
    hours: float

    @property
    def candidates(self) -> int:
        """Number of chains of feature sets."""
        return chains(self.n, self.k)

    @property
    def seconds(self) -> float:
        """What going through all chains takes, about."""
        return self.candidates * (3 + self.words) * 1e-9

    @property
    def enumeration_bytes(self) -> int:
        """Memory of an enumeration: tables of all feature sets, and the cells."""
        sets = (1 << self.n) * (56 * self.words + 2 * self.records + 8)
        return sets + table_bytes(self.records, self.k)

    @property
    def rows(self) -> int:
        """States of the programme that fit into the memory."""
        sets = 2**self.n
        fixed = sets * (32 * self.words + 2 * self.records)
        fixed += sets * dynamic_programming.set_bytes(self.words, self.records)
        fixed += table_bytes(self.records, 4)
        # while they grow there are old ones and new ones
        return int((self.memory_gb * 1e9 - fixed) / 1.5 / dynamic_programming.row_bytes(self.words))

    @property
    def enumerable(self) -> bool:
        """Whether all chains can be gone through within memory and hours."""
        fits = self.enumeration_bytes <= self.memory_gb * 1e9
        return fits and self.seconds <= 3600 * self.hours

    @property
    def seed_stages(self) -> int:
        """Most stages whose chains are few enough to be looked at beforehand."""
        few = (j for j in range(1, self.k + 1) if chains(self.n, j) <= _SEED_CHAINS)
        return max(few)

    def limits(self, falls_back: bool) -> dynamic_programming.Limits:
        """Return how far the programme goes: no longer than the enumeration that would follow."""
        seconds = self.seconds if falls_back else 3600 * self.hours
        return dynamic_programming.Limits(self.rows, seconds / dynamic_programming.STEP_SECONDS)


def choose(
    task: Task, method: Literal["auto"] | Method, *, one_way: bool, counted: bool, bounds: bool
) -> tuple[Method, str]:
    """Return the method to begin with, and the plan in words for the user.

    Parameters
    ----------
    task : Task
    method : {'auto', 'enumeration', 'dynamic_programming'}
    one_way : bool
        Whether the constraints allow dynamic programming.
    counted : bool
        Whether chromosomes are wanted, which dynamic programming does not count.
    bounds : bool
        Whether bounds are enough.

    Raises
    ------
    InputError
        The search is not expected to finish within memory and hours.
    """
    if task.n > FEATURES_AT_MOST:
        raise Unfit(
            f"algorithm.kind: exact trains all 2^n - 1 sub-classifiers, found n={task.n} features "
            f"({2**task.n - 1:,}), at most {FEATURES_AT_MOST} can be done"
        )
    candidates = task.candidates
    text = f"{2**task.n - 1:,} sub-classifiers, "
    counting = (
        f"then all {candidates:,} candidates one by one, about {duration(task.seconds)} and "
        f"{task.enumeration_bytes / 1e9:.2g} GB"
    )
    room = task.rows >= _LEAST_ROWS and one_way and task.k > 1 and not counted
    waited = method == "enumeration" or not room or task.seconds <= _QUICK_SECONDS
    if method != "dynamic_programming" and task.enumerable and waited:
        return "enumeration", f"exact: {text}{counting}"
    if room and method != "enumeration":
        seconds = 3600 * task.hours
        otherwise = "what it leaves open is told by bounds" if bounds else "then it gives up"
        if method == "auto" and task.enumerable:
            seconds = task.seconds
            otherwise = f"then one by one, about {duration(seconds)}"
        return "dynamic_programming", (
            f"exact: {text}then a dynamic programme over {2**task.n:,} feature sets for "
            f"{candidates:,} candidates, up to {task.memory_gb:g} GB and "
            f"{duration(seconds)}; {otherwise}"
        )
    reason = "" if one_way else ", and constraints leave no other method"
    if counted:
        reason = ", and algorithm.chromosomes leaves no other method"
    raise Unfit(
        f"algorithm: exact cannot finish within memory_gb={task.memory_gb:g} and "
        f"hours={task.hours:g}: {text}{counting}{reason}; raise these or lower "
        "problem.max_stages"
    )


def check_roles(roles: Roles) -> bool:
    """Tell whether all constraints bound the worse side alone; refuse roles that are not known."""
    for objective in roles.objectives:
        if objective.metric not in METRICS:
            raise InputError(
                f"objectives: exact knows {', '.join(METRICS)}, found {objective.metric!r}; take "
                "another algorithm"
            )
        sense = roles.metrics[objective.metric].sense
        if objective.sense != sense:
            raise Unfit(
                f"objectives: exact takes {objective.metric} with sense {sense}, found "
                f"{objective.sense}"
            )
    one_way = True
    for constraint in roles.constraints:
        if constraint.metric not in METRICS:
            raise Unfit(
                f"constraints: exact knows {', '.join(METRICS)}, found {constraint.metric!r}"
            )
        largest_best = roles.metrics[constraint.metric].sense == "max"
        other_way = constraint.at_most if largest_best else constraint.at_least
        if other_way is not None and constraint.metric == "cost":
            raise Unfit("constraints: exact takes a greatest cost, found a least one")
        one_way &= other_way is None
    return one_way


def chains(n: int, k: int) -> int:
    """Count the chains of at most ``k`` sets of ``n`` features (EMSCO paper, Equation 2)."""
    return sum(surjections(n, j) for j in range(1, k + 1))


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 120:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
