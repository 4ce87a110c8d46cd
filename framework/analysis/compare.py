"""Many runs on one problem or several: which search finds more, and is that more than luck?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from framework.analysis.alternatives import Worth
from framework.analysis.indicators import (
    ON_NEW_RECORDS,
    Indicator,
    Judged,
    indicators,
    indicators_of,
)
from framework.analysis.statistics import RankTests, rank_tests
from framework.arrays import BoolArray, FloatArray
from framework.errors import InputError, first_few, first_line
from framework.pareto import nondominated
from framework.roles import Roles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = ("evaluations", "distinct", "seconds", "solutions")
"""Columns of a comparison that are averaged over runs, besides the indicators."""

Blocks = Literal["auto", "scenarios", "cases", "runs"]
Paper = Mapping[str, Mapping[str, Mapping[str, float]]]


class Claim(NamedTuple):
    """A statement of a paper, what it printed, what came out here, and whether the claim holds."""

    claim: str
    paper: str
    here: str
    holds: bool


@dataclass(frozen=True)
class Ranking:
    """Methods ranked by figures that a page computes, drawn as critical-difference diagrams.

    Attributes
    ----------
    methods : sequence of str
    tests : mapping of str to RankTests
        By the name of the figure, with the methods in that order.
    blocks : str
        What a block of the tests is, in the plural.
    """

    methods: Sequence[str]
    tests: Mapping[str, RankTests]
    blocks: str


@dataclass(frozen=True)
class Page:
    """A part of a report.

    Attributes
    ----------
    title, text : str
        ``text`` says in a sentence or two what was done; ``**this**`` is bold, also in a table.
    claims : sequence of Claim
    tables : mapping of str to DataFrame
        Tables by the name of their file in ``tables/``.
    figures : mapping of str to Figure
    rankings : mapping of str to Ranking
        Figures and rankings by the name of their file in ``plots/``.
    files : mapping of str to DataFrame
        Tables that are too long to show.
    """

    title: str
    text: str = ""
    claims: Sequence[Claim] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedRun:
    """One run with one seed.

    Attributes
    ----------
    method : str
        The label of the method, or its kind and the parameters in which runs of that kind differ.
    seed, evaluations : int
    distinct : float
        How many different candidates were evaluated; NaN where a run does not tell.
    seconds : float
        The time spent searching.
    losses : numpy.ndarray, shape (n, objectives)
        The losses of the solutions that are judged.
    path : Path
        The directory of the run.
    place : str
        The name of the directory in tables.
    metrics : mapping of str to numpy.ndarray, shape (n,)
        Every metric of these solutions.
    findings : mapping
        What else the algorithm reported about its result.
    expected, test : numpy.ndarray, shape (n, objectives), or None
        The expected losses of these solutions, and their losses on test records, where known.
    stopped : str
        Why the run ended: the limit of its budget that was reached, or the reason of the search.
    worth : Worth or None
        Which alternatives to a search the run beats, where known.
    """

    method: str
    seed: int
    evaluations: int
    distinct: float
    seconds: float
    losses: FloatArray
    path: Path
    place: str
    metrics: Mapping[str, FloatArray] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    expected: FloatArray | None = None
    test: FloatArray | None = None
    stopped: str = ""
    worth: Worth | None = None


@dataclass(frozen=True)
class Case:
    """Runs of several searches on one problem.

    Attributes
    ----------
    name : str
    roles : Roles
    runs : tuple of ComparedRun
    reference : numpy.ndarray, shape (r, objectives)
        Losses of the reference front, distinct; r is 0 where no run found a solution.
    reference_text : str
        Where the reference front comes from.
    reached : tuple of numpy.ndarray of bool, shape (r,)
        For each run, which reference vectors are among its solutions.
    frame : pandas.DataFrame
        One row per run: case, method, seed, ``NUMBERS``, indicators, directory. Without a
        reference it has no rows, as ``reached`` has none: nothing can be measured.
    anchors : numpy.ndarray, shape (k, objectives), or None
        The reference points of the problem, if it has some.
    unit : str
        The case that this one is a fold of; indicators are averaged over the folds of a unit.
    scenario : str
        The case that this one is a variant of, such as a data set of which it is one split.
    """

    name: str
    roles: Roles
    runs: tuple[ComparedRun, ...]
    reference: FloatArray
    reference_text: str
    reached: tuple[BoolArray, ...]
    frame: pd.DataFrame
    anchors: FloatArray | None = None
    unit: str = ""
    scenario: str = ""

    def beaten(self) -> int:
        """Return how many vectors of the reference some run dominates; 0 for an exact reference.

        Vectors that the reference itself dominates (in the dent of a true front) do not count.
        """
        best = self.reference[nondominated(self.reference)]
        everything = [best, *(run.losses for run in self.runs)]
        unbeaten = nondominated(np.concatenate(everything))[: len(best)]
        return int((~unbeaten).sum())


@dataclass(frozen=True)
class Comparison:
    """Runs of several searches on one problem or several.

    Attributes
    ----------
    title : str
    cases : tuple of Case
    methods : list of str
        Names of the searches, in the order of their first runs.
    indicators : mapping of str to Indicator
        The indicators that have a meaning for these objectives, by column.
    frame : pandas.DataFrame
        The rows of the cases, one per run, with these indicators only.
    units : pandas.DataFrame
        Like ``frame``, but with one row for the mean over the folds of each unit, which the column
        ``case`` names. It equals ``frame`` where no case is a fold.
    tests : mapping of str to RankTests
        Tests by indicator, searches in the order of ``methods``; only of indicators that all
        searches have in at least two blocks.
    blocks : str
        What a block of the tests is, in the plural: 'scenarios', 'cases', 'seeds' or 'runs'.
    judged : str
        Which solutions of a run are judged, in words.
    paper : mapping
        Published values, by case or scenario, method and indicator.
    claims : sequence of Claim
        Claims of the paper, tested here.
    wanted_pages : sequence of str
        Names of the pages of packages that the report shows.
    pages : sequence of Page
        These pages, once the report is written.
    unsolved : tuple of str
        The cases on which no run found a solution, which are not among ``cases``.
    """

    title: str
    cases: tuple[Case, ...]
    methods: list[str]
    indicators: dict[str, Indicator]
    frame: pd.DataFrame
    units: pd.DataFrame
    tests: dict[str, RankTests]
    blocks: str
    judged: str
    paper: Paper = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    wanted_pages: Sequence[str] = ()
    pages: Sequence[Page] = ()
    unsolved: tuple[str, ...] = ()

    @property
    def scenarios(self) -> list[str]:
        """The scenarios of the cases, in order; the cases themselves where none has variants."""
        return list(dict.fromkeys(case.scenario or case.name for case in self.cases))

    @property
    def first(self) -> str:
        """The indicator that counts most."""
        return next(iter(self.indicators))

    def summary(self) -> pd.DataFrame:
        """Return one row per search: the number of runs, means, and sample standard deviations.

        A standard deviation is NaN for a single run.
        """
        numbers = [*NUMBERS, *(name for name in self.indicators if name not in NUMBERS)]
        by_method = self.units.groupby("method", sort=False)[numbers]
        with np.errstate(invalid="ignore"):  # the IGD+ of an empty front is infinite
            table = by_method.agg(["mean", "std"])
        table.columns = pd.Index([f"{name}_{how}" for name in numbers for how in ("mean", "std")])
        table.insert(0, "runs", by_method.size())
        for name, tests in self.tests.items():
            table[f"{name}_rank"] = pd.Series(tests.ranks, index=self.methods)
        return table.reset_index()

    def ordered(self) -> list[str]:
        """Return the searches, best first: by mean rank in :attr:`first`, without tests by mean."""
        if self.first in self.tests:
            order = np.argsort(self.tests[self.first].ranks, kind="stable")
            return [self.methods[i] for i in order]
        means = self.units.groupby("method", sort=False)[self.first].mean()
        return list(means.sort_values(ascending=self.indicators[self.first].better == "low").index)


def compare_case(
    name: str,
    runs: Sequence[ComparedRun],
    roles: Roles,
    *,
    reference: FloatArray | None = None,
    reference_text: str = "",
    anchors: FloatArray | None = None,
    shown: Sequence[str] | None = None,
    unit: str | None = None,
    scenario: str | None = None,
) -> Case:
    """Measure runs on one problem.

    Parameters
    ----------
    name : str
    runs : sequence of ComparedRun
        Each search with a seed once.
    roles : Roles
        The same for all.
    reference : numpy.ndarray, shape (r, objectives), optional
        Losses of the reference front, distinct; the front of all runs together if None.
    reference_text : str
        Where the reference comes from.
    shown : sequence of str, optional
        Names of indicators or metrics; :func:`usual_indicators` by default.
    anchors, unit, scenario : optional
        See :class:`Case`; unit and scenario are the name of the case itself by default.

    Raises
    ------
    InputError
        An indicator is unknown.
    """
    unit, scenario = unit or name, scenario or name
    if reference is None:
        reference = np.concatenate([run.losses for run in runs])
        reference = reference[nondominated(reference)]
        several = f"front of all {len(runs)} runs together"
        reference_text = several if len(runs) > 1 else "front of the run itself"
    if not len(reference):
        none = pd.DataFrame()
        return Case(name, roles, tuple(runs), reference, "", (), none, anchors, unit, scenario)
    # where figures on new records are known for other runs, an empty front has an empty array
    no_front = np.zeros((0, reference.shape[1]))
    expected = None if all(run.expected is None for run in runs) else no_front
    test = None if all(run.test is None for run in runs) else no_front
    judged = [
        Judged(
            run.losses,
            reference,
            roles,
            anchors,
            run.distinct,
            run.metrics,
            run.findings,
            run.expected if len(run.losses) else expected,
            run.test if len(run.losses) else test,
        )
        for run in runs
    ]
    names = usual_indicators() if shown is None else shown
    by_name = indicators_of(names, roles.metrics.values())
    frame = pd.DataFrame(
        {
            "scenario": scenario,
            "unit": unit,
            "case": name,
            "method": run.method,
            "seed": run.seed,
            "evaluations": run.evaluations,
            "distinct": run.distinct,
            "seconds": run.seconds,
            "solutions": len(run.losses),
            **{
                column: _measured(column, indicator, result)
                for column, indicator in by_name.items()
            },
            "directory": run.place,
        }
        for run, result in zip(runs, judged, strict=True)
    )
    reached = tuple(result.reached() for result in judged)
    return Case(
        name, roles, tuple(runs), reference, reference_text, reached, frame, anchors, unit, scenario
    )


def _measured(name: str, indicator: Indicator, judged: Judged) -> float:
    try:
        return float(indicator.measure(judged))
    except Exception as error:  # an indicator of another package may fail in any way
        raise InputError(
            f"indicators: {name}: expected a number, found {type(error).__name__}: "
            f"{first_line(error)}; mend the indicator or leave it out, and compare again"
        ) from error


def compare_cases(
    title: str,
    cases: Sequence[Case],
    *,
    shown: Sequence[str] | None = None,
    blocks: Blocks = "auto",
    judged: str = "the front of everything evaluated",
    paper: Paper | None = None,
) -> Comparison:
    """Compare searches over the cases on which some run found a solution.

    Parameters
    ----------
    title : str
    cases : sequence of Case
    shown : sequence of str, optional
        Names of the indicators, as in :func:`compare_case`; the first one counts most.
    blocks : 'auto', 'scenarios', 'cases' or 'runs'
        What tests take as a block: a scenario or a case, with the mean over its runs, as
        Demsar 2006 recommends for data sets; or a seed of a case. ``auto`` means cases if there
        are several, else runs. The folds of a unit are one case.
    judged, paper : optional
        See :class:`Comparison`.

    Raises
    ------
    InputError
        An indicator is unknown, none has a meaning for these objectives, or no run found a
        solution on any case.
    """
    unsolved = tuple(case.name for case in cases if not len(case.reference))
    cases = [case for case in cases if len(case.reference)]
    if not cases:
        raise InputError(
            f"compare: expected a solution of some run, found none on {first_few(unsolved)}; relax "
            "the constraints, or search for longer"
        )
    whole = pd.concat([case.frame for case in cases], ignore_index=True)
    names = usual_indicators() if shown is None else shown
    by_name = indicators_of(names, [m for case in cases for m in case.roles.metrics.values()])
    meant = {name: by_name[name] for name in names if whole[name].notna().any()}
    if not meant:
        raise InputError(
            "indicators: expected one with a meaning for these objectives, found "
            f"{', '.join(names)}"
        )
    extra = (set(indicators()) | set(by_name)) - {*meant, *NUMBERS}
    frame = whole.drop(columns=[name for name in whole if name in extra])
    units = _units(frame, meant)
    methods = list(dict.fromkeys(whole["method"]))
    several = units["case"].nunique() > 1
    by = ("cases" if several else "runs") if blocks == "auto" else blocks
    columns = {"scenarios": ["scenario"], "cases": ["case"], "runs": ["case", "seed"]}[by]
    word = "seeds" if by == "runs" and not several else by
    tests = _tests(units, methods, meant, columns)
    return Comparison(
        title,
        tuple(cases),
        methods,
        meant,
        frame,
        units,
        tests,
        word,
        judged,
        paper or {},
        unsolved=unsolved,
    )


def _units(frame: pd.DataFrame, meant: Mapping[str, Indicator]) -> pd.DataFrame:
    """Return the rows of a frame, averaged over the folds of each unit."""
    if (frame["unit"] == frame["case"]).all():
        return frame
    numbers = list(dict.fromkeys([*NUMBERS, *meant]))
    keys = ["scenario", "unit", "method", "seed"]
    means = frame.groupby(keys, sort=False)[numbers].mean().reset_index()
    return means.rename(columns={"unit": "case"})


def usual_indicators() -> list[str]:
    """Return the indicators that are shown by default, hypervolume first."""
    usual = [name for name, indicator in indicators().items() if not indicator.on_request]
    return sorted(usual, key=lambda name: (name != "hypervolume", name in ON_NEW_RECORDS))


def _tests(
    frame: pd.DataFrame, methods: list[str], meant: Mapping[str, Indicator], block: list[str]
) -> dict[str, RankTests]:
    """Test each indicator over the blocks in which all searches have a value."""
    tests = {}
    for name, indicator in meant.items():
        table = frame.pivot_table(index=block, columns="method", values=name, aggfunc="mean")
        table = table.reindex(columns=methods).dropna()
        if min(table.shape) < 2:
            continue
        values = table.to_numpy(dtype=np.float64)
        tests[name] = rank_tests(values if indicator.better == "low" else -values)
    return tests
