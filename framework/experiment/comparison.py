"""Finished runs, read from their directories for a comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.analysis.compare import ComparedRun, Comparison, compare_runs
from framework.errors import InputError
from framework.experiment.config import flatten
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.plain_files import damaged

_FINISHED = ("done", "failed")


def compare(directories: Sequence[str | Path], reference: str | Path | None = None) -> Comparison:
    """Read runs and compare them; each repeat in a directory counts as one run.

    Parameters
    ----------
    directories : sequence of path-like
        Directories of finished runs on one problem, with the same objectives and constraints.
    reference : path-like, optional
        A ``front.csv`` to measure against, such as an exact one. None: the non-dominated vectors
        of all runs together.

    Raises
    ------
    InputError
        A directory holds no finished run, or runs differ in problem or roles, or one is given
        twice.
    """
    places = [place for directory in directories for place in _expanded(directory)]
    _same_problem(places)
    roles, title = places[0].roles(), _title(RunDir(directories[0]))
    if reference is None:
        return compare_runs(_labelled(places), roles, title=title)
    losses, text = Front.load(reference, roles).losses, str(reference)
    return compare_runs(
        _labelled(places), roles, title=title, reference=losses, reference_text=text
    )


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
        if str(place.summary().get("status")) not in _FINISHED:
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
            if about.get(key) != first[1].get(key):
                raise InputError(
                    f"{place.path}: expected the same {word} as in {first[0].path}, found "
                    f"{about.get(key)} instead of {first[1].get(key)}; compare runs on one problem"
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
        summary, front = place.summary(), place.front()
        with damaged(place.summary_file, "the summary of a run"):
            key = (label, int(summary["seed"]))
            distinct = float(summary.get("distinct_evaluations", np.nan))
            evaluations, seconds = int(summary["evaluations"]), float(summary["wall_s"])
        if key in seen:
            raise InputError(
                f"{place.path}: expected each search with a seed once, found {label} with seed "
                f"{key[1]} in {seen[key]} too; leave one of them out"
            )
        seen[key] = place.path
        runs.append(ComparedRun(label, key[1], evaluations, distinct, seconds, front, place.path))
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


def _title(place: RunDir) -> str:
    data = place.about().get("data") or {}
    return str(data.get("name") or place.config().problem["kind"])
