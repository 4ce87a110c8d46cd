"""``paretolab certify``: proves on records that no search has seen which solutions meet limits."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.cli.arguments import finished
from framework.cli.results import Result, Table, json_argument
from framework.cli.tables import MOST_ROWS, cell, written
from framework.errors import InputError
from framework.experiment.certification import Certification, Tested, certify
from framework.experiment.export import export, load_problem, problem_options
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.problem import Deployable, Problem, check_genomes

if TYPE_CHECKING:
    import pandas as pd

    from framework.data.table_files import FileOptions


class Certify:
    """Certify on fresh labelled records which solutions of a run meet limits.

    With a probability of at least 1 - delta over the draw of these records, no certified solution
    breaks a limit.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        parser.add_argument("data", metavar="FRESH", help="CSV or Parquet file, with the labels")
        parser.add_argument(
            "--where", action="append", default=[], metavar="COND", help="such as 'accuracy>=0.85'"
        )
        parser.add_argument(
            "--delta",
            type=float,
            default=0.1,
            help="probability of a wrong certificate, at most (default: 0.1)",
        )
        parser.add_argument(
            "--best", metavar="METRIC", help="what is wanted beside the limits (such as cost)"
        )
        parser.add_argument(
            "--target", metavar="COLUMN", help="column of the labels (default: the run's)"
        )
        parser.add_argument(
            "--export",
            metavar="MODEL_DIR",
            help="write the best that is certified as a model, in a new directory",
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        from framework.data.table_files import read_frame
        from framework.data.tables import OTHER

        run_dir = finished(args.directory)
        section = _data(run_dir)
        dataset = getattr(section, "dataset", None)
        front, problem = run_dir.front(), load_problem(run_dir)
        proof = certify(
            problem,
            front,
            read_frame(Path(args.data), _options(problem, front)),
            args.target or ("truth" if _calls(section) else getattr(dataset, "target", "target")),
            args.where,
            delta=args.delta,
            best=args.best,
            place=args.data,
            group=_group(section, problem),
            other=OTHER if getattr(dataset, "merge_rare", 0) else "",
        )
        limits = " and ".join(args.where)
        if not proof.certified:
            raise InputError(_refusal(front, proof, limits, args.delta))
        id = int(front.ids[proof.chosen])
        unseen = " that the search has not seen"
        if not proof.compared:
            unseen = ", if the search has not seen them, which is not known here"
        guarantee = (
            f"{limits}: certified on {proof.records:,} records{unseen}; with a probability of at "
            f"least {100 * (1 - args.delta):g}% over their draw, no solution that is certified "
            "breaks it"
        )
        if args.export:
            about = {**run_dir.origin(), "guarantee": guarantee}
            export(problem, front, proof.chosen, Path(args.export), about, replaces=False)
        remarks = _remarks(front, proof, args.delta)
        return Result().add(
            _table(front, proof),
            guarantee,
            *remarks,
            f"best {proof.best} that is certified (*): solution {id}",
            *written(args.export),
            directory=run_dir.path,
            records=proof.records,
            guarantee=guarantee,
            certified=[
                {"solution": front.ids[test.position], "measured": test.measured, "p": test.p}
                for test in proof.certified
            ],
            best=proof.best,
            solution=id,
            remarks=remarks,
            model=args.export,
        )


def _options(problem: Problem, front: Front) -> FileOptions:
    """Return how the models of a run read a file of records."""
    from framework.data.table_files import PLAIN

    if not (isinstance(problem, Deployable) and problem.has_models and len(front)):
        return PLAIN
    first = front.X[:1].astype(problem.space.dtype)
    check_genomes(problem, first, "front.csv")
    options: FileOptions = problem.decode(first[0]).file_options
    return options


def _table(front: Front, proof: Certification) -> Table:
    """Return the last 14 certified solutions, with measured and claimed values."""
    names = list(proof.certified[0].measured)
    shown = proof.certified[-MOST_ROWS:]
    part = "" if len(shown) == len(proof.certified) else f", the last {len(shown)} of them shown"
    columns = {
        "id": [
            f"{front.ids[test.position]}{' *' if test.position == proof.chosen else ''}"
            for test in shown
        ]
    }
    for name in dict.fromkeys([*names, proof.best]):
        if name in names:
            columns[f"{name}\n(fresh)"] = [cell(test.measured[name]) for test in shown]
        claimed = front.rows.values[name]
        columns[f"{name}\n(claimed)"] = [cell(claimed[test.position]) for test in shown]
    columns["p"] = [f"{test.p:.2g}" for test in shown]
    count = len(proof.certified)
    return Table(f"Certified: {count} of the front's {len(front)} solutions{part}", columns)


def _data(run_dir: RunDir) -> Any:
    """Return the section with ``dataset`` and ``split``: that of the problem or of its library."""
    section = problem_options(run_dir)
    library = getattr(getattr(section, "calls", section), "library", None)
    return getattr(library, "build", None) or section


def _calls(section: Any) -> Path | None:
    """Return the file with the calls of a run; None where it has none."""
    return getattr(getattr(section, "calls", None), "path", None)


def _group(section: Any, problem: Problem) -> pd.Series[Any] | None:
    """Return the column by which the records of a run were kept together; None without one.

    Of a library that the run did not build, its values are not known.
    """
    if calls := _calls(section):
        from framework.data.table_files import read_frame

        return read_frame(calls).get("group")
    split: Any = getattr(section, "split", None)
    if not getattr(split, "group", None):
        import pandas as pd

        from framework.libraries.library import group_of

        folder = getattr(getattr(problem, "library", None), "folder", None)
        name = None if folder is None else group_of(folder)
        return None if name is None else pd.Series([], name=name, dtype=object)
    from framework.data.datasets import load_table

    return load_table(section.dataset, aside=split.columns).aside[split.group]


def _refusal(front: Front, proof: Certification, limits: str, delta: float) -> str:
    assert proof.failed is not None
    failed = proof.failed
    text = (
        f"certify: nothing is certified: {limits} is not proven of the surest one, solution "
        f"{front.ids[failed.position]}, on {proof.records:,} records ({_figures(failed)}; p = "
        f"{failed.p:.3g}, above {delta:g})"
    )
    if proof.needed is None:
        text += "; on them it does not meet the limits, no number of such records will do"
    else:
        text += f"; about {proof.needed:,} are needed if it is as good as on these"
    if proof.needed_as_claimed is not None:
        text += f", {proof.needed_as_claimed:,} if it is as good as it claims"
    return text


def _figures(test: Tested) -> str:
    return ", ".join(
        f"{name} of no record" if math.isnan(value) else f"{name} {value:.4g}"
        for name, value in test.measured.items()
    )


def _remarks(front: Front, proof: Certification, delta: float) -> list[str]:
    lines = []
    if proof.failed is not None:
        failed = proof.failed
        lines.append(
            f"the tests ended at solution {front.ids[failed.position]} ({_figures(failed)}, p = "
            f"{failed.p:.3g}, above {delta:g}); {proof.untested} behind it were not tested"
        )
    if proof.unknown:
        lines.append(f"{proof.unknown:,} records of further classes count as its rare ones")
    if not proof.compared:
        lines.append(
            "it is not known here whether the search has seen these records: make sure it has not"
        )
    return lines
