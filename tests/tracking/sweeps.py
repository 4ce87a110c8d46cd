"""Sweeps of a second: random search on a test function."""

import copy
from pathlib import Path

import optuna

from framework.experiment.execute import Options
from framework.experiment.run_dir import RunDir
from tests import command
from tracking.sweep.config import SweepPlan, load_plan
from tracking.sweep.run import EndedTrial, run_sweep

RAW = command.TOY | {
    "name": "little",
    "budget": {"generations": 3},
    "sweep": {
        "search_space": {
            "algorithm.batch": {"low": 2, "high": 60, "log": True},
            "problem.noise": {"low": 0, "high": 0.2},
            "problem.d": {"choices": [3, 4, 5]},
        },
        "directions": [{"metric": "hypervolume", "sense": "max"}],
        "trials": 12,
        "batch": 2,
    },
}


def raw(**changes: object) -> dict:
    """Return the file's content; ``changes`` are keys of section ``sweep``."""
    content = copy.deepcopy(RAW)
    content["sweep"] |= changes
    return content


def write(folder: Path, content: dict) -> Path:
    return command.write(folder / "little.yaml", content)


def plan_of(folder: Path, content: dict, *overrides: str) -> SweepPlan:
    return load_plan(write(folder, content), overrides)


def sweep(plan: SweepPlan, out: Path) -> tuple[dict, list[EndedTrial]]:
    """Run, or go on with, a sweep; return its summary and what was shown."""
    out.mkdir(exist_ok=True)
    told: list[EndedTrial] = []
    summary, _ = run_sweep(plan, RunDir(out), Options(None, lambda line: None, ended=told.append))
    return summary, told


def swept(folder: Path, content: dict) -> tuple[dict, list[EndedTrial]]:
    """Do so with a file's content, in ``out`` of a folder."""
    return sweep(plan_of(folder, content), folder / "out")


def study_of(database: Path) -> optuna.Study:
    """Return the only study in a database."""
    url = f"sqlite:///{database}"
    (name,) = optuna.get_all_study_names(url)
    return optuna.load_study(study_name=name, storage=url)


def trials(out: Path) -> list[tuple]:
    """Return number, state, parameters and values of every trial in the study."""
    return [
        (t.number, t.state.name, t.params, t.values) for t in study_of(out / "optuna.db").trials
    ]
