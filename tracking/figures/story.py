"""The content of the plots of a run, read from its directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal
from framework.models.routing import Chosen
from framework.roles import Objective, Roles
from tracking.mlflow_log.describe import about
from tracking.mlflow_log.history import History

_SERIES = ("hypervolume", "front_size")
_POINTS = 120  # of a line of progress, at most
_BACKGROUND = 2000  # dominated points drawn, at most
_WIDE = 300.0  # amounts further apart than this are drawn on a logarithmic scale


@dataclass(frozen=True)
class Story:
    """The content of the plots of one run.

    Attributes
    ----------
    title, subtitle : str
        The run's name; its data, algorithm and size.
    front : Front
    background : mapping of str to numpy.ndarray
        Some of the candidates that are not on the front, by metric.
    progress : sequence of mappings of str to numpy.ndarray, shape (points,)
        For each repeat ``evaluations``, ``front_size`` and, where the objectives are bounded,
        ``hypervolume``, at 120 points or fewer.
    position : int
        Of the chosen design on the front, else of the recommended one; 0 where there is none.
    chosen : Chosen, optional
        How records go through that design, where it is the run's model.
    """

    title: str
    subtitle: str
    front: Front
    background: Mapping[str, Array]
    progress: Sequence[Mapping[str, FloatArray]]
    position: int = 0
    chosen: Chosen | None = None

    @property
    def series(self) -> list[str]:
        """Return the names in ``progress`` that are drawn against evaluations."""
        return [name for name in self.progress[0] if name in _SERIES]

    @property
    def roles(self) -> Roles:
        """Objectives and constraints of the front."""
        return self.front.roles

    def axes(self) -> list[Objective]:
        """Return the objectives in the order of drawing: x (what it costs), y, colour, rest."""
        return list(self.roles.drawn())

    def scale(self, objective: Objective) -> Literal["linear", "log"]:
        """Return how an axis is divided: amounts of several orders of magnitude by ratios."""
        values = self.front.rows.values[objective.metric]
        amount = self.roles.metrics[objective.metric].kind == "ratio"
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return "log" if amount and 0 < low * _WIDE < high else "linear"

    def label(self, objective: Objective) -> str:
        """Return an axis label: name, unit, and which way is better."""
        unit = self.roles.metrics[objective.metric].unit
        text = spoken(objective.metric) + (f" ({unit})" if unit else "")
        better = "↑ better" if objective.sense == "max" else "↓ better"
        return f"{text}  {better}"


def _joined(journal: Journal, together: int) -> Iterator[tuple[Evaluated, float]]:
    """Yield the batches of a journal, so many as one; a steady-state search has one a row."""
    waiting: list[Evaluated] = []
    seconds = 0.0
    for batch, seconds in journal.batches():
        waiting.append(batch)
        if len(waiting) == together:
            yield Evaluated.concat(waiting), seconds
            waiting = []
    if waiting:
        yield Evaluated.concat(waiting), seconds


def read_story(run_dir: RunDir) -> Story:
    """Read the front, the journals and what is known of the data."""
    front = run_dir.front()
    sources = [d for d in run_dir.runs() if d.journal_file.is_file()]
    progress, pieces, rows = [], [], 0
    for source in sources:
        history = History(front.roles, front.gene_names)
        with source.journal() as journal:
            together = -(-journal.n_batches // _POINTS)
            added = [history.add(batch, s) for batch, s in _joined(journal, together)]
            points = [generation.metrics for generation in added if generation is not None]
            step = max(1, history.evaluations * len(sources) // _BACKGROUND)
            seen = [
                batch.take(batch.ok & (batch.ids % step == 0)) for batch, _ in journal.batches()
            ]
        rows += history.evaluations
        pieces += seen
        names = ["evaluations", *(name for name in _SERIES if points and name in points[0])]
        progress.append({name: np.array([p[name] for p in points]) for name in names})
    config = run_dir.config()
    repeats = f", {len(sources)} repeats" if len(sources) > 1 else ""
    subtitle = (
        f"{_data(run_dir)}{config.algorithm['kind']}, seed {config.seed}{repeats}: {len(front)} "
        f"solutions on the front of {rows:,} evaluated"
    )
    position = marked(run_dir, front) if len(front) else 0
    chosen = Chosen.read(run_dir.model)
    if chosen is not None and (not len(front) or chosen.solution != front.ids[position]):
        chosen = None  # of an earlier front, or choice
    background = _dominated(pieces, front)
    return Story(config.name, subtitle, front, background, progress, position, chosen)


def spoken(metric: str) -> str:
    """Return a metric's name as it is read."""
    return metric.replace("_", " ")


def _data(run_dir: RunDir) -> str:
    data = about(run_dir).get("data") or {}
    if not data.get("name"):
        return ""
    sizes = ", ".join(
        f"{data[key]:,} {key}" for key in ("records", "features", "models") if data.get(key)
    )
    return f"{data['name']} ({sizes}) · " if sizes else f"{data['name']} · "


def _dominated(pieces: list[Evaluated], front: Front) -> dict[str, Array]:
    """Return the rows that differ from all solutions of the front, by metric."""
    values = {
        name: np.concatenate([piece.values[name] for piece in pieces] or [np.zeros(0)])
        for name in front.roles.names
    }
    best = set(map(tuple, front.losses.tolist()))
    others = [row not in best for row in map(tuple, front.roles.losses(values).tolist())]
    keep = np.array(others, dtype=bool)
    return {name: column[keep] for name, column in values.items()}
