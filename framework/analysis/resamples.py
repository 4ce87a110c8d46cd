"""Resamples of the records of a run: what its candidates do in them, and what a rule picks.

Tables have a row per candidate and a column per resample. Sums over records are of whole numbers,
so a value is the same to the bit whatever candidates and resamples are looked at together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Self

import numpy as np

from framework.analysis.choose import Rule, loss
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.jit import njit
from framework.outcomes import RecordOutcomes, Values, resample_weights
from framework.streams import resample_stream

RESAMPLES, FEWEST_RESAMPLES = 500, 100
_DRAWN = 7_500_000  # most records x resamples: 500 resamples of up to 15,000 records
PILOT = 32  # resamples that tell which candidates cannot win any
_FAR = 4.0  # candidates this many standard errors behind the winners, or beyond a limit, never win
_VALUES = 1 << 17  # values of a metric in memory at a time: they stay in the processor's cache
_AT_A_TIME = 64  # resamples whose picks are looked at together
_FEWEST = 200  # candidates that are resampled however long they take
_WORK = 4e9  # candidates x records x resamples of one call: about a second of one core
SEARCHES = 8  # made anew, in as many resamples: more lower expected figures by less than .5 points
_GREATEST = 2.0  # factor by which they raise gains

Pick = Callable[["Resamples", IntArray], IntArray]
"""Takes resamples and candidates; returns which one each rule picks: (rules, resamples)."""


class Pool(NamedTuple):
    """Candidates that may win a resample, ascending; ``whole`` if none was left out for time."""

    candidates: IntArray
    whole: bool


class MetricTable(NamedTuple):
    """Metrics of some candidates in resamples, shape (candidates, resamples) each."""

    candidates: IntArray
    metrics: Values


class Resamples:
    """Resamples of the records of a run.

    Parameters
    ----------
    outcomes : RecordOutcomes
        The outcomes of every candidate evaluated, by ascending id, each design once.
    seed : int
        The run's seed, so that a run has the same resamples for every analysis.
    resamples : int, optional
        By default 500, but fewer for more than 15,000 records, down to 100 from 75,000 on: with so
        many records chance has little effect.
    searched : int
        How many of the candidates, the last ones, come from the same search made anew in the first
        eight resamples (:func:`~framework.experiment.unevaluated.searched_again`).

    Attributes
    ----------
    outcomes
    weights : numpy.ndarray of float32, shape (records, resamples)
        How often each resample draws each record.
    count : int
        The number of resamples.
    units : int
        The number of units that each resample draws.
    """

    def __init__(
        self,
        outcomes: RecordOutcomes,
        seed: int,
        resamples: int | None = None,
        searched: int = 0,
    ) -> None:
        if resamples is None:
            resamples = max(min(RESAMPLES, _DRAWN // outcomes.records), FEWEST_RESAMPLES)
        self.outcomes, self.count = outcomes, resamples
        self.units = int(outcomes.units.max()) + 1
        self.weights = resample_weights(outcomes.units, resamples, resample_stream(seed))
        self._seed, self._searched = seed, searched
        self._of: Self | None = None  # what each resample is drawn from; None: all records
        self._table: MetricTable | None = None

    def first(self, count: int) -> Self:
        """Return the first ``count`` resamples, or all if there are fewer."""
        fewer = copy.copy(self)
        fewer.count = min(count, self.count)
        fewer.weights = self.weights[:, : fewer.count]
        if self._table is not None:
            some = {name: rows[:, : fewer.count] for name, rows in self._table.metrics.items()}
            fewer._table = self._table._replace(metrics=some)
        return fewer

    def with_table(self, candidates: IntArray, metrics: Values) -> Self:
        """Return the same resamples, which look up all metrics of some candidates in a table.

        ``metrics`` are those that :meth:`metrics` returns for the candidates, shape (n,).
        """
        same = copy.copy(self)
        same._table = MetricTable(candidates, metrics)
        return same

    def again(self) -> Self:
        """Return one resample of each resample; their :meth:`gains` are relative to the latter."""
        more, rng = copy.copy(self), resample_stream(self._seed, again=True)
        more.weights = resample_weights(self.outcomes.units, self.count, rng, self.weights)
        more._of, more._table = self, None
        return more

    def claimed(self, candidates: IntArray, names: Collection[str] | None = None) -> Values:
        """Return metrics on all records, shape (candidates,)."""
        once = np.ones((self.outcomes.records, 1), dtype=np.float32)
        values = self.outcomes.metrics(once, candidates, names)
        return {name: column[:, 0] for name, column in values.items()}

    def metrics(
        self,
        candidates: IntArray,
        names: Collection[str] | None = None,
        some: slice = slice(None),
    ) -> Values:
        """Return metrics in the resamples, or in some of them, shape (candidates, resamples)."""
        weights, table = self.weights[:, some], self._table
        if table is None:
            return self.outcomes.metrics(weights, candidates, names)
        listed, order = np.isin(candidates, table.candidates), np.argsort(table.candidates)
        row = order[np.searchsorted(table.candidates, candidates[listed], sorter=order)]
        if listed.all():
            return {name: of[row, some] for name, of in table.metrics.items()}
        others = self.outcomes.metrics(weights, candidates[~listed], names)
        values = {name: np.empty((len(candidates), weights.shape[1])) for name in others}
        for name, of in others.items():
            values[name][listed], values[name][~listed] = table.metrics[name][row, some], of
        return values

    def pieces(
        self, candidates: IntArray, names: Collection[str]
    ) -> Iterator[tuple[IntArray, Values]]:
        """Yield candidates in pieces that fit into the cache, with :meth:`metrics` of each."""
        step = max(_VALUES // max(self.count, 1), 1)
        for start in range(0, len(candidates), step):
            piece = candidates[start : start + step]
            yield piece, self.metrics(piece, names)

    def pool(self, rule: Rule) -> Pool:
        """Return the candidates that may win a resample by a rule.

        A candidate is left out if in the first 32 resamples it breaks a condition by more than four
        standard errors on average, or its score is more than four standard errors (of the
        difference) behind the best one of each resample. This left 99 to 100% of the picks
        unchanged. If the others would take more than about a second, only the nearest are kept.
        """
        pilot, n = self.first(PILOT), self.outcomes.candidates
        score, distance = np.empty((n, pilot.count)), np.zeros(n)
        best = np.full(pilot.count, np.inf)
        for piece, values in pilot.pieces(np.arange(n), rule.needs):
            score[piece] = rule.score(values)
            passing = np.where(rule.holds(values), score[piece], np.inf)
            best = np.minimum(best, passing.min(axis=0))
            for slack in rule.slacks(values):
                distance[piece] = np.maximum(distance[piece], standard_errors(-slack))
        distance[np.isnan(score).any(axis=1)] = np.inf
        met = np.isfinite(best)
        if met.any() and not rule.margins:
            distance = np.maximum(distance, standard_errors(score[:, met] - best[met]))
        near = np.flatnonzero(distance <= _FAR)
        most = max(int(_WORK / (self.outcomes.records * self.count)), _FEWEST)
        return nearest_of(near, distance[near], most)

    def picks(self, rule: Rule, candidates: IntArray) -> IntArray:
        """Return which candidate a rule picks in each resample, -1 for none, shape (resamples,)."""
        limits: list[FloatArray] = []  # by margin, (resamples,)

        def passing(values: Values) -> BoolArray:
            holding = rule.holds(values)
            for margin, limit in zip(rule.margins, limits, strict=False):  # limits known so far
                holding &= loss(rule.roles, margin.metric, values) <= limit
            return holding

        for margin in rule.margins:
            least = np.full(self.count, np.inf)
            for _, values in self.pieces(candidates, rule.needs):
                losses = np.where(passing(values), loss(rule.roles, margin.metric, values), np.inf)
                least = np.minimum(least, losses.min(axis=0))
            limits.append(margin.limit(np.where(np.isfinite(least), least, 0.0)))
        best = np.full((1 + len(rule.roles.names), self.count), np.inf)
        picks = np.full(self.count, -1, dtype=np.int64)
        for piece, values in self.pieces(candidates, rule.needs):
            _improve(rule.keys(values), passing(values), piece, best, picks)
        return picks

    def gains(self, picks: IntArray, names: Collection[str]) -> Values:
        """Return how much greater metrics of picks are in a resample than where it is drawn from.

        That is all records or, after :meth:`again`, the original resample.

        Parameters
        ----------
        picks : numpy.ndarray of int64, shape (rules, resamples)
            Candidates; -1 for none.
        names : collection of str
            Metrics.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (rules, resamples)
            NaN where there is no pick.
        """
        gains = {name: np.full(picks.shape, np.nan) for name in names}
        # Where rules pick many candidates in all, few resamples at a time have far fewer.
        step = _AT_A_TIME if len(np.unique(picks)) > len(picks) else max(self.count, 1)
        for start in range(0, self.count, step):
            some = slice(start, start + step)
            rules, resamples = np.nonzero(picks[:, some] >= 0)
            picked, row = np.unique(picks[:, some][rules, resamples], return_inverse=True)
            drawn = self.metrics(picked, names, some)
            if self._of is None:
                claimed = self.claimed(picked, names)
                before: Values = {name: claimed[name][:, np.newaxis] for name in names}
            else:
                before = self._of.metrics(picked, names, some)
            for name in names:
                gained = drawn[name] - before[name]
                gains[name][:, some][rules, resamples] = gained[row, resamples]
        return gains

    def evaluated(self, candidates: IntArray) -> IntArray:
        """Return the candidates that do not come from searches made anew."""
        return candidates[candidates < self.outcomes.candidates - self._searched]

    def gains_of_rules(
        self, pick: Pick, picks: IntArray, pool: IntArray, names: Collection[str]
    ) -> tuple[Values, Values]:
        """Return the gains of what rules pick in the resamples, and in resamples of these.

        A search that is made anew in a resample follows that resample, so it gains more there than
        the candidates of the run do. Both gains are raised by the factor that the resamples with a
        search of their own show, where picks with and without its candidates are compared.

        Parameters
        ----------
        pick : callable
        picks : numpy.ndarray of int64, shape (rules, resamples)
            Picks in these resamples among the :meth:`evaluated` candidates of the pool.
        pool : numpy.ndarray of int64, shape (n,)
            The candidates that may be picked.
        names : collection of str
            Metrics.

        Returns
        -------
        tuple of two mappings of str to numpy.ndarray of float64, shape (rules, resamples)
            As :meth:`gains` has them.
        """
        twice = self.again()
        gains = self.gains(picks, names)
        again = twice.gains(pick(twice, self.evaluated(pool)), names)
        if not self._searched:
            return gains, again
        few = self.first(SEARCHES)
        searched = few.gains(pick(few, pool), names)
        factor = {name: _factor(gained, searched[name]) for name, gained in gains.items()}
        raised = ({name: factor[name] * of[name] for name in factor} for of in (gains, again))
        return next(raised), next(raised)


def _factor(gains: FloatArray, searched: FloatArray) -> FloatArray:
    """Return the factors by which gains (rules, resamples) are raised, shape (rules, 1).

    ``searched`` (rules, first resamples) are the gains where the search was made anew.
    """
    more = searched - gains[:, : searched.shape[1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = _means(more) / _means(gains)
    return np.clip(1 + np.nan_to_num(rise), 1.0, _GREATEST)[:, np.newaxis]


def _means(values: FloatArray) -> FloatArray:
    """Return the means of rows without NaN, shape (n,); NaN for a row that has nothing else."""
    return np.asarray(np.nansum(values, axis=1) / (~np.isnan(values)).sum(axis=1))


def standard_errors(gaps: FloatArray) -> FloatArray:
    """Return the means of gaps (n, resamples) in standard errors, shape (n,).

    It is 0 where the mean is negative, and infinite where it is positive without any error.
    """
    gap, error = gaps.mean(axis=1), gaps.std(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0, np.where(error > 0, gap / error, np.inf), 0.0)


def nearest_of(candidates: IntArray, distance: Array, most: int) -> Pool:
    """Return at most ``most`` candidates, those with the least distances."""
    if len(candidates) <= most:
        return Pool(candidates, whole=True)
    return Pool(np.sort(candidates[np.argsort(distance, kind="stable")[:most]]), whole=False)


@njit
def _improve(
    keys: FloatArray, allowed: BoolArray, candidates: IntArray, best: FloatArray, picks: IntArray
) -> None:
    """Update the best candidate of each resample, in place; earlier candidates win ties.

    ``keys`` (keys, n, resamples) are compared one after the other; ``allowed`` is (n, resamples).
    ``best`` (keys, resamples) are the keys of ``picks`` (resamples,), which are -1 at first.
    """
    count, resamples = allowed.shape
    for i in range(count):
        for b in range(resamples):
            if not allowed[i, b]:
                continue
            better = picks[b] < 0
            for q in range(len(keys)):
                if better or keys[q, i, b] > best[q, b]:
                    break
                better = keys[q, i, b] < best[q, b]
            if better:
                picks[b] = candidates[i]
                for q in range(len(keys)):
                    best[q, b] = keys[q, i, b]
