"""`paretolab compare`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import registry
from framework.cli.tables import console, show_steps
from framework.errors import InputError
from framework.files import write_whole

if TYPE_CHECKING:
    from rich.table import Table

    from framework.analysis.compare import Comparison
    from framework.analysis.rank_tests import RankTests


class Compare:
    """Compare runs of several searches on the same problem, seed by seed."""

    help = "compare runs on one problem: indicators, ranks, tests, one page"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "directories", metavar="DIR", nargs="+", help="directory of a run or of its repeats"
        )
        parser.add_argument(
            "--out",
            metavar="DIR",
            default="comparison",
            help="where compare.csv, compare.html and the figures go (default: %(default)s)",
        )
        parser.add_argument(
            "--reference",
            metavar="FRONT.csv",
            help="front to measure against, an exact one say (default: that of all runs together)",
        )

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from framework.experiment.comparison import compare

        comparison = compare(args.directories, args.reference)
        paths = write(comparison, Path(args.out))
        show(comparison, paths)
        return 0


def write(comparison: Comparison, out: Path) -> list[Path]:
    """Write ``compare.csv`` (a row a run) and what the installed packages draw; return the paths.

    Raises
    ------
    InputError
        The directory cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "compare.csv", comparison.frame.to_csv(index=False))
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from error
    paths = [out / "compare.csv"]
    for name in registry.names("comparisons"):
        paths += registry.load("comparisons", name)(comparison, out)
    return paths


def show(comparison: Comparison, paths: list[Path]) -> None:
    """Print the table, what the tests say, and where the files are."""
    from framework.analysis.compare import beaten

    out = console()
    out.print(summary_table(comparison))
    lines = [("reference", f"{comparison.reference_text}: {len(comparison.reference)} vectors")]
    worse = beaten(comparison)
    if worse:
        lines.append(("attention", f"runs dominate {worse} vectors of it: it is not exact"))
    lines += test_lines(comparison)
    lines += [("files", ", ".join(str(path) for path in paths))]
    show_steps(out, lines)


def summary_table(comparison: Comparison) -> Table:
    """Return mean ± standard deviation by search, the greatest hypervolume (and rank) first."""
    from rich.table import Table

    table = Table(
        title=f"{comparison.title}: {len(comparison.runs)} runs",
        title_justify="left",
        pad_edge=False,
    )
    for heading in (
        "search",
        "runs",
        "evaluations",
        "distinct",
        "seconds",
        "front",
        "hypervolume ↑",
        "IGD+ ↓",
        "share found ↑",
        "mean rank",
    ):
        name = heading == "search"
        table.add_column(heading, justify="left" if name else "right", no_wrap=not name)
    summary = comparison.summary().sort_values("hypervolume_mean", ascending=False)
    for row in summary.to_dict("records"):
        rank = row.get("hypervolume_rank")
        table.add_row(
            row["algorithm"],
            str(row["runs"]),
            f"{row['evaluations_mean']:,.0f}",
            "-" if math.isnan(row["distinct_mean"]) else f"{row['distinct_mean']:,.0f}",
            f"{row['seconds_mean']:.1f}",
            f"{row['front_size_mean']:.1f}",
            _spread(row, "hypervolume", 4),
            _spread(row, "igd_plus", 4),
            _spread(row, "share", 3),
            "-" if rank is None else f"{rank:.2f}",
        )
    return table


def test_lines(comparison: Comparison) -> list[tuple[str, str]]:
    """Say in words what the tests found, a line an indicator."""
    if not comparison.tests:
        return [("tests", "none: they need two searches with two seeds in common")]
    return [
        (comparison.indicators[name].label, _verdict(tests, comparison.algorithms))
        for name, tests in comparison.tests.items()
    ]


def _verdict(tests: RankTests, names: list[str]) -> str:
    best = int(tests.ranks.argmin())
    friedman = f"Friedman p = {tests.friedman:.2g}; " if tests.friedman >= 0 else ""
    rank = (
        f"best mean rank {names[best]} ({tests.ranks[best]:.2f} over {tests.blocks} seeds, "
        f"critical difference {tests.critical_difference:.2f}); "
    )
    pairs = len(names) * (len(names) - 1) // 2
    if pairs * 2.0 ** (1 - tests.blocks) > tests.alpha:  # though one wins with every seed
        return f"{friedman}{rank}{tests.blocks} seeds are too few for Wilcoxon to tell pairs apart"
    beaten = [name for i, name in enumerate(names) if tests.wilcoxon[best, i] < tests.alpha]
    return (
        f"{friedman}{rank}Wilcoxon with Holm at {tests.alpha:g}: better than "
        f"{', '.join(beaten) or 'none'}"
    )


def _spread(row: Mapping[Hashable, Any], name: str, digits: int) -> str:
    mean, std = row[f"{name}_mean"], row[f"{name}_std"]
    return f"{mean:.{digits}f}" + (f" ± {std:.{digits}f}" if std >= 0 else "")
