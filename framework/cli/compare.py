"""`paretolab compare`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import registry
from framework.cli.results import Part, Result, Table, json_argument

if TYPE_CHECKING:
    from framework.analysis.compare import Comparison
    from framework.analysis.statistics import RankTests


_LISTED = 12  # searches that have a line each
_ARROWS = {"high": "↑", "low": "↓"}
_SHOWN = 2  # indicators in the terminal's table; the report has all


class Compare:
    """Compare runs of several searches, on one problem or several, or of an experiment."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "directories",
            metavar="DIR",
            nargs="+",
            help="directory of a run, of its repeats, or of one experiment",
        )
        parser.add_argument(
            "--out",
            metavar="DIR",
            default="comparison",
            help="where report.html, tables and figures go (default: %(default)s)",
        )
        parser.add_argument(
            "--reference",
            metavar="FRONT.csv",
            help="front to compare with, such as an exact one (default: that of all runs together)",
        )
        parser.add_argument(
            "--returned",
            action="store_const",
            const="returned",
            help="judge what each method returns, not the front of all that it evaluated",
        )
        parser.add_argument(
            "--test", action="store_const", const="test", help="judge by values on test records"
        )
        parser.add_argument(
            "--blocks",
            choices=["scenarios", "cases", "runs"],
            help="what tests rank over: cases as an experiment names them, problems, or runs "
            "(default: problems where there are several, else seeds)",
        )
        parser.add_argument(
            "--indicators",
            metavar="NAME,NAME",
            help="what is shown, the first above all: indicators or metrics of the problem "
            "(default: hypervolume,igd_plus,share)",
        )
        parser.add_argument(
            "--log",
            action="store_true",
            help="log the report to MLflow, too, in the experiment of the first run",
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        from framework.experiment.comparison import compare, write_results

        comparison = compare(
            args.directories,
            args.reference,
            judge=args.returned,
            records=args.test,
            blocks=args.blocks,
            indicators=args.indicators.split(",") if args.indicators else None,
        )
        result = result_of(comparison, write_results(comparison, Path(args.out)))
        if args.log:
            log = registry.load("commands", "sync").comparison
            logged: Result = log(Path(args.out), comparison.title, args.directories[0])
            result.parts += logged.parts
            result.exit_code = logged.exit_code
        return result


def result_of(comparison: Comparison, paths: Sequence[Path]) -> Result:
    """Return the tables, the results of tests, which runs ended early, and the paths of files."""
    from framework.analysis import report

    several = len(comparison.methods) > 1
    best = report.winners(comparison) if several else None
    sentences = [] if best is None else report.verdicts(best)
    verdict, stops = report.worth(comparison), report.early_stops(comparison)
    lines = [
        ("judged", comparison.judged),
        *_reference_lines(comparison),
        *_new_records(comparison),
        *test_lines(comparison),
        *(("result", sentence) for sentence in sentences),
        *(("ended early", sentence) for sentence in stops),
        *(("left out", sentence) for sentence in report.left_out(comparison)),
    ]
    pages = [path for path in paths if path.suffix == ".html"]
    home = pages[0].parent if pages else paths[0].parent.parent
    lines += [("report", str(path)) for path in pages]
    lines += [
        (name, f"{home / name} ({', '.join(p.name for p in paths if p.parent.name == name)})")
        for name in ("tables", "plots")
        if any(path.parent.name == name for path in paths)
    ]
    tables: list[Part] = [summary_table(comparison)]
    if len(comparison.cases) > 1:
        tables.append(result_table(comparison))
    return Result().add(
        verdict,
        *tables,
        lines,
        title=comparison.title,
        judged=comparison.judged,
        verdict=verdict,
        methods=comparison.ordered(),
        indicators={name: indicator.better for name, indicator in comparison.indicators.items()},
        result=sentences,
        winners=[] if best is None else best,
        means=lambda: report.means(comparison),
        ranks=lambda: report.ranks(comparison) if comparison.tests else [],
        ended_early=stops,
        unsolved=comparison.unsolved,
        runs=comparison.frame,
        files=paths,
    )


def summary_table(comparison: Comparison) -> Table:
    """Return mean ± standard deviation by search, sorted by the first indicator."""
    cases = len(comparison.cases)
    on = f" on {cases} cases" if cases > 1 else ""
    names = [name for name in comparison.indicators if name != "distinct"][:_SHOWN]
    summary = comparison.summary().set_index("method").loc[comparison.ordered()].reset_index()
    rows = summary.to_dict("records")
    columns = {
        "method": [row["method"] for row in rows],
        "runs": [str(row["runs"]) for row in rows],
        "evaluations": [f"{row['evaluations_mean']:,.0f}" for row in rows],
        "distinct": [_number(row["distinct_mean"], ",.0f") for row in rows],
        "seconds": [f"{row['seconds_mean']:.1f}" for row in rows],
        "solutions": [f"{row['solutions_mean']:.1f}" for row in rows],
    }
    for name in names:
        indicator = comparison.indicators[name]
        heading = f"{indicator.label} {_ARROWS[indicator.better]}"
        columns[heading] = [_spread(row, name) for row in rows]
    rank = f"{comparison.first}_rank"
    columns["mean rank"] = [_number(row.get(rank, math.nan), ".2f") for row in rows]
    return Table(f"{comparison.title}: {len(comparison.frame)} runs{on}", columns)


def result_table(comparison: Comparison) -> Table:
    """Return the table of the first indicator by case and method, with which the report begins.

    Cells have the mean over runs, and the least and the greatest value. A star marks the best
    method of a case, ``~`` a gap to it that chance may explain, ``?`` too few runs to tell.
    """
    from framework.analysis.report import winners
    from framework.front import span

    best = winners(comparison)
    indicator = comparison.indicators[comparison.first]
    several = len(comparison.methods) > 1
    key = "; * best, ~ chance may explain the gap to it, ? too few runs to tell" if several else ""
    cells: dict[tuple[str, str], str] = {}
    for row in best.to_dict("records"):
        text = f"{row['mean']:.4f}"
        if row["runs"] > 1:
            least, greatest = f"{row['least']:.4f}", f"{row['greatest']:.4f}"
            text += f" ({span(least, greatest)})"
        mark = " *" if row["best"] else {"unknown": " ?", "yes": " ~"}.get(row["chance"], "")
        cells[str(row["case"]), str(row["method"])] = text + (mark if several else "")
    methods, cases = comparison.methods, list(dict.fromkeys(map(str, best["case"])))
    if len(methods) <= len(cases):  # the fewer are the columns
        columns = {"case": cases}
        columns |= {name: [cells.get((case, name), "-") for case in cases] for name in methods}
    else:
        columns = {"method": list(methods)}
        columns |= {case: [cells.get((case, name), "-") for name in methods] for case in cases}
    return Table(f"{indicator.label} {_ARROWS[indicator.better]} by case{key}", columns)


def test_lines(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the results of the tests in words, a line per indicator."""
    if not comparison.tests:
        wanted = "two cases that all searched"
        if len(comparison.methods) == 1 or comparison.blocks != "cases":
            wanted = "two searches with two seeds in common"
        return [("tests", f"none: they need {wanted}")]
    return [
        (comparison.indicators[name].label, _verdict(tests, comparison))
        for name, tests in comparison.tests.items()
    ]


def _new_records(comparison: Comparison) -> list[tuple[str, str]]:
    """Return a line per search on the indicators of its front on new records, if known."""
    from framework.analysis.indicators import ON_NEW_RECORDS

    if not set(ON_NEW_RECORDS) & comparison.indicators.keys():
        return []
    summary = comparison.summary().set_index("method")
    lines = []
    for method in comparison.ordered()[:_LISTED]:
        names = ("hypervolume", *ON_NEW_RECORDS)
        row: Mapping[Hashable, Any] = summary.loc[method].to_dict()
        means = {name: row.get(f"{name}_mean", math.nan) for name in names}
        texts = {
            "hypervolume": "hypervolume {hypervolume:.4f}",
            "hypervolume_expected": "expected {hypervolume_expected:.4f}",
            "hypervolume_optimistic": "on test records {hypervolume_pessimistic:.4f} to "
            "{hypervolume_optimistic:.4f}",
            "front_test": "{front_test:.0%} of its solutions non-dominated there",
        }
        measured = [text for name, text in texts.items() if not math.isnan(means[name])]
        lines.append((method, ", ".join(measured).format(**means)))
    return lines


def _reference_lines(comparison: Comparison) -> list[tuple[str, str]]:
    texts = list(dict.fromkeys(case.reference_text for case in comparison.cases))
    sizes = ", ".join(f"{len(case.reference):,}" for case in comparison.cases)
    lines = [("reference", f"{'; '.join(texts)}: {sizes} vectors")]
    worse = sum(case.beaten() for case in comparison.cases)
    if worse:
        lines.append(("attention", f"runs dominate {worse} vectors of it: it is not exact"))
    return lines


def _verdict(tests: RankTests, comparison: Comparison) -> str:
    from framework.analysis.statistics import ALPHA

    names = comparison.methods
    best = int(tests.ranks.argmin())
    friedman = f"Friedman p = {tests.friedman:.2g}; " if tests.friedman >= 0 else ""
    over = f"{tests.blocks} {comparison.blocks}"
    least = float(tests.ranks[best])
    first = [name for i, name in enumerate(names) if math.isclose(tests.ranks[i], least)]
    rank = f"best mean rank {' and '.join(first)} ({least:.2f} over {over}"
    if comparison.blocks == "seeds":  # with one case, pairs are compared by intervals elsewhere
        return f"{friedman}{rank})"
    rank += f", critical difference {tests.critical_difference:.2f}); "
    pairs = len(names) * (len(names) - 1) // 2
    if pairs * 2.0 ** (1 - tests.blocks) > ALPHA:  # even if one method wins in every block
        return f"{friedman}{rank}{over} are too few for Wilcoxon to tell pairs apart"
    beaten = [name for i, name in enumerate(names) if tests.wilcoxon[best, i] < ALPHA]
    return (
        f"{friedman}{rank}Wilcoxon with Holm at {ALPHA:g}: better than "
        f"{', '.join(beaten) or 'none'}"
    )


def _spread(row: Mapping[Hashable, Any], name: str) -> str:
    mean, std = row[f"{name}_mean"], row[f"{name}_std"]
    return f"{mean:.4f}" + (f" ± {std:.4f}" if std >= 0 else "")


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"
