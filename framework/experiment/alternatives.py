"""What a person would do without a search, beside the front of a run: found, kept and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.analysis.alternatives import (
    Compared,
    claimed_by_all,
    compare_alternative,
    verdict,
)
from framework.errors import InputError, ParetolabError, damaged
from framework.experiment.expected import evidence
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.problem import Problem

KEY = "alternatives"
_MOST_RECORDS = 200_000  # of a search: resamples of more take longer than they are worth


def add_alternatives(
    problem: Problem, run_dir: RunDir, seed: int, report: Callable[[str], None]
) -> None:
    """Compare the front of a finished run with the problem's alternatives; add to its summary.

    Where that cannot be done, why not is reported.
    """
    front = run_dir.front()
    if not run_dir.journal_file.is_file() or not len(front) or len(front.roles.names) < 2:
        return
    try:
        alternatives = problem.alternatives()
        if not alternatives:
            return
        if alternatives[0].outcomes.records > _MOST_RECORDS:
            raise InputError(f"expected at most {_MOST_RECORDS:,} records to resample, found more")
        with run_dir.journal() as journal:
            found = evidence(journal, problem, seed)
        if found is None:
            return
        positions = found.positions(front.ids)
        claimed = claimed_by_all(found.resamples, front.roles)
        compared = [
            compare_alternative(found.resamples, front, positions, claimed, one)
            for one in alternatives
        ]
    except ParetolabError as error:
        report(f"the front is not compared with what one would do without a search: {error}")
        return
    run_dir.write_summary(run_dir.summary() | {KEY: [one.to_json() for one in compared]})


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
    """Return a sentence: whether the search was worth it; None where that is not known."""
    found = read_alternatives(run_dir.summary())
    return verdict(found, front) if found else None
