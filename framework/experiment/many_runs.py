"""Whole runs side by side, each in a directory of its own: repeats, experiments, sweeps."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.grid import PlannedRun
from framework.experiment.history import keep_moments
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import DONE, FAILED, INTERRUPTED, SingleRun, make_problem
from framework.files import LOCK, write_whole
from framework.machine import reason_of
from framework.parallel.executor import Executor
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
