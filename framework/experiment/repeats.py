"""Repeats of a run: independent runs with other seeds that share the problem's parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.errors import ClusterError
from framework.experiment.config import RunConfig
from framework.experiment.many_runs import RunExecutor, run_arguments
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED, run_single, versions
from framework.files import write_whole
from framework.machine import no_result, reason_of
from framework.pareto import nondominated
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator
from framework.streams import repeat_seed

Say = Callable[[str], None]


def run_repeats(
    config: RunConfig, problem: Problem, run_dir: RunDir, *, address: str | None, report: Say
) -> dict[str, Any]:
    """Run the repeats that are not finished yet; return the summary over all of them.

    With Ray, each repeat is a task that runs serially; otherwise they run one after the other.
    The directory of a repeat is ``repeats/NNN``, counted from 000.

    Raises
    ------
    ClusterError
        Machines made nothing of some repeats; all others are done.
    """
    started = time.perf_counter()
    repeats = []
    for number in range(config.repeats):
        repeat_dir = RunDir(run_dir.repeats / f"{number:03d}")
        if not has_ended(repeat_dir, config):
            repeats.append((config_of_repeat(config, number), repeat_dir))
            repeat_dir.make(repeats[-1][0])
    left: dict[str, str] = {}
    # repeats may be long, and there are several: Ray is used at once unless it is turned down
    workers = "all" if config.workers == "auto" else config.workers
    with RunExecutor(
        _run_one,
        run_dir,
        config.model_copy(update={"workers": workers}),
        address,
        lambda where: report(f"repeats run on {where}"),
    ) as executor:
        tasks = executor.run(repeats, lambda repeat: run_arguments(repeat[0], problem, repeat[1]))
        for (_, repeat_dir), _, error, _ in tasks:
            if error is None:
                report(_line(repeat_dir, config))
            elif no_result(error):
                left[repeat_dir.path.name] = reason_of(error)
            else:
                raise error
        incidents = dict(executor.incidents())
    if left:
        run_dir.write_summary({"status": INTERRUPTED, "left": left, "incidents": incidents})
        raise ClusterError(
            f"{len(left)} of {config.repeats} repeats could not be run ({next(iter(left.values()))}"
            f"); the others are kept: `paretolab resume {run_dir.path}` tries these again"
        )
    seconds = round(time.perf_counter() - started, 3)
    return conclude_repeats(config, problem, run_dir, incidents=incidents, wall_s=seconds)


def has_ended(repeat_dir: RunDir, config: RunConfig) -> bool:
    """Tell whether a repeat has used up the budget that it has now."""
    ended = repeat_dir.summary().get("status") in (DONE, FAILED)
    return ended and repeat_dir.config().budget == config.budget


def config_of_repeat(config: RunConfig, number: int) -> RunConfig:
    """Return the configuration of a repeat: a run with a seed of its own."""
    return config.model_copy(
        update={"seed": repeat_seed(config.seed, number), "repeats": 1, "workers": "serial"}
    )


def _run_one(config: RunConfig, problem: Problem, repeat_dir: RunDir) -> None:
    """Do a repeat; a process that was left behind by a driver that was killed is waited for."""
    with repeat_dir.owned(wait=True):
        about = {"data": dict(problem.describe())}
        run_single(config, problem, repeat_dir, SerialEvaluator(problem, config.seed), about=about)


def _line(repeat_dir: RunDir, config: RunConfig) -> str:
    summary = repeat_dir.summary()
    return (
        f"repeat {int(repeat_dir.path.name) + 1}/{config.repeats}: {summary['evaluations']:,} "
        f"evaluations, front {summary['front_size']}, hypervolume "
        f"{summary['indicators']['hypervolume']:.4f}"
    )


def conclude_repeats(
    config: RunConfig, problem: Problem, run_dir: RunDir, *, one_front: bool = True, **more: Any
) -> dict[str, Any]:
    """Write the summary over all repeats, which have ended; return it.

    Parameters
    ----------
    config : RunConfig
    problem : Problem
    run_dir : RunDir
    one_front : bool
        Whether the repeats were on the same records, so that they have a front in common, which
        is written too.
    **more
        What else the summary holds.
    """
    repeats = run_dir.children()[: config.repeats]
    summaries = [repeat.summary() for repeat in repeats]
    found = {} if not one_front else {"front_size": _write_front(run_dir, repeats)}
    volumes = np.array([s["indicators"]["hypervolume"] for s in summaries])
    failed = any(s["status"] == FAILED for s in summaries)
    summary = {
        "status": FAILED if failed else DONE,
        "name": config.name,
        "algorithm": config.algorithm.kind,
        "problem": config.problem.kind,
        "problem_fingerprint": problem.fingerprint,
        "seed": config.seed,
        "repeats": config.repeats,
        "evaluations": sum(s["evaluations"] for s in summaries),
        "distinct_evaluations": sum(s.get("distinct_evaluations", 0) for s in summaries),
        "rows_failed": sum(s["rows_failed"] for s in summaries),
        **found,
        "indicators": {
            "hypervolume": float(volumes.mean()),
            "hypervolume_std": float(volumes.std()),
            "hypervolume_min": float(volumes.min()),
            "hypervolume_max": float(volumes.max()),
        },
        "repeat_seeds": [s["seed"] for s in summaries],
        "versions": versions(),
        **more,
    }
    run_dir.write_summary(summary)
    return summary


def _write_front(run_dir: RunDir, repeats: Sequence[RunDir]) -> int:
    """Write the front over all repeats; return how many solutions there are.

    The front's rows are numbered anew; ``repeat`` and ``repeat_id`` say where each comes from. What
    a repeat expects of them is left out: here they were chosen among more.
    """
    import pandas as pd

    roles = run_dir.roles()
    frames = [replace(repeat.front(), expected=None).frame() for repeat in repeats]
    for number, frame in enumerate(frames):
        frame["repeat"], frame["repeat_id"] = number, frame["id"]
    union = pd.concat(frames, ignore_index=True)
    columns = {name: union[name].to_numpy() for name in roles.metrics}
    union = union[nondominated(roles.losses(columns))].reset_index(drop=True)
    union["id"] = np.arange(len(union))
    write_whole(run_dir.front_file, union.to_csv(index=False))
    return len(union)
