"""What the odd figures of a paper share: the page of results, their place in MLflow."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from framework.errors import InputError, ParetolabError
from framework.experiment.config import TrackingConfig

PAGE = "report.md"


class Report(NamedTuple):
    """What an experiment found.

    Attributes
    ----------
    title : str
    text : str
        What was done, in a sentence or two.
    tables : mapping of str to DataFrame
        By the name of their file, without ``.csv``.
    claims : DataFrame or None
        Columns ``claim``, ``paper``, ``here`` and ``holds``.
    figures : sequence of str
        Names of PNG files in the experiment's directory.
    """

    title: str
    text: str
    tables: Mapping[str, pd.DataFrame]
    claims: pd.DataFrame | None
    figures: Sequence[str]


def write(report: Report, out: Path) -> None:
    """Write the tables as CSV and the page of results, ``report.md``, into ``out``."""
    lines = [f"# {report.title}", "", report.text, "", f"    {_command()}", ""]
    for name, table in report.tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
        lines += [markdown(table), ""]
    if report.claims is not None:
        report.claims.to_csv(out / "claims.csv", index=False)
        lines += ["## What the paper says, and what holds here", "", markdown(report.claims), ""]
    lines += [line for name in report.figures for line in (f"![{report.title}]({name})", "")]
    (out / PAGE).write_text("\n".join(lines), encoding="utf-8")


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown, numbers to four digits."""
    rows = [[str(name) for name in table.columns], ["---"] * table.shape[1]]
    rows += [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _command() -> str:
    return shlex.join(["python", f"scripts/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def add_options(parser: argparse.ArgumentParser, out: str) -> None:
    """Add the options that every experiment has."""
    parser.add_argument("--out", type=Path, default=Path(out), help="(default: %(default)s)")
    parser.add_argument(
        "--no-mlflow", action="store_true", help="do not log tables and figures to MLflow"
    )


def log(
    out: Path,
    tracking: TrackingConfig | None,
    name: str,
    arguments: argparse.Namespace,
    experiment: str = "paper-emsco",
) -> None:
    """Log the page, tables and figures in ``out`` as one MLflow run, where there is a store.

    The many short runs of an experiment share one MLflow run: it holds what they add up to. What
    was logged as it is now is not logged again. A store that cannot be reached costs a line, not
    the experiment.
    """
    mark, page = out / ".logged", hashlib.sha256((out / PAGE).read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text(encoding="utf-8") == page:
        return
    if arguments.no_mlflow or tracking is None:
        return
    from tracking.mlflow_log.store import absolute_uri, connect, experiment_id

    uri = absolute_uri(tracking.uri, Path.cwd())
    try:
        client = connect(uri)
        run = client.create_run(experiment_id(client, uri, experiment), run_name=name)
        for key, value in vars(arguments).items():
            client.log_param(run.info.run_id, key, str(value)[:500])
        for pattern in ("*.md", "*.csv", "*.png"):
            for file in sorted(out.glob(pattern)):
                client.log_artifact(run.info.run_id, str(file))
        client.set_terminated(run.info.run_id)
        mark.write_text(page, encoding="utf-8")
    except Exception as error:  # whatever the store raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"not logged to MLflow: {reason}", file=sys.stderr)


def run(main: Callable[[Sequence[str] | None], int]) -> int:
    """Run an experiment from the command line; say in a line what cannot be used."""
    try:
        return main(None)
    except (ParetolabError, InputError) as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
