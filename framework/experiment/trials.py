"""Several trials of one experiment: independent runs with other seeds, over one set of parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir
from framework.experiment.run_pool import SerialPool, TrialPool, ray_pool
from framework.experiment.trial import DONE, FAILED, run_trial, versions
from framework.front import nondominated
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator
from framework.streams import trial_seed

Report = Callable[[str], None]


def run_trials(
    config: RunConfig, problem: Problem, run_dir: RunDir, *, address: str | None, report: Report
) -> dict[str, Any]:
    """Run the trials that are not done; return the summary over all.

    With Ray each trial is a task with a serial driver of its own; otherwise they go one by one.
    A trial's directory is ``trials/NNN``, from 000.
    """
    started = time.perf_counter()
    open_trials = []
    for number in range(config.trials):
        trial_dir = RunDir(run_dir.path / "trials" / f"{number:03d}")
        trial_dir.path.mkdir(parents=True, exist_ok=True)
        if trial_dir.summary().get("status") not in (DONE, FAILED):
            open_trials.append((_of_trial(config, number), trial_dir))
    with ExitStack() as stack:
        pool: TrialPool = SerialPool(_run_one)
        if config.workers != "serial" or address is not None:
            count = config.workers if isinstance(config.workers, int) else None
            pool, _ = stack.enter_context(ray_pool(_run_one, run_dir, count, address))
        for trial_config, trial_dir in open_trials:
            pool.submit(trial_config, problem, trial_dir)
        for _ in open_trials:
            trial_dir, error = pool.collect()
            if error is not None:
                raise error
            report(_line(trial_dir, config))
    summary = _over_all(config, problem, run_dir)
    summary["wall_s"] = round(time.perf_counter() - started, 3)
    run_dir.write_summary(summary)
    return summary


def _of_trial(config: RunConfig, number: int) -> RunConfig:
    return config.model_copy(
        update={"seed": trial_seed(config.seed, number), "trials": 1, "workers": "serial"}
    )


def _run_one(config: RunConfig, problem: Problem, trial_dir: RunDir) -> None:
    run_trial(config, problem, trial_dir, SerialEvaluator(problem, config.seed))


def _line(trial_dir: RunDir, config: RunConfig) -> str:
    summary = trial_dir.summary()
    return (
        f"trial {int(trial_dir.path.name) + 1}/{config.trials}: {summary['evaluations']:,} "
        f"evaluations, front {summary['front_size']}, hypervolume "
        f"{summary['indicators']['hypervolume']:.4f}"
    )


def _over_all(config: RunConfig, problem: Problem, run_dir: RunDir) -> dict[str, Any]:
    """Write the front over all trials; return the summary.

    The front's rows are numbered anew; ``trial`` and ``trial_id`` say where each comes from.
    """
    trials = run_dir.trials()[: config.trials]
    summaries = [trial.summary() for trial in trials]
    roles = run_dir.roles()
    frames = [trial.front().frame() for trial in trials]
    for number, frame in enumerate(frames):
        frame["trial"], frame["trial_id"] = number, frame["id"]
    union = pd.concat(frames, ignore_index=True)
    columns = {name: union[name].to_numpy() for name in roles.measures}
    union = union[nondominated(roles.losses(columns))].reset_index(drop=True)
    union["id"] = np.arange(len(union))
    union.to_csv(run_dir.front_file, index=False)
    volumes = np.array([s["indicators"]["hypervolume"] for s in summaries])
    failed = any(s["status"] == FAILED for s in summaries)
    return {
        "status": FAILED if failed else DONE,
        "name": config.name,
        "algorithm": config.algorithm["kind"],
        "problem": config.problem["kind"],
        "problem_fingerprint": problem.fingerprint,
        "seed": config.seed,
        "trials": config.trials,
        "evaluations": sum(s["evaluations"] for s in summaries),
        "rows_failed": sum(s["rows_failed"] for s in summaries),
        "front_size": len(union),
        "indicators": {
            "hypervolume": float(volumes.mean()),
            "hypervolume_std": float(volumes.std()),
            "hypervolume_min": float(volumes.min()),
            "hypervolume_max": float(volumes.max()),
        },
        "trial_seeds": [s["seed"] for s in summaries],
        "versions": versions(),
    }
