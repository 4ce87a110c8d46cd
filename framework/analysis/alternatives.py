"""Whether a search was worth it: its front against what a person would do without one.

An alternative is a set of points, such as a classifier with each of several thresholds. For each of
its points and each objective we ask: with the point's values of the other objectives as limits,
what is the best value in this objective that the search found, and by how much is it better?

The search offers the best of many designs, whereas a point was not chosen. The comparison is
therefore repeated in resamples of the records, with a new choice among the designs in each, and the
mean gain of choosing is subtracted (see :mod:`~framework.analysis.expectations`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from framework.analysis.choose import loss, losses_of
from framework.analysis.ranges import NORMAL, gain_share, moments
from framework.analysis.resample_fronts import ResampleFronts, best_first, least_deep, spans
from framework.analysis.resamples import Resamples, nearest_of
from framework.arrays import Array, FloatArray, IntArray
from framework.capabilities import Alternative
from framework.errors import first_few
from framework.front import Front
from framework.roles import Roles

_RESAMPLES = 200
_WORK = 1e9  # candidates x records x resamples that are evaluated at most
_FEWEST = 100  # candidates that are evaluated however long they take


@dataclass(frozen=True)
class Gain:
    """How much better the search is in one objective, as means over points; positive is better.

    Attributes
    ----------
    points : int
        How many points of the alternative can be compared: some solution is at least as good in
        all other objectives. The figures are means over these points.
    claimed, expected, low, high : float
        The gain on the records of the search; the same less the gain of choosing; its 95% range.
    of : float
        The mean value of the alternative at these points.
    test : float or None
        The gain on the test records, for information only.
    """

    points: int
    claimed: float
    expected: float
    low: float
    high: float
    of: float
    test: float | None = None


@dataclass(frozen=True)
class Compared:
    """An alternative beside a front.

    Attributes
    ----------
    name : str
    points : tuple of str
        The names of its points.
    values, test : mapping of str to list of float
        The objectives at each point; ``test`` is empty without test records.
    gains : mapping of str to Gain
        By objective; only objectives in which some point can be compared.
    dominated : int
        How many solutions of the front are in no objective better than some point.
    """

    name: str
    points: tuple[str, ...]
    values: Mapping[str, list[float]]
    test: Mapping[str, list[float]]
    gains: Mapping[str, Gain]
    dominated: int = 0

    @property
    def beaten(self) -> bool:
        """Whether in some objective the range is above 0, at no less than half of the points."""
        return any(self._won(gain) for gain in self.gains.values())

    def _won(self, gain: Gain) -> bool:
        return gain.low > 0 and 2 * gain.points >= len(self.points)

    def decisive(self) -> tuple[str, Gain]:
        """Return an objective and its gain: the surest that wins, else that of the most points."""

        def key(item: tuple[str, Gain]) -> tuple[bool, float, float]:
            gain = item[1]
            half = max((gain.high - gain.low) / 2, 1e-12)
            won = self._won(gain)
            return won, 0 if won else gain.points, gain.expected / half

        return max(self.gains.items(), key=key)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {**asdict(self), "points": list(self.points)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Compared:
        """Read what :meth:`to_json` wrote; raise ValueError for anything else."""
        compared = TypeAdapter(cls).validate_python(plain)
        columns = [*compared.values.values(), *compared.test.values()]
        if any(len(column) != len(compared.points) for column in columns):
            raise ValueError("columns of other lengths")
        return compared


def compare_alternatives(
    resamples: Resamples,
    front: Front,
    positions: IntArray,
    claimed: Mapping[str, Array],
    alternatives: Sequence[Alternative],
) -> list[Compared]:
    """Compare alternatives with a front.

    Parameters
    ----------
    resamples : Resamples
        Resamples of the outcomes of all designs evaluated.
    front : Front
    positions : numpy.ndarray of int64, shape (n,)
        The positions of its solutions among the designs.
    claimed : mapping of str to numpy.ndarray, shape (designs,)
        The metrics of all designs on all records.
    alternatives : sequence of Alternative
        Their outcomes must be of the same records, in the same order.
    """
    drawn, losses = resamples.first(_RESAMPLES), losses_of(front.roles, claimed)
    span = spans(losses[:, positions])
    most = max(int(_WORK / (drawn.outcomes.records * _RESAMPLES)), _FEWEST, len(positions))
    pool = best_first(losses, least_deep(losses, positions, span, most).candidates, span)
    fronts = ResampleFronts.of(drawn, front.roles, pool)
    return [_compared(drawn, front, positions, losses, fronts, each) for each in alternatives]


def _compared(
    drawn: Resamples,
    front: Front,
    positions: IntArray,
    losses: FloatArray,
    fronts: ResampleFronts,
    alternative: Alternative,
) -> Compared:
    """Compare an alternative with a front; ``fronts`` are those of ``drawn``, the resamples."""
    roles, solutions = front.roles, losses[:, positions]
    points = _points(roles, alternative, drawn)
    # for each point and objective, what the search offers on all records and in each resample
    whole = ResampleFronts(solutions.T[np.newaxis], positions[np.newaxis], np.array([len(front)]))
    offered = whole.best_within(points.claimed[:, np.newaxis])[0][..., 0]
    picks, reached = fronts.best_within(points.drawn)
    comparable = (offered >= 0) & (picks >= 0).any(axis=2)
    values = roles.natural(points.claimed)
    gains = {}
    for k, name in enumerate(roles.names):
        rows = np.flatnonzero(comparable[:, k])
        if not len(rows):
            continue
        nearest, picked = offered[rows, k], picks[rows, k]
        claims = points.claimed[rows, k] - losses[k, nearest]
        # how much luckier each pick is than the point: their gap in the resample less that on all
        # records, (points, resamples)
        luck = losses[k, picked] - reached[rows, k]
        luck += points.drawn[rows, :, k] - points.taken[rows, :, k]
        distinct, row = np.unique(nearest, return_inverse=True)
        of_nearest = loss(roles, name, drawn.metrics(distinct, [name]))[row]
        gaps = points.values[rows, :, k] - of_nearest  # in resamples, to the same solutions
        places = np.searchsorted(positions, nearest)
        gains[name] = Gain(
            len(rows),
            *_figures(float(claims.mean()), luck, gaps.mean(axis=0), drawn.outcomes.refitted),
            of=float(values[rows, k].mean()),
            test=_on_test(front, points.test, name, places, rows),
        )
    beaten = (points.claimed[:, np.newaxis] <= solutions.T).all(axis=2).any(axis=0)
    return Compared(
        alternative.name,
        points.names,
        {name: values[:, k].tolist() for k, name in enumerate(roles.names)},
        {name: points.test[name].tolist() for name in roles.names if name in points.test},
        gains,
        int(beaten.sum()),
    )


class _Points(NamedTuple):
    """The p points of an alternative, or only the one of them that a person would take.

    claimed : the losses of the points on all records, (p, objectives).
    values : the losses of the same points in each resample, (p, resamples, objectives).
    drawn, taken : the losses, in the resample and on all records, of the point that a person would
        take by the records of that resample, (p, resamples, objectives).
    test : the metrics of the points on the test records, (p,); empty without these.
    """

    names: tuple[str, ...]
    claimed: FloatArray
    values: FloatArray
    drawn: FloatArray
    taken: FloatArray
    test: Mapping[str, FloatArray]


def _points(roles: Roles, alternative: Alternative, resamples: Resamples) -> _Points:
    """Return all points of an alternative or, where a person would take one of them, only that."""
    outcomes, weights = alternative.outcomes, resamples.weights
    once = np.ones((len(weights), 1), dtype=np.float32)
    test = {name: np.asarray(column) for name, column in (alternative.test or {}).items()}
    names = tuple(alternative.points)

    def losses(weights: Array, points: slice | IntArray = slice(None)) -> FloatArray:
        """Return losses (points, columns of weights, objectives)."""
        return np.moveaxis(losses_of(roles, outcomes.metrics(weights, points, roles.names)), 0, -1)

    if not alternative.best:
        claimed, drawn = losses(once), losses(weights)
        taken = np.broadcast_to(claimed, drawn.shape)
        return _Points(names, claimed[:, 0], drawn, drawn, taken, test)
    by = next((name for name in alternative.best if name in roles.names), alternative.best[0])
    on_all = loss(roles, by, outcomes.metrics(once, names=[by]))[:, 0]
    most = max(int(_WORK / (len(weights) * resamples.count)), _FEWEST)
    points = nearest_of(np.arange(len(on_all)), on_all, most).candidates  # the others are far worse
    # the best point on all records, and that of each resample
    first, resample = int(np.argmin(on_all[points])), np.arange(resamples.count)
    best = loss(roles, by, outcomes.metrics(weights, points, [by])).argmin(axis=0)
    claimed, drawn = losses(once, points), losses(weights, points)
    return _Points(
        (names[points[first]],),
        claimed[first],
        drawn[[first]],
        drawn[best, resample][np.newaxis],
        claimed[best, 0][np.newaxis],
        {name: column[points[[first]]] for name, column in test.items()},
    )


def _figures(
    claimed: float, luck: FloatArray, gaps: FloatArray, refitted: bool
) -> tuple[float, float, float, float]:
    """Return claimed, expected, low and high of a mean gain over points (see :class:`Gain`).

    ``luck`` (points, resamples) is NaN where a point has no pick; ``gaps`` (resamples,) are mean
    gains of the same solutions over the points.
    """
    columns = (column[~np.isnan(column)] for column in luck.T)
    optimism, variance = moments(np.array([moments(c)[0] for c in columns if len(c)]))
    expected = claimed - optimism
    half = NORMAL * math.sqrt(moments(gaps)[1] + gain_share(refitted) * variance)
    return claimed, expected, expected - half, expected + half


def _on_test(
    front: Front, test: Mapping[str, FloatArray], name: str, rows: IntArray, points: IntArray
) -> float | None:
    """Return the gain in an objective on the test records; None without such records."""
    if front.test is None or name not in test:
        return None
    gap = test[name][points] - front.test[name][rows]
    return float(loss(front.roles, name, {name: gap}).mean())


def worth_comparing(compared: Sequence[Compared], front: Front) -> list[Compared]:
    """Return the alternatives that tell whether the search was worth it.

    Alternatives that cost less than every solution are left out, unless they are as good as some in
    everything, and those at the lower bound of a metric to minimise, such as classifiers that pay
    nothing.
    """
    roles, values = front.roles, front.rows.values
    amounts = [name for name in roles.names if roles.metrics[name].kind == "ratio"]
    minimised = [objective.metric for objective in roles.objectives if objective.sense == "min"]
    return [
        each
        for each in compared
        if each.points and {*roles.names} <= each.values.keys()
        if each.dominated or not any(max(each.values[n]) < values[n].min() for n in amounts)
        if not any(max(each.values[name]) <= roles.metrics[name].low for name in minimised)
    ]


def verdict(compared: Sequence[Compared], front: Front) -> str:
    """Return one sentence: whether the search beats what one would do without it, and by how much.

    The alternatives that it beats come first; see :func:`worth_comparing` for which are compared.
    """
    texts = []
    rivals = worth_comparing(compared, front)
    won, lost = (
        [f"{each.name} ({_gain_text(each, front)})" for each in rivals if each.beaten == beaten]
        for beaten in (True, False)
    )
    if won:
        texts.append(f"the search beats {' and '.join(won)}")
    if lost:
        texts.append(f"the search does not beat {' nor '.join(lost)}")
    if not texts:
        others = f"the search ({' or '.join(each.name for each in compared)})"
        texts.append(f"what one would do without {others} costs less than every solution")
    return "; ".join(texts)


class Worth(NamedTuple):
    """Which alternatives the search of one run beats, and which it does not, by name."""

    beaten: tuple[str, ...]
    unbeaten: tuple[str, ...]


def worth_of(compared: Sequence[Compared], front: Front) -> Worth | None:
    """Return what the search of a run beats; None where it was compared with nothing."""
    compared = worth_comparing(compared, front) if len(front) else []
    if not compared:
        return None
    return Worth(
        tuple(each.name for each in compared if each.beaten),
        tuple(each.name for each in compared if not each.beaten),
    )


def verdict_of_runs(runs: Sequence[tuple[str, Worth | None]]) -> str | None:
    """Return one sentence: in how many of several runs the search beats what one would do.

    Parameters
    ----------
    runs : sequence of (str, Worth or None)
        For each run, the name of its group, such as a method or a data set ("" where all runs
        belong together), and what its search beats, or None if that is not known.

    Returns
    -------
    str or None
        A sentence that names the alternatives that the search does not beat, for each group
        separately if it beats them in some runs. None if it is known for no run.
    """
    asked = [(place, worth) for place, worth in runs if worth is not None]
    if not asked:
        return None
    unknown = len(runs) - len(asked)
    rest = f"; of {unknown:,} of {len(runs):,} runs it is not known" if unknown else ""
    lost = [(place, worth) for place, worth in asked if worth.unbeaten]
    if not lost:
        names = Counter(name for _, worth in asked for name in worth.beaten)
        shown = first_few([name for name, _ in names.most_common()])
        every = f"all {len(asked):,} runs" if len(asked) > 1 else "the one run"
        return f"in {every} the search beats what one would do without it ({shown}){rest}"
    of_place = Counter(place for place, _ in asked)
    lost_of = Counter(place for place, _ in lost)
    if len(of_place) == 1 or len(lost) == len(asked):
        whom = _counted([worth for _, worth in lost])
    else:
        whom = first_few(
            [
                f"{place} in {count:,} of {of_place[place]:,}, "
                f"{_counted([worth for where, worth in lost if where == place])}"
                for place, count in lost_of.most_common()
            ],
            between="; ",
        )
    if len(lost) == len(asked):
        which = f"in {len(lost):,} of {len(asked):,} runs the search does not beat"
        return f"{which} what one would do without it ({whom}){rest}"
    return (
        f"in {len(asked) - len(lost):,} of {len(asked):,} runs the search beats what one would do "
        f"without it; in {len(lost):,} it does not ({whom}){rest}"
    )


def _counted(lost: Sequence[Worth]) -> str:
    """Return the names of unbeaten alternatives, each with its number of runs unless it is all."""
    names = Counter(name for worth in lost for name in worth.unbeaten)
    return first_few(
        [f"{name}{'' if n == len(lost) else f' in {n:,}'}" for name, n in names.most_common()]
    )


def _gain_text(one: Compared, front: Front) -> str:
    """Return the decisive gain of an alternative, in words."""
    rest = (
        f"; one of its points is as good in everything as {one.dominated:,} of the "
        f"{len(front):,} solutions"
        if one.dominated
        else ""
    )
    if not one.gains:
        return f"at none of its points the search has found anything as good{rest}"
    name, gain = one.decisive()
    words = ("higher", "lower") if front.roles.sense(name) == "max" else ("lower", "higher")

    def difference(amount: float) -> str:
        return f"{abs(amount):.3g} {words[amount < 0]}"

    def place_of(name: str) -> str:
        others = " and ".join(n for n in front.roles.names if n != name)
        return f"at its {others}, " if others else ""

    left = gain.of - gain.expected
    share = ""
    if front.roles.metrics[name].kind == "ratio" and gain.low > 0 and gain.of >= 2 * left > 0:
        share = f", which leaves 1/{gain.of / left:.0f} of it"
        even = [n for n, other in one.gains.items() if n != name and other.low <= 0 <= other.high]
        if even:
            rest = f"; {place_of(even[0])}{even[0]} is within noise{rest}"
    of_some = gain.points != len(one.points)
    reached = f" at {gain.points} of its {len(one.points)} points" if of_some else ""
    low, high = difference(gain.low), difference(gain.high)
    ends = f", in a 95% range from {low} to {high}" if low != high else ""
    change = f"{difference(gain.expected)} than" if gain.expected else "the same as"
    return (
        f"{place_of(name)}{name} is expected to be {change} its {gain.of:.3g}{share}{reached}{ends}"
        f"{rest}"
    )
