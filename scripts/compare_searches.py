"""The searches compared: several of them on one problem, at equal evaluations, seed by seed.

    python scripts/compare_searches.py [CONFIG] [--evaluations N] [--seeds N] [--out DIR]

The problem, its objectives and the operators' parameters are those of CONFIG (default: the heart
failure data of the EMSCO paper, at most 4 stages). Each search runs once a seed, in a directory
of its own below OUT; what is finished is left alone, so that an interrupted comparison goes on
where it was. It ends in the table, tests and figures of `paretolab compare`, in OUT.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framework.compare import compare
from framework.compare_command import show, write
from framework.config import RunConfig, load_config, read_yaml
from framework.errors import ParetolabError
from framework.experiment import Options, Watcher, execute
from framework.rundir import RunDir

SEARCHES = ("emsco", "local_search", "nsga2", "nsga3", "sms_emoa", "random")
OPERATORS = ("population", "mutation_rate", "crossover_rate", "beta")  # EMSCO's and the peers'


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", nargs="?", default="configs/emsco/heart.yaml")
    parser.add_argument("--evaluations", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=SEARCHES)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--reference", metavar="FRONT.csv", help="an exact front, say")
    parser.add_argument("--workers", default="serial", help="serial, all or a number")
    parser.add_argument("--out", default="runs/searches")
    args = parser.parse_args(arguments)
    try:
        places = [searched(kind, args) for kind in args.searches]
        comparison = compare(places, args.reference)
        show(comparison, write(comparison, Path(args.out)))
    except ParetolabError as error:
        print(f"compare_searches: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def searched(kind: str, args: argparse.Namespace) -> Path:
    """Run a search with each seed, or what is left of it; return its directory."""
    config = configured(kind, args)
    run_dir = RunDir(Path(args.out) / kind)
    run_dir.path.mkdir(parents=True, exist_ok=True)
    print(f"{kind}: {args.evaluations:,} evaluations, {args.seeds} seeds, {run_dir.path}")
    execute(config, run_dir, Options(None, False, Watcher, print))
    return run_dir.path


def configured(kind: str, args: argparse.Namespace) -> RunConfig:
    """Return the configuration of one search: that of CONFIG but for algorithm and budget."""
    given = read_yaml(Path(args.config)).get("algorithm", {})
    takes = {"emsco": given, "random": {}, "local_search": {}}
    own = takes.get(kind, {key: value for key, value in given.items() if key in OPERATORS})
    algorithm: dict[str, Any] = {**own, "kind": kind}
    if kind == "emsco":
        algorithm.pop("convergence", None)  # all spend the whole budget
    workers = int(args.workers) if args.workers.isdigit() else args.workers
    return load_config(
        args.config, args.set, algorithm=algorithm, budget={"evaluations": args.evaluations},
        trials=args.seeds, workers=workers,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
