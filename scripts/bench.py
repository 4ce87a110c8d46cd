"""Speed, as ratios against a named baseline measured in the same process.

    python scripts/bench.py emsco [--generations N] [--no-ray] [--no-mlflow]
    python scripts/bench.py multistage [--repeats N]
    python scripts/bench.py resampling [--designs N] [--repeats N]
    python scripts/bench.py scaling [--generations N] [--repeats N]
    python scripts/bench.py ensembling [--repeats N]
    python scripts/bench.py hull [--evaluations N] [--populations N N ...]
    python scripts/bench.py cascade [TABLE] [--repeats N]
    python scripts/bench.py pruning [--seconds S | --effort N | --workers N ...] [LIBRARY ...]

The multi-stage data are the Australian credit data of the EMSCO paper (14 features, 690 records,
k = 4), taken from PARETOLAB_DATA; without them a synthetic set of the same shape stands in, and the
table says so. Libraries of models are made up. What runs in this process is timed by its CPU, so
that ratios hold on a busy machine too; what runs on Ray, by the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

_LEAST_SECONDS = 0.3  # of one measurement, so that the clock's resolution does not matter


def rate(work: Callable[[], object], n: int, repeats: int = 1) -> float:
    """Return how many of the ``n`` things that ``work`` does are done in a second, at best."""
    work()  # compile, fill caches
    best = 0.0
    for _ in range(repeats):
        start, done = time.process_time(), 0
        while (seconds := time.process_time() - start) < _LEAST_SECONDS:
            work()
            done += n
        best = max(best, done / seconds)
    return best


def fastest(repeats: int, measure: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    """Return the seconds and the result of the fastest of several measurements."""
    return min((measure() for _ in range(repeats)), key=lambda pair: pair[0])


def print_table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0
) -> None:
    """Print a table, its first ``left`` columns of words, the others of numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=130).print(table)


def main() -> int:
    """Run the benchmark of one family, with numerical libraries on one thread."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    families = parser.add_subparsers(required=True, metavar="FAMILY")

    def family(name: str, module: str, text: str) -> argparse.ArgumentParser:
        added = families.add_parser(name, help=text)
        added.set_defaults(module=module, function=f"bench_{name}")
        return added

    emsco = family("emsco", "multistage", "generations per second of EMSCO on the credit data")
    emsco.add_argument("--generations", type=int, default=500)
    emsco.add_argument("--no-ray", action="store_true")
    emsco.add_argument("--no-mlflow", action="store_true")
    exact = family("multistage", "multistage", "exact fronts: candidates a second")
    scaling = family("scaling", "multistage", "cost against features, records, population")
    scaling.add_argument("--generations", type=int, default=20)
    resampling = family("resampling", "multistage", "what resamples of many designs take")
    resampling.add_argument("--designs", type=int, default=50000)
    ensembling = family("ensembling", "ensembling", "evaluations a second of ensembles")
    cascade = family("cascade", "cascade", "exact fronts and hulls of cascades")
    cascade.add_argument("table", nargs="?", help="a file of calls; a made-up table if none")
    for repeated in (emsco, exact, resampling, scaling, ensembling, cascade):
        repeated.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    hull = family("hull", "hull", "convex-hull evolution beside the paper's times")
    hull.add_argument("--evaluations", type=int, default=30000)
    hull.add_argument("--populations", type=int, nargs="+", default=[100, 300, 1000])
    pruning = family("pruning", "pruning", "gaps of integer programs beside the paper's")
    pruning.add_argument("libraries", nargs="*", help="folders; a made-up pool if none")
    pruning.add_argument("--seconds", type=float, default=20.0, help="a solve, of the processor")
    pruning.add_argument("--weights", default="accuracy")
    pruning.add_argument(
        "--effort", type=int, metavar="N", help="gaps by K and records after N iterations instead"
    )
    pruning.add_argument(
        "--workers",
        type=int,
        nargs="+",
        metavar="N",
        help="time to --gap on so many workers instead; 0 is this process",
    )
    pruning.add_argument("--gap", type=float, default=0.01, help="(bound - value) / value")
    args = parser.parse_args()
    bench = getattr(import_module(f"bench_{args.module}"), args.function)
    with threadpool_limits(1):  # scikit-learn's best here, and of what is loaded by now alone
        bench(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
