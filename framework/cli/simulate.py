"""`paretolab simulate`."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli.tables import console
from framework.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from framework.algorithm import Algorithm
    from framework.journal import Journal
    from framework.problem import Problem
    from framework.run.virtual_workers import RowTimes


class Simulate:
    """Say how busy a search would keep so many workers: the real search, virtual time."""

    help = "how busy a search would keep so many workers, in virtual time"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("config", metavar="CONFIG", help="configuration of a run")
        parser.add_argument(
            "--set", metavar="KEY=VALUE", action="append", default=[], help="override a key"
        )
        parser.add_argument(
            "--workers",
            metavar="N,N",
            default="1,4,16,64,256,1024,4096",
            help="numbers of workers (default: %(default)s)",
        )
        rows = parser.add_mutually_exclusive_group()
        rows.add_argument(
            "--row-seconds",
            type=_positive,
            default=0.5,
            help="mean seconds of a row (default: %(default)s)",
        )
        rows.add_argument(
            "--times",
            metavar="RUN",
            help="directory of a run with --workers serial: rows take what they took there",
        )
        parser.add_argument(
            "--sigma",
            type=_not_negative,
            default=0.0,
            help="of the logarithm of a row's time; 0: all rows take the same (the default)",
        )
        parser.add_argument(
            "--late",
            metavar="SHARE:FACTOR",
            type=_late,
            default=(0.0, 1.0),
            help="share of rows that take so many times as long, 0.01:20 say",
        )
        parser.add_argument(
            "--late-rows",
            action="store_true",
            help="lateness is the row's own (default: the machine's; a copy draws another time)",
        )
        parser.add_argument(
            "--copies", action="store_true", help="idle workers take copies of late rows"
        )
        parser.add_argument(
            "--lifetime",
            type=_positive,
            help="mean seconds until a worker is lost (default: never)",
        )
        parser.add_argument(
            "--join",
            metavar="SECONDS:N",
            type=_join,
            action="append",
            default=[],
            help="so many workers join so late; may be given again",
        )
        parser.add_argument(
            "--request-seconds",
            type=_not_negative,
            default=0.0002,
            help="of the driver's time, what a request costs (default: %(default)s)",
        )

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from framework.experiment.config import load_config
        from framework.experiment.single_run import make_algorithm, make_problem, make_roles
        from framework.run.simulation import driver_seconds, simulate
        from framework.run.virtual_workers import Answers, Crew

        config = load_config(args.config, args.set)
        problem = make_problem(config)
        roles, answers = make_roles(config, problem), Answers()
        times = _times(args, config.seed)

        def make() -> Algorithm:
            return make_algorithm(config, problem, roles)

        with tempfile.TemporaryDirectory() as folder:
            per_row = driver_seconds(
                problem,
                make,
                config.seed,
                config.budget,
                answers,
                lambda: _journal(Path(folder) / f"{secrets.token_hex(4)}.sqlite", problem),
            )
        cost = per_row * 1e6
        table = _table(
            f"{config.algorithm['kind']}, {config.name}: the driver's {cost:.0f} µs a row"
        )
        fronts = set()
        for workers in _numbers(args.workers):
            crew = Crew(
                workers,
                joining=tuple(args.join),
                lifetime=args.lifetime,
                copies=args.copies,
                row_seconds=per_row,
                request_seconds=args.request_seconds,
            )
            found = simulate(problem, make, config.seed, crew, times, config.budget, answers)
            tally = found.tally
            fronts.add(found.front.ids.tobytes())
            own = tally.driver / max(tally.rows, 1)
            table.add_row(
                f"{workers:,}",
                f"{tally.efficiency:.3f}",
                f"{tally.seconds:,.1f}",
                f"{found.driver_share:.1%}",
                f"{times.seconds / own:,.0f}" if own else "",
                f"{tally.copies:,}",
                f"{tally.lost:,}",
            )
        console().print(table)
        same = "the same" if len(fronts) == 1 else "NOT the same"
        console().print(f"{tally.rows:,} rows; the front is {same} for every number of workers")
        return 0


def _times(args: argparse.Namespace, seed: int) -> RowTimes:
    from framework.experiment.run_dir import RunDir
    from framework.run.virtual_workers import RowTimes

    if args.times is None:
        share, factor = args.late
        return RowTimes(args.row_seconds, args.sigma, share, factor, not args.late_rows, seed)
    if args.sigma or args.late[0]:
        raise InputError("--times: expected no --sigma and --late beside it, found some")
    run_dir = RunDir(args.times)
    found = run_dir.summary().get("evaluated_by")
    if found != "serial":
        raise InputError(
            f"--times {args.times}: expected a finished run with --workers serial, whose rows were "
            f"evaluated one after the other, found one by {found or 'nobody'}"
        )
    with run_dir.journal() as journal:
        return RowTimes.of_run(journal, of_machine=not args.late_rows, seed=seed)


def _journal(path: Path, problem: Problem) -> Journal:
    from framework.journal import Journal

    space = problem.space
    return Journal(path, {}, metrics=problem.metric_names, d=space.d, dtype=space.dtype)


def _table(title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in (
        "workers",
        "efficiency",
        "seconds",
        "driver at work",
        "driver keeps",
        "copies",
        "rows lost",
    ):
        table.add_column(name, justify="right")
    return table


def _numbers(text: str) -> list[int]:
    numbers = [int(word) if word.strip().isdigit() else 0 for word in text.split(",")]
    if not all(numbers):
        raise InputError(f"--workers: expected numbers from 1 on, as in 1,16,64; found {text!r}")
    return numbers


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")
    return value


def _late(text: str) -> tuple[float, float]:
    share, _, factor = text.partition(":")
    found = _not_negative(share), _positive(factor or "20")
    if found[0] > 1:
        raise argparse.ArgumentTypeError(f"expected a share up to 1, found {text!r}")
    return found


def _join(text: str) -> tuple[float, int]:
    at, _, many = text.partition(":")
    return _not_negative(at), int(many)
