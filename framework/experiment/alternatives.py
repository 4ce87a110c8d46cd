"""What a person would do without a search, beside the front of a run: found, kept and read."""

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
    """Compare the front of a run with the problem's alternatives; return it for its summary.

    Where that cannot be done, why not is reported, and nothing is returned. ``resampled`` is the
    evidence that what to expect of the front was made of.
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
    return {KEY: [one.to_json() for one in compared]}


def read_alternatives(summary: Mapping[str, Any]) -> list[Compared]:
    """Return what the front of a run was compared with, by its summary; none where it was not.

    Raises
    ------
    InputError
        What is written of it is damaged.
    """
    with damaged("summary.json", "a comparison with what one would do without a search"):
        return [Compared.from_json(plain) for plain in summary.get(KEY) or ()]


def verdict_of(run_dir: RunDir, front: Front) -> str | None:
    """Return a sentence: whether the search was worth it; None where that is not known.

    Of repeats: in how many of them it was not.
    """
    if repeats := [one for one in run_dir.children() if one.front_file.is_file()]:
        return verdict_of_runs([("", worth_of_run(one, one.front())) for one in repeats])
    compared = read_alternatives(run_dir.summary())
    return verdict(compared, front) if compared else None


def worth_of_run(run_dir: RunDir, front: Front) -> Worth | None:
    """Return what the search of a single run beats, by its summary; None where not known.

    ``front`` is that of everything evaluated.
    """
    return worth_of(read_alternatives(run_dir.summary()), front)
