"""``paretolab choose --mix``: the best randomised mixture of solutions, and its model."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from rich.table import Table

from framework.analysis.mixture import Mixture, mix
from framework.cli.tables import console, program, show_steps
from framework.errors import InputError
from framework.experiment.export import export_mixture, load_problem
from framework.experiment.run_dir import RunDir
from framework.front import Front

_OTHERS = ("within", "knee", "weights", "costs", "prior", "per_unit", "id")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --mix."""
    parser.add_argument(
        "--mix",
        action="store_true",
        help="lots drawn between solutions: --where and --best are of expected values",
    )


def choose_mixture(args: argparse.Namespace, run_dir: RunDir, front: Front) -> int:
    """Show the best mixture, and export it where asked; the run's own choice stays.

    Raises
    ------
    InputError
        Options that do not go with --mix, or no such mixture.
    """
    for option in _OTHERS:
        if getattr(args, option):
            shown = "--" + option.replace("_", "-")
            raise InputError(
                f"{shown}: cannot go with --mix, which takes --where and --best"
                + ("; least expected cost needs no mixture" if option == "costs" else "")
            )
    if args.best is None:
        raise InputError("--mix: expected --best METRIC too, found none")
    found = mix(front, best=args.best, where=args.where)
    out = console()
    out.print(_table(front, found))
    if not args.export:
        return 0
    directory = Path(args.export)
    config = run_dir.config()
    about = {"run": config.name, "seed": config.seed}
    if not export_mixture(load_problem(run_dir), front, found, directory, about):
        raise InputError(f"--export: solutions of {run_dir.path} are no models that can be mixed")
    out.print(f"model written to {directory}", markup=False, highlight=False, soft_wrap=True)
    place = shlex.quote(str(directory))
    show_steps(out, [("try it", f"{program()} predict {place} {place}/example.csv")])
    return 0


def _table(front: Front, mixture: Mixture) -> Table:
    """Return the members with their chances, and what to expect of all together."""
    table = Table(title="Mixture", title_justify="left", pad_edge=False)
    for heading in ("id", "chance", *mixture.expected):
        table.add_column(heading, justify="right")
    for position, chance in zip(mixture.positions, mixture.chances, strict=True):
        values = (f"{front.rows.values[name][position]:.4g}" for name in mixture.expected)
        table.add_row(str(front.ids[position]), f"{chance:.4f}", *values, end_section=False)
    table.add_section()
    table.add_row("expected", "1", *(f"{value:.4g}" for value in mixture.expected.values()))
    return table
