"""The plots of a run: its front, its progress, and how validation holds up on test records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.front import Front
from framework.roles import Objective, Roles
from framework.rundir import RunDir
from tracking.describe import about
from tracking.history import History

_BACKGROUND = 2000  # dominated points drawn, at most


@dataclass(frozen=True)
class Story:
    """What the plots of one run show.

    Attributes
    ----------
    title, subtitle : str
        The run's name; its data, algorithm and size.
    front : Front
    background : mapping of str to numpy.ndarray
        Some of the candidates that are not on the front, by metric.
    progress : mapping of str to numpy.ndarray, shape (generations,)
        ``front_size`` and, where the objectives are bounded, ``hypervolume``.
    """

    title: str
    subtitle: str
    front: Front
    background: Mapping[str, Array]
    progress: Mapping[str, FloatArray]

    @property
    def roles(self) -> Roles:
        return self.front.roles

    def axes(self) -> list[Objective]:
        """Return the objectives in the order of drawing: x (what it costs), y, colour, rest."""
        objectives = list(self.roles.objectives)
        amounts = [o for o in objectives if self.roles.measures[o.metric].kind == "amount"]
        x = amounts[0] if amounts else objectives[-1]
        return [x, *(o for o in objectives if o is not x)]

    def label(self, objective: Objective) -> str:
        """Return an axis label: name, unit, and which way is better."""
        unit = self.roles.measures[objective.metric].unit
        text = spoken(objective.metric) + (f" ({unit})" if unit else "")
        better = "↑ better" if objective.sense == "max" else "↓ better"
        return f"{text}  {better}"


def write_plots(run_dir: RunDir) -> list[Path]:
    """Write the plots of a run that has a front to ``plots/``; return their paths.

    ``front``, ``progress`` (.png and .html, the latter in one file that needs no network) and,
    where there are test metrics, ``test.png``. A front of a single objective is not drawn.
    """
    from tracking import figures_html, figures_png

    story = read_story(run_dir)
    run_dir.plots.mkdir(exist_ok=True)
    drawings = {"progress.png": figures_png.progress, "progress.html": figures_html.progress}
    if len(story.roles.objectives) > 1 and len(story.front):
        drawings |= {"front.png": figures_png.front, "front.html": figures_html.front}
    if story.front.test and len(story.front):
        drawings["test.png"] = figures_png.validation_and_test
    for name, draw in drawings.items():
        draw(story, run_dir.plots / name)
    return [run_dir.plots / name for name in sorted(drawings)]


def read_story(run_dir: RunDir) -> Story:
    """Read front, journal and what is known of the data."""
    front = run_dir.front()
    history = History(front.roles, front.gene_names)
    with run_dir.journal() as journal:
        generations = [history.add(batch, seconds).metrics for batch, seconds in journal.batches()]
        dominated = _dominated(
            (batch for batch, _ in journal.batches()), front, history.evaluations
        )
    names = [name for name in ("hypervolume", "front_size") if name in generations[-1]]
    progress = {name: np.array([metrics[name] for metrics in generations]) for name in names}
    config = run_dir.config()
    subtitle = (
        f"{_data(run_dir)}{config.algorithm['kind']}, seed {config.seed}: {len(front)} solutions "
        f"on the front of {history.evaluations:,} evaluated"
    )
    return Story(config.name, subtitle, front, dominated, progress)


def spoken(metric: str) -> str:
    """Return a metric's name as it is read."""
    return metric.replace("_", " ")


def _data(run_dir: RunDir) -> str:
    data = about(run_dir).get("data")
    if not data:
        return ""
    return f"{data['name']} ({data['records']:,} records, {data['features']:,} features) · "


def _dominated(batches: Iterable[Evaluated], front: Front, rows: int) -> dict[str, Array]:
    """Return evenly chosen successful rows that are not on the front."""
    step = max(1, rows // _BACKGROUND)
    pieces: list[Evaluated] = []
    for batch in batches:
        wanted = batch.ok & (batch.ids % step == 0) & ~np.isin(batch.ids, front.ids)
        if wanted.any():
            pieces.append(batch.take(wanted))
    if not pieces:
        return {name: np.zeros(0) for name in front.roles.names}
    return dict(Evaluated.concat(pieces).values)
