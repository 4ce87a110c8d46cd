"""The front of a run against what one would do without a search: compared, stored and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.analysis.alternatives import (
    Compared,
    Worth,
    compare_alternatives,
    verdict,
    verdict_of_runs,
    worth_of,
)
from framework.errors import InputError, ParetolabError, damaged
from framework.experiment.expected import Evidence
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.problem import Problem

KEY = "alternatives"
_MOST_RECORDS = 200_000  # of a search: resamples of more take longer than they are worth


def with_alternatives(
    problem: Problem, front: Front, resampled: Evidence, report: Callable[[str], None]
) -> dict[str, Any]:
    """Return the comparison of a run's front with the problem's alternatives, for its summary.

    If none can be made, the reason is reported and the mapping is empty. ``resampled`` is the
    evidence from which the expected figures of the front were made.
    """
    if not len(front):
        return {}
    try:
        alternatives = problem.alternatives()
        if not alternatives:
            return {}
        if alternatives[0].outcomes.records > _MOST_RECORDS:
            raise InputError(f"expected at most {_MOST_RECORDS:,} records to resample, found more")
        positions = resampled.positions(front.ids)
        compared = compare_alternatives(
            resampled.resamples, front, positions, resampled.values, alternatives
        )
    except ParetolabError as error:
        report(f"the front is not compared with what one would do without a search: {error}")
        return {}
    return {KEY: [alternative.to_json() for alternative in compared]}


def read_alternatives(summary: Mapping[str, Any]) -> list[Compared]:
    """Return the comparison that a summary holds; empty if there is none.

    Raises
    ------
    InputError
        The comparison is damaged.
    """
    with damaged("summary.json", "a comparison with what one would do without a search"):
        return [Compared.from_json(plain) for plain in summary.get(KEY) or ()]


def verdict_of(run_dir: RunDir, front: Front) -> str | None:
    """Return a sentence on whether the search was worth it; None where that is not known.

    For repeats, the sentence tells in how many of them it was not.
    """
    if repeats := [run for run in run_dir.children() if run.front_file.is_file()]:
        return verdict_of_runs([("", worth_of_run(run, run.front())) for run in repeats])
    compared = _compared(run_dir, front)
    return verdict(compared, front) if compared else None


def worth_of_run(run_dir: RunDir, front: Front) -> Worth | None:
    """Return what the search of a single run beats, by its summary; None if unknown.

    ``front`` is the front of everything that the run evaluated.
    """
    return worth_of(_compared(run_dir, front), front)


def _compared(run_dir: RunDir, front: Front) -> list[Compared]:
    """Return the comparison of a run's summary, about metrics that the front has."""
    compared = read_alternatives(run_dir.summary())
    with damaged("summary.json", "a comparison by metrics of the front"):
        for alternative in compared:
            for name in (*alternative.values, *alternative.gains):
                front.roles.sense(name)
    return compared
