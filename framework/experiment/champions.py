"""The best run of each case of an experiment, and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.errors import InputError
from framework.experiment.export import export, load_problem, marked
from framework.experiment.run_dir import RunDir

if TYPE_CHECKING:
    import pandas as pd

_BY = ("hypervolume_expected", "hypervolume")


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
    by = next((name for name in _BY if name in table and table[name].notna().all()), None)
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
    front, config = run.front(), run.config()
    if len(front):
        position, problem = marked(run, front), load_problem(run)
        about = {"run": config.name, "seed": config.seed}
        if export(problem, front, position, run.model, about):
            return
    raise InputError(
        f"{run.path}: expected a run whose solutions are models to deploy, found "
        f"{'an empty front' if not len(front) else config.problem.kind}"
    )
