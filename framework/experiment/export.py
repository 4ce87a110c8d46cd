"""From a solution of a front to a model directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.analysis.choose import choose
from framework.analysis.mixture import Mixture
from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.front import Front
from framework.plain_files import read_object
from framework.problem import Deployable, Problem


def load_problem(run_dir: RunDir) -> Problem:
    """Return the problem of a run, its data loaded again.

    Raises
    ------
    InputError
        The data are not those of the run, or cannot be read.
    """
    problem = make_problem(run_dir.config())
    if problem.fingerprint != run_dir.about().get("fingerprint"):
        raise InputError(
            f"{run_dir.path}: expected the data and the version of paretolab that the run was made "
            "with, found others; the front may not belong to them, run it again"
        )
    return problem


def marked(run_dir: RunDir, front: Front) -> int:
    """Return the position of the user's choice; of the recommended solution where there is none."""
    chosen = run_dir.choice()
    if chosen is not None and chosen in front.ids:
        return int(np.flatnonzero(front.ids == chosen)[0])
    return choose(front)


def exported_solution(directory: Path) -> int | None:
    """Return the id of the solution whose model lies there; None where that cannot be read."""
    try:
        return int(read_object(directory / "model.json", "a model")["about"]["solution"])
    except (InputError, OSError, ValueError, KeyError, TypeError):
        return None


def export_mixture(
    problem: Problem, front: Front, mixture: Mixture, directory: Path, about: Mapping[str, Any]
) -> bool:
    """Write the mixture of several solutions as one model; see :func:`export`.

    The lots are drawn from the seed 0, in the order of the records.
    """
    if not isinstance(problem, Deployable):
        return False
    import pandas as pd

    from framework.models.mixture import MixtureClassifier
    from framework.models.model import DeployableModel
    from framework.models.store import save_model

    members = [problem.decode(front.X[i].astype(problem.space.dtype)) for i in mixture.positions]
    if not all(isinstance(member, DeployableModel) for member in members):
        return False
    model = MixtureClassifier.from_fitted(members, mixture.chances, expected=mixture.expected)
    test = {
        name: float(mixture.chances @ column[mixture.positions])
        for name, column in (front.test or {}).items()
        if name in mixture.expected
    }
    noted = {
        **about,
        "solutions": front.ids[mixture.positions].tolist(),
        "validation": dict(mixture.expected),
        "test": test,
        "data": {key: problem.describe().get(key) for key in ("name", "source", "fingerprint")},
    }
    save_model(model, directory, noted, None, pd.DataFrame(dict(problem.example())))
    return True


def export(
    problem: Problem, front: Front, position: int, directory: Path, about: Mapping[str, Any]
) -> bool:
    """Write the model of one solution, with a few example records if the problem has some.

    A model that is already in the directory is replaced.

    Parameters
    ----------
    problem : Problem
    front : Front
    position : int
        Of the solution in the front.
    directory : pathlib.Path
    about : mapping
        Noted with the model, besides the solution's id and metrics.

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

    model = problem.decode(front.X[position].astype(problem.space.dtype))
    if not isinstance(model, DeployableModel):
        return False
    identifier = problem.describe().get("identifier")
    model.keeps = () if identifier is None else (str(identifier),)
    metrics = {name: float(column[position]) for name, column in front.rows.values.items()}
    test = {name: float(column[position]) for name, column in (front.test or {}).items()}
    solution = {"solution": int(front.ids[position]), "validation": metrics, "test": test}
    data = {key: problem.describe().get(key) for key in ("name", "source", "fingerprint")}
    save_model(
        model,
        directory,
        {**about, **solution, "data": data},
        problem.walk(model),
        pd.DataFrame(dict(problem.example())),
    )
    return True
