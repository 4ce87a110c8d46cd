"""Comparison of runs on one problem: which search finds more, and is the difference significant?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from framework.analysis.indicators import Indicator, Judged, indicators
from framework.analysis.rank_tests import RankTests, rank_tests
from framework.arrays import BoolArray, FloatArray
from framework.errors import InputError
from framework.front import Front, nondominated
from framework.roles import Roles

NUMBERS = ("evaluations", "distinct", "seconds", "front_size")
"""Columns of a comparison that are averaged over runs, besides the indicators."""


@dataclass(frozen=True)
class ComparedRun:
    """One run with one seed.

    Attributes
    ----------
    algorithm : str
        Its kind, and the parameters in which compared runs of that kind differ.
    seed, evaluations : int
    distinct : float
        Number of different candidates among those evaluated; NaN in older runs, which did not
        count them.
    seconds : float
        Time spent searching.
    front : Front
    path : Path
    """

    algorithm: str
    seed: int
    evaluations: int
    distinct: float
    seconds: float
    front: Front
    path: Path


@dataclass(frozen=True)
class Comparison:
    """Runs of several searches on one problem.

    Attributes
    ----------
    title : str
        The problem's data or kind.
    roles : Roles
    runs : tuple of ComparedRun
    reference : numpy.ndarray, shape (r, objectives)
        Losses of the reference front, distinct.
    reference_text : str
        Where the reference front comes from.
    found : tuple of numpy.ndarray of bool, shape (r,)
        For each run, which reference vectors its front has.
    frame : pandas.DataFrame
        A row a run: algorithm, seed, evaluations, distinct, seconds, front_size, the indicators,
        directory.
    indicators : mapping of str to Indicator
        Those that have a meaning for these objectives, by column.
    tests : mapping of str to RankTests
        The tests of each indicator, with the searches in the order of ``algorithms``; empty where
        the searches have too few seeds in common.
    """

    title: str
    roles: Roles
    runs: tuple[ComparedRun, ...]
    reference: FloatArray
    reference_text: str
    found: tuple[BoolArray, ...]
    frame: pd.DataFrame
    indicators: dict[str, Indicator]
    tests: dict[str, RankTests]

    @property
    def algorithms(self) -> list[str]:
        """Names of the searches, in the order given."""
        return list(dict.fromkeys(run.algorithm for run in self.runs))

    def summary(self) -> pd.DataFrame:
        """Return a table with a row for each search.

        Its columns: the number of runs, then the mean and the sample standard deviation (NaN for
        a single run) of each number in ``frame``, and mean ranks where there are tests.
        """
        numbers = [*NUMBERS, *self.indicators]
        groups = self.frame.groupby("algorithm", sort=False)[numbers]
        with np.errstate(invalid="ignore"):  # the IGD+ of an empty front is infinite
            table = groups.agg(["mean", "std"])
        table.columns = pd.Index([f"{name}_{how}" for name in numbers for how in ("mean", "std")])
        table.insert(0, "runs", groups.size())
        for name, tests in self.tests.items():
            table[f"{name}_rank"] = tests.ranks
        return table.reset_index()


def compare_runs(
    runs: Sequence[ComparedRun],
    roles: Roles,
    *,
    title: str,
    reference: FloatArray | None = None,
    reference_text: str = "",
) -> Comparison:
    """Compare runs on one problem.

    Parameters
    ----------
    runs : sequence of ComparedRun
        Each algorithm with a seed once.
    roles : Roles
        The same for all.
    title : str
    reference : numpy.ndarray, shape (r, objectives), optional
        Losses to measure against; the non-dominated vectors of all runs together if None.
    reference_text : str
        Where the reference comes from.

    Raises
    ------
    InputError
        No run found a solution.

    Notes
    -----
    Tests take the seeds that all searches ran with as blocks.
    """
    losses = [run.front.losses for run in runs]
    if reference is None:
        reference = np.concatenate(losses)
        reference_text = f"front of all {len(runs)} runs together"
    reference = reference[nondominated(reference)]
    if not len(reference):
        raise InputError("compare: expected at least one solution in some front, found none")
    judged = [Judged(front, reference, roles) for front in losses]
    known = indicators()
    frame = pd.DataFrame(
        {
            "algorithm": run.algorithm,
            "seed": run.seed,
            "evaluations": run.evaluations,
            "distinct": run.distinct,
            "seconds": run.seconds,
            "front_size": len(run.front),
            **{name: indicator.measure(one) for name, indicator in known.items()},
            "directory": str(run.path),
        }
        for run, one in zip(runs, judged, strict=True)
    )
    meant = {name: known[name] for name in known if frame[name].notna().any()}
    frame = frame.drop(columns=[name for name in known if name not in meant])
    found = tuple(one.found() for one in judged)
    return Comparison(
        title,
        roles,
        tuple(runs),
        reference,
        reference_text,
        found,
        frame,
        meant,
        _tests(frame, meant),
    )


def beaten(comparison: Comparison) -> int:
    """Return how many vectors of the reference front some run dominates; 0 if it is exact."""
    everything = [comparison.reference, *(run.front.losses for run in comparison.runs)]
    kept = nondominated(np.concatenate(everything))[: len(comparison.reference)]
    return int((~kept).sum())


def _tests(frame: pd.DataFrame, indicators: dict[str, Indicator]) -> dict[str, RankTests]:
    tests = {}
    for name, indicator in indicators.items():
        table = frame.pivot(index="seed", columns="algorithm", values=name)
        table = table[frame["algorithm"].unique()].dropna()
        if min(table.shape) < 2:
            return {}
        values = table.to_numpy(dtype=np.float64)
        tests[name] = rank_tests(values if indicator.better == "low" else -values)
    return tests
