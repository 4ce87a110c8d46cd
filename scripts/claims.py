"""Collects the claims of the four papers, with the results of the experiments that tested them.

    python scripts/claims.py DIR... [--out claims.csv]

Each DIR is searched for the ``claims.csv`` of experiments (``paretolab experiment``, ``make
emsco-paper`` ...) and of figures (``scripts/figures.py``). The table has a line per claim: the
paper, its statement and its value, the command that tested it, the size of that test as a part of
the paper's protocol, the value here, and whether the claim holds. Nothing is computed here, so
experiments that were not run are missing. If the table exists, its lines of experiments that are
not below DIR stay, and so do the texts that a person has written into the column ``reason``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from framework.errors import ParetolabError, damaged
from framework.experiment.config import flatten, read_yaml
from framework.experiment.grid import Grid
from framework.experiment.grid_load import load_grid

ROOT = Path(__file__).resolve().parents[1]
PAPERS = {"emsco": "EMSCO", "ensembling": "HAPEns", "hull": "3DFCH-EMOA", "pruning": "pruning"}
COLUMNS = ["paper", "statement", "in the paper", "command", "size", "here", "holds", "reason"]


def shipped() -> dict[str, Path]:
    """Return the paths of the shipped experiments, by their names."""
    by_name = {}
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and "experiment" in raw:
            by_name[str(raw.get("name"))] = path.relative_to(ROOT)
    return by_name


def origin(file: Path, configs: dict[str, Path]) -> tuple[str, str, str]:
    """Return the paper, the command and the size of a file of claims; "" if unknown."""
    page = file.parent / "report.md"
    if page.is_file():  # the page of a figure contains its command
        lines = page.read_text(encoding="utf-8").splitlines()
        command = next((x.strip() for x in lines if x.startswith("    python")), "")
        size = "changed by --set" if " --set " in command else "as shipped"
        return PAPERS["emsco"], command.partition(" --out ")[0], size
    experiment = file.parent.parent / "experiment.yaml"
    if not experiment.is_file():
        return "", "", ""
    name = str(read_yaml(experiment).get("name"))
    paper = PAPERS.get(name.partition("-")[0], "")
    if name not in configs:
        return paper, name, ""
    options, size = scale(load_grid(experiment), ROOT / configs[name])
    return paper, " ".join([f"paretolab experiment {configs[name]}", *options]), size


def scale(stored: Grid, path: Path) -> tuple[list[str], str]:
    """Return the options with which an experiment was run, and its size beside the paper's."""
    grid = load_grid(path)
    protocol = ["experiment.protocol=paper"] if "paper" in grid.section.protocols else []
    paper = load_grid(path, protocol)
    methods = [of.section.model_dump()["methods"] for of in (stored, paper, grid)]
    options = [f"--set {protocol[0]}"] if methods[0] == methods[1] != methods[2] else []
    if stored.section.repeats != grid.section.repeats:
        options.append(f"--repeats {stored.section.repeats}")
    here, usual = (
        flatten(of.base.model_dump(mode="json", include={"budget", "problem"}))
        for of in (stored, grid)
    )
    varied = grid.section.product
    options += [
        f"--set {key}={value}"
        for key, value in here.items()
        if usual.get(key, value) != value and key not in varied
    ]
    if stored.section.product != varied:
        taken = ", ".join(f"{key}: {values}" for key, values in stored.section.product.items())
        options.append(f"--set 'experiment.product={{{taken}}}'")
    counts: list[tuple[Any, Any, str]] = [(runs(stored), runs(paper), "runs")]
    budget = paper.base.budget.model_dump()
    counts += [(here.get(f"budget.{key}"), n, key) for key, n in budget.items()]
    parts = [f"{n:,} of {most:,} {what}" for n, most, what in counts if n and most and n != most]
    return options, ", ".join(parts) or "the paper's"


def runs(grid: Grid) -> int:
    """Return the number of runs of each method."""
    return len(grid.cases) * grid.section.repeats


def claims_of(directories: list[Path]) -> pd.DataFrame:
    """Return the claims below directories, sorted by paper and command."""
    configs, tables = shipped(), []
    for file in sorted({path for place in directories for path in place.rglob("claims.csv")}):
        with damaged(file, "the claims of an experiment or a figure"):
            paper, command, size = origin(file, configs)
            if paper:
                table = pd.read_csv(file, keep_default_na=False)
                table = table.rename(columns={"claim": "statement", "paper": "in the paper"})
                tables.append(table.assign(paper=paper, command=command, size=size))
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    table = pd.concat(tables).sort_values(["paper", "command"], kind="stable", ignore_index=True)
    return table.reindex(columns=COLUMNS, fill_value="")


def with_before(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Return a table with the reasons of an earlier file, and its lines of other experiments."""
    if not file.is_file():
        return table
    before = pd.read_csv(file, keep_default_na=False).reindex(columns=COLUMNS, fill_value="")
    reasons = {(row.paper, row.statement): row.reason for row in before.itertuples()}
    claims = zip(table.paper, table.statement, strict=True)
    table = table.assign(reason=[str(reasons.get(claim, "")) for claim in claims])
    earlier, now = (each.command.str.partition(" --")[0] for each in (before, table))
    whole = pd.concat([before[~earlier.isin(now)], table])
    return whole.sort_values(["paper", "command"], kind="stable", ignore_index=True)


def main(arguments: list[str] | None = None) -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("claims.csv"), help="(%(default)s)")
    options = parser.parse_args(arguments)
    try:
        table = claims_of(options.directories)
    except ParetolabError as error:
        print(f"claims: {error}", file=sys.stderr)
        return error.exit_code
    if table.empty:
        searched = ", ".join(map(str, options.directories))
        print(
            f"claims: expected experiments with claims below {searched}, found none",
            file=sys.stderr,
        )
        return 2
    table = with_before(table, options.out)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    for paper, lines in table.groupby("paper"):
        print(f"{paper}: {(lines.holds == 'yes').sum()} of {len(lines)} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
