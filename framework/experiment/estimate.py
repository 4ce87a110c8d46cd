"""What a run will need, estimated before it starts: memory, and time to the first generation."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import psutil

from framework.algorithm import Algorithm
from framework.arrays import Array
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.machine import machine_memory, resident_memory
from framework.problem import Problem

_CLEARLY = 1.3  # a run is refused beyond these times the memory; of many records more is needed
_WORTH_SAYING = 10.0  # seconds


@dataclass(frozen=True)
class Estimate:
    """What a run will need.

    Attributes
    ----------
    memory : int
        Bytes of this process at its peak, including those that it has taken so far.
    more : int
        Bytes in addition to those that it has now.
    parts : int
        Number of shared components that have to be built before the first generation is scored.
    seconds : float
        How long one processor takes to build them.
    """

    memory: int
    more: int = 0
    parts: int = 0
    seconds: float = 0.0

    def time(self, name: str) -> str:
        """Return a line on the time to the first generation; empty where it is short."""
        if self.seconds < _WORTH_SAYING:
            return ""
        about = timedelta(seconds=float(f"{self.seconds:.2g}"))
        return f"{self.parts:,} {name} to build, about {about} of one processor (h:mm:ss)"


def estimate(problem: Problem, algorithm: Algorithm, candidates: int | None) -> Estimate:
    """Return what a run will need.

    Parameters
    ----------
    problem : Problem
    algorithm : Algorithm
        In its initial state, and left in it: a copy is asked for the first generation.
    candidates : int or None
        How many candidates are evaluated; None if unknown.
    """
    peak = max(resident_memory())
    X = _first(algorithm) if problem.has_components else None
    keys = None if X is None else problem.missing_components(X)
    cost = None if keys is None else problem.build_cost(keys)
    if X is None or keys is None or cost is None:
        most = problem.memory(candidates)[0]
        return Estimate(max(peak, most), most)
    share = (algorithm.evaluations_per_generation or len(X)) / len(X)
    # components that an earlier run of this process has built are in its memory already
    all_parts = len(keys) * max(1.0, (candidates or len(X)) / len(X))
    more = cost.bytes_building + int(all_parts) * cost.bytes_stored
    peak = max(peak, resident_memory()[0] + more)
    return Estimate(peak, more, round(share * len(keys)), share * cost.seconds)


def candidates_of(config: RunConfig, algorithm: Algorithm) -> int | None:
    """Return the greatest number of candidates that a budget allows; None if it is unknown."""
    if config.budget.evaluations is not None:
        return config.budget.evaluations
    generation = getattr(algorithm, "population", None)
    if config.budget.generations is None or generation is None:
        return None
    return int(generation) * (config.budget.generations + 1)


def memory_warning(more: int) -> str:
    """Return a sentence where a run may need more bytes than are free; empty where not."""
    free = psutil.virtual_memory().available
    if more <= free:
        return ""
    return (
        f"{more / 1e9:,.1f} GB more memory may be needed, {free / 1e9:,.1f} GB are free; "
        "give fewer evaluations, fewer columns or smaller candidates, or watch it: Ctrl-C ends it, "
        "and what was evaluated is kept"
    )


def refuse_too_large(needed: int, limit: float | None, what: str) -> None:
    """Refuse what clearly needs more memory than there is.

    Parameters
    ----------
    needed : int
        Bytes.
    limit : float or None
        The key ``memory_limit``: GB that may be used; None stands for what the machine has.
    what : str
        What needs it.

    Raises
    ------
    InputError
        It needs clearly more, or more than a limit that the user gave.
    """
    allowed = _CLEARLY * machine_memory() if limit is None else 1e9 * limit
    if needed <= allowed:
        return
    source = "of this machine" if limit is None else "that memory_limit allows"
    allowed = machine_memory() if limit is None else allowed
    raise InputError(
        f"memory: expected a run that fits into the {allowed / 1e9:,.1f} GB {source}, found about "
        f"{needed / 1e9:,.1f} GB {what}; take fewer columns, records or evaluations, or set "
        f"memory_limit to more GB"
    )


def _first(algorithm: Algorithm) -> Array | None:
    """Return the first generation, or the part that is proposed before there are results.

    None for an algorithm that prepares for long before it proposes: its plan says what it will do.
    """
    if type(algorithm).prepare is not Algorithm.prepare:
        return None
    algorithm = copy.deepcopy(algorithm)
    pieces: list[Array] = []
    while sum(len(X) for X in pieces) < (algorithm.evaluations_per_generation or 1):
        X = algorithm.ask()
        if X is None:
            break
        pieces.append(X)
    return np.concatenate(pieces) if pieces else None


def built_first(put_off: Sequence[str]) -> list[tuple[str, str]]:
    """Return a line, with its title, for each expensive thing that is built before a run."""
    return [("built first", what) for what in put_off]


def budget_of_all(runs: Iterable[tuple[RunConfig, int | None]]) -> str:
    """Return a line on what all runs together may spend.

    Parameters
    ----------
    runs : iterable of (RunConfig, int or None)
        Each with the greatest number of its evaluations; None where that is unknown.
    """
    evaluations, unknown, seconds, untimed = 0, 0, 0.0, 0
    for config, most in runs:
        evaluations += most or 0
        unknown += most is None
        seconds += config.budget.seconds or 0.0
        untimed += config.budget.seconds is None
    parts = [f"at most {evaluations:,} evaluations"] if evaluations else []
    parts += [f"{unknown:,} runs with no limit to them that is known"] if unknown else []
    if seconds and not untimed:
        parts.append(f"at most {timedelta(seconds=round(seconds))} of searching (h:mm:ss)")
    return "; ".join(parts)
