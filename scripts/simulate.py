"""How busy a search would keep so many workers: the real search and driver, in virtual time.

    python scripts/simulate.py CONFIG [--workers 1,64,1024] [--row-seconds 0.5] [--sigma 1] ...

Candidates are evaluated here, once each; how long an evaluation takes is drawn. What a candidate
costs the driver, search and journal included, is measured first (:func:`driver_seconds`) and
charged when the candidate is sent. So the simulation says how busy a cluster would be kept, and
from how many workers on the driver is what everybody waits for. The same measurement gives the
same simulation.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from virtual_workers import Answers, EvaluationTimes, Workers, driver_seconds, simulate

from framework.algorithm import Algorithm
from framework.cli.tables import console
from framework.errors import InputError, ParetolabError
from framework.experiment.config import load_config
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_algorithm, make_problem, make_roles
from framework.journal import Journal
from framework.problem import Problem


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and print a line for each number of workers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    args = parser.parse_args(arguments)
    try:
        report(args)
    except ParetolabError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def report(args: argparse.Namespace) -> None:
    """Print how busy each number of workers would be."""
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
    table = _table(f"{config.algorithm['kind']}, {config.name}: the driver's {cost:.0f} µs a row")
    fronts = set()
    for number in _numbers(args.workers):
        workers = Workers(
            number,
            joining=tuple(args.join),
            lifetime=args.lifetime,
            copies=args.copies,
            row_seconds=per_row,
            request_seconds=args.request_seconds,
        )
        found = simulate(problem, make, config.seed, workers, times, config.budget, answers)
        statistics = found.statistics
        fronts.add(found.front.ids.tobytes())
        own = statistics.driver / max(statistics.rows, 1)
        table.add_row(
            f"{number:,}",
            f"{statistics.efficiency:.3f}",
            f"{statistics.seconds:,.1f}",
            f"{found.driver_share:.1%}",
            f"{times.seconds / own:,.0f}" if own else "",
            f"{statistics.copies:,}",
            f"{statistics.lost:,}",
        )
    console().print(table)
    same = "the same" if len(fronts) == 1 else "NOT the same"
    console().print(f"{statistics.rows:,} rows; the front is {same} for every number of workers")


def _times(args: argparse.Namespace, seed: int) -> EvaluationTimes:
    if args.times is None:
        share, factor = args.late
        return EvaluationTimes(
            args.row_seconds, args.sigma, share, factor, not args.late_rows, seed
        )
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
        return EvaluationTimes.of_run(journal, of_machine=not args.late_rows, seed=seed)


def _journal(path: Path, problem: Problem) -> Journal:
    space = problem.space
    return Journal(path, {}, metrics=problem.metric_names, d=space.d, dtype=space.dtype)


def _table(title: str) -> Table:
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


if __name__ == "__main__":
    raise SystemExit(main())
