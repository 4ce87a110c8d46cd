"""Finished runs, read from their directories for a comparison."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from framework import registry
from framework.analysis.compare import (
    Blocks,
    Case,
    ComparedRun,
    Comparison,
    compare_case,
    compare_cases,
)
from framework.analysis.report import claims_table, judge_claims, tables
from framework.arrays import FloatArray
from framework.errors import InputError, command, damaged, listed
from framework.experiment.alternatives import worth_of_run
from framework.experiment.config import flatten
from framework.experiment.grid import Grid, Judge, PlannedRun, Records
from framework.experiment.grid_load import load_grid
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, make_problem
from framework.extras import absent
from framework.files import write_whole
from framework.front import Front
from framework.pareto import nondominated
from framework.problem import Problem
from framework.roles import Roles

_FINISHED = (DONE, FAILED)
_BOLD = r"^\*\*(.*)\*\*$"  # marks of a page, which a table in a file does not have


def compare(
    directories: Sequence[str | Path],
    reference: str | Path | None = None,
    *,
    judge: Judge | None = None,
    records: Records | None = None,
    blocks: Blocks | None = None,
    indicators: Sequence[str] | None = None,
) -> Comparison:
    """Read runs (each of a directory's repeats is one) and compare them.

    Parameters
    ----------
    directories : sequence of path-like
        Of finished runs, on one problem or several, all with the same objectives; or of one
        experiment, which is compared as its configuration and the other arguments say.
    reference : path-like, optional
        A ``front.csv`` to measure against, such as an exact one, where all runs are on one
        problem; the non-dominated vectors of a problem's runs together where there is none.
    judge : 'front' or 'returned'
        Whether the front of everything evaluated is judged (default), or the set that the method
        returns.
    records : 'validation' (default) or 'test'
        By which values solutions are judged.
    blocks : 'auto' (default), 'cases' or 'runs'
        See :func:`~framework.analysis.compare.compare_cases`.
    indicators : sequence of str, optional
        Names of the indicators or metrics to show, the most important one first.

    Raises
    ------
    InputError
        There is no directory, or one without a finished run; an unknown word; runs differ in
        objectives, a search was run with a seed twice on a problem, or a reference is empty or
        given for several problems.
    """
    if not directories:
        raise InputError("compare: expected directories of finished runs, found none")
    changes: dict[str, Any] = {"judge": judge, "records": records, "blocks": blocks}
    for (key, word), kind in zip(changes.items(), (Judge, Records, Blocks), strict=True):
        words = get_args(kind)
        registry.require_known([word], {None, *words}, f"{key}: expected one of {listed(words)};")
    if len(directories) == 1 and RunDir(directories[0]).experiment_file.is_file():
        run_dir = RunDir.existing(directories[0])
        grid = load_grid(run_dir.experiment_file)
        changes |= {"indicators": None if indicators is None else list(indicators)}
        updates = {key: value for key, value in changes.items() if value is not None}
        section = grid.section.model_copy(update=updates)
        return compare_grid(replace(grid, section=section), run_dir)
    run_dirs = [place for directory in directories for place in _expanded(directory)]
    _same_roles(run_dirs)
    by_problem: dict[str, list[RunDir]] = defaultdict(list)
    for place in run_dirs:
        by_problem[str(place.about().get("fingerprint"))].append(place)
    if reference is not None and len(by_problem) > 1:
        raise InputError(
            f"--reference: expected runs on one problem, found {len(by_problem)} problems; compare "
            "them one by one, or without it"
        )
    judge, records = judge or "front", records or "validation"
    labels = _labels(list(by_problem.values()))
    names = _case_names(list(by_problem.values()))
    cases = []
    for name, places in zip(names, by_problem.values(), strict=True):
        runs = _unique([_run(p, labels[p.path], judge, records) for p in places])
        roles = places[0].roles()
        reference_losses = None
        if reference is not None:
            reference_losses = _losses(Front.load(reference, roles), records)
            if not len(reference_losses):
                raise InputError(f"--reference: expected solutions in {reference}, found none")
            reference_losses = reference_losses[nondominated(reference_losses)]
        cases.append(
            compare_case(
                name,
                runs,
                roles,
                reference=reference_losses,
                reference_text=str(reference or ""),
                anchors=places[0].anchors(),
                shown=indicators,
            )
        )
    title = names[0] if len(names) == 1 else f"{len(names)} problems"
    judged = _judged(judge, records, run_dirs)
    return compare_cases(title, cases, shown=indicators, blocks=blocks or "auto", judged=judged)


def compare_grid(grid: Grid, out: RunDir) -> Comparison:
    """Compare the runs of an experiment that are done.

    Raises
    ------
    InputError
        No run is done.
    """
    section = grid.section
    by_case: dict[str, list[PlannedRun]] = defaultdict(list)
    for planned in grid.runs():
        if RunDir(out.path / planned.directory).summary().get("status") in _FINISHED:
            by_case[planned.case].append(planned)
    cases = [_case_of(name, planned_runs, out, grid) for name, planned_runs in by_case.items()]
    if not cases:
        raise InputError(f"{out.path}: expected a run that is done, found none")
    done = [RunDir(out.path / run.directory) for runs in by_case.values() for run in runs]
    comparison = compare_cases(
        grid.base.name,
        cases,
        shown=section.indicators,
        blocks=section.blocks,
        judged=_judged(section.judge, section.records, done),
        paper=section.paper,
    )
    claims = [claim for claim in section.claims if claim.indicator in comparison.indicators]
    return replace(
        comparison, claims=judge_claims(comparison, claims), wanted_pages=tuple(section.pages)
    )


def _case_of(name: str, runs_of_case: Sequence[PlannedRun], out: RunDir, grid: Grid) -> Case:
    section = grid.section
    runs, reference, text = [], None, ""
    judge, records = section.judge, section.records
    first = RunDir(out.path / runs_of_case[0].directory)
    roles = first.roles()
    if section.reference is not None and section.reference.points is not None:
        problem = make_problem(grid.cases[name])
        reference, text = true_losses(problem, roles, section.reference.points), "the true front"
    for planned in runs_of_case:
        run_dir = RunDir(out.path / planned.directory)
        if planned.method is None:
            reference = _losses(run_dir.front(), records)
            reference = reference[nondominated(reference)]
            text = f"front of {planned.config.algorithm.kind}"
        else:
            runs.append(_run(run_dir, planned.method, judge, records, planned.directory))
    return compare_case(
        name,
        runs,
        roles,
        reference=reference,
        reference_text=text,
        anchors=first.anchors(),
        shown=section.indicators,
        unit=grid.origins[name].unit,
        scenario=grid.origins[name].scenario,
    )


def true_losses(problem: Problem, roles: Roles, points: int) -> FloatArray:
    """Return so many points of a problem's true front, as losses of the objectives.

    Raises
    ------
    InputError
        The problem does not know its true front.
    """
    front = problem.true_front(points)
    if front is None:
        raise InputError(
            "reference.points: expected a problem that knows its true front, found one that does "
            "not; take the front of a search (reference.algorithm)"
        )
    return front[:, [problem.metric_names.index(name) for name in roles.names]]


def _run(
    run_dir: RunDir, label: str, judge: Judge, records: Records, place: str | None = None
) -> ComparedRun:
    summary = run_dir.summary()
    front = run_dir.returned_or_front() if judge == "returned" else run_dir.front()
    losses = _losses(front, records)
    values = front.rows.values if records == "validation" else front.test
    with damaged(run_dir.summary_file, "the summary of a run"):
        return ComparedRun(
            label,
            int(summary["seed"]),
            int(summary["evaluations"]),
            float(summary.get("distinct_evaluations", np.nan)),
            float(summary["wall_s"]),
            losses,
            run_dir.path,
            place or str(run_dir.path),
            dict(values or {}),
            dict(summary.get("findings") or {}),
            front.expected_losses(),
            None if front.test is None else front.roles.losses(front.test),
            str(summary.get("stopped", "")),
            worth_of_run(run_dir, run_dir.front()),
        )


def _losses(front: Front, records: Records) -> FloatArray:
    """Return the losses of a front's solutions on validation or test records."""
    if records == "validation" or not len(front):
        return front.losses
    if front.test is None:
        raise InputError(
            "records: expected fronts with values on test records, found one without; judge them "
            "by validation records"
        )
    losses = front.roles.losses(front.test)
    if len(without := np.flatnonzero(np.isnan(losses).any(axis=0))):
        raise InputError(
            f"records: expected test records for every objective, found too few for "
            f"{front.roles.names[without[0]]} (a class may be absent); judge by validation records"
        )
    return losses


def _judged(judge: Judge, records: Records, run_dirs: Iterable[RunDir]) -> str:
    """Return a text: which sets are judged, and by values on which records."""
    sets = {
        "front": "the front of everything evaluated",
        "returned": "what the method returns by its own definition",
    }
    places = {f"on {records} records"}
    if records == "validation":
        places = {
            "out-of-fold" if "measured" in data else "on validation records"
            for run_dir in run_dirs
            if (data := run_dir.data())  # a function has no records
        }
    return ", ".join(filter(None, [sets[judge], " or ".join(sorted(places))]))


def _expanded(directory: str | Path) -> list[RunDir]:
    """Return the single runs of a directory; refuse one that is not finished."""
    run_dirs = RunDir.existing(directory).runs()
    for place in run_dirs:
        if str(place.summary().get("status")) not in _FINISHED:
            raise InputError(
                f"{place.path}: expected a finished run, found one that has not ended; run "
                f"{command('resume', directory)} first"
            )
    return run_dirs


def _same_roles(run_dirs: Sequence[RunDir]) -> None:
    first, *others = [(place, place.about()) for place in run_dirs]
    for place, about in others:
        for key in ("objectives", "constraints"):
            if about.get(key) != first[1].get(key):
                raise InputError(
                    f"{place.path}: expected the same {key} as in {first[0].path}, found "
                    f"{about.get(key)} instead of {first[1].get(key)}; compare runs that have the "
                    "same ones"
                )


def _unique(runs: Sequence[ComparedRun]) -> Sequence[ComparedRun]:
    """Return the runs; refuse two of the same search with the same seed."""
    seen: dict[tuple[str, int], Path] = {}
    for run in runs:
        key = (run.method, run.seed)
        if key in seen:
            raise InputError(
                f"{run.path}: expected each search with a seed once, found {run.method} with seed "
                f"{run.seed} in {seen[key]} too; leave one of them out"
            )
        seen[key] = run.path
    return runs


def _labels(problems: Sequence[Sequence[RunDir]]) -> dict[Path, str]:
    """Return the kind of each search, with the settings in which searches of this kind differ.

    The budget is one of these only if runs on one problem differ in it: each problem may have a
    budget of its own.
    """
    configs = {place.path: place.config() for places in problems for place in places}
    budgets = {path: c.budget.model_dump(exclude_none=True) for path, c in configs.items()}
    several = any(len({_shown(budgets[p.path]) for p in places}) > 1 for places in problems)
    settings = [
        {"algorithm": c.algorithm.model_dump(), "budget": budgets[path] if several else {}}
        for path, c in configs.items()
    ]
    kinds = [c.algorithm.kind for c in configs.values()]
    return dict(zip(configs, _told_apart(kinds, settings), strict=True))


def _case_names(cases: Sequence[Sequence[RunDir]]) -> list[str]:
    """Return a name for each problem: its data or kind, and settings where these are the same."""
    titles = [str(place.data().get("name") or place.config().problem.kind) for place, *_ in cases]
    settings = [{"problem": place.config().problem.model_dump()} for place, *_ in cases]
    names = _told_apart(titles, settings)
    if len(set(names)) < len(names):  # the same settings on other data
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _told_apart(titles: Sequence[str], sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return titles, each with the settings in which those of the same title differ."""
    settings, differing = [flatten(section) for section in sections], {}
    for title in set(titles):
        alike = [s for t, s in zip(titles, settings, strict=True) if t == title]
        keys = sorted({key for setting in alike for key in setting})
        differing[title] = [k for k in keys if len({_shown(s.get(k)) for s in alike}) > 1]
    return [
        " ".join([t, *(f"{key.partition('.')[2]}={s.get(key)}" for key in differing[t])])
        for t, s in zip(titles, settings, strict=True)
    ]


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def write_results(comparison: Comparison, out: Path) -> list[Path]:
    """Write ``tables/*.csv``, ``report.html`` and its figures; return the paths, pages first.

    Only ``tables/seconds.csv`` depends on how fast the runs were.

    Raises
    ------
    InputError
        The directory cannot be written, or links in it lead elsewhere.
    """
    place = out / "tables"
    for folder in (place, out / "plots"):
        if folder.is_symlink():
            raise InputError(
                f"--out {out}: expected folders of its own in it, found a link to "
                f"{folder.readlink()} called {folder.name}; choose another"
            )
    pages = [registry.load("pages", name)(comparison) for name in comparison.wanted_pages]
    comparison = replace(comparison, pages=pages)
    by_name = tables(comparison)
    for page in pages:
        plain = {n: t.replace(_BOLD, r"\1", regex=True) for n, t in page.tables.items()}
        by_name |= {**plain, **page.files}
    claims = [*comparison.claims, *(claim for page in pages for claim in page.claims)]
    if claims:
        by_name["claims"] = claims_table(claims)
    try:
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for name, table in by_name.items():
            write_whole(place / f"{name}.csv", table.to_csv(index=False))
            written.append(place / f"{name}.csv")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from error
    drawn: list[Path] = []
    for name in registry.names("comparisons") if absent("plots") is None else ():
        drawn += registry.load("comparisons", name)(comparison, out)
    return [*drawn, *written]


def mean_indicators(comparison: Comparison) -> Mapping[str, Mapping[str, float]]:
    """Return the mean of each indicator over all runs of each method, where it is finite."""
    means = comparison.frame.groupby("method", sort=False)[list(comparison.indicators)].mean()
    return {
        str(method): {n: float(row[n]) for n in comparison.indicators if np.isfinite(row[n])}
        for method, row in means.iterrows()
    }
