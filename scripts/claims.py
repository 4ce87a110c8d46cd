"""What the four papers claim, and what came out here: one table of the experiments that were run.

    python scripts/claims.py DIR... [--out claims.csv]

Each DIR is searched for the ``claims.csv`` of experiments (``paretolab experiment``, ``make
emsco-paper`` ...) and of figures (``scripts/figures.py``). A line is a claim: the paper, what it
says and has, the command that put it to the test, what came out, and whether it holds. Nothing is
computed here: what is not there was not run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAPERS = {"emsco": "EMSCO", "ensembling": "HAPEns", "hull": "3DFCH-EMOA", "pruning": "pruning"}
COLUMNS = ["paper", "statement", "in the paper", "command", "here", "holds"]


def shipped() -> dict[str, Path]:
    """Return the configurations of experiments, by the names that they give."""
    by_name = {}
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and "experiment" in raw:
            by_name[str(raw.get("name"))] = path.relative_to(ROOT)
    return by_name


def origin(file: Path, configs: dict[str, Path]) -> tuple[str, str]:
    """Return the paper and the command that a file of claims is of; texts that may be empty."""
    page = file.parent / "report.md"
    if page.is_file():  # a figure says its own command
        lines = page.read_text(encoding="utf-8").splitlines()
        return PAPERS["emsco"], next((x.strip() for x in lines if x.startswith("    python")), "")
    experiment = file.parent.parent / "experiment.yaml"
    if not experiment.is_file():
        return "", ""
    name = str(yaml.safe_load(experiment.read_text(encoding="utf-8")).get("name"))
    paper = PAPERS.get(name.partition("-")[0], "")
    return paper, f"paretolab experiment {configs[name]}" if name in configs else name


def claims_of(directories: list[Path]) -> pd.DataFrame:
    """Return the claims that are recorded below directories, in order of papers and commands."""
    configs, tables = shipped(), []
    for file in sorted({path for place in directories for path in place.rglob("claims.csv")}):
        paper, command = origin(file, configs)
        if paper:
            table = pd.read_csv(file, keep_default_na=False)
            table = table.rename(columns={"claim": "statement", "paper": "in the paper"})
            tables.append(table.assign(paper=paper, command=command).reindex(columns=COLUMNS))
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(tables).sort_values(["paper", "command"], kind="stable", ignore_index=True)


def main(arguments: list[str] | None = None) -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("claims.csv"), help="(%(default)s)")
    options = parser.parse_args(arguments)
    table = claims_of(options.directories)
    if not len(table):
        searched = ", ".join(map(str, options.directories))
        print(f"claims: expected experiments with claims below {searched}, found none")
        return 2
    table.to_csv(options.out, index=False)
    for paper, lines in table.groupby("paper"):
        print(f"{paper}: {(lines.holds == 'yes').sum()} of {len(lines)} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
