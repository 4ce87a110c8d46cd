"""Executes a configuration in a directory: one run, or its repeats with other seeds."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from framework import registry
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.export import export, exported_solution, marked
from framework.experiment.repeats import run_repeats
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem, make_roles, run_single
from framework.experiment.workers import BudgetLeft, evaluator_for
from framework.problem import Deployable, Problem
from framework.run.driver import Callback


class Watcher(Callback):
    """A callback that shows the progress of a run, until it is closed."""

    def close(self) -> None:
        """Stop showing progress; may be called again."""


@dataclass(frozen=True)
class Options:
    """How runs, experiments and sweeps are executed; nothing here changes a front.

    Attributes
    ----------
    address : str or None
        Address of a running Ray cluster.
    track : bool
        Whether to log to MLflow.
    report : callable
        Shows a line of text to the user.
    watcher : callable
        Returns a new :class:`Watcher`, which shows the progress of a run.
    ended : callable
        Takes each run of an experiment, or trial of a sweep, that has ended.
    plots : bool
        Whether the registered reports of a run, pictures and pages, are made at the end.
    """

    address: str | None
    track: bool
    report: Callable[[str], None]
    watcher: Callable[[], Watcher] = Watcher
    ended: Callable[[Any], None] = lambda ended: None
    plots: bool = True


@contextmanager
def new_directory(config: RunConfig, out: str | None) -> Iterator[RunDir]:
    """Make the directory of a new run: ``out``, or the first free one of ``runs/NAME-001``, ...

    It is removed again at the end if no search has begun in it.

    Raises
    ------
    InputError
        ``out`` holds a run already, or cannot be written.
    """
    path = Path("runs" if out is None else out)
    if out is not None and RunDir(out).config_file.exists():
        raise InputError(
            f"--out {path}: expected a new directory, found a run in it; `paretolab resume {path}` "
            "goes on with that one"
        )
    made = out is None or not path.exists()
    try:
        if out is None:
            path = _made_path(config.name)
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(
            f"--out {path}: expected a directory that can be written, found: {error.strerror}; "
            "give another --out"
        ) from error
    run_dir = RunDir(path)
    try:
        yield run_dir
    finally:
        begun = run_dir.summary_file.exists() or any(path.rglob(run_dir.journal_file.name))
        if made and not begun:
            shutil.rmtree(path, ignore_errors=True)


def _made_path(name: str) -> Path:
    """Make the first free directory: of processes that start together each has its own."""
    for number in count(1):
        path = Path("runs", f"{name}-{number:03d}")
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError


def execute(config: RunConfig, run_dir: RunDir, options: Options) -> dict[str, Any]:
    """Start or resume a run and its repeats; return the summary.

    Repeats that are finished are not run again. If anything fails, the journals contain every
    batch that was evaluated before.
    """
    problem = make_problem(config, options.address)
    about = {"uid": uid_of(run_dir), "data": dict(problem.describe()), "repeats": config.repeats}
    watcher = options.watcher()
    with followed(config, run_dir, options) as callbacks, closing(watcher):
        if config.repeats == 1:
            summary = _single(config, problem, run_dir, options, [*callbacks, watcher], about)
        else:
            run_dir.write_config(config)
            run_dir.write_about(problem, make_roles(config, problem), **about)
            for follower in callbacks:
                follower.on_start()
            summary = run_repeats(
                config, problem, run_dir, address=options.address, report=options.report
            )
        watcher.close()
        conclude(problem, run_dir, summary, options)
    return summary


@contextmanager
def followed(config: RunConfig, run_dir: RunDir, options: Options) -> Iterator[list[Callback]]:
    """Yield the registered callbacks that follow a run; report what they have to say at the end.

    Each entry of ``paretolab.callbacks`` is called with the run's directory and configuration and
    returns a callback or None.
    """
    seen = config if options.track else config.model_copy(update={"tracking": None})
    made = [registry.load("callbacks", name)(run_dir, seen) for name in registry.names("callbacks")]
    callbacks = [callback for callback in made if callback is not None]
    try:
        yield callbacks
    finally:
        for line in [callback.on_written() for callback in callbacks]:
            if line:
                options.report(line)


def _single(
    config: RunConfig,
    problem: Problem,
    run_dir: RunDir,
    options: Options,
    callbacks: list[Callback],
    about: dict[str, Any],
) -> dict[str, Any]:
    left = BudgetLeft()
    with evaluator_for(
        problem,
        config.seed,
        workers=config.workers,
        address=options.address,
        config=config.cluster,
        left=left,
        report=options.report,
    ) as (evaluator, description):
        return run_single(
            config,
            problem,
            run_dir,
            evaluator,
            callbacks=[left, *callbacks],
            evaluated_by=description,
            about=about,
            report=options.report,
        )


def conclude(problem: Problem, run_dir: RunDir, summary: dict[str, Any], options: Options) -> None:
    """Write what follows from a finished front: the model and the reports.

    The model is that of the solution which the user chose before, else the recommended one.
    """
    if not summary["front_size"]:
        return
    front = run_dir.front()
    chosen = run_dir.choice()
    if isinstance(problem, Deployable) and not problem.has_models:
        options.report("no model is written: the library has its models' predictions alone")
    elif chosen is None or exported_solution(run_dir.model) != chosen:
        about = {"run": summary["name"], "seed": summary["seed"]}
        export(problem, front, marked(run_dir, front), run_dir.model, about=about)
    elif chosen not in front.ids:
        options.report(
            f"solution {chosen}, which you chose, is no longer on the front: others are better in "
            f"everything; {run_dir.model} still holds it, `paretolab choose` replaces it"
        )
    if options.plots:
        for name in registry.names("reports"):
            registry.load("reports", name)(run_dir)
    elif run_dir.plots.is_dir():
        options.report(f"{run_dir.plots}: drawn before this run went on")


def uid_of(run_dir: RunDir) -> str:
    """Return the unique id under which a run is logged; a resumed run keeps it."""
    if run_dir.about_file.is_file():
        return str(run_dir.about()["uid"])
    return uuid.uuid4().hex
