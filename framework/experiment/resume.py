"""Going on with a run: its configuration with changes, and with bounds it has met taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        An override cannot be used.
    """
    config = load_config(run_dir.config_file, overrides, workers=workers)
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
