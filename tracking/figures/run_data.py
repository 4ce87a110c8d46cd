"""The content of the plots of a run, read from its directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from framework.analysis.alternatives import Compared
from framework.arrays import Array, FloatArray, IntArray, row_codes
from framework.batch import Evaluated
from framework.experiment.alternatives import read_alternatives
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.front import Archive, Front
from framework.journal import Journal
from framework.models.walk import Chosen
from framework.roles import Objective, Roles
from tracking.figures.style import axis_label

_SERIES = ("hypervolume", "front_size")
_POINTS, _FEWEST = 120, 30  # of a line of progress; the fewest where the front is large
_SORTED = 600_000  # solutions of fronts on the way that are sorted for it, about
_DRAWN = 2500  # solutions of the front drawn, at most
_FINEST = 1000  # cells of a grid an axis: a picture has no more pixels
_BACKGROUND = 2000  # points beside the front drawn, at most
_WIDE = 300.0  # amounts further apart than this are drawn on a logarithmic scale


class Background(NamedTuple):
    """Candidates that are no solutions, by metric: the objectives of some of them.

    Attributes
    ----------
    dominated : mapping of str to numpy.ndarray
        Those that a solution of the front dominates.
    infeasible : mapping of str to numpy.ndarray
        Those that break a constraint; nothing need dominate them.
    """

    dominated: Mapping[str, Array]
    infeasible: Mapping[str, Array]


@dataclass(frozen=True)
class RunData:
    """The content of the plots of one run.

    Attributes
    ----------
    title, subtitle : str
        The run's name; its data, algorithm and size.
    front : Front
    sources : sequence of RunDir
        The run or its repeats, those whose journals are there.
    position : int
        Of the chosen solution on the front, else of the recommended one; 0 where there is none.
    chosen : Chosen, optional
        How records go through that solution, where it is the run's model.
    whole : Front, optional
        All of the front, where ``front`` is what is drawn of it.
    measured : str
        What values that are not of test records are of.
    alternatives : sequence of Compared
        What a person would do without the search.
    """

    title: str
    subtitle: str
    front: Front
    sources: Sequence[RunDir]
    position: int = 0
    chosen: Chosen | None = None
    whole: Front | None = None
    measured: str = "on validation records"
    alternatives: Sequence[Compared] = ()

    @cached_property
    def progress(self) -> list[dict[str, FloatArray]]:
        """For each repeat ``evaluations``, ``front_size`` and, if bounded, ``hypervolume``.

        Arrays of 120 points or fewer.
        """
        points = max(_FEWEST, min(_POINTS, _SORTED // max(len(self.front), 1)))
        curves = []
        for source in self.sources:
            with source.journal() as journal:
                curves.append(_progress(journal, self.roles, points))
        return curves

    @cached_property
    def background(self) -> Background:
        """Some of the candidates that are no solutions, at most 2000 of all repeats together."""
        pieces = []
        for source in self.sources:
            with source.journal() as journal:
                step = max(1, journal.n_rows * len(self.sources) // _BACKGROUND)
                pieces += [b.take(b.ok & (b.ids % step == 0)) for b, _ in journal.batches()]
        return _background(pieces, self.whole or self.front)

    def reduced(self, most: int | None = None) -> RunData:
        """Return it with no more of the front's solutions than a picture, or ``most``, can show.

        Of solutions in one cell of a grid over all objectives the first is kept, and the chosen
        solution; the subtitle says how many.
        """
        most = _DRAWN if most is None else most
        if len(self.front) <= most:
            return self
        columns = []
        for objective in self.roles.objectives:
            values = self.front.rows.values[objective.metric]
            columns.append(np.log(values) if self.scale(objective) == "log" else values)
        drawn = np.union1d(_spread(np.column_stack(columns), most), [self.position])
        return replace(
            self,
            front=self.front.take(drawn),
            whole=self.front,
            position=int(np.searchsorted(drawn, self.position)),
            subtitle=f"{self.subtitle}, {len(drawn):,} drawn",
        )

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

    def points(self, one: Compared) -> FloatArray:
        """Return what an alternative has on the first two axes, (2, n): 0 is on none by ratios."""
        pair = self.axes()[:2]
        points = np.array([one.values[objective.metric] for objective in pair], dtype=np.float64)
        by_ratios = [self.scale(objective) == "log" for objective in pair]
        return points[:, (points[by_ratios] > 0).all(axis=0)]

    def label(self, objective: Objective) -> str:
        """Return an axis label: name, unit, and which way is better."""
        return axis_label(self.roles, objective)


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


def _progress(journal: Journal, roles: Roles, points: int) -> dict[str, FloatArray]:
    """Return the size and the hypervolume of the front against evaluations, so many points."""
    archive, evaluated = Archive(roles), 0
    bounded = bool(np.isfinite(roles.bounds()).all())
    rows = []
    for batch, _ in _joined(journal, -(-journal.n_batches // points)):
        archive.add(batch)
        evaluated += len(batch)
        rows.append((evaluated, len(archive), archive.hypervolume() if bounded else 0.0))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    names = ("evaluations", "front_size", "hypervolume")
    return dict(zip(names[: 2 + bounded], columns, strict=False))


def read_run_data(run_dir: RunDir) -> RunData:
    """Read the front and what is known of the data; journals are read where they are drawn."""
    front = run_dir.front()
    sources = [d for d in run_dir.runs() if d.journal_file.is_file()]
    rows = 0
    for source in sources:
        with source.journal() as journal:
            rows += journal.n_rows
    config = run_dir.config()
    repeats = f", {len(sources)} repeats" if len(sources) > 1 else ""
    subtitle = (
        f"{_data_text(run_dir)}{config.algorithm.kind}, seed {config.seed}{repeats}: "
        f"{len(front):,} solutions on the front of {rows:,} evaluated"
    )
    position = marked(run_dir, front) if len(front) else 0
    chosen = Chosen.read(run_dir.model)
    if chosen is not None and (not len(front) or chosen.solution != front.ids[position]):
        chosen = None  # of an earlier front, or choice
    measured = run_dir.data().get("measured")
    alternatives = [
        one
        for one in read_alternatives(run_dir.summary())
        if {*front.roles.names} <= one.values.keys()
    ]
    data = RunData(
        config.name, subtitle, front, sources, position, chosen, alternatives=alternatives
    )
    return replace(data, measured=str(measured)) if measured else data


def _data_text(run_dir: RunDir) -> str:
    about_data = run_dir.data()
    if not about_data.get("name"):
        return ""
    sizes = ", ".join(
        f"{about_data[key]:,} {key}"
        for key in ("records", "features", "models")
        if about_data.get(key)
    )
    return f"{about_data['name']} ({sizes}) · " if sizes else f"{about_data['name']} · "


def _spread(values: FloatArray, most: int) -> IntArray:
    """Return positions of rows, at most so many: of those in one cell of a grid the first."""
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    shares = (values - low) / np.where(high > low, high - low, 1.0)
    cells = _FINEST
    while True:
        spread = np.unique(row_codes(np.floor(shares * cells)), return_index=True)[1]
        if len(spread) <= most:
            return np.sort(spread)
        cells = cells * 4 // 5


def _background(pieces: list[Evaluated], front: Front) -> Background:
    """Return the objectives of rows that break a constraint, and of those that are dominated.

    A row with the values of a solution is neither.
    """
    roles = front.roles
    values = {
        name: np.concatenate([piece.values[name] for piece in pieces] or [np.zeros(0)])
        for name in roles.metrics
    }
    feasible = roles.violation(values) == 0
    best = set(map(tuple, front.losses.tolist()))
    others = [row not in best for row in map(tuple, roles.losses(values).tolist())]
    dominated = feasible & np.array(others, dtype=bool)
    return Background(
        {name: values[name][dominated] for name in roles.names},
        {name: values[name][~feasible] for name in roles.names},
    )
