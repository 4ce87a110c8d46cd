"""Several trials of one experiment: independent runs with other seeds, over one set of parts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from framework.config import RunConfig
from framework.errors import ParetolabError
from framework.evaluator import SerialEvaluator
from framework.front import nondominated
from framework.problem import Problem, SharedParts
from framework.rundir import RunDir
from framework.streams import trial_seed
from framework.trial import DONE, FAILED, run_trial, versions

Report = Callable[[str], None]

_FILES = ("config.yaml", "about.json", "journal.sqlite", "front.csv", "summary.json")
_TOKEN = ".token"  # tells a worker whether it sees the driver's disk


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
    if config.workers == "serial" and address is None:
        for trial_config, trial_dir in open_trials:
            _run_one(trial_config, problem, trial_dir)
            report(_line(trial_dir, config))
    else:
        count = config.workers if isinstance(config.workers, int) else None
        _on_ray(open_trials, problem, run_dir, count, address, lambda d: report(_line(d, config)))
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


def _on_ray(
    trials: list[tuple[RunConfig, RunDir]],
    problem: Problem,
    run_dir: RunDir,
    workers: int | None,
    address: str | None,
    finished: Callable[[RunDir], None],
) -> None:
    from framework.cluster import cluster

    with cluster(workers, address), _token(run_dir) as token:
        import ray

        shared = ray.put(problem)
        task = ray.remote(num_cpus=1)(_remote)
        waiting = {}
        for config, trial_dir in trials:
            seen = str((run_dir.path / _TOKEN).absolute())
            path = str(trial_dir.path.absolute())
            waiting[task.remote(config.model_dump(), shared, path, seen, token)] = trial_dir
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            trial_dir = waiting.pop(ready[0])
            try:
                files = ray.get(ready[0])
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, ParetolabError):
                    raise error.cause from error
                raise
            for name, content in files.items():
                (trial_dir.path / name).write_bytes(content)
            finished(trial_dir)


def _remote(
    config: dict[str, Any], problem: Problem, path: str, seen: str, token: str
) -> dict[str, bytes]:
    """Run a trial in a Ray task; return its files where the driver's disk is not in sight."""
    if isinstance(problem, SharedParts):
        problem.open_store()
    trial_config = RunConfig.model_validate(config)
    if Path(seen).is_file() and Path(seen).read_text(encoding="utf-8") == token:
        _run_one(trial_config, problem, RunDir(path))
        return {}
    with TemporaryDirectory() as folder:
        _run_one(trial_config, problem, RunDir(folder))
        return {name: (Path(folder) / name).read_bytes() for name in _FILES}


@contextmanager
def _token(run_dir: RunDir) -> Iterator[str]:
    token, file = uuid.uuid4().hex, run_dir.path / _TOKEN
    file.write_text(token, encoding="utf-8")
    try:
        yield token
    finally:
        file.unlink(missing_ok=True)


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
