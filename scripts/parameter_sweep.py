"""The sweep of the EMSCO paper's supplement, by Optuna: its table, its figure, its page.

    python scripts/parameter_sweep.py [CONFIG] [--set KEY=VALUE] [--workers N] [--out DIR]

Runs `paretolab sweep CONFIG` (default: configs/sweeps/emsco.yaml) in OUT, or goes on with it. The
paper chose its parameters by a sweep; its first trial here has the paper's values.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

import pandas as pd
import study

from framework.cli.main import main as paretolab
from framework.experiment.run_dir import RunDir


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, or go on sweeping, then write the page; return the command's exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", nargs="?", default="configs/sweeps/emsco.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=1, help="Ray workers, if several")
    study.add_options(parser, "runs/parameter-sweep")
    options = parser.parse_args(arguments)
    run_dir = RunDir(options.out / "sweep")
    if run_dir.summary().get("status") != "done":
        begun = run_dir.config_file.is_file()
        command = ["resume", str(run_dir.path)] if begun else ["sweep", options.config]
        command += [] if begun else ["--out", str(run_dir.path)]
        command += [part for change in options.set for part in ("--set", change)]
        command += ["--workers", "serial" if options.workers == 1 else str(options.workers)]
        command += ["--no-mlflow"] if options.no_mlflow else []
        code = paretolab(command)
        if code:
            return code
    write_page(run_dir, options)
    return 0


def write_page(run_dir: RunDir, options: argparse.Namespace) -> None:
    """Write the trials, the best first, and where the paper's parameters stand among them."""
    trials = pd.read_csv(run_dir.path / "trials.csv")
    aim = str(trials.columns[list(trials.columns).index("state") + 1])
    trials = trials[trials["state"] == "complete"].sort_values(aim, ascending=False)
    trials = trials.drop(columns=["state", "error"])
    trials.columns = trials.columns.str.removeprefix("algorithm.")
    shutil.copy(run_dir.path / "plots" / "slice.png", options.out / "slice.png")
    own = trials[trials["trial"] == 0]
    place = int((trials[aim] > own[aim].iloc[0]).sum()) + 1
    ratio = own[aim].iloc[0] / trials[aim].iloc[0]
    claim = (
        "the paper's parameters are good",
        "chosen by a sweep",
        f"place {place} of {len(trials)}, {ratio:.1%} of the best {aim}",
        "yes" if ratio >= 0.99 else "no",
    )
    report = study.Report(
        "The parameters swept (the paper's supplement)",
        f"{len(trials)} settings, the best first; trial 0 has the paper's values.",
        {"trials": trials.head(10)},
        pd.DataFrame([claim], columns=["claim", "paper", "here", "holds"]),
        ["slice.png"],
    )
    study.write(report, options.out)


if __name__ == "__main__":
    raise SystemExit(study.run(main))
