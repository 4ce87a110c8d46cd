"""Runs from Python: the commands ``run`` and ``resume`` as functions, and their results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.errors import InputError, command
from framework.experiment.choice import Pick, RunSource, pick
from framework.experiment.config import RunConfig, check, load_config
from framework.experiment.execute import Options, execute, new_run, resumed_config
from framework.experiment.run_dir import RunDir
from framework.front import Front, Promise
from framework.models.constant import ConstantClassifier
from framework.problem import Deployable
from framework.run.display import Display
from framework.security import from_program

PathLike = str | os.PathLike[str]


class RunResult:
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
        self._source = RunSource(self._run_dir)

    def choose(
        self,
        where: str | Sequence[str] = (),
        best: str | None = None,
        *,
        sure: float | None = None,
        costs: Mapping[str, float] | None = None,
        prior: float | Mapping[str, float] | None = None,
        per_unit: Mapping[str, float] | None = None,
        prices: Mapping[str, float] | None = None,
        **rule: Any,
    ) -> Any:
        """Return the model of one solution, fitted and ready to predict.

        The arguments are the options of ``paretolab choose``. The data are loaded again on the
        first call. The solution that the run has chosen stays the same.

        Parameters
        ----------
        where : str or sequence of str
            Conditions that the solution meets, such as ``coverage>=0.9``.
        best : str, optional
            The metric in which it is the best.
        sure : float, optional
            Percentage of the resamples of the records in which all conditions must hold.
        costs : mapping of str to float, optional
            Either the costs ``fp`` and ``fn`` of a false positive and a false negative: the
            solution has the least expected cost, or it is the constant answer that costs even less.
            Or the costs of errors by true class, 1 for those left out: all candidates are scored
            again, with stages that decide by these costs if they decide by costs. The solution then
            has the least total or error cost, unless there is another rule.
        prior : float or mapping of str to float, optional
            With ``fp`` and ``fn``: the share of positive records where the model will run. Or the
            share of each class: all candidates are scored again.
        per_unit : mapping of str to float, optional
            Cost of a unit of other metrics, with ``fp`` and ``fn``.
        prices : mapping of str to float, optional
            Prices of some features: all candidates are scored again.
        **rule
            Other rules of :func:`framework.analysis.choose.choose`: ``within``, ``knee``,
            ``weights``, ``id``. Without any rule: the solution nearest to the ideal point.

        Returns
        -------
        estimator
            With the interface of scikit-learn; :func:`framework.models.store.save_model` writes it.

        Raises
        ------
        InputError
            No solution meets the conditions, a metric is unknown, arguments do not go together,
            the data have changed since the run, or solutions of this problem are not models.
        """
        words = {"sure": sure, "costs": costs, "prior": prior, "per_unit": per_unit}
        pick = self._picked(where, best, prices=prices, **words, **rule)
        if pick.always is not None:
            return ConstantClassifier.from_label(pick.always.label, pick.always.classes)
        problem = self._source.problem()
        if not isinstance(problem, Deployable):
            raise InputError(
                f"choose: expected solutions that are models, found those of problem "
                f"{self.config.problem.kind!r}; paretolab.choose(front, ...) returns a position"
            )
        return problem.decode(pick.front.X[pick.position].astype(problem.space.dtype))

    def expected(
        self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any
    ) -> dict[str, Promise]:
        """Return what to expect of one solution on new records.

        The rule is applied in each resample of the records, as ``paretolab choose`` does; the data
        are loaded again on the first call. With ``id=`` alone, the values are those of
        ``front.csv``.

        Parameters
        ----------
        where, best, **rule
            See :meth:`choose`.

        Returns
        -------
        mapping of str to Promise
            For each metric ``claimed``, ``expected``, and ``low`` and ``high``, a 95% range.

        Raises
        ------
        InputError
            See :meth:`choose`; also if the problem does not say what each record contributes, or
            if a constant answer costs less than any solution.
        """
        pick = self._picked(where, best, **rule)
        if set(rule) == {"id"}:
            return self.front.promises(pick.position)
        return dict(pick.expectation(self._source.needed("expected")).of)

    def _picked(self, where: str | Sequence[str], best: str | None, **words: Any) -> Pick:
        if isinstance(words.get("within"), str):
            words["within"] = [words["within"]]
        conditions = [where] if isinstance(where, str) else list(where)
        return pick(self._source, where=conditions, best=best, **words)

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
