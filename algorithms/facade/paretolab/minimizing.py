"""The best trade-offs of a Python function, without a problem class or a configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.arrays import evenly
from framework.batch import Evaluated
from framework.errors import InputError, JournalError
from framework.experiment.config import RunConfig, check
from framework.experiment.execute import execute, new_run, refuse_smaller
from framework.experiment.run_dir import RunDir
from framework.problems.python_function import PythonFunction, name_of
from framework.roles import Sense
from framework.run.evaluator import evaluate_candidates
from framework.security import from_program
from paretolab.runs import PathLike, RunResult, options_of

if TYPE_CHECKING:
    import pandas as pd

_SEARCH = {"kind": "nsga2", "population": 100}
_AGAIN = 5  # candidates of a run that are evaluated again before it goes on


class Minimized(RunResult):
    """The results of :func:`minimize`, with the parameters of its solutions.

    Attributes
    ----------
    parameters : list of dict
        The parameters of each solution of ``front``, in its order.
    table : pandas.DataFrame
        The values and the parameters of each solution, by its id.
    """

    def __init__(self, directory: PathLike, problem: PythonFunction) -> None:
        super().__init__(directory)
        self.parameters = problem.arguments(self.front.X)

    @property
    def table(self) -> pd.DataFrame:
        """The solutions, one a row."""
        import pandas as pd

        rows = self.front.rows
        values = pd.DataFrame(dict(rows.values), index=pd.Index(rows.ids, name="id"))
        parameters = pd.DataFrame(self.parameters, index=values.index)
        twice = {name: f"{name} (parameter)" for name in values.columns}
        return values.join(parameters.rename(columns=twice))


def minimize(
    function: Callable[..., Any],
    space: Mapping[str, Any] | Sequence[Any],
    objectives: str | Sequence[str] | Mapping[str, Sense],
    *,
    budget: int | Mapping[str, Any] = 1_000,
    algorithm: str | Mapping[str, Any] = _SEARCH,
    vectorised: bool = False,
    seed: int = 0,
    workers: int | str = "auto",
    name: str | None = None,
    out: PathLike | None = None,
    address: str | None = None,
    track: bool = True,
    quiet: bool = False,
    plots: bool = True,
) -> Minimized:
    """Search the parameters of a function for the best trade-offs between its values.

    This is a full run: it has a journal that survives a crash, Ray workers, MLflow, a table of the
    front and a report. If ``out`` is the directory of a run that was stopped, or whose budget is
    larger now, that run goes on, after a few of its candidates have given the same values again.

    Parameters
    ----------
    function : callable
        It returns a number for each objective: a mapping by name, or numbers in order. An exception
        makes the candidate fail; a run with many failures stops.
    space : mapping of str to tuple or list, or sequence of these
        ``{"x": (0.0, 1.0), "n": (1, 10), "c": (1e-3, 1e3, "log"), "kernel": ["rbf", "linear"]}``:
        real numbers, whole numbers, real numbers on a logarithmic scale, choices. Parameters are
        passed by name; those of a sequence, which have no names, are passed as one list.
    objectives : str, sequence of str, or mapping of str to {'min', 'max'}
        Name of the value, or names of the values; they are minimised unless a mapping says ``max``.
    budget : int or mapping
        Number of evaluations, or a section ``budget``: ``{"generations": 50}``.
    algorithm : str or mapping
        A search by name, or ``{"kind": ..., ...}`` with its options; `paretolab list algorithms`.
    vectorised : bool
        Whether the function takes an array (n,) for each parameter and returns arrays (n,).
    seed : int
    workers : 'auto', 'serial', 'all' or int
    name : str, optional
        Name of the run; that of the function if None.
    out : path-like, optional
        Directory of a new run, or of one to go on with; ``runs/NAME-001``, ... if None.
    address, track, quiet, plots
        See :func:`paretolab.run`.

    Returns
    -------
    Minimized

    Raises
    ------
    InputError
        An argument cannot be used, or every call of the function failed.
    JournalError
        ``out`` is the run of another function, space or seed.

    Examples
    --------
    >>> import paretolab
    >>> def two(x, y):
    ...     return {"near": x**2 + y, "far": (x - 1) ** 2 + y}
    >>> result = paretolab.minimize(
    ...     two, {"x": (-2.0, 2.0), "y": (0, 5)}, ["near", "far"], budget=400,
    ...     track=False, quiet=True, plots=False,
    ... )
    >>> set(result.table["y"])
    {0}
    """
    problem = PythonFunction(function, space, objectives, vectorised=vectorised)
    raw = {
        "name": name or re.sub(r"[^\w.-]+", "", name_of(function)).strip("_.-") or "function",
        "problem": problem.section(),
        "objectives": [{"metric": m.name, "sense": m.sense} for m in problem.metrics],
        "budget": dict(budget) if isinstance(budget, Mapping) else {"evaluations": budget},
        "algorithm": dict(algorithm) if isinstance(algorithm, Mapping) else algorithm,
        "seed": seed,
        "workers": workers,
        **({} if track else {"tracking": None}),
    }
    with from_program(Path("minimize")):
        config = check(RunConfig, raw, Path("minimize"))
    options = options_of(address, quiet, plots)
    if out is not None and RunDir(Path(out)).config_file.exists():
        run_dir = RunDir.existing(out)
        _refuse_another(problem, run_dir)
        refuse_smaller(config, run_dir)
        execute(config, run_dir, options, problem)
    else:
        with new_run(config, None if out is None else os.fspath(out)) as run_dir:
            execute(config, run_dir, options, problem)
    result = Minimized(run_dir.path, problem)
    if not len(result.front):
        raise InputError(f"function: expected values, found none: {run_dir.why_empty()}")
    return result


def _some(rows: Evaluated) -> Evaluated:
    """Return a few evaluations that are spread over all."""
    return rows.take(evenly(len(rows), _AGAIN))


def _refuse_another(problem: PythonFunction, run_dir: RunDir) -> None:
    """Refuse to go on with a function that gives other values than a run has.

    A few of its candidates are evaluated again: the text of a function does not show what it
    captures and what it calls.

    Raises
    ------
    JournalError
    """
    if not run_dir.journal_file.is_file():
        return
    with run_dir.journal() as journal:
        batches = [_some(batch.take(batch.ok)) for batch in journal.evaluations()]
    if not sum(map(len, batches)):
        return
    some = _some(Evaluated.concat(batches))
    fits = some.X.shape[1] == problem.space.d and set(some.values) == set(problem.metric_names)
    if fits:
        X = some.X.astype(problem.space.dtype)
        again = evaluate_candidates(problem, 0, some.ids, X).values
        fits = all(np.array_equal(values, again[name]) for name, values in some.values.items())
    if not fits:
        raise JournalError(
            f"{run_dir.path}: expected a function that gives the values that the run has, found "
            "one that gives others for the same parameters (another function, or one that draws "
            "random numbers); give another out"
        )
