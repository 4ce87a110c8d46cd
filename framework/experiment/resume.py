"""Going on with a run: its configuration with changes, and with bounds it has met taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.errors import InputError
from framework.experiment.config import RunConfig, load_config
from framework.experiment.run_dir import RunDir

_LENGTHS = frozenset({"generations", "evaluations", "seconds"})
_BOUNDS = (*sorted(_LENGTHS), "patience")
_PREFIX = "budget."


def resumed_config(
    run_dir: RunDir,
    overrides: Sequence[str] = (),
    *,
    workers: str | int | None = None,
    report: Callable[[str], None],
) -> RunConfig:
    """Return the configuration with which a run goes on.

    Where generations, evaluations or seconds are given and another bound of the budget had ended
    the run, that one no longer counts: otherwise nothing would be evaluated.

    Parameters
    ----------
    run_dir : RunDir
    overrides : sequence of 'dotted.key=value'
    workers : 'auto', 'serial', 'all' or int, optional
    report : callable
        Called with a sentence for each bound that no longer counts.

    Raises
    ------
    InputError
        An override cannot be used, or makes the budget smaller than what is spent of it.
    """
    config = load_config(run_dir.config_file, overrides, workers=workers)
    _refuse_smaller(config, run_dir)
    given = {text.partition("=")[0].strip().removeprefix(_PREFIX) for text in overrides}
    if not given & _LENGTHS:
        return config
    met = {str(run.summary().get("stopped", "")) for run in run_dir.runs()}
    budget = config.budget
    for name in _BOUNDS:
        if name in met - given and getattr(budget, name) is not None:
            report(
                f"budget.{name} ({getattr(budget, name):,}), which had ended the run, no longer "
                "counts"
            )
            budget = budget.model_copy(update={name: None})
    return config.model_copy(update={"budget": budget})


def _refuse_smaller(config: RunConfig, run_dir: RunDir) -> None:
    """Refuse a bound that is smaller than before and than what is done: the front would shrink.

    Raises
    ------
    InputError
    """
    before = run_dir.config().budget
    for name in ("generations", "evaluations"):
        new, old = getattr(config.budget, name), getattr(before, name)
        if new is None or (old is not None and new >= old):
            continue
        spent = max(_spent(run)[name] for run in run_dir.runs())
        if new < spent:
            raise InputError(
                f"{_PREFIX}{name}: expected no fewer than the {spent:,} {name} that are done, "
                f"found {new:,}: the front would lose what it owes to the others; `paretolab run` "
                "with this budget makes a run of its own"
            )


def _spent(run: RunDir) -> dict[str, int]:
    """Return how many generations and evaluations a run has done; it may have been killed."""
    summary = run.summary()
    if summary:
        return {name: int(summary.get(name, 0)) for name in ("generations", "evaluations")}
    if not run.journal_file.is_file():
        return {"generations": 0, "evaluations": 0}
    with run.journal() as journal:
        batches, rows = journal.n_batches, journal.n_rows
    size = run.about().get("evaluations_per_generation")
    return {"generations": (rows // size if size else batches) - 1, "evaluations": rows}
