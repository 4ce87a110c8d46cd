"""Runs from Python: what ``paretolab run`` and ``paretolab resume`` do, and what they leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from framework.analysis.choose import choose
from framework.cli.progress import ProgressLines
from framework.errors import InputError
from framework.experiment.config import RunConfig, check_config, load_config
from framework.experiment.execute import Options, execute, new_run, resumed_config
from framework.experiment.expected import evidence, exact_front, expectation
from framework.experiment.export import load_problem
from framework.experiment.run_dir import RunDir
from framework.front import Front, Promise
from framework.problem import Deployable, Problem

PathLike = str | os.PathLike[str]


class RunResult:
    """What a run left in its directory.

    Parameters
    ----------
    directory : path-like
        Of a run that has ended, or was interrupted after its first batch.

    Attributes
    ----------
    directory : pathlib.Path
    config : RunConfig
        As it was run, with all defaults.
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
        self._run_dir = RunDir.existing(directory)
        self.directory = self._run_dir.path
        if not self._run_dir.front_file.is_file():
            raise InputError(
                f"{directory}: expected a run with a front, found no front.csv; "
                "paretolab.resume goes on with it"
            )
        self.config = self._run_dir.config()
        self.summary = self._run_dir.summary()
        self.front: Front = self._run_dir.front()
        self._problem: Problem | None = None

    def choose(self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any) -> Any:
        """Return the model of one solution, fitted and ready to predict.

        The data are loaded again, on the first call.

        Parameters
        ----------
        where : str or sequence of str
            Conditions that the solution meets, such as ``coverage>=0.9``.
        best : str, optional
            The metric that it is the best in.
        **rule
            Other rules of :func:`framework.analysis.choose.choose`: ``within``, ``knee``,
            ``weights``, ``id``. Without any rule: the solution nearest to the ideal point.

        Returns
        -------
        estimator
            With the interface of scikit-learn; :func:`framework.models.store.save_model` keeps it.

        Raises
        ------
        InputError
            No solution meets the conditions, a metric is unknown, the data have changed since, or
            solutions of this problem are no models.
        """
        conditions = [where] if isinstance(where, str) else list(where)
        position = choose(self.front, where=conditions, best=best, **rule)
        if self._problem is None:
            self._problem = load_problem(self._run_dir)
        if not isinstance(self._problem, Deployable):
            raise InputError(
                f"choose: expected solutions that are models, found those of problem "
                f"{self.config.problem['kind']!r}; paretolab.choose(front, ...) returns a position"
            )
        genome = self.front.X[position].astype(self._problem.space.dtype)
        return self._problem.decode(genome)

    def expected(
        self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any
    ) -> dict[str, Promise]:
        """Return what to expect of one solution on new records.

        The rule is applied in each resample of the records, as ``paretolab choose`` does; the data
        are loaded again, on the first call. With ``id=`` alone it is what ``front.csv`` says.

        Parameters
        ----------
        where, best, **rule
            As of :meth:`choose`.

        Returns
        -------
        mapping of str to Promise
            For each metric ``claimed``, ``expected``, and ``low`` and ``high``, a 95% range.

        Raises
        ------
        InputError
            No solution meets the conditions, a metric is unknown, the data have changed since, or
            the problem does not say what each record contributes.
        """
        conditions = [where] if isinstance(where, str) else list(where)
        position = choose(self.front, where=conditions, best=best, **rule)
        if set(rule) == {"id"}:
            return self.front.promises(position)
        if self._problem is None:
            self._problem = load_problem(self._run_dir)
        with self._run_dir.journal() as journal:
            around = exact_front(self.config, self.front)
            found = evidence(journal, self._problem, self.config.seed, around)
        if found is None:
            raise InputError(
                "expected: expected a problem that tells what each record contributes, found "
                f"{self.config.problem['kind']!r}, which does not"
            )
        asked = {name: value for name, value in rule.items() if name not in ("knee", "id")}
        known = expectation(found, self.front, position, where=conditions, best=best, **asked)
        return dict(known.of)

    def __repr__(self) -> str:
        status = self.summary.get("status", "unfinished")
        return f"RunResult({str(self.directory)!r}, {status}, {len(self.front)} solutions)"


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
        A YAML file, its content, or what :func:`load_config` returned.
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
    if isinstance(config, Mapping):
        config = check_config(config, Path("config"))
    elif not isinstance(config, RunConfig):
        config = load_config(config)
    if not track:  # which the directory keeps
        config = config.model_copy(update={"tracking": None})
    with new_run(config, None if out is None else os.fspath(out)) as run_dir:
        execute(config, run_dir, _options(address, track, quiet, plots))
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
        Such as ``budget.generations=200``; nothing that decides what is evaluated may change.
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
            f"{directory}: expected a run, found a sweep; `paretolab resume {directory}` goes on "
            "with it"
        )
    options = _options(address, track, quiet, plots)
    config = resumed_config(run_dir, overrides, report=options.report)
    if not track:
        config = config.model_copy(update={"tracking": None})
    execute(config, run_dir, options)
    return RunResult(run_dir.path)


def _options(address: str | None, track: bool, quiet: bool, plots: bool) -> Options:
    if quiet:
        return Options(address, track, lambda line: None, plots=plots)
    report = partial(print, file=sys.stderr)
    return Options(address, track, report, ProgressLines, plots=plots)
