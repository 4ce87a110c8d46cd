"""A run directory without a search: random candidates of a problem with three objectives."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from framework.batch import Evaluated
from framework.experiment.config import RunConfig
from framework.experiment.options import AS_WRITTEN
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal
from framework.roles import Metric, Objective, Roles
from tracking.mlflow_log.history import ENTERED, LEFT

METRICS = (
    Metric("coverage", "max", text="share of the records that get an answer"),
    Metric("accuracy", "max", text="share of the answers that are right"),
    Metric("cost", "min", kind="ratio", high=120.0, unit="cost units"),
    Metric("false_negative_rate", "min"),
)
OBJECTIVES = (Objective("coverage", "max"), Objective("accuracy", "max"), Objective("cost", "min"))
GENES = 12


def roles() -> Roles:
    return Roles(METRICS, OBJECTIVES)


def score(X: np.ndarray) -> dict[str, np.ndarray]:
    """Return made-up metrics of stages, shape (n,) each."""
    used = (X > 0).mean(axis=1)
    late = X.mean(axis=1) / 5
    wobble = np.sin(X @ np.arange(1, GENES + 1)) / 2 + 0.5
    coverage = np.round(0.35 + 0.6 * used - 0.25 * late * wobble, 3)
    accuracy = np.round(0.97 - 0.25 * coverage**2 + 0.1 * late - 0.06 * wobble, 3)
    cost = np.round(120 * (0.1 + 0.7 * used * (0.4 + 0.6 * late) + 0.05 * wobble), 1)
    return {
        "coverage": coverage,
        "accuracy": accuracy,
        "cost": cost,
        "false_negative_rate": np.round(1 - accuracy * 0.9, 3),
    }


def batch_of(number: int, rows: int) -> Evaluated:
    """Return one batch, later ones better; its last row failed."""
    rng = np.random.default_rng(number)
    shift = min(number, 60) / 60
    X = (rng.integers(0, 6, size=(rows, GENES)) * (rng.random((rows, 1)) > shift * 0.3)).astype(
        "i1"
    )
    values = {name: column.copy() for name, column in score(X).items()}
    values["accuracy"] = np.round(values["accuracy"] - 0.15 * (1 - shift) * rng.random(rows), 3)
    for column in values.values():
        column[-1] = np.nan
    first = number * rows
    return Evaluated(np.arange(first, first + rows), X, values, {first + rows - 1: "made to fail"})


def config(**changes: object) -> RunConfig:
    """Return the configuration of the made-up run."""
    raw: dict[str, object] = {
        "name": "made-up",
        "problem": {"kind": "multistage", "costs": {"values": {"age (years)": 10}}},
        "objectives": [o._asdict() for o in OBJECTIVES],
        "algorithm": {"kind": "emsco", "population": 300},
        "budget": {"generations": 20},
        "tracking": {"uri": "sqlite:///mlflow.db", "experiment": "made-up"},
    }
    return RunConfig.model_validate(raw | changes, context={AS_WRITTEN: True})


def start(path: Path, *, uid: str = "u1", **changes: object) -> RunDir:
    """Make the directory as it is when a run starts."""
    path.mkdir(parents=True)
    run_dir = RunDir(path)
    run_dir.write_config(config(**changes))
    about = {
        "fingerprint": "f" * 64,
        "metrics": [m._asdict() for m in METRICS],
        "objectives": [o._asdict() for o in OBJECTIVES],
        "constraints": [],
        "gene_names": [f"x{i}" for i in range(GENES)],
        "uid": uid,
        "data": {"name": "made_up", "fingerprint": "d" * 64, "source": "made for the test"}
        | {"records": 299, "features": GENES},
    }
    run_dir.about_file.write_text(json.dumps(about), encoding="utf-8")
    return run_dir


def describe(run_dir: RunDir, **changes: object) -> RunDir:
    """Change what is known of the problem of a run."""
    run_dir.about_file.write_text(json.dumps(run_dir.about() | changes), encoding="utf-8")
    return run_dir


def search(run_dir: RunDir, first: int, last: int, rows: int = 20) -> None:
    """Write the batches ``first`` to ``last - 1`` to the journal."""
    shape = {"metrics": tuple(m.name for m in METRICS), "d": GENES, "dtype": np.dtype("i1")}
    with Journal(run_dir.journal_file, {"seed": 0}, **shape) as journal:
        for number in range(first, last):
            journal.append(batch_of(number, rows), seconds=0.5 * (number + 1))


def end(run_dir: RunDir, status: str = "done", wall_s: float = 12.5) -> None:
    """Write the front and the summary, as a run does at its end."""
    names = tuple(f"x{i}" for i in range(GENES))
    with run_dir.journal() as journal:
        front = Front.from_journal(journal, roles(), names)
        n = journal.n_batches
    rng = np.random.default_rng(0)
    test = {
        name: np.round(column * (1 + 0.04 * rng.standard_normal(len(front))), 3)
        for name, column in front.rows.values.items()
    }
    Front(front.rows, front.roles, names, test).save(run_dir.front_file)
    run_dir.write_summary(
        {
            "status": status,
            "algorithm": "emsco",
            "problem": "multistage",
            "seed": 0,
            "evaluations": 20 * n,
            "rows_failed": n,
            "wall_s": wall_s,
            "front_size": len(front),
            "indicators": {"hypervolume": front.hypervolume(), "igd_plus": 0.01},
            "versions": {"paretolab": "0.1.0", "numpy": "2.2.0"},
        }
    )


def finished(path: Path, batches: int = 15, **changes: object) -> RunDir:
    """Make the directory of a run of so many batches that has ended."""
    run_dir = start(path, **changes)
    search(run_dir, 0, batches)
    end(run_dir)
    return run_dir


def front_at(frame: pd.DataFrame, generation: int) -> pd.DataFrame:
    """Return the front of a generation (from 0) from the table of ``fronts.csv``, by id."""
    stays = frame[LEFT].isna() | (frame[LEFT] > generation)
    front = frame[(frame[ENTERED] <= generation) & stays]
    return front.drop(columns=[ENTERED, LEFT]).sort_values("id", ignore_index=True)
