"""Table 6 and Figure 7 of the EMSCO paper: how much of the exact front EMSCO finds and keeps.

    python scripts/global_optima.py [CONFIG ...] [--stages 2 3 4] [--splits N] [--runs N]

For each configuration (default: heart, pima and credit of configs/emsco), greatest number of stages
and split, the exact front is enumerated and EMSCO is run with many seeds; after each generation the
vectors of the exact front seen so far are counted, which are those in its elite (Property 1). It
ends in a table and a figure of the mean with its 95% interval. What is finished is kept in OUT, so
that an interrupted experiment goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from algorithms.multistage.emsco import EMSCO
from framework.arrays import Array
from framework.config import Budget, RunConfig, load_config
from framework.driver import run
from framework.errors import ParetolabError
from framework.evaluator import SerialEvaluator, evaluate_rows
from framework.problem import Problem
from framework.roles import Roles
from framework.streams import trial_seed
from framework.trial import make_algorithm, make_problem, make_roles

CONFIGS = [f"configs/emsco/{name}.yaml" for name in ("heart", "pima", "credit")]
PAPER = {
    "heart": {2: 24, 3: 28, 4: 33},
    "credit": {2: 47, 3: 141, 4: 171},
    "pima": {2: 18, 3: 42, 4: 65},
}  # Table 6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", default=CONFIGS, metavar="CONFIG")
    parser.add_argument("--stages", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--runs", type=int, default=100, help="of EMSCO, on each split")
    parser.add_argument("--generations", type=int, default=500)
    parser.add_argument("--out", default="runs/global-optima")
    args = parser.parse_args(arguments)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    try:
        for path in args.configs:
            for stages in args.stages:
                for split in range(args.splits):
                    rows.append(experiment(path, stages, split, args, out))
                    print(*rows[-1].values(), flush=True)
    except ParetolabError as error:
        print(f"global_optima: {error}", file=sys.stderr)
        return error.exit_code
    frame = pd.DataFrame(rows)
    frame.to_csv(out / "table.csv", index=False)
    show(frame)
    draw(frame, out)
    return 0


def experiment(
    path: str, stages: int, split: int, args: argparse.Namespace, out: Path
) -> dict[str, str | int | float]:
    """Count on one split, or read what was counted; return a row of the table."""
    changes = [f"problem.max_stages={stages}", f"problem.split.seed={split}"]
    config = load_config(path, changes)
    file = out / f"{config.name}-k{stages}-split{split}.npz"
    if not file.is_file():
        problem = make_problem(config)
        roles = make_roles(config, problem)
        exact = exact_front(config, problem)
        seeds = [trial_seed(config.seed, number) for number in range(args.runs)]
        counts = [found(problem, roles, config, seed, exact, args.generations) for seed in seeds]
        np.savez(file, size=len(exact), counts=np.array(counts))
    with np.load(file) as kept:
        size, counts = int(kept["size"]), kept["counts"]
    name = config.name.removeprefix("emsco-")
    return {
        "data": name, "k": stages, "split": split, "exact": size,
        "paper": PAPER.get(name, {}).get(stages, 0), "mean found": float(counts[:, -1].mean()),
        "margin": float(margin(counts)[-1]), "file": file.name,
    }  # fmt: skip


def exact_front(config: RunConfig, problem: Problem) -> set[bytes]:
    """Return the exact front's vectors."""
    exact = config.model_copy(update={"algorithm": {"kind": "exact"}})
    algorithm = make_algorithm(exact, problem, make_roles(exact, problem))
    front = run(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=1))
    return {row.tobytes() for row in front.losses}


def found(
    problem: Problem, roles: Roles, config: RunConfig, seed: int, exact: set[bytes], n: int
) -> Array:
    """Return how many vectors of the exact front EMSCO has after each generation, (n + 1,)."""
    given = {key: value for key, value in config.algorithm.items() if key != "kind"}
    algorithm = EMSCO(problem, roles, seed=seed, **{**given, "convergence": None})
    seen: set[bytes] = set()
    counts = np.zeros(n + 1, dtype=np.int64)
    first = 0
    for generation in range(n + 1):
        X = algorithm.ask()
        if X is not None:  # else the elite fills the population: it stays as it is
            batch = evaluate_rows(problem, seed, np.arange(first, first + len(X)), X)
            first += len(X)
            seen |= exact.intersection(row.tobytes() for row in roles.losses(batch.values))
            algorithm.tell(batch)
        counts[generation] = len(seen)
    return counts


def margin(counts: Array) -> Array:
    """Return the half-width of the 95% interval of the mean, generation by generation."""
    return np.asarray(1.96 * counts.std(axis=0, ddof=min(1, len(counts) - 1)) / len(counts) ** 0.5)


def show(frame: pd.DataFrame) -> None:
    """Print a row for each data set and number of stages, over its splits."""
    table = Table(title="Exact fronts and what EMSCO finds of them", title_justify="left")
    for name in ("data", "k", "paper's front", "exact fronts", "found", "share found"):
        table.add_column(name, justify="left" if name == "data" else "right")
    for (data, k), part in frame.groupby(["data", "k"], sort=False):
        share = part["mean found"] / part["exact"]
        sizes = " ".join(map(str, part["exact"]))
        means = " ".join(
            f"{m:.1f}±{e:.1f}" for m, e in zip(part["mean found"], part["margin"], strict=True)
        )
        table.add_row(
            str(data), str(k), str(part["paper"].iloc[0]), sizes, means, f"{share.mean():.0%}"
        )
    Console(width=120).print(table)


def draw(frame: pd.DataFrame, out: Path) -> None:
    """Draw Figure 7: a panel for each data set and number of stages, a line for each split."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, stages = list(frame["data"].unique()), sorted(frame["k"].unique())
    figure, panels = pyplot.subplots(
        len(stages), len(names), figsize=(4 * len(names), 2.6 * len(stages)), squeeze=False,
        sharex=True,
    )  # fmt: skip
    for row in frame.to_dict("records"):
        with np.load(out / row["file"]) as kept:
            counts = kept["counts"]
        panel = panels[stages.index(row["k"]), names.index(row["data"])]
        mean, half = counts.mean(axis=0), margin(counts)
        label = f"split {row['split']}: of {row['exact']}"
        (line,) = panel.plot(mean, label=label)
        x = np.arange(len(mean))
        panel.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.25)
        panel.set_title(f"{row['data']}, k = {row['k']}", fontsize=10)
    for panel in panels.ravel():
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=8, frameon=False, loc="lower right")
        panel.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("generation", fontsize=10)
    figure.supylabel("vectors of the exact front in the elite, mean and 95% interval", fontsize=10)
    figure.tight_layout()
    figure.savefig(out / "figure7.png", dpi=130)
    print(out / "figure7.png")


if __name__ == "__main__":
    sys.exit(main())
