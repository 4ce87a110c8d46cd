"""Every experiment of the EMSCO paper, one after the other, and one page with what they found.

    python scripts/reproduce_emsco.py [--out DIR] [--workers N] [--quick] [--no-mlflow]

Table 6 and Figure 7 (scripts/global_optima.py), Figures 8 to 12 (scripts/rivals.py), Figures 2, 3,
6 and 13 (scripts/figures.py), the sweep of the supplement (scripts/parameter_sweep.py), and, beyond
the paper, the searches compared (configs/experiments/emsco_searches.yaml). Interrupted, the same
command goes on where it was; finished, it only writes the page again. ``--quick`` tries everything
with small numbers, whose results mean nothing; it needs another OUT.

OUT gets a directory an experiment, ``report.md`` with every table, figure and claim, and
``seconds.json`` with the time each took. Every experiment is a run in MLflow, with its page, tables
and figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import study

HERE = Path(__file__).parent


class Step(NamedTuple):
    """An experiment: its directory, its script, its arguments, and those to try it with.

    Instead of a script, the configuration of a `paretolab experiment`.
    """

    name: str
    script: str
    arguments: Sequence[str] = ()
    quick: Sequence[str] = ()
    parallel: bool = True


STEPS = (
    Step(
        "global-optima",
        "global_optima.py",
        quick=("--runs", "3", "--generations", "40", "--splits", "1"),
    ),
    Step("rivals", "rivals.py", quick=("--trials", "2")),
    Step("stages", "figures.py", ("stages", "--trials", "{out}/rivals/trials.csv"), parallel=False),
    Step("threshold", "figures.py", ("threshold",), parallel=False),
    Step("landscape", "figures.py", ("landscape",), parallel=False),
    Step("neighbours", "figures.py", ("neighbours",), parallel=False),
    Step("sweep", "parameter_sweep.py", quick=("--set", "sweep.trials=8"), parallel=False),
    Step(
        "searches",
        "configs/experiments/emsco_searches.yaml",
        quick=(
            *("--repeats", "2", "--set", "budget.evaluations=3000"),
            *("--set", "experiment.product={problem.split.seed: [10, 11]}"),
        ),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every experiment, then write the page; return the exit code of one that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--quick", action="store_true", help="small numbers, to try it")
    study.add_options(parser, "runs/emsco-paper")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(STEPS, start=1):
        print(f"[{number}/{len(STEPS)}] {step.name}", flush=True)
        code = run_step(step, options)
        if code:
            return code
    write_page([step.name for step in STEPS], options.out)
    print(options.out / study.PAGE)
    return 0


def run_step(step: Step, options: argparse.Namespace) -> int:
    """Run an experiment, or what is left of it, and note its time; return its exit code."""
    given = [text.format(out=options.out) for text in step.arguments]
    command = [sys.executable, str(HERE / step.script), *given]
    if step.script.endswith(".yaml"):
        program = Path(sys.executable).with_name("paretolab")
        command = [str(program), "experiment", str(HERE.parent / step.script), *given]
    command += step.quick if options.quick else ()
    command += ["--out", str(options.out / step.name)]
    command += ["--workers", str(options.workers)] if step.parallel else []
    command += ["--no-mlflow"] if options.no_mlflow else []
    pages = (options.out / step.name / study.PAGE, options.out / step.name / "report.html")
    known, over = times(options.out), any(page.is_file() for page in pages)
    started = time.perf_counter()
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        if not over:
            spent = time.perf_counter() - started
            known[step.name] = round(known.get(step.name, 0.0) + spent, 1)
            (options.out / "seconds.json").write_text(json.dumps(known), encoding="utf-8")
    return code


def times(out: Path) -> dict[str, float]:
    """Return the seconds that each experiment has taken so far."""
    file = out / "seconds.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write_page(names: Sequence[str], out: Path) -> None:
    """Write one page from those of the experiments, claims and times first."""
    spent = times(out)
    claims = []
    for name in names:
        file = out / name / "claims.csv"
        if file.is_file():
            said = pd.read_csv(file, dtype=str).fillna("")
            said.insert(0, "experiment", name)
            claims.append(said)
    total = sum(spent.get(name, 0.0) for name in names)
    rows = [(name, spent.get(name, 0.0) / 60) for name in names] + [("all", total / 60)]
    lines = ["# The EMSCO paper, reproduced", "", "## What the paper says, and what holds here", ""]
    lines += [study.markdown(pd.concat(claims)) if claims else "No claims.", "", "## Time", ""]
    minutes = pd.DataFrame(rows, columns=["experiment", "minutes"]).round(1)
    lines += [study.markdown(minutes), ""]
    for name in names:
        page = out / name / study.PAGE
        if page.is_file():
            lines.append(_inside(page.read_text(encoding="utf-8"), name))
        else:
            lines += [f"## {name}", "", f"[Its page]({name}/report.html)", ""]
    (out / study.PAGE).write_text("\n".join(lines), encoding="utf-8")


def _inside(page: str, name: str) -> str:
    """Return an experiment's page as a part of another: headings lower, links from above."""
    page = re.sub(r"^#", "##", page, flags=re.MULTILINE)
    return re.sub(r"\]\((?!\w+:)", f"]({name}/", page)


if __name__ == "__main__":
    raise SystemExit(study.run(main))
