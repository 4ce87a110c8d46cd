"""The command ``runs``: what is in the folder of runs, and how far each run is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from framework.cli.tables import console
from framework.errors import InputError, ParetolabError
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir

_MOST_COLUMNS = 3  # objectives of the recommended solution


class Runs:
    """List runs: their state, their front and the solution that is recommended or chosen."""

    help = "list the runs that are here, with their state and recommended solution"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "directory", nargs="?", default="runs", metavar="DIR", help="(default: runs)"
        )

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        folder = Path(args.directory)
        if not folder.is_dir():
            raise InputError(
                f"{folder}: expected a folder of runs, found none; `paretolab run` makes one"
            )
        found = list(_runs(folder))
        if not found:
            print(f"no runs in {folder}")
            return 0
        table = Table(title=f"Runs in {folder}", title_justify="left", pad_edge=False)
        for name in ("run", "state", "problem", "algorithm"):
            table.add_column(name)
        for name in ("evaluations", "front"):
            table.add_column(name, justify="right")
        table.add_column("recommended (r) or chosen (c)")
        for run_dir in found:
            table.add_row(*_row(run_dir))
        console().print(table)
        return 0


def _runs(folder: Path) -> Iterator[RunDir]:
    """Yield the runs of a folder, the newest first; of the folder itself if it is one."""
    if (folder / "config.yaml").is_file():
        yield RunDir(folder)
        return
    found = [path for path in folder.iterdir() if (path / "config.yaml").is_file()]
    for path in sorted(found, key=lambda path: (-path.stat().st_mtime, path.name)):
        yield RunDir(path)


def _row(run_dir: RunDir) -> list[str]:
    """Return the cells of a run; one that cannot be read says so."""
    name = run_dir.path.name
    try:
        config, summary = run_dir.config(), run_dir.summary()
    except ParetolabError:
        return [name, "damaged"]
    state = str(summary.get("status", "running or stopped"))
    cells = [name, state, str(config.problem["kind"]), _method(run_dir, config.algorithm)]
    evaluations = summary.get("evaluations")
    cells.append(f"{evaluations:,}" if isinstance(evaluations, int) else "")
    return [*cells, *_front(run_dir)]


def _method(run_dir: RunDir, algorithm: dict[str, object]) -> str:
    if run_dir.experiment_file.is_file():
        return "an experiment"
    kind = str(algorithm["kind"])
    return f"{kind}, a sweep" if run_dir.sweep_file.is_file() else kind


def _front(run_dir: RunDir) -> tuple[str, str]:
    """Return the size of the front, and the objectives of the solution that is marked in it."""
    if not run_dir.front_file.is_file():
        return "", ""
    try:
        front = run_dir.front()
        if not len(front):
            return "0", ""
        position = marked(run_dir, front)
        letter = "r" if run_dir.choice() is None else "c"
    except ParetolabError:
        return "damaged", ""
    shown = ", ".join(
        f"{name} {front.rows.values[name][position]:.4g}"
        for name in front.roles.names[:_MOST_COLUMNS]
    )
    return f"{len(front):,}", f"{letter} {front.ids[position]}: {shown}"
