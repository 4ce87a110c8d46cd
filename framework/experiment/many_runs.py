"""Whole runs side by side, each in a directory of its own: repeats, experiments, sweeps."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from framework.errors import ClusterError, InputError, command
from framework.experiment.config import RunConfig
from framework.experiment.grid import PlannedRun, repeats_of
from framework.experiment.history import keep_moments
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import (
    DONE,
    FAILED,
    INTERRUPTED,
    SingleRun,
    make_problem,
    versions,
)
from framework.files import LOCK, write_whole
from framework.machine import no_result, reason_of
from framework.parallel.executor import Executor
from framework.pareto import nondominated
from framework.problem import Problem
from framework.run.evaluator import SerialEvaluator

_TOKEN = ".token"  # tells a worker whether it sees the driver's disk
_MOST = 8  # problems kept in memory
_ATTEMPTS = 2  # at a run that fails, before it is left to `resume`


class RunExecutor(Executor):
    """An executor whose tasks are runs: each has a directory and evaluates serially.

    A worker that cannot access this process's disk uses a temporary directory, whose files are sent
    back at the end. Tasks are submitted with the arguments that :func:`run_arguments` returns.

    Parameters
    ----------
    work : callable
        Does a run: ``work(config, problem, run_dir, *more)``. A function of a module.
    home : RunDir
        A directory of this process, which exists.
    config : RunConfig
        Its ``workers`` and ``cluster`` are used.
    address : str or None
        A running Ray cluster to join.
    started : callable
        Called with a description of Ray where it is used.
    """

    def __init__(
        self,
        work: Callable[..., object],
        home: RunDir,
        config: RunConfig,
        address: str | None,
        started: Callable[[str], None],
    ) -> None:
        token, seen = uuid.uuid4().hex, (home.path / _TOKEN).absolute()
        super().__init__(
            _RunTask(work, str(seen), token),
            workers=config.workers,
            address=address,
            config=config.cluster,
            started=started,
        )
        self._file, self._token = seen, token

    def _join(self) -> None:
        self._file.write_text(self._token, encoding="utf-8")
        self._stack.callback(self._file.unlink, missing_ok=True)
        super()._join()

    def _end(self, key: Any, answer: Any, error: Exception | None) -> None:
        for path, content in (answer or {}).items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(Path(path), content)
        super()._end(key, None, error)


def run_arguments(
    config: RunConfig, problem: Problem, run_dir: RunDir, *more: Any
) -> tuple[Any, ...]:
    """Return the arguments of a run's task, the problem, which tasks share, first.

    ``more`` are further arguments of the work; with Ray they have to be picklable.
    """
    return problem, config, str(run_dir.path.absolute()), more


class _RunTask:
    """Does a run, in this process or in a worker."""

    def __init__(self, work: Callable[..., object], seen: str, token: str) -> None:
        self._work, self._seen, self._token, self._here = work, Path(seen), token, True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_here": False}

    def __call__(
        self, problem: Problem, config: RunConfig, path: str, more: tuple[Any, ...]
    ) -> dict[str, bytes]:
        """Do a run; return its files, by path, if the driver's disk cannot be accessed."""
        if not self._here:
            problem.open_store()
        seen = self._seen.is_file() and self._seen.read_text(encoding="utf-8") == self._token
        if self._here or seen:
            self._work(config, problem, RunDir(path), *more)
            return {}
        with TemporaryDirectory() as folder:
            self._work(config, problem, RunDir(folder), *more)
            files = (
                file for file in Path(folder).rglob("*") if file.is_file() and file.name != LOCK
            )
            return {str(Path(path, file.relative_to(folder))): file.read_bytes() for file in files}


class Problems:
    """The problems of the latest configurations, data loaded: runs on one problem load it once."""

    def __init__(self) -> None:
        self._known: dict[str, Problem] = {}

    def of(self, config: RunConfig) -> Problem:
        """Return the problem of a configuration. Raises InputError where it cannot be made."""
        key = config.problem.model_dump_json()
        problem = self._known.pop(key) if key in self._known else make_problem(config)
        self._known[key] = problem  # the latest one comes last
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return problem


class Ended(NamedTuple):
    """A run of several that has ended; ``error`` says why where it could not be run."""

    run: PlannedRun
    summary: Mapping[str, Any]
    error: Exception | None
    done: int
    total: int
    seconds_left: float


def has_ended(run_dir: RunDir, config: RunConfig, moments: bool = False) -> bool:
    """Return whether a run has ended, successfully or not, under the budget that it has now.

    One with a result that was changed since, or without ``about.json``, has not: it is to be
    written again. With ``moments``, the moments on its way (:mod:`framework.experiment.history`)
    must be there.
    """
    ended = run_dir.summary().get("status") in (DONE, FAILED)
    ended &= run_dir.about_file.is_file() and (run_dir.anytime_file.is_file() or not moments)
    return ended and run_dir.config().budget == config.budget and not run_dir.changed


def run_many(
    todo: Sequence[PlannedRun],
    out: RunDir,
    config: RunConfig,
    problem_of: Callable[[RunConfig], Problem],
    *,
    address: str | None,
    report: Callable[[str], None],
    ended: Callable[[Ended], None],
    moments: bool = False,
    done: int = 0,
) -> tuple[dict[str, str], Mapping[str, int]]:
    """Do runs side by side, in directories below ``out``; those that fail are tried again, last.

    ``config`` says who works, ``done`` how many more runs are done already, and ``moments`` whether
    the moments on their way are kept. ``ended`` is called with each run that has ended.

    Returns
    -------
    failed : dict of str to str
        Why runs could not be run, by directory.
    incidents : mapping of str to int
        What happened to the workers, and how often.
    """
    total, failed = done + len(todo), dict[str, str]()

    def begin(run: PlannedRun) -> tuple[Any, ...]:
        run_dir = RunDir(out.path / run.directory)
        if not run_dir.path.is_dir():  # else the budget that it had tells whether it has ended
            run_dir.make(run.config)
        return run_arguments(run.config, problem_of(run.config), run_dir, moments)

    with RunExecutor(
        _do_run, out, config, address, lambda where: report(f"runs are on {where}")
    ) as executor:
        for run, _, error, _ in executor.run(todo, begin, attempts=_ATTEMPTS):
            run_dir = RunDir(out.path / run.directory)
            if error is None and not has_ended(run_dir, run.config, moments):
                error = InputError("it came to no end")
            if error is None:
                done += 1
                failed.pop(run.directory, None)
            else:
                failed[run.directory] = reason = reason_of(error)
                with suppress(OSError):  # its directory may be what is wrong
                    cut_off = {"status": INTERRUPTED, "error": reason}
                    run_dir.write_summary(run_dir.summary() | cut_off)
            seconds_left = executor.seconds_left(total - done - len(failed))
            ended(Ended(run, run_dir.summary(), error, done, total, seconds_left))
        return failed, executor.incidents()


def _do_run(config: RunConfig, problem: Problem, run_dir: RunDir, moments: bool) -> None:
    """Do a run, or go on with it.

    If a killed driver has left a process that still does the run, wait for it and keep its results.
    """
    with run_dir.owned(wait=True):
        if not has_ended(run_dir, config):
            with SingleRun(
                config,
                problem,
                run_dir,
                SerialEvaluator(problem, config.seed),
                about={"data": dict(problem.describe())},
                report=lambda line: None,  # there is one line per run
            ) as run:
                run.conclude(run.driver.run())
            run_dir.anytime_file.unlink(missing_ok=True)  # of a smaller budget
        if moments and not run_dir.anytime_file.is_file():
            keep_moments(run_dir)


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
