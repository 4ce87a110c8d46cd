"""Many runs on one problem, side by side: which search found more, and is that more than luck?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from framework.analysis.rank_tests import RankTests, rank_tests
from framework.arrays import BoolArray, FloatArray
from framework.errors import InputError
from framework.experiment.config import flatten
from framework.experiment.run_dir import RunDir
from framework.front import Front, nondominated
from framework.indicators import igd_plus
from framework.roles import Roles

_SAME = 1e-9  # of the range of an objective: vectors nearer than that are one
_FINISHED = ("done", "failed")


@dataclass(frozen=True)
class Indicator:
    """A number that says how good a run's front is: its column, its name in print, its meaning."""

    name: str
    label: str
    better: Literal["high", "low"]
    text: str


INDICATORS = (
    Indicator(
        "hypervolume",
        "hypervolume",
        "high",
        "share of the box of worst and best values that the front dominates",
    ),
    Indicator(
        "igd_plus",
        "IGD+",
        "low",
        "mean distance from the reference front to what the front dominates, each objective "
        "scaled to its range there",
    ),
    Indicator("share", "share found", "high", "share of the reference front's vectors found"),
)


NUMBERS = ("evaluations", "distinct", "seconds", "front_size", *(i.name for i in INDICATORS))
"""Columns of a comparison that are averaged over runs."""


@dataclass(frozen=True)
class ComparedRun:
    """One run with one seed.

    Attributes
    ----------
    algorithm : str
        Kind, with the parameters in which runs of that kind differ.
    seed, evaluations : int
    distinct : float
        Different candidates among those evaluated; NaN in runs of before it was counted.
    seconds : float
        Of searching.
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
    tests : mapping of str to RankTests
        By indicator, searches in the order of ``algorithms``; empty where the seeds do not allow.
    """

    title: str
    roles: Roles
    runs: tuple[ComparedRun, ...]
    reference: FloatArray
    reference_text: str
    found: tuple[BoolArray, ...]
    frame: pd.DataFrame
    tests: dict[str, RankTests]

    @property
    def algorithms(self) -> list[str]:
        """Names of the searches, in the order given."""
        return list(dict.fromkeys(run.algorithm for run in self.runs))

    def summary(self) -> pd.DataFrame:
        """Return a row a search: its number of runs, and mean and standard deviation of each.

        The standard deviation is the sample's (NaN for a single run).
        """
        groups = self.frame.groupby("algorithm", sort=False)[list(NUMBERS)]
        with np.errstate(invalid="ignore"):  # the IGD+ of an empty front is infinite
            table = groups.agg(["mean", "std"])
        table.columns = pd.Index([f"{name}_{how}" for name in NUMBERS for how in ("mean", "std")])
        table.insert(0, "runs", groups.size())
        for name, tests in self.tests.items():
            table[f"{name}_rank"] = tests.ranks
        return table.reset_index()


def compare(directories: Sequence[str | Path], reference: str | Path | None = None) -> Comparison:
    """Read runs (each of a directory's repeats is one) and compare them.

    Parameters
    ----------
    directories : sequence of path-like
        Of finished runs on the same problem with the same objectives and constraints.
    reference : path-like, optional
        A ``front.csv`` to measure against, such as an exact one; the non-dominated vectors of all
        runs together where there is none.

    Raises
    ------
    InputError
        A directory holds no finished run, or runs differ in problem or roles, or one is given
        twice.

    Notes
    -----
    Tests take the seeds that all searches ran with as blocks.
    """
    places = [place for directory in directories for place in _expanded(directory)]
    _same_problem(places)
    roles = places[0].roles()
    runs = _labelled(places)
    losses = [run.front.losses for run in runs]
    text = f"front of all {len(runs)} runs together"
    wanted = np.concatenate(losses)
    if reference is not None:
        wanted, text = Front.load(reference, roles).losses, str(reference)
    wanted = wanted[nondominated(wanted)]
    if not len(wanted):
        raise InputError("compare: expected at least one solution in some front, found none")
    low, span = _scale(wanted)
    scaled = [(front - low) / span for front in losses]
    target = (wanted - low) / span
    found = tuple(_found(front, target) for front in scaled)
    frame = pd.DataFrame(
        {
            "algorithm": run.algorithm,
            "seed": run.seed,
            "evaluations": run.evaluations,
            "distinct": run.distinct,
            "seconds": run.seconds,
            "front_size": len(run.front),
            "hypervolume": run.front.hypervolume(),
            "igd_plus": igd_plus(front, target) if len(front) else np.inf,
            "share": float(has.mean()),
            "directory": str(run.path),
        }
        for run, front, has in zip(runs, scaled, found, strict=True)
    )
    title = _title(RunDir(directories[0]))
    return Comparison(title, roles, runs, wanted, text, found, frame, _tests(frame))


def beaten(comparison: Comparison) -> int:
    """Return how many vectors of the reference front some run dominates; 0 for an exact one."""
    everything = [comparison.reference, *(run.front.losses for run in comparison.runs)]
    kept = nondominated(np.concatenate(everything))[: len(comparison.reference)]
    return int((~kept).sum())


def _expanded(directory: str | Path) -> list[RunDir]:
    """Return the single runs of a directory.

    Raises
    ------
    InputError
        One is not finished.
    """
    run_dir = RunDir.existing(directory)
    places = run_dir.runs()
    for place in places:
        if place.summary().get("status") not in _FINISHED:
            raise InputError(
                f"{place.path}: expected a finished run, found one that has not ended; run "
                f"`paretolab resume {directory}` first"
            )
    return places


def _same_problem(places: Sequence[RunDir]) -> None:
    first, *others = [(place, place.about()) for place in places]
    for place, about in others:
        for key, word in (
            ("fingerprint", "problem (data, split, parameters)"),
            ("objectives", "objectives"),
            ("constraints", "constraints"),
        ):
            if about[key] != first[1][key]:
                raise InputError(
                    f"{place.path}: expected the same {word} as in {first[0].path}, found "
                    f"{about[key]} instead of {first[1][key]}; compare runs on one problem"
                )


def _labelled(places: Sequence[RunDir]) -> tuple[ComparedRun, ...]:
    """Read the runs and name their searches.

    Raises
    ------
    InputError
        A search has a seed twice.
    """
    settings = []
    for place in places:
        config = place.config()
        budget = config.budget.model_dump(exclude_none=True)
        settings.append(flatten({"algorithm": config.algorithm, "budget": budget}))
    runs: list[ComparedRun] = []
    seen: dict[tuple[str, int], Path] = {}
    for place, label in zip(places, _labels(settings), strict=True):
        summary = place.summary()
        key = (label, int(summary["seed"]))
        if key in seen:
            raise InputError(
                f"{place.path}: expected each search with a seed once, found {label} with seed "
                f"{key[1]} in {seen[key]} too; leave one of them out"
            )
        seen[key] = place.path
        runs.append(
            ComparedRun(
                label,
                key[1],
                int(summary["evaluations"]),
                float(summary.get("distinct_evaluations", np.nan)),
                float(summary["wall_s"]),
                place.front(),
                place.path,
            )
        )
    return tuple(runs)


def _labels(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Return the kind of each search, with the settings in which those of its kind differ."""
    of_kind: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for setting in settings:
        kind = of_kind[setting["algorithm.kind"]]
        for key in {key for s in settings for key in s}:
            kind[key].add(str(setting.get(key)))
    labels = []
    for setting in settings:
        kind = setting["algorithm.kind"]
        differing = sorted(key for key, values in of_kind[kind].items() if len(values) > 1)
        more = [f"{key.partition('.')[2]}={setting.get(key)}" for key in differing]
        labels.append(" ".join([kind, *more]))
    return labels


def _scale(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    low, high = losses.min(axis=0), losses.max(axis=0)
    return low, np.where(high > low, high - low, 1.0)


def _found(front: FloatArray, target: FloatArray) -> BoolArray:
    """Tell which rows of ``target`` are rows of ``front``, both scaled, shape (len(target),)."""
    if not len(front):
        return np.zeros(len(target), dtype=bool)
    distance, _ = cKDTree(front).query(target)
    return np.asarray(distance <= _SAME, dtype=bool)


def _tests(frame: pd.DataFrame) -> dict[str, RankTests]:
    tests = {}
    for indicator in INDICATORS:
        table = frame.pivot(index="seed", columns="algorithm", values=indicator.name)
        table = table[frame["algorithm"].unique()].dropna()
        if min(table.shape) < 2:
            return {}
        values = table.to_numpy(dtype=np.float64)
        tests[indicator.name] = rank_tests(values if indicator.better == "low" else -values)
    return tests


def _title(place: RunDir) -> str:
    data = place.about().get("data") or {}
    return str(data.get("name") or place.config().problem["kind"])
