"""Repeats of a run: independent runs with other seeds that share the problem's parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.errors import ClusterError, command
from framework.experiment.config import RunConfig
from framework.experiment.grid import repeats_of
from framework.experiment.many_runs import Ended, has_ended, run_many
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED, versions
from framework.files import write_whole
from framework.machine import no_result
from framework.pareto import nondominated
from framework.problem import Problem


def run_repeats(
    config: RunConfig,
    problem: Problem,
    run_dir: RunDir,
    *,
    address: str | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Run the repeats that are not finished yet; return the summary over all of them.

    With Ray, each repeat is a task that runs serially; otherwise they run one after the other.
    The directory of a repeat is ``repeats/NNN``, counted from 000.

    Raises
    ------
    ClusterError
        Some repeats could not be run because of the machines; all others are done.
    """
    runs = repeats_of(config)
    todo = [run for run in runs if not has_ended(RunDir(run_dir.path / run.directory), run.config)]
    # repeats may be long, and there are several: Ray is used at once unless workers say otherwise
    workers = "all" if config.workers == "auto" else config.workers

    def tell(ended: Ended) -> None:
        if ended.error is None:
            summary = ended.summary
            report(
                f"repeat {ended.run.repeat + 1}/{config.repeats}: {summary['evaluations']:,} "
                f"evaluations, front {summary['front_size']}, hypervolume "
                f"{summary['indicators']['hypervolume']:.4f}"
            )
        elif not no_result(ended.error):
            raise ended.error

    failed, incidents = run_many(
        todo,
        run_dir,
        config.model_copy(update={"workers": workers}),
        lambda config: problem,
        address=address,
        report=report,
        ended=tell,
    )
    if failed:
        run_dir.write_summary({"status": INTERRUPTED, "left": failed, "incidents": dict(incidents)})
        raise ClusterError(
            f"{len(failed)} of {config.repeats} repeats could not be run "
            f"({next(iter(failed.values()))}); the others are kept: "
            f"{command('resume', run_dir.path)} tries these again"
        )
    return conclude_repeats(config, problem, run_dir, incidents=dict(incidents))


def seconds_of(summaries: Iterable[Mapping[str, Any]]) -> float:
    """Return the seconds of searching of several runs, each over all its sessions."""
    return round(sum(float(summary.get("wall_s", 0.0)) for summary in summaries), 3)


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
        Whether the repeats were on the same records, so that there is a front over all of them,
        which is written too.
    **more
        Further entries of the summary.
    """
    repeats = run_dir.children()[: config.repeats]
    summaries = [repeat.summary() for repeat in repeats]
    front = {"front_size": _write_front(run_dir, repeats)} if one_front else {}
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
        "wall_s": seconds_of(summaries),
        **front,
        "indicators": {
            "hypervolume": float(volumes.mean()),
            "hypervolume_std": float(volumes.std(ddof=min(1, len(volumes) - 1))),  # as in compare
            "hypervolume_min": float(volumes.min()),
            "hypervolume_max": float(volumes.max()),
        },
        "repeat_seeds": [s["seed"] for s in summaries],
        "versions": versions(),
        **more,
    }
    run_dir.write_summary(summary, *([run_dir.front_file] if one_front else ()))
    return summary


def _write_front(run_dir: RunDir, repeats: Sequence[RunDir]) -> int:
    """Write the front over all repeats; return its size.

    Its rows have new ids; ``repeat`` and ``repeat_id`` say where each comes from. The expected
    figures of a repeat are left out: they do not hold for a choice among all repeats.
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
