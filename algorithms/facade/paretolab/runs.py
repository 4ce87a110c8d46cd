"""Runs from Python: the commands ``run`` and ``resume`` as functions, and their results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.arrays import Array
from framework.errors import InputError, command
from framework.experiment.choice import Chooser, RunSource, Source
from framework.experiment.config import RunConfig, check, load_config
from framework.experiment.execute import Options, execute, new_run, resumed_config
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.problem import Deployable
from framework.run.display import Display
from framework.security import from_program

PathLike = str | os.PathLike[str]


class RunResult(Chooser):
    """The results of a run, read from its directory.

    Parameters
    ----------
    directory : path-like
        That of a run that has ended or was interrupted after its first batch.

    Attributes
    ----------
    directory : pathlib.Path
    config : RunConfig
        The configuration with all defaults.
    summary : dict
        The content of ``summary.json``: status, evaluations, hypervolume, ...
    front : Front
        With test metrics where the problem has test records.

    Raises
    ------
    InputError
        The directory is not one of a run, or holds no front yet.
    """

    def __init__(self, directory: PathLike) -> None:
        self._run_dir = RunDir.finished(directory, "paretolab.resume goes on with it")
        self.directory = self._run_dir.path
        self.config = self._run_dir.config()
        self.summary = self._run_dir.summary()
        self.front: Front = self._run_dir.front()
        self._choices = RunSource(self._run_dir)

    def _source(self) -> Source:
        return self._choices

    def _with_expected(self) -> Front:
        return self.front

    def _model_of(self, genome: Array, problem: Any) -> Any:
        if not isinstance(problem, Deployable):
            raise InputError(
                f"choose: expected solutions that are models, found those of problem "
                f"{self.config.problem.kind!r}; paretolab.choose(front, ...) returns a position"
            )
        return problem.decode(genome)

    def _repr_html_(self) -> str:
        from framework.cli.run import result_of

        return result_of(self._run_dir)._repr_html_()

    def __repr__(self) -> str:
        status = self.summary.get("status", "unfinished")
        front = "1 solution" if len(self.front) == 1 else f"{len(self.front)} solutions"
        return f"RunResult({str(self.directory)!r}, {status}, {front})"


def run(
    config: PathLike | Mapping[str, Any] | RunConfig,
    *,
    out: PathLike | None = None,
    address: str | None = None,
    track: bool = True,
    quiet: bool = False,
    plots: bool = True,
) -> RunResult:
    """Run a configuration as the command does: directory, journal, front, model, plots, MLflow.

    Parameters
    ----------
    config : path-like, mapping or RunConfig
        A YAML file, its content, or the result of :func:`load_config`.
    out : path-like, optional
        New directory; ``runs/NAME-001`` or the next free number if None.
    address : str, optional
        Ray cluster to join: ``auto`` or ``host:port``.
    track : bool
        Whether to log to MLflow, where the configuration says so.
    quiet : bool
        Print nothing; otherwise progress goes to the standard error stream.
    plots : bool
        Whether to make the pictures and the report page at the end.

    Returns
    -------
    RunResult

    Raises
    ------
    InputError
        The configuration, its data or ``out`` cannot be used.
    KeyboardInterrupt
        Ctrl-C; the run so far is kept, and :func:`resume` goes on with it.
    """
    if isinstance(config, Mapping | RunConfig):
        raw = config if isinstance(config, Mapping) else config.model_dump(mode="json")
        with from_program(Path("config")):
            config = check(RunConfig, raw, Path("config"))
    else:
        config = load_config(config)
    if not track:  # which the directory keeps
        config = config.model_copy(update={"tracking": None})
    with new_run(config, None if out is None else os.fspath(out)) as run_dir:
        execute(config, run_dir, options_of(address, quiet, plots))
    return RunResult(run_dir.path)


def resume(
    directory: PathLike,
    overrides: Sequence[str] = (),
    *,
    address: str | None = None,
    track: bool = True,
    quiet: bool = False,
    plots: bool = True,
) -> RunResult:
    """Go on with a run that was stopped, or that has a larger budget now.

    Parameters
    ----------
    directory : path-like
    overrides : sequence of 'dotted.key=value'
        Such as ``budget.generations=200``. Keys on which values of candidates depend are refused.
    address, track, quiet, plots
        See :func:`run`.

    Returns
    -------
    RunResult
        The same front as if the run had never been stopped.

    Raises
    ------
    InputError
        The directory is not one of a run, or an override cannot be used.
    JournalError
        The journal is damaged, or belongs to another configuration.
    """
    run_dir = RunDir.existing(directory)
    if run_dir.sweep_file.is_file():
        raise InputError(
            f"{directory}: expected a run, found a sweep; {command('resume', directory)} goes on "
            "with it"
        )
    options = options_of(address, quiet, plots)
    config = resumed_config(run_dir, overrides, report=options.report)
    if not track:
        config = config.model_copy(update={"tracking": None})
    execute(config, run_dir, options)
    return RunResult(run_dir.path)


def options_of(address: str | None, quiet: bool, plots: bool) -> Options:
    display = Display(quiet=quiet)
    return Options(address, display.message, display, plots=plots)
