"""Figures 2, 3, 6 and 7 of the EMSCO paper, each with a table and its claims.

    python scripts/figures.py threshold|landscape|neighbours|elites [--config CONFIG]
                              [--set KEY=VALUE] [--out DIR]

threshold (Figure 2)
    Coverage, conclusive accuracy and cost of a cost-ordered two-stage classifier by p_hat. The
    paper's claim: the higher p_hat, the greater the accuracy and the cost, the lower the coverage.
landscape (Figure 3)
    Random designs of the heart data with at most three stages, all equally likely. The paper's
    claim: conclusive accuracy and inverse cost g3 are traded off. The figure shows one split, the
    rank correlation is that of several.
neighbours (Figure 6)
    All designs one step (a gene plus or minus 1) from a member of the exact front of the credit
    data with at most four stages. The paper's claim: a single step may change much.
elites (Figure 7)
    How many vectors of the exact front are in EMSCO's generations on the heart data, k = 2 to 4:
    the mean of 20 runs (the paper: 100) with its 95% interval. The paper's claim: all curves rise.

The first three take seconds, the last a minute or two; none can be resumed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr, t

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.papers.budgeted import CostOrdered
from algorithms.multistage.papers.tuning import BaselineConfig, BaselineProblem, measure
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import choose
from framework.analysis.compare import Claim, Page
from framework.analysis.report import claims_table
from framework.arrays import Array, FloatArray
from framework.errors import InputError, ParetolabError, first_line
from framework.experiment.config import RunConfig, TrackingConfig, changed, load_config
from framework.experiment.single_run import make_problem
from framework.front import Front
from framework.models.store import markdown_table
from framework.problem import Problem
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator, evaluate_candidates
from framework.settings import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.md"
THRESHOLDS = np.arange(0.5, 1.0, 0.02)
SPLITS = 30  # over which the curves of Figure 2 are averaged
RUNS, GENERATIONS = 20, 500  # of Figure 7
SAMPLE = 5000  # designs of Figure 3
LANDSCAPES = 6  # splits of Figure 3
BLUE, RED, GREEN = "#34618c", "#c0392b", "#2e7d4f"
OBJECTIVES = ("coverage", "accuracy", "inverse_cost")
NAMES = {
    "coverage": "coverage g1",
    "accuracy": "conclusive accuracy g2",
    "inverse_cost": "inverse cost g3",
}


def threshold(options: argparse.Namespace) -> Page:
    """Vary p_hat (Figure 2), on test records, with means over splits."""
    config = _config(options, "threshold")
    rows = []
    for split in range(SPLITS):
        problem = BaselineProblem.from_config(_sections(config, split)[1])
        total = float(problem.costs.sum())
        for value in THRESHOLDS:
            fitted = CostOrdered(problem.costs, float(value)).fit(*problem.training)
            outcome = measure(fitted, *problem.test)
            row = {"p_hat": value, "coverage": outcome.coverage, "accuracy": outcome.accuracy}
            rows.append(row | {"cost_share": outcome.cost / total})
    table = pd.DataFrame(rows).groupby("p_hat", as_index=False).mean()
    figure, axes = _panels(1, 6.4, 4.2)
    for name, label, colour in (
        ("accuracy", "conclusive accuracy", BLUE),
        ("coverage", "coverage", GREEN),
        ("cost_share", "cost, share of all features", RED),
    ):
        axes[0, 0].plot(table["p_hat"], table[name], label=label, color=colour)
    axes[0, 0].set(
        xlabel="confidence threshold p_hat", ylabel="mean over splits, test records", ylim=(0, 1.03)
    )
    axes[0, 0].legend(frameon=False, loc="lower left")
    claims = [
        Claim(
            f"higher p_hat: {word}",
            word,
            f"{table[name].iloc[0]:.3f} to {table[name].iloc[-1]:.3f}, "
            f"rank correlation {(r := _rank(table['p_hat'], table[name])):.2f}",
            sign * r > 0.5,
        )
        for name, word, sign in (
            ("accuracy", "greater accuracy", 1),
            ("coverage", "less coverage", -1),
            ("cost_share", "greater cost", 1),
        )
    ]
    text = f"A cost-ordered two-stage classifier on test records, means over {SPLITS} splits."
    return _page("What the confidence threshold does (Figure 2)", text, claims, table, figure)


def landscape(options: argparse.Namespace) -> Page:
    """Draw random designs by their objectives (Figure 3)."""
    config = _config(options, "heart", "problem.max_stages=3")
    problem = make_problem(config)
    X = problem.space.sample(np.random.default_rng(config.seed), SAMPLE)
    values = _values(problem, X)
    table = _objectives(values, float(values["cost"].min()))
    figure, axes = _panels(2, 11, 4.4)
    x, y, colour = table["coverage"], table["accuracy"], table["inverse_cost"]
    axes[0, 0].remove()
    space = figure.add_subplot(1, 2, 1, projection="3d")
    space.scatter(x, y, colour, c=colour, s=9, cmap="viridis", linewidths=0)
    space.set(xlabel=NAMES["coverage"], ylabel=NAMES["accuracy"], zlabel=NAMES["inverse_cost"])
    space.tick_params(labelsize=7)
    space.set_box_aspect(None, zoom=0.85)  # leaves room for the label of the third axis
    space.set_title(f"{SAMPLE:,} random designs", fontsize=10)
    means = table.groupby(["coverage", "accuracy"], as_index=False)["inverse_cost"].mean()
    map_ = axes[0, 1].tricontourf(
        means["coverage"],
        means["accuracy"],
        means["inverse_cost"],
        levels=12,
        cmap="viridis",
        vmin=colour.min(),
        vmax=colour.max(),
    )
    axes[0, 1].set_title("the mean of those with equal g1 and g2", fontsize=10)
    axes[0, 1].set(xlabel=NAMES["coverage"], ylabel=NAMES["accuracy"])
    figure.colorbar(map_, ax=axes[0, 1], label=f"{NAMES['inverse_cost']} (dark: dear)")
    summary = _rank_correlations(config)
    r = summary["accuracy, inverse cost"]
    claims = [
        Claim(
            "accuracy and inverse cost are traded off",
            "seen in the contour map",
            f"rank correlation {r.iloc[0]:+.2f} on the split drawn; "
            f"{r.mean():+.2f} in the mean of {len(r)} splits, {(r < 0).sum()} of them below 0",
            bool(r.mean() < -0.1),
        )
    ]
    text = (
        f"{SAMPLE:,} designs of the heart data, validation records, k = 3; every design is as "
        "likely as any other. The table: rank correlations by split."
    )
    title = "The landscape of the objectives (Figure 3)"
    return _page(title, text, claims, summary, figure, designs=table)


def _rank_correlations(config: RunConfig) -> pd.DataFrame:
    """Return the rank correlations of pairs of objectives of random designs, a row per split."""
    rows = []
    for split in range(LANDSCAPES):
        stages = _sections(config, split)[0]
        problem = MultiStageProblem.from_config(stages)
        X = problem.space.sample(np.random.default_rng(config.seed), SAMPLE)
        values = _values(problem, X)
        table = _objectives(values, float(values["cost"].min()))
        row: dict[str, float] = {"split": stages.split.seed}
        for one, other in itertools.combinations(OBJECTIVES, 2):
            words = f"{one}, {other}".replace("_", " ")
            row[words] = _rank(table[one], table[other])
        rows.append(row)
    return pd.DataFrame(rows)


def neighbours(options: argparse.Namespace) -> Page:
    """Draw the designs one step from the exact front's member nearest to the ideal (Figure 6)."""
    config = _config(options, "credit", "problem.max_stages=4")
    problem = make_problem(config)
    front = _exact_front(config, problem)
    least = float(front.rows.values["cost"].min())  # of all designs: the cheapest is on the front
    members = _objectives(front.rows.values, least)
    chosen = choose(front)
    genome = np.asarray(front.X[chosen])
    X, steps = one_step(genome, problem.space.upper.max())
    table = _objectives(_values(problem, X), least)
    table.insert(0, "step", [f"{problem.gene_names[i]} {d:+d}" for i, d in steps])
    centre = members.iloc[chosen]
    for name in OBJECTIVES:
        table[f"{name}_change"] = table[name] - centre[name]
    figure, axes = _panels(3, 13, 4.2)
    pairs = [("coverage", "accuracy"), ("inverse_cost", "accuracy"), ("inverse_cost", "coverage")]
    for axis, (x, y) in zip(axes[0], pairs, strict=True):
        axis.scatter(members[x], members[y], s=14, color="#c8ccd0", label="exact front")
        for row in table.to_dict("records"):
            axis.annotate(
                "",
                (row[x], row[y]),
                (centre[x], centre[y]),
                arrowprops={"arrowstyle": "->", "color": BLUE, "alpha": 0.6},
            )
        axis.scatter(table[x], table[y], s=16, color=BLUE, label="one step away")
        axis.scatter(centre[x], centre[y], s=60, color=RED, zorder=3, label="the member chosen")
        axis.set(xlabel=NAMES[x], ylabel=NAMES[y])
    axes[0, 0].legend(frameon=False, fontsize=8, loc="lower left")
    most = {name: float(table[f"{name}_change"].abs().max()) for name in OBJECTIVES}
    claims = [
        Claim(
            "a single step may change much",
            "seen in the figure",
            "at most " + ", ".join(f"{v:.3f} in {NAMES[n]}" for n, v in most.items()),
            max(most.values()) >= 0.1,
        )
    ]
    text = (
        f"The {len(X)} designs one step from {genome.tolist()}, the fittest of the "
        f"{len(front)} vectors of the exact front of the credit data, k = 4."
    )
    title = "The neighbourhood of a front member (Figure 6)"
    return _page(title, text, claims, table, figure)


def elites(options: argparse.Namespace) -> Page:
    """Count the vectors of the exact front in each generation (Figure 7)."""
    figure, axes = _panels(1, 6.8, 4.4)
    columns: dict[str, FloatArray] = {}
    claims = []
    for most, colour in ((2, GREEN), (3, RED), (4, BLUE)):
        config = _config(options, "heart", f"problem.max_stages={most}")
        if config.algorithm.kind != "emsco":
            raise InputError(
                f"algorithm.kind: expected emsco, whose generations Figure 7 shows, found "
                f"{config.algorithm.kind!r}; leave the change out"
            )
        if (stages := config.problem.as_arguments()["max_stages"]) != most:
            raise InputError(
                f"problem.max_stages: expected 2, 3 and 4 in turn, as in Figure 7, found {stages}; "
                "leave the change out"
            )
        problem = make_problem(config)
        best = {tuple(row) for row in _exact_front(config, problem).losses.tolist()}
        counts = np.array([elite_counts(config, problem, best, run) for run in range(RUNS)])
        mean = counts.mean(axis=0)
        half = t.ppf(0.975, RUNS - 1) * counts.std(axis=0, ddof=1) / np.sqrt(RUNS)
        columns |= {f"k={most}": mean, f"k={most}, 95% +-": half}
        generations = np.arange(1, len(mean) + 1)
        axes[0, 0].plot(generations, mean, color=colour, label=f"k = {most}")
        axes[0, 0].fill_between(
            generations, mean - half, mean + half, color=colour, alpha=0.25, lw=0
        )
        axes[0, 0].axhline(len(best), color=colour, linestyle=":", lw=1)
        share = f"{mean[-1]:.1f} of {len(best)}"
        claims.append(
            Claim(
                f"k = {most}: the count never falls",
                "all curves are monotonic",
                share,
                bool((np.diff(counts, axis=1) >= 0).all()),
            )
        )
    axes[0, 0].set(xlabel="generation", ylabel=f"front members in it, mean of {RUNS} runs")
    axes[0, 0].set_ylim(bottom=0)
    title = "dotted: the front"
    axes[0, 0].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title=title)
    table = pd.DataFrame(columns)
    table.insert(0, "generation", np.arange(1, len(table) + 1))
    text = (
        f"Distinct vectors of the exact front in EMSCO's generations, {RUNS} runs; bands: 95% "
        "intervals of the mean. The table: every tenth of the way; `generations.csv` has all."
    )
    marks = np.unique(np.linspace(0, len(table) - 1, 11).astype(int))
    title = "What generations have of the front (Figure 7)"
    return _page(title, text, claims, table.iloc[marks], figure, generations=table)


def elite_counts(config: RunConfig, problem: Any, best: set[Any], run: int) -> FloatArray:
    """Return how many of the vectors ``best`` are in each generation of a run, shape (n,)."""
    roles, seed = config.roles(problem), config.seed + run
    algorithm = config.algorithm.make(problem, roles, seed)
    assert isinstance(algorithm, EMSCO)
    counts = np.zeros(config.budget.generations or GENERATIONS)
    first = 0
    for number in range(len(counts)):
        X = algorithm.ask()
        if X is None:
            counts[number:] = counts[number - 1]
            break
        algorithm.tell(evaluate_candidates(problem, seed, np.arange(first, first + len(X)), X))
        first += len(X)
        assert algorithm.elite is not None
        rows = roles.losses(algorithm.elite.values).tolist()
        counts[number] = len(best & set(map(tuple, rows)))
    return counts


def one_step(genome: Array, highest: int) -> tuple[Array, list[tuple[int, int]]]:
    """Return the designs one step from ``genome``, (m, n), and the gene and step (+1, -1) of each.

    Steps out of range are left out. Gaps are closed, as after every operator in the paper.
    """
    neighbours, steps = [], []
    for i in range(len(genome)):
        for step in (-1, 1):
            if 0 <= genome[i] + step <= highest:
                neighbour = genome.copy()
                neighbour[i] += step
                neighbours.append(np.unique(neighbour, return_inverse=True)[1])
                steps.append((i, step))
    return np.array(neighbours, dtype=genome.dtype), steps


def _sections(config: RunConfig, split: int) -> tuple[MultiStageConfig, BaselineConfig]:
    """Return the two problems of a split, which differ from the configuration by the seed."""
    stages = MultiStageConfig.model_validate(config.problem.as_arguments())
    shares = stages.split.model_copy(update={"seed": stages.split.seed + split})
    divided = stages.model_copy(update={"split": shares})
    rivals = {key: getattr(divided, key) for key in ("dataset", "split", "costs", "threshold")}
    return divided, BaselineConfig.model_validate(rivals)


def _config(options: argparse.Namespace, name: str, *changes: str) -> RunConfig:
    paper = f"configs/emsco/{name}.yaml"
    path = options.config or paper
    config = load_config(path, [*changes, *options.set])
    kind, problem = config.problem.kind, config.problem.as_arguments()
    if kind != "multistage":
        raise InputError(f"{path}: problem.kind: expected multistage, found {kind!r}; see {paper}")
    threshold, removal = problem["threshold"], problem["remove_features"]
    if removal or not isinstance(threshold, float | dict):
        raise InputError(
            f"{path}: problem: expected one threshold and remove_features: false, as in the paper, "
            f"found threshold: {threshold} and remove_features: {removal}; set them"
        )
    return config


def _exact_front(config: RunConfig, problem: Any) -> Front:
    exact = changed(config, {"algorithm.kind": "exact"}, Path("figures"))
    algorithm = exact.algorithm.make(problem, exact.roles(problem), exact.seed)
    return search(problem, algorithm, SerialEvaluator(problem), budget=Budget(generations=1))


def _values(problem: Problem, X: Array) -> Mapping[str, Array]:
    return evaluate_candidates(problem, 0, np.arange(len(X)), X).values


def _objectives(values: Any, least: float) -> pd.DataFrame:
    """Return g1, g2 and g3, where g3 is ``least`` over a design's cost."""
    return pd.DataFrame(
        {
            "coverage": values["coverage"],
            "accuracy": values["accuracy"],
            "inverse_cost": least / values["cost"],
        }
    )


def _rank(a: FloatArray | pd.Series[Any], b: FloatArray | pd.Series[Any]) -> float:
    return float(spearmanr(a, b).statistic)


def _panels(columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _page(
    title: str,
    text: str,
    claims: Sequence[Claim],
    table: pd.DataFrame,
    figure: Figure,
    **more: pd.DataFrame,
) -> Page:
    return Page(title, text, claims, {"table": table, **more}, {"figure": figure})


def write(page: Page, name: str, out: Path) -> None:
    """Write tables and claims as CSV, the figure as PNG, and ``report.md`` with all."""
    table, claims = page.tables["table"], claims_table(page.claims)
    out.mkdir(parents=True, exist_ok=True)
    for key, columns in page.tables.items():
        columns.to_csv(out / f"{name if key == 'table' else key}.csv", index=False)
    claims.to_csv(out / "claims.csv", index=False)
    page.figures["figure"].savefig(out / f"{name}.png", dpi=130)
    command = shlex.join(["python", f"scripts/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    paragraphs = [
        f"# {page.title}",
        page.text,
        f"    {command}",
        markdown(table),
        "## What the paper says, and what holds here",
        markdown(claims),
        f"![{page.title}]({name}.png)",
    ]
    (out / REPORT).write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown, with four digits of numbers."""
    rows = ([_cell(value) for value in row] for row in table.itertuples(index=False))
    return markdown_table([str(name) for name in table.columns], rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def log(
    out: Path,
    tracking: TrackingConfig | None,
    name: str,
    arguments: argparse.Namespace,
) -> None:
    """Log the page, tables and figures in ``out`` as one MLflow run, if there is a store.

    An unchanged page is not logged again. If the store cannot be reached, a line says so.
    """
    mark, page = out / ".logged", hashlib.sha256((out / REPORT).read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text(encoding="utf-8") == page:
        return
    if arguments.no_mlflow or tracking is None:
        return
    from tracking.mlflow_log.store import absolute_uri, connect, experiment_id

    uri = absolute_uri(tracking.uri, Path.cwd())
    try:
        client = connect(uri)
        run = client.create_run(experiment_id(client, uri, "paper-emsco"), run_name=name)
        for key, value in vars(arguments).items():
            client.log_param(run.info.run_id, key, str(value)[:500])
        for pattern in ("*.md", "*.csv", "*.png"):
            for file in sorted(out.glob(pattern)):
                client.log_artifact(run.info.run_id, str(file))
        client.set_terminated(run.info.run_id)
        mark.write_text(page, encoding="utf-8")
    except Exception as error:  # whatever the store raises
        print(f"not logged to MLflow: {first_line(error)}", file=sys.stderr)


FIGURES = {draw.__name__: draw for draw in (threshold, landscape, neighbours, elites)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one figure, with its table and claims."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figure", choices=list(FIGURES))
    parser.add_argument("--config", help="(default: the paper's of that figure)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="(default: runs/figures/FIGURE)")
    parser.add_argument("--no-mlflow", action="store_true", help="do not log to MLflow")
    options = parser.parse_args(arguments)
    options.out = options.out or Path("runs/figures", options.figure)
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out: expected a folder, found the file {options.out}; choose another")
    try:
        write(FIGURES[options.figure](options), options.figure, options.out)
        print((options.out / REPORT).read_text(encoding="utf-8"))
        log(options.out, _config(options, "heart").tracking, options.figure, options)
    except ParetolabError as error:
        print(f"figures: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
