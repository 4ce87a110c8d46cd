"""Table 6 and Figure 7 of the EMSCO paper: how much of the exact front EMSCO finds and keeps.

    python scripts/global_optima.py [CONFIG ...] [--stages 2 3 4] [--splits N] [--runs N]
                                    [--workers N] [--out DIR]

For each configuration (default: heart, pima and credit of configs/emsco), greatest number of stages
and split, the exact front is enumerated and EMSCO is run with many seeds; after each generation the
vectors of the exact front in its elite are counted. It ends in a table and a figure of the mean
with its 95% interval. What is finished is kept in OUT, so that an interrupted experiment goes on
where it was.

The paper reads Figure 7: all curves are monotonic (what is found is kept), and 500 generations find
80% of the exact front of the heart data with at most 4 stages, over 20% of that of credit.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import study

from algorithms.multistage.emsco import EMSCO
from framework.arrays import Array
from framework.experiment.config import RunConfig, load_config
from framework.experiment.single_run import make_algorithm, make_problem, make_roles
from framework.problem import Problem
from framework.roles import Roles
from framework.run.driver import run
from framework.run.evaluator import SerialEvaluator, evaluate_rows
from framework.settings import Budget
from framework.streams import repeat_seed

CONFIGS = [f"configs/emsco/{name}.yaml" for name in ("heart", "pima", "credit")]
PAPER = {
    "heart": {2: 24, 3: 28, 4: 33},
    "credit": {2: 47, 3: 141, 4: 171},
    "pima": {2: 18, 3: 42, 4: 65},
}  # Table 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Count what is missing, then write table, claims and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("configs", nargs="*", default=CONFIGS, metavar="CONFIG")
    parser.add_argument("--stages", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--runs", type=int, default=100, help="of EMSCO, on each split")
    parser.add_argument("--generations", type=int, default=500)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    study.add_options(parser, "runs/global-optima")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = [
        (path, stages, split, options)
        for path in options.configs
        for stages in options.stages
        for split in range(options.splits)
    ]
    for file in study.side_by_side(count, tasks, options.workers):
        print(file, flush=True)
    frame = pd.DataFrame([row_of(*task) for task in tasks])
    draw(frame, options.out)
    shown = readable(frame)
    report = study.Report(
        "Exact fronts and what EMSCO finds of them (Table 6, Figure 7)",
        f"Means of {options.runs} runs of {options.generations} generations, with 95% margins.",
        {"table": frame, "readable": shown},
        claims(frame),
        ["figure7.png"],
    )
    study.write(report, options.out)
    print(study.markdown(shown), study.markdown(claims(frame)), sep="\n\n")
    study.log(options.out, load_config(options.configs[0]).tracking, "global_optima", options)
    return 0


def configured(path: str, stages: int, split: int) -> RunConfig:
    """Return the configuration of one experiment."""
    return load_config(path, [f"problem.max_stages={stages}", f"problem.split.seed={split}"])


def file_of(config: RunConfig, stages: int, split: int, out: Path) -> Path:
    """Return where the counts of one experiment are kept."""
    return out / f"{config.name}-k{stages}-split{split}.npz"


def count(path: str, stages: int, split: int, options: argparse.Namespace) -> str:
    """Count on one split, unless that was done; return the file."""
    config = configured(path, stages, split)
    file = file_of(config, stages, split, options.out)
    if not counted(file, options):
        problem = make_problem(config)
        roles = make_roles(config, problem)
        exact = exact_front(config, problem)
        seeds = [repeat_seed(config.seed, number) for number in range(options.runs)]
        n = options.generations
        counts = [found(problem, roles, config, seed, exact, n) for seed in seeds]
        part = file.with_suffix(".part.npz")  # whole or not there, whenever it is interrupted
        np.savez(part, size=len(exact), counts=np.array(counts))
        part.replace(file)
    return str(file)


def counted(file: Path, options: argparse.Namespace) -> bool:
    """Tell whether a file has the counts of as many runs and generations as are asked for."""
    if not file.is_file():
        return False
    with np.load(file) as kept:
        return bool(kept["counts"].shape == (options.runs, options.generations + 1))


def row_of(
    path: str, stages: int, split: int, options: argparse.Namespace
) -> dict[str, str | int | float]:
    """Return a row of the table from what was counted."""
    config = configured(path, stages, split)
    file = file_of(config, stages, split, options.out)
    with np.load(file) as kept:
        size, counts = int(kept["size"]), kept["counts"]
    name = config.name.removeprefix("emsco-")
    return {
        "data": name,
        "k": stages,
        "split": split,
        "exact": size,
        "paper": PAPER.get(name, {}).get(stages, 0),
        "mean found": float(counts[:, -1].mean()),
        "margin": float(margin(counts)[-1]),
        "runs that lost some": int((np.diff(counts, axis=1) < 0).any(axis=1).sum()),
        "file": file.name,
    }


def exact_front(config: RunConfig, problem: Problem) -> set[bytes]:
    """Return the exact front's vectors."""
    exact = config.model_copy(update={"algorithm": {"kind": "exact"}})
    algorithm = make_algorithm(exact, problem, make_roles(exact, problem))
    front = run(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=1))
    return {row.tobytes() for row in front.losses}


def found(
    problem: Problem, roles: Roles, config: RunConfig, seed: int, exact: set[bytes], n: int
) -> Array:
    """Return how many vectors of the exact front are in EMSCO's elite, by generation, (n + 1,)."""
    given = {key: value for key, value in config.algorithm.items() if key != "kind"}
    algorithm = EMSCO(problem, roles, seed=seed, **{**given, "convergence": None})
    counts = np.zeros(n + 1, dtype=np.int64)
    first = 0
    for generation in range(n + 1):
        X = algorithm.ask()
        if X is not None:  # else the elite fills the population: it stays as it is
            algorithm.tell(evaluate_rows(problem, seed, np.arange(first, first + len(X)), X))
            first += len(X)
        elite = algorithm.elite
        if elite is not None:
            vectors = {row.tobytes() for row in roles.losses(elite.values)}
            counts[generation] = len(exact & vectors)
    return counts


def margin(counts: Array) -> Array:
    """Return the half-width of the 95% interval of the mean, generation by generation."""
    return np.asarray(1.96 * counts.std(axis=0, ddof=min(1, len(counts) - 1)) / len(counts) ** 0.5)


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each data set and number of stages, over its splits."""
    rows = []
    for (data, k), part in frame.groupby(["data", "k"], sort=False):
        share = part["mean found"] / part["exact"]
        means = zip(part["mean found"], part["margin"], strict=True)
        rows.append(
            {
                "data": data,
                "k": k,
                "paper's front": part["paper"].iloc[0],
                "exact fronts": " ".join(map(str, part["exact"])),
                "found": " ".join(f"{m:.1f}±{e:.1f}" for m, e in means),
                "share found": f"{share.mean():.0%}",
            }
        )
    return pd.DataFrame(rows)


def claims(frame: pd.DataFrame) -> pd.DataFrame:
    """Say of each statement of Section 4.2 if it holds here; none where its data are not there."""
    rows = []
    for data, sizes in PAPER.items():
        for k, size in sizes.items():
            part = frame[(frame["data"] == data) & (frame["k"] == k)]
            if len(part):
                least, most = int(part["exact"].min()), int(part["exact"].max())
                rows.append(
                    (
                        f"{data}, k = {k}: size of the exact front",
                        str(size),
                        f"{least} to {most} on {len(part)} splits",
                        "yes" if least <= size <= most else "no",
                    )
                )
    lost = int(frame["runs that lost some"].sum())
    rows.append(
        (
            "what is found is kept (Property 1)",
            "all curves monotonic",
            f"{lost} runs ever lost a vector",
            "no" if lost else "yes",
        )
    )
    for data, k, least_share in (("heart", 4, 0.8), ("credit", 4, 0.2)):
        part = frame[(frame["data"] == data) & (frame["k"] == k)]
        if len(part):
            share = part["mean found"] / part["exact"]
            rows.append(
                (
                    f"{data}, k = {k}: share found by 500 generations",
                    f"{least_share:.0%}",
                    " ".join(f"{s:.0%}" for s in share),
                    "yes" if share.mean() >= least_share else "no",
                )
            )
    return pd.DataFrame(rows, columns=["claim", "paper", "here", "holds"])


def draw(frame: pd.DataFrame, out: Path) -> None:
    """Draw Figure 7: a panel for each data set and number of stages, a line for each split."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, stages = list(frame["data"].unique()), sorted(frame["k"].unique())
    figure, panels = pyplot.subplots(
        len(stages),
        len(names),
        figsize=(4 * len(names), 2.6 * len(stages)),
        squeeze=False,
        sharex=True,
    )
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


if __name__ == "__main__":
    raise SystemExit(study.run(main))
