"""Speed, as ratios against a named baseline measured in the same process.

    python scripts/bench.py emsco [--generations N] [--no-ray] [--no-mlflow]
    python scripts/bench.py multistage [--repeats N]
    python scripts/bench.py ensembling [--repeats N]
    python scripts/bench.py hull [--evaluations N] [--populations N N ...]
    python scripts/bench.py pruning [--seconds S | --effort N] [LIBRARY ...]
    python scripts/bench.py scaling [--generations N] [--repeats N]

The multi-stage data are the Australian credit data of the EMSCO paper (14 features, 690 records,
k = 4), taken from PARETOLAB_DATA; without them a synthetic set of the same shape stands in, and the
table says so. Libraries of models are made up. What runs in this process is timed by its CPU, so
that ratios hold on a busy machine too; what runs on Ray, by the clock.
"""

from __future__ import annotations

import argparse
import sys

from bench_emsco import bench_emsco
from bench_ensembling import bench_ensembling
from bench_exact import bench_multistage
from bench_hull import bench_hull
from bench_pruning import bench_pruning
from bench_scaling import bench_scaling
from threadpoolctl import threadpool_limits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    families = parser.add_subparsers(required=True, metavar="FAMILY")
    emsco = families.add_parser("emsco", help="generations per second of EMSCO on the credit data")
    emsco.add_argument("--generations", type=int, default=500)
    emsco.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    emsco.add_argument("--no-ray", action="store_true")
    emsco.add_argument("--no-mlflow", action="store_true")
    emsco.set_defaults(bench=bench_emsco)
    multistage = families.add_parser("multistage", help="exact fronts: candidates a second")
    multistage.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    multistage.set_defaults(bench=bench_multistage)
    ensembling = families.add_parser("ensembling", help="evaluations a second of ensembles")
    ensembling.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    ensembling.set_defaults(bench=bench_ensembling)
    hull = families.add_parser("hull", help="convex-hull evolution beside the paper's times")
    hull.add_argument("--evaluations", type=int, default=30000)
    hull.add_argument("--populations", type=int, nargs="+", default=[100, 300, 1000])
    hull.set_defaults(bench=bench_hull)
    pruning = families.add_parser("pruning", help="gaps of integer programs beside the paper's")
    pruning.add_argument("libraries", nargs="*", help="folders; a made-up pool if none")
    pruning.add_argument("--seconds", type=float, default=20.0, help="a solve, of the processor")
    pruning.add_argument("--weights", default="accuracy")
    pruning.add_argument(
        "--effort", type=int, metavar="N", help="gaps by K and records after N iterations instead"
    )
    pruning.set_defaults(bench=bench_pruning)
    scaling = families.add_parser("scaling", help="cost against features, records, population")
    scaling.add_argument("--generations", type=int, default=20)
    scaling.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    scaling.set_defaults(bench=bench_scaling)
    args = parser.parse_args()
    with threadpool_limits(1):  # scikit-learn's best here: its matrices are small
        args.bench(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
