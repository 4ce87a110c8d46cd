"""Whether a search was worth it: its front against what a person would do without one.

An alternative is a family of points, such as a classifier with each of several thresholds. Of each
of its points and each objective it is asked: what is the best in this objective that the search
found, with the point's own values of the other objectives as limits, and by how much is it better?
A search has the best of many designs, a point was not chosen. So the comparison is made in
resamples of the records, in each of which the designs are chosen from anew, and the mean gain of
choosing is taken off (:mod:`~framework.analysis.expectations`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.expectations import Resamples, parts, sign_of
from framework.analysis.ranges import gain_share
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.front import Front
from framework.jit import njit
from framework.problem import Alternative
from framework.roles import Roles

_RESAMPLES = 200
_WORK = 1e9  # candidates x records x resamples
_FEWEST = 100  # candidates that are looked at whatever they take
_LANDMARKS = 64  # solutions that tell how far behind the front a candidate is
_LISTED = 8  # alternatives, or what runs belong to, that a sentence names
_NORMAL = 1.96  # standard errors on each side of a range


@dataclass(frozen=True)
class Gain:
    """How much better the search is in one objective; above 0 it is better.

    Attributes
    ----------
    points : int
        Of the alternative, those whose other values some solution of the front reaches. The
        figures are means over these.
    claimed, expected, low, high : float
        On the records of the search; less the gain of choosing; its 95% range.
    test : float or None
        On the test records: it only informs.
    of : float
        The alternative's own mean value there.
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
    values, test : mapping of str to list of float
        The objectives at each point; no ``test`` without test records.
    gains : mapping of str to Gain
        By objective; those in which some point can be compared.
    dominated : int
        Solutions of the front that are in no objective better than some point.
    """

    name: str
    points: tuple[str, ...]
    values: Mapping[str, list[float]]
    test: Mapping[str, list[float]] = field(default_factory=dict)
    gains: Mapping[str, Gain] = field(default_factory=dict)
    dominated: int = 0

    @property
    def beaten(self) -> bool:
        """Whether the search is better in some objective, its range above 0, at half the points."""
        return any(self._won(gain) for gain in self.gains.values())

    def _won(self, gain: Gain) -> bool:
        return gain.low > 0 and 2 * gain.points >= len(self.points)

    def decisive(self) -> tuple[str, Gain]:
        """Return the objective, with its gain, that says whether it is beaten.

        The surest of the gains that count, else that of the most points.
        """

        def key(item: tuple[str, Gain]) -> tuple[bool, float, float]:
            gain = item[1]
            half = max((gain.high - gain.low) / 2, 1e-12)
            won = self._won(gain)
            return won, 0 if won else gain.points, gain.expected / half

        return max(self.gains.items(), key=key)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "points": list(self.points)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Compared:
        """Return what :meth:`to_json` wrote; KeyError, TypeError or ValueError for others."""
        points = tuple(str(point) for point in plain["points"])

        def columns(found: Mapping[str, Any]) -> dict[str, list[float]]:
            read = {str(name): [float(v) for v in values] for name, values in found.items()}
            if any(len(values) != len(points) for values in read.values()):
                raise ValueError("columns of other lengths")
            return read

        gains = {}
        for name, gain in plain["gains"].items():
            test = None if gain["test"] is None else float(gain["test"])
            figures = {k: float(gain[k]) for k in ("claimed", "expected", "low", "high", "of")}
            gains[str(name)] = Gain(points=int(gain["points"]), test=test, **figures)
        return cls(
            name=str(plain["name"]),
            points=points,
            values=columns(plain["values"]),
            test=columns(plain["test"]),
            gains=gains,
            dominated=int(plain["dominated"]),
        )


def compare_alternative(
    resamples: Resamples,
    front: Front,
    positions: IntArray,
    claimed: Mapping[str, Array],
    alternative: Alternative,
) -> Compared:
    """Return an alternative beside a front.

    Parameters
    ----------
    resamples : Resamples
        Of all designs evaluated.
    front : Front
    positions : numpy.ndarray of int64, shape (n,)
        Where its solutions are among the designs.
    claimed : mapping of str to numpy.ndarray, shape (designs,)
        The metrics of all designs on all records.
    alternative : Alternative
        Its outcomes are of the same records, in the same order.
    """
    roles, outcomes = front.roles, resamples.outcomes
    weights = np.ascontiguousarray(resamples.weights[:, :_RESAMPLES])
    names, limits, of_picks, limits_all, own_limits, test = _points(roles, alternative, weights)
    all_records = roles.losses(claimed)
    chosen = _no_picks(limits_all)
    feasible = np.ones((len(positions), 1), dtype=bool)
    _pick(all_records[positions, None], feasible, positions, limits_all, *chosen)
    picks = _no_picks(limits)
    needs = {*roles.names, *(constraint.metric for constraint in roles.constraints)}
    for part in parts(_pool(all_records, positions, outcomes.records), weights.shape[1]):
        values = outcomes.metrics(weights, part, needs)
        _pick(_losses(roles, values), _feasible(roles, values), part, limits, *picks)
    some = np.unique(np.concatenate([picks[0].ravel(), chosen[0].ravel(), positions[:1]]))
    some = some[some >= 0]
    drawn = np.concatenate(
        [
            _losses(roles, outcomes.metrics(weights, part, roles.names))
            for part in parts(some, weights.shape[1])
        ]
    )
    own = chosen[0][:, :, 0]
    compared = (own >= 0) & (picks[0] >= 0).any(axis=2)
    here = roles.natural(limits_all[:, 0])
    gains = {}
    for k, name in enumerate(roles.names):
        points = np.flatnonzero(compared[:, k])
        if not len(points):
            continue
        at = np.searchsorted(some, own[points, k])
        kept = own_limits[points, :, k] - drawn[at, :, k]  # of the front's own picks
        gained = np.full(kept.shape, np.nan)
        for row, point in enumerate(points):
            met = np.flatnonzero(picks[0][point, k] >= 0)
            design = picks[0][point, k, met]
            there = drawn[np.searchsorted(some, design), met, k]
            gained[row, met] = all_records[design, k] - there
            gained[row, met] += limits[point, met, k] - of_picks[point, met, k]
        claims = limits_all[points, 0, k] - all_records[own[points, k], k]
        rows = np.searchsorted(positions, own[points, k])
        gains[name] = Gain(
            len(points),
            *_figures(float(claims.mean()), gained, kept.mean(axis=0), outcomes.refitted),
            of=float(here[points, k].mean()),
            test=_on_test(front, test, name, rows, points),
        )
    members = all_records[positions]
    beaten = (limits_all[:, 0][:, None] <= members).all(axis=2).any(axis=0)
    return Compared(
        alternative.name,
        names,
        {name: here[:, k].tolist() for k, name in enumerate(roles.names)},
        {name: test[name].tolist() for name in roles.names if name in test},
        gains,
        int(beaten.sum()),
    )


class _Points(NamedTuple):
    """The points of an alternative, or the one that a person would take of them.

    Attributes
    ----------
    names : tuple of str, length p
    drawn : numpy.ndarray of float64, shape (p, b, objectives)
        Their losses in the resamples: of what would be taken in each.
    whole : numpy.ndarray of float64, shape (p, b, objectives)
        The losses of the same on all records.
    claimed : numpy.ndarray of float64, shape (p, 1, objectives)
        The losses on all records, of what is taken there.
    own : numpy.ndarray of float64, shape (p, b, objectives)
        The losses of the latter in the resamples.
    test : mapping of str to numpy.ndarray of float64, shape (p,)
        Its metrics on the test records; empty without.
    """

    names: tuple[str, ...]
    drawn: FloatArray
    whole: FloatArray
    claimed: FloatArray
    own: FloatArray
    test: Mapping[str, FloatArray]


def _points(roles: Roles, alternative: Alternative, weights: Array) -> _Points:
    """Return the points of an alternative; of several of which one is taken, that one."""
    outcomes = alternative.outcomes
    count = weights.shape[1]
    everyone = np.ones((len(weights), 1), dtype=np.float32)
    test = {name: np.asarray(column) for name, column in (alternative.test or {}).items()}
    names = tuple(alternative.points)
    if not alternative.best:
        drawn = _losses(roles, outcomes.metrics(weights))
        claimed = _losses(roles, outcomes.metrics(everyone))
        return _Points(names, drawn, np.repeat(claimed, count, axis=1), claimed, drawn, test)
    by = next((name for name in alternative.best if name in roles.names), alternative.best[0])
    wanted = {by, *roles.names}
    sign = sign_of(roles, by)
    on_all = sign * outcomes.metrics(everyone, names=wanted)[by][:, 0]
    most = max(int(_WORK / (len(weights) * count)), _FEWEST)
    known = np.sort(np.argsort(on_all, kind="stable")[:most])  # the others are far behind
    values = outcomes.metrics(weights, known, wanted)
    taken = np.argmin(sign * values[by], axis=0)
    at = int(np.argmin(on_all[known]))
    drawn = _losses(roles, values)
    whole = _losses(roles, outcomes.metrics(everyone, known, wanted))
    return _Points(
        (names[known[at]],),
        drawn[taken, np.arange(count)][np.newaxis],
        whole[taken, 0][np.newaxis],
        whole[[at]],
        drawn[[at]],
        {name: column[known[[at]]] for name, column in test.items()},
    )


def _losses(roles: Roles, values: Mapping[str, Array]) -> FloatArray:
    """Return the losses of metrics of shape (n, b), shape (n, b, objectives)."""
    shape = values[roles.names[0]].shape
    flat = {name: values[name].ravel() for name in roles.names}
    return roles.losses(flat).reshape(*shape, len(roles.names))


def _feasible(roles: Roles, values: Mapping[str, Array]) -> BoolArray:
    """Return where no constraint is broken and the candidate could be evaluated, shape (n, b)."""
    first = values[roles.names[0]]
    flat = {name: column.ravel() for name, column in values.items()}
    kept = roles.violation(flat).reshape(first.shape) == 0
    return np.asarray(kept & ~np.isnan(first))


def _pool(losses: FloatArray, positions: IntArray, records: int) -> IntArray:
    """Return the candidates that are least deep behind the front, as many as there is time for.

    A candidate is as deep as the greatest margin by which a solution is better in all objectives.
    """
    most = max(int(_WORK / (records * _RESAMPLES)), _FEWEST, len(positions))
    known = np.flatnonzero(~np.isnan(losses[:, 0]))
    if len(known) <= most:
        return known
    members = losses[positions]
    span = np.ptp(members, axis=0)
    span[span == 0] = 1.0
    some = np.unique(np.linspace(0, len(members) - 1, _LANDMARKS).round().astype(np.int64))
    depth = np.zeros(len(known))
    for member in members[some]:
        depth = np.maximum(depth, ((losses[known] - member) / span).min(axis=1))
    depth[np.isin(known, positions)] = -1.0
    return np.sort(known[np.argsort(depth, kind="stable")[:most]])


def _no_picks(limits: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return room for :func:`_pick`."""
    points, resamples, m = limits.shape
    return np.full((points, m, resamples), -1), np.full((points, m, resamples, m), np.inf)


@njit
def _pick(
    losses: FloatArray,
    feasible: BoolArray,
    numbers: IntArray,
    limits: FloatArray,
    picks: IntArray,
    best: FloatArray,
) -> None:
    """Let candidates replace the best of each point, objective and resample, where they are better.

    ``losses`` (n, b, objectives), ``feasible`` (n, b), ``numbers`` (n,), ``limits`` (points, b,
    objectives), ``picks`` (points, objectives, b), their losses ``best`` (points, objectives, b,
    objectives). Ties: the other objectives in order, then the first.
    """
    n, resamples, m = losses.shape
    for i in range(n):
        for b in range(resamples):
            if not feasible[i, b]:
                continue
            for t in range(len(limits)):
                above = 0
                which = -1
                for k in range(m):
                    if not losses[i, b, k] <= limits[t, b, k]:
                        above += 1
                        which = k
                if above > 1:
                    continue
                for k in range(m):
                    if above == 1 and which != k:
                        continue
                    found = best[t, k, b]
                    better = losses[i, b, k] < found[k]
                    if losses[i, b, k] == found[k]:
                        for q in range(m):
                            if losses[i, b, q] != found[q]:
                                better = losses[i, b, q] < found[q]
                                break
                    if better:
                        picks[t, k, b] = numbers[i]
                        found[:] = losses[i, b]


def _figures(
    claimed: float, gained: FloatArray, own: FloatArray, refitted: bool
) -> tuple[float, float, float, float]:
    """Return claimed, expected, low and high of a mean over points.

    ``gained`` (points, b), NaN where a point has no pick; ``own`` (b,), of the front's own picks.
    """
    luck = np.array([math.fsum(c[~np.isnan(c)]) / max((~np.isnan(c)).sum(), 1) for c in gained.T])
    luck = luck[~np.isnan(gained).all(axis=0)]
    expected = claimed - math.fsum(luck) / len(luck)
    half = _NORMAL * math.sqrt(float(own.var()) + gain_share(refitted) * float(luck.var()))
    return claimed, expected, expected - half, expected + half


def _on_test(
    front: Front, test: Mapping[str, FloatArray], name: str, rows: IntArray, points: IntArray
) -> float | None:
    """Return the gain in an objective on the test records; None without."""
    if front.test is None or name not in test:
        return None
    gap = test[name][points] - front.test[name][rows]
    return float(sign_of(front.roles, name) * gap.mean())


def worth_comparing(found: Sequence[Compared], front: Front) -> list[Compared]:
    """Return what says whether the search was worth it.

    What costs less than every solution is left out, and what has none at all of something that is
    minimised.
    """
    roles = front.roles
    found = [one for one in found if one.points and {*roles.names} <= one.values.keys()]
    amounts = [n for n in roles.names if roles.metrics[n].kind == "ratio"]
    minimised = [o.metric for o in roles.objectives if o.sense == "min"]
    cheaper = [
        one
        for one in found
        if any(max(one.values[n]) < front.rows.values[n].min() for n in amounts)
        or any(max(one.values[n]) <= roles.metrics[n].low for n in minimised)
    ]
    return [one for one in found if one not in cheaper]


def verdict(found: Sequence[Compared], front: Front) -> str:
    """Return one sentence: whether the search beats what one would do without it, and by how much.

    What it does not beat comes first; see :func:`worth_comparing` for what is compared.
    """
    compared = worth_comparing(found, front)
    lost = [f"{one.name} ({_gain_text(one, front)})" for one in compared if not one.beaten]
    won = [f"{one.name} ({_gain_text(one, front)})" for one in compared if one.beaten]
    texts = []
    if lost:
        texts.append(f"the search does not beat {' nor '.join(lost)}")
    if won:
        texts.append(f"the search beats {' and '.join(won)}")
    if not texts:
        texts.append("what one would do without the search costs less than every solution")
    return "; ".join(texts)


class Worth(NamedTuple):
    """Which alternatives the search of one run beats, and which it does not, by name."""

    beaten: tuple[str, ...]
    unbeaten: tuple[str, ...]


def worth_of(found: Sequence[Compared], front: Front) -> Worth | None:
    """Return what a run's search beats; None where it was compared with nothing."""
    compared = worth_comparing(found, front) if len(front) else []
    if not compared:
        return None
    beaten, unbeaten = (
        tuple(one.name for one in compared if one.beaten == won) for won in (True, False)
    )
    return Worth(beaten, unbeaten)


def verdict_of_runs(runs: Sequence[tuple[str, Worth | None]]) -> str | None:
    """Return one sentence: in how many of several runs the search does not beat what one would do.

    Parameters
    ----------
    runs : sequence of (str, Worth or None)
        Of each run what it belongs to, such as a method on a set of data ("" where they all belong
        together), and what its search beats; None where that is not known.

    Returns
    -------
    str or None
        With the alternatives by name, by what the runs belong to where the search beats them in
        some; None where of no run it is known.
    """
    known = [(place, worth) for place, worth in runs if worth is not None]
    if not known:
        return None
    unknown = len(runs) - len(known)
    rest = f"; of {unknown:,} of {len(runs):,} runs it is not known" if unknown else ""
    lost = [(place, worth) for place, worth in known if worth.unbeaten]
    if not lost:
        names = Counter(name for _, worth in known for name in worth.beaten)
        shown = _listed([name for name, _ in names.most_common()])
        every = f"all {len(known):,} runs" if len(known) > 1 else "the one run"
        return f"in {every} the search beats what one would do without it ({shown}){rest}"
    of_place = Counter(place for place, _ in known)
    lost_of = Counter(place for place, _ in lost)
    if len(of_place) == 1 or len(lost) == len(known):
        told = _counted([worth for _, worth in lost])
    else:
        told = _listed(
            [
                f"{place} in {count:,} of {of_place[place]:,}, "
                f"{_counted([worth for own, worth in lost if own == place])}"
                for place, count in lost_of.most_common()
            ],
            "; ",
        )
    return (
        f"in {len(lost):,} of {len(known):,} runs the search does not beat what one would do "
        f"without it ({told}){rest}"
    )


def _counted(lost: Sequence[Worth]) -> str:
    """Return the alternatives that runs do not beat, with how many where it is not all of them."""
    names = Counter(name for worth in lost for name in worth.unbeaten)
    return _listed(
        [f"{name}{'' if n == len(lost) else f' in {n:,}'}" for name, n in names.most_common()]
    )


def _listed(texts: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(texts) - _LISTED:,} more" if len(texts) > _LISTED else ""
    return between.join(texts[:_LISTED]) + more


def _gain_text(one: Compared, front: Front) -> str:
    """Return the gain that decides, in words."""
    rest = (
        f"; {one.dominated:,} of the {len(front):,} solutions are in nothing better than one of "
        "its points"
        if one.dominated
        else ""
    )
    if not one.gains:
        return f"at none of its points the search has found anything as good{rest}"
    name, gain = one.decisive()
    words = ("higher", "lower") if front.roles.sense(name) == "max" else ("lower", "higher")

    def difference(amount: float) -> str:
        return f"{abs(amount):.3g} {words[amount < 0]}"

    others = " and ".join(n for n in front.roles.names if n != name)
    place = f"at its {others}, " if others else ""
    reached = (
        ""
        if gain.points == len(one.points)
        else f" at {gain.points} of its {len(one.points)} points"
    )
    return (
        f"{place}{name} is expected to be {difference(gain.expected)} than its {gain.of:.3g}"
        f"{reached}, in a 95% range from {difference(gain.low)} to {difference(gain.high)}{rest}"
    )
