"""From a solution of a front to a model directory; of an experiment, the best of each case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.analysis.hulls import recommend
from framework.analysis.mixtures import Mixture
from framework.capabilities import TrivialClassifier
from framework.errors import InputError
from framework.experiment.config import check
from framework.experiment.options import ProblemOptions
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.front import Front, Promise, span
from framework.problem import Deployable, Problem
from framework.security import check_no_links, read_object, received

if TYPE_CHECKING:
    import pandas as pd

_MODEL_FILE = "model.json"
_BEST_BY = ("hypervolume_expected", "hypervolume")
_IDENTITY = ("run", "seed", "solution", "solutions", "validation", "data")


def load_problem(run_dir: RunDir) -> Problem:
    """Return the problem of a run, its data loaded again.

    Raises
    ------
    InputError
        The data are not those of the run, cannot be read, or lie where the user has not allowed it.
    """
    problem = make_problem(
        run_dir.config().model_copy(update={"problem": problem_options(run_dir)})
    )
    run_dir.check_problem(problem)
    return problem


def problem_options(run_dir: RunDir) -> ProblemOptions:
    """Return the options of a run's problem; refuse data that lie where the user allowed none."""
    config = run_dir.config()
    with received(run_dir.config_file, raw=config.model_dump(mode="json")):
        return check(ProblemOptions, config.problem, f"{run_dir.config_file}: problem")


def marked(run_dir: RunDir, front: Front) -> int:
    """Return the position of the solution that the user chose, else of the recommended one."""
    chosen = run_dir.choice()
    if chosen is not None and chosen in front.ids:
        return int(np.flatnonzero(front.ids == chosen)[0])
    return recommend(front, run_dir.anchors())


def exported_solution(directory: Path) -> int | None:
    """Return the id of the solution whose model a directory holds; None if it cannot be read."""
    try:
        return int(read_object(directory / _MODEL_FILE, "a model")["about"]["solution"])
    except (InputError, OSError, ValueError, KeyError, TypeError):
        return None


def _refuse_other(directory: Path, about: Mapping[str, Any]) -> None:
    """Refuse a directory with the model of another solution or run than ``about`` says."""
    if not (directory / _MODEL_FILE).is_file():
        return
    check_no_links(directory, "a model")
    try:
        present = dict(read_object(directory / _MODEL_FILE, "a model")["about"])
    except (InputError, KeyError, TypeError, ValueError):
        present = {}
    # as texts, as a metric that is NaN does not equal itself
    ours, theirs = (
        json.dumps({key: noted.get(key) for key in _IDENTITY}, sort_keys=True)
        for noted in (about, present)
    )
    if ours == theirs:
        return
    number = present.get("solution", present.get("solutions"))
    what = f"solution {number!r} of run {present.get('run')!r}" if present else "something else"
    raise InputError(
        f"--export {directory}: expected a new directory, or one with the model of this very "
        f"solution, found the model of {what}; give another directory, as nothing of yours is "
        "overwritten"
    )


def export_mixture(
    problem: Problem,
    front: Front,
    trivial: Sequence[TrivialClassifier],
    mixture: Mixture,
    directory: Path,
    about: Mapping[str, Any],
) -> bool:
    """Write the mixture of several solutions as one model; see :func:`export`.

    ``front`` has the trivial classifiers behind its solutions. A hash of a record's values, with
    the key 0, decides which member answers it. The model of something else is not overwritten.
    """
    if not isinstance(problem, Deployable):
        return False
    from framework.models.mixture import MixtureClassifier
    from framework.models.model import DeployableModel

    ids = front.ids[mixture.positions].tolist()
    members = [
        constant(trivial[-1 - id])
        if id < 0
        else problem.decode(front.X[i].astype(problem.space.dtype))
        for i, id in zip(mixture.positions, ids, strict=True)
    ]
    if not all(isinstance(member, DeployableModel) for member in members):
        return False
    model = MixtureClassifier.from_fitted(members, mixture.chances, expected=mixture.expected)
    test = {
        name: float(mixture.chances @ column[mixture.positions])
        for name, column in (front.test or {}).items()
        if name in mixture.expected
    }
    solutions = [trivial[-1 - id].name if id < 0 else id for id in ids]
    noted = {**about, "solutions": solutions, "validation": dict(mixture.expected), "test": test}
    _save(problem, model, directory, noted)
    return True


def export_trivial(
    problem: Problem,
    trivial: TrivialClassifier,
    directory: Path,
    about: Mapping[str, Any],
    *,
    note: str = "",
) -> None:
    """Write a trivial classifier as a model; the model of something else is not overwritten.

    Raises
    ------
    InputError
        The directory holds something else, or cannot be written.
    """
    solution = {"solutions": [trivial.name], "validation": dict(trivial.values)}
    noted = {**about, **solution, "test": dict(trivial.test or {})}
    _save(problem, constant(trivial, note), directory, noted)


def _save(problem: Problem, model: Any, directory: Path, noted: Mapping[str, Any]) -> None:
    """Write a model that is of no single solution, unless the directory holds something else."""
    import pandas as pd

    from framework.models.store import save_model

    noted = {**noted, "data": _data(problem)}
    _refuse_other(directory, noted)
    example = pd.DataFrame(dict(problem.example())) if isinstance(problem, Deployable) else None
    save_model(model, directory, noted, None, example)


def constant(trivial: TrivialClassifier, note: str = "") -> Any:
    """Return the model of a trivial classifier."""
    from framework.models.constant import ConstantClassifier

    return ConstantClassifier.from_label(trivial.label, trivial.classes, note=note)


def export(
    problem: Problem,
    front: Front,
    position: int,
    directory: Path,
    about: Mapping[str, Any],
    promises: Mapping[str, Promise] | None = None,
    *,
    replaces: bool = True,
) -> bool:
    """Write the model of one solution, with a few example records if the problem has some.

    Parameters
    ----------
    problem : Problem
    front : Front
    position : int
        Of the solution in the front.
    directory : pathlib.Path
    about : mapping
        What is noted with the model, in addition to the solution's id and metrics.
    promises : mapping of str to Promise, optional
        What to expect of the solution on new records, as a rule chose it; by default, what the
        front says.
    replaces : bool
        Whether the model of another solution, or of another run, is replaced.

    Returns
    -------
    bool
        Whether the solution is a model, and of a kind that has an open format.

    Raises
    ------
    InputError
        The directory holds something else, or cannot be written.
    """
    if not isinstance(problem, Deployable):
        return False
    import pandas as pd

    from framework.models.model import DeployableModel
    from framework.models.store import save_model

    solution, promised = noted_of(front, position, promises)
    noted = {**about, **solution, "data": _data(problem)}
    if not replaces:
        _refuse_other(directory, noted)
    model = problem.decode(front.X[position].astype(problem.space.dtype))
    if not isinstance(model, DeployableModel):
        return False
    model.take_promises(promised)
    identifier = problem.describe().get("identifier")
    model.keeps = () if identifier is None else (str(identifier),)
    example = pd.DataFrame(dict(problem.example()))
    save_model(model, directory, noted, problem.walk(model), example)
    return True


def noted_of(
    front: Front, position: int, promises: Mapping[str, Promise] | None = None
) -> tuple[dict[str, Any], dict[str, Promise]]:
    """Return what is noted with the model of a solution, and what to expect of it."""
    metrics = {name: float(column[position]) for name, column in front.rows.values.items()}
    test = {name: float(column[position]) for name, column in (front.test or {}).items()}
    solution = {"solution": int(front.ids[position]), "validation": metrics, "test": test}
    promised = dict(front.promises(position) if promises is None else promises)
    promised = {name: p for name, p in promised.items() if not front.roles.metrics[name].size}
    if promised:
        solution["expected on new records"] = {name: p.expected for name, p in promised.items()}
        solution["95% range"] = {
            name: span(f"{p.low:.4g}", f"{p.high:.4g}") for name, p in promised.items()
        }
    return solution, promised


def _data(problem: Problem) -> dict[str, Any]:
    """Return what is noted of the data that a model was made with."""
    about = problem.describe()
    measured = {key: about[key] for key in ("measured", "measure") if key in about}
    return {**{key: about.get(key) for key in ("name", "source", "fingerprint")}, **measured}


def champions(experiment: RunDir) -> dict[str, RunDir]:
    """Return the run of each case with the largest hypervolume; of equal ones, the first.

    The hypervolume is the one expected on new records; if fronts have no expected figures, that on
    the records of the search.

    Raises
    ------
    InputError
        The experiment has no table of runs yet, or does not compare them by hypervolume.
    """
    table: pd.DataFrame = experiment.listing("tables/runs")
    by = next((name for name in _BEST_BY if name in table and table[name].notna().all()), None)
    if by is None or not {"case", "directory"} <= set(table):
        raise InputError(
            f"{experiment.path}: expected an experiment with the indicator hypervolume, which "
            f"tells the best run of each case, found the columns {', '.join(map(str, table))}"
        )
    by_directory = {
        run.path.relative_to(experiment.path).as_posix(): run for run in experiment.children()
    }
    by_case = {}
    for case, runs in table.groupby("case", sort=False):
        directory = str(runs["directory"].iloc[int(runs[by].argmax())])
        if directory not in by_directory:
            raise InputError(
                f"{experiment.path}: expected the run {directory} of its table, found no such one; "
                "run the experiment again"
            )
        by_case[str(case)] = by_directory[directory]
    return by_case


def write_model(run: RunDir) -> None:
    """Write the model of a run of an experiment: of the solution chosen, else the recommended one.

    Raises
    ------
    InputError
        The front is empty, its solutions are no models, or the data are not those of the run.
    """
    front = run.front()
    if len(front):
        position, problem = marked(run, front), load_problem(run)
        if export(problem, front, position, run.model, run.origin()):
            return
    raise InputError(
        f"{run.path}: expected a run whose solutions are models to deploy, found "
        f"{'an empty front' if not len(front) else run.config().problem.kind}"
    )
