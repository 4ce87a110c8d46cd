"""The data of the plots of a run, read from its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from framework.analysis.alternatives import Compared
from framework.arrays import Array, FloatArray, IntArray, row_codes
from framework.batch import Evaluated
from framework.errors import damaged
from framework.experiment.alternatives import read_alternatives
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.front import Archive, Front
from framework.journal import Journal
from framework.models.walk import Chosen
from framework.roles import Objective, Roles
from tracking.figures.style import axis_label

_POINTS, _FEWEST = 120, 30  # on a line of progress at most, and at least
_SORTED = 600_000  # solutions of fronts that are sorted for a line of progress, about
_DRAWN = 2500  # solutions of the front that are drawn, at most
_FINEST = 1000  # cells of a grid along an axis: a picture does not have more pixels
_BACKGROUND = 2000  # points that are drawn beside the front, at most
_SIZES = ("records", "features", "models")
_WIDE = 300.0  # ratio of amounts above which an axis is logarithmic


class Background(NamedTuple):
    """The objectives, by metric, of some candidates that are not on the front.

    Attributes
    ----------
    dominated : mapping of str to numpy.ndarray
        Candidates that a solution of the front dominates.
    infeasible : mapping of str to numpy.ndarray
        Candidates that break a constraint, whether dominated or not.
    """

    dominated: Mapping[str, Array]
    infeasible: Mapping[str, Array]


@dataclass(frozen=True)
class RunData:
    """The data of the plots of one run.

    Attributes
    ----------
    title, subtitle : str
        The run's name; its data, algorithm and size.
    front : Front
    sources : sequence of RunDir
        The run, or its repeats, as far as their journals exist.
    position : int
        Position on the front of the chosen solution, or else of the recommended one; 0 for an
        empty front.
    chosen : Chosen, optional
        The walk of records through that solution, if it is the run's model.
    whole : Front, optional
        The whole front, if ``front`` is only the part that is drawn.
    measured : str
        The records on which values were measured, other than those of the test.
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
        """``evaluations``, ``front_size`` and, if bounded, ``hypervolume`` for each repeat.

        They are arrays of at most 120 points.
        """
        points = max(_FEWEST, min(_POINTS, _SORTED // max(len(self.front), 1)))
        curves = []
        for source in self.sources:
            with source.journal() as journal:
                curves.append(_progress(journal, self.roles, points))
        return curves

    @cached_property
    def background(self) -> Background:
        """Some of the candidates that are not on the front, at most about 2000 of all repeats."""
        pieces = []
        for source in self.sources:
            with source.journal() as journal:
                step = max(1, journal.n_rows * len(self.sources) // _BACKGROUND)
                pieces += [b.take(b.ok & (b.ids % step == 0)) for b in journal.evaluations()]
        return _background(pieces, self.whole or self.front)

    def reduced(self, most: int | None = None) -> RunData:
        """Return data with at most ``most`` solutions, by default as many as a picture can show.

        The first solution in each cell of a grid over all objectives remains, and the chosen
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
    def roles(self) -> Roles:
        """Objectives and constraints of the front."""
        return self.front.roles

    def scale(self, objective: Objective) -> Literal["linear", "log"]:
        """Return the scale of an axis: logarithmic for amounts of several orders of magnitude."""
        values = self.front.rows.values[objective.metric]
        amount = self.roles.metrics[objective.metric].kind == "ratio"
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return "log" if amount and 0 < low * _WIDE < high else "linear"

    def points(self, alternative: Compared) -> FloatArray:
        """Return the points of an alternative over the first two axes, (2, n), as far as drawable.

        A value of 0 is not on a logarithmic axis.
        """
        pair = self.roles.drawn()[:2]
        points = np.array([alternative.values[o.metric] for o in pair], dtype=np.float64)
        logarithmic = [self.scale(objective) == "log" for objective in pair]
        return points[:, (points[logarithmic] > 0).all(axis=0)]

    def label(self, objective: Objective) -> str:
        """Return an axis label: name, unit, and which way is better."""
        return axis_label(self.roles, objective)


def _progress(journal: Journal, roles: Roles, points: int) -> dict[str, FloatArray]:
    """Return the size and the hypervolume of the front by evaluations, at ``points`` points."""
    archive, evaluated = Archive(roles), 0
    bounded = bool(np.isfinite(roles.bounds()).all())
    rows, step = [], -(-journal.n_batches // points)  # of batches: some have a candidate each
    for number, batch in enumerate(journal.evaluations(), start=1):
        archive.add(batch)
        evaluated += len(batch)
        if number % step == 0 or number == journal.n_batches:
            rows.append((evaluated, len(archive), archive.hypervolume() if bounded else 0.0))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    names = ("evaluations", "front_size", "hypervolume")
    return dict(zip(names[: 2 + bounded], columns, strict=False))


def read_run_data(run_dir: RunDir) -> RunData:
    """Read the front and the description of the data; journals are read only when needed."""
    front = run_dir.front()
    sources = [d for d in run_dir.runs() if d.journal_file.is_file()]
    rows = 0
    for source in sources:
        with source.journal() as journal:
            rows += journal.n_rows
    config, about_data, sizes = run_dir.config(), run_dir.data(), sizes_text(run_dir)
    searched = (
        f"{about_data['name']}{f' ({sizes})' if sizes else ''} · " if about_data.get("name") else ""
    )
    repeats = f", {len(sources)} repeats" if len(sources) > 1 else ""
    subtitle = (
        f"{searched}{config.algorithm.kind}, seed {config.seed}{repeats}: "
        f"{len(front):,} solution{'s'[: len(front) != 1]} on the front of {rows:,} evaluated"
    )
    position = marked(run_dir, front) if len(front) else 0
    chosen = Chosen.read(run_dir.model)
    if chosen is not None and (not len(front) or chosen.solution != front.ids[position]):
        chosen = None  # the model is that of an earlier front or choice
    alternatives = [
        alternative
        for alternative in read_alternatives(run_dir.summary())
        if {*front.roles.names} <= alternative.values.keys()
    ]
    measured = str(about_data.get("measured") or RunData.measured)
    return RunData(
        config.name,
        subtitle,
        front,
        sources,
        position,
        chosen,
        measured=measured,
        alternatives=alternatives,
    )


def sizes_text(run_dir: RunDir) -> str:
    """Return the sizes of a run's data in words, as far as they are known."""
    data = run_dir.data()
    with damaged(run_dir.about_file, "sizes of the data"):
        sizes = [f"{data[key]:,} {key}" for key in _SIZES if data.get(key)]
    return ", ".join(sizes)


def _spread(values: FloatArray, most: int) -> IntArray:
    """Return positions of at most ``most`` rows: the first in each cell of a grid."""
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

    Feasible rows with the same values as a solution are left out.
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
