"""``paretolab list`` and ``paretolab runs``: list what is registered, and runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from framework import registry
from framework.cli.results import Result, Table, json_argument, solution
from framework.errors import InputError, ParetolabError
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.security import check_no_links

_MOST_COLUMNS = 3  # objectives of the recommended solution


class List:
    """Show what is registered."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        kinds = ["algorithms", "problems", "functions", "datasets", "metrics"]
        parser.add_argument("what", nargs="?", choices=kinds, help="(default: all of them)")
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        listings = {
            "algorithms": _algorithms,
            "problems": lambda: _summaries("problems"),
            "functions": _functions,
            "datasets": _datasets,
            "metrics": _metrics,
        }
        result = Result()
        for name, listing in listings.items():
            if args.what in (None, name):
                lines = listing()
                fields = [{"name": label, "text": text} for label, text in lines]
                title = [f"\n{name}"] if args.what is None else []
                result.add(*title, lines, **{name: fields})
        return result


def _summaries(kind: registry.Group) -> list[tuple[str, str]]:
    """Return each class of a kind with the first sentence of its docstring."""
    lines = []
    for name in registry.names(kind):
        doc = (registry.load(kind, name).__doc__ or "").strip()
        lines.append((name, doc.split("\n\n")[0].replace("\n    ", " ")))
    return lines


def _algorithms() -> list[tuple[str, str]]:
    """Return each algorithm with the first sentence of its docstring and what it searches."""
    lines = []
    for name, text in _summaries("algorithms"):
        spaces = registry.load("algorithms", name).spaces
        lines.append((name, f"{text} Searches {' and '.join(space.words for space in spaces)}."))
    return lines


def _functions() -> list[tuple[str, str]]:
    from framework.problems.functions import registered

    return [(name, f"{registered(name).text}.") for name in registry.names("functions")]


def _datasets() -> list[tuple[str, str]]:
    from framework.data.datasets import known_names

    return [(name, f"dataset: {{name: {name}}}") for name in known_names()]


def _metrics() -> list[tuple[str, str]]:
    return [
        (f"{kind}.{metric.name}", f"{metric.text} ({metric.sense})")
        for kind in registry.names("problems")
        for metric in registry.load("problems", kind).known_metrics
    ]


class Runs:
    """List runs: their state, their front and the solution that is recommended or chosen."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "directory", nargs="?", default="runs", metavar="DIR", help="(default: runs)"
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        folder = Path(args.directory)
        if not folder.is_dir():
            raise InputError(
                f"{folder}: expected a folder of runs, found none; `paretolab run` makes one"
            )
        runs = [_fields(run_dir) for run_dir in _runs(folder)]
        rows = list(map(_row, runs))
        headings = (
            "run", "state", "problem", "algorithm", "evaluations", "front",
            "recommended (r) or chosen (c)",
        )  # fmt: skip
        columns = {name: [cells[i] for cells in rows] for i, name in enumerate(headings)}
        table = Table(f"Runs in {folder}", columns) if runs else f"no runs in {folder}"
        return Result().add(table, folder=folder, runs=runs)


def _runs(folder: Path) -> Iterator[RunDir]:
    """Yield the runs in a folder, the newest first, or the folder itself if it is a run."""
    if (folder / "config.yaml").is_file():
        yield RunDir(folder)
        return
    runs = [path for path in folder.iterdir() if (path / "config.yaml").is_file()]
    for path in sorted(runs, key=lambda path: (-path.stat().st_mtime, path.name)):
        yield RunDir(path)


def _row(run: Mapping[str, Any]) -> list[str]:
    """Return the cells of a run."""
    evaluations, size = run.get("evaluations"), run.get("front_size")
    cells = [str(run.get(name, "")) for name in ("run", "state", "problem", "algorithm")]
    cells.append(f"{evaluations:,}" if isinstance(evaluations, int) else "")
    cells.append("" if size is None else f"{size:,}")
    for name in ("recommended", "chosen"):
        if name in run:
            shown = ", ".join(
                f"{metric} {run[name]['metrics'][metric]['claimed']:.4g}"
                for metric in run["objectives"][:_MOST_COLUMNS]
            )
            return [*cells, f"{name[0]} {run[name]['solution']}: {shown}"]
    return [*cells, ""]


def _fields(run_dir: RunDir) -> dict[str, Any]:
    """Return the fields of a run for ``--json``; the state of an unreadable one is damaged."""
    place: dict[str, Any] = {"run": run_dir.path.name, "directory": run_dir.path}
    try:
        check_no_links(run_dir.path, "a run")
        config, summary = run_dir.config(), run_dir.summary()
    except ParetolabError:
        return place | {"state": "damaged"}
    kind = config.algorithm.kind
    methods = {"an experiment": "an experiment", "a sweep": f"{kind}, a sweep", "a run": kind}
    place |= {
        "state": summary.get("status", "running or stopped"),
        "problem": config.problem.kind,
        "algorithm": methods[run_dir.kind],
        "evaluations": summary.get("evaluations"),
        "objectives": [objective.metric for objective in config.objectives],
    }
    try:
        front = run_dir.front() if run_dir.front_file.is_file() else None
        if front is None or not len(front):
            return place | {"front_size": None if front is None else 0}
        chosen = solution(front, marked(run_dir, front))
        ours = run_dir.choice() is None
    except ParetolabError:
        return place | {"state": "damaged"}
    return place | {"front_size": len(front), "recommended" if ours else "chosen": chosen}
