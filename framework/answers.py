"""What classifiers answer to records and what the answers cost: the table behind all metrics.

A problem says which class each candidate predicts for each record and what it pays for that answer.
The metrics under any weights of the records are computed from this table. Bootstrap resamples,
subgroups, other shares of the classes, trivial classifiers and certificates need no further code
from a family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.outcomes import ALL, Figures, Names, RecordOutcomes, Values, Which, weighted_sums
from framework.roles import Metric

T = TypeVar("T")
Part = Literal["search", "test"]
NO_ANSWER = -1
_CELLS = 1 << 23  # sums that are in memory at a time: 64 MiB
_HELD = 1 << 28  # bytes of answers that are kept; larger ones are computed again when needed
_TOGETHER = 1 << 22  # answers that are computed at a time when they are too large to keep


@dataclass(frozen=True)
class Records:
    """The records of one part of the data.

    Attributes
    ----------
    labels : numpy.ndarray of int64, shape (N,)
        Codes of the true classes.
    classes : tuple
        Labels by code; just two, right and wrong, where the data tell only whether an answer is
        right.
    positive : int
        Code of the positive class; -1 for none.
    weights : numpy.ndarray of int64, shape (N,), optional
        How often each record counts; once if None.
    subgroups : numpy.ndarray of int64, shape (N,), optional
        The code of each record's subgroup.
    subgroup_names : tuple of str
        Names of the subgroups, by code.
    units : numpy.ndarray of int64, shape (N,), optional
        The code, from 0, of each record's sampling unit: a resample draws all records of a unit or
        none. Each record is a unit of its own if None.
    refitted : bool
        Whether the answers come from the models of cross-validation folds, so that the exported
        model is not the one that answered.
    part : {'search', 'test'}
    rows : numpy.ndarray of int64, shape (N,), optional
        Positions of these records in the part; all records in order if None.
    """

    labels: IntArray
    classes: tuple[Any, ...]
    positive: int = -1
    weights: IntArray | None = None
    subgroups: IntArray | None = None
    subgroup_names: tuple[str, ...] = ()
    units: IntArray | None = None
    refitted: bool = False
    part: Part = "search"
    rows: IntArray | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: IntArray) -> Records:
        """Return the records at some positions, in this order; positions may repeat."""
        columns = {n: getattr(self, n) for n in ("labels", "weights", "subgroups", "units")}
        some = {name: column[rows] for name, column in columns.items() if column is not None}
        return replace(self, rows=rows if self.rows is None else self.rows[rows], **some)


@dataclass(frozen=True)
class Answers:
    """What ``n`` candidates answer to ``N`` records.

    Attributes
    ----------
    records : Records
    codes : numpy.ndarray of int, shape (n, N)
        The predicted class of each record; -1 for no answer.
    paid : mapping of str to numpy.ndarray of int, shape (n, N) or (n, 1)
        What each answer costs, by the name of the cost, in whole units of at least 0; (n, 1) where
        all records cost the same.
    sizes : mapping of str to numpy.ndarray of float64, shape (n,)
        Figures of the candidates that do not depend on records, by metric.
    scale : mapping of str to float
        The value of one unit of each cost; 1 for costs that are missing here.
    failed : numpy.ndarray of bool, shape (n,), optional
        Candidates that cannot be built.
    alike : tuple of int
        Codes of classes that ``codes`` does not distinguish: a wrong answer with one of these
        codes may stand for any of them.
    limits : mapping of str to (numpy.ndarray, numpy.ndarray), shape (n,)
        The least and the most units of a cost that any record can pay, where they are known.
    X : numpy.ndarray, shape (n, d), optional
        The genomes, for measures of a family that have kernels of their own.
    """

    records: Records
    codes: Array
    paid: Mapping[str, Array] = field(default_factory=dict)
    sizes: Mapping[str, FloatArray] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    failed: BoolArray | None = None
    alike: tuple[int, ...] = ()
    limits: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    X: Array | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes that the codes and the costs take."""
        return int(self.codes.nbytes + sum(units.nbytes for units in self.paid.values()))

    def take(self, candidates: Which) -> Answers:
        """Return the answers of some candidates."""
        return replace(
            self,
            codes=self.codes[candidates],
            paid={name: units[candidates] for name, units in self.paid.items()},
            sizes={name: size[candidates] for name, size in self.sizes.items()},
            failed=None if self.failed is None else self.failed[candidates],
            limits={name: (a[candidates], b[candidates]) for name, (a, b) in self.limits.items()},
            X=None if self.X is None else self.X[candidates],
        )

    def of_records(self, rows: IntArray) -> Answers:
        """Return the answers to some records, in this order."""
        paid = {k: u if u.shape[1] == 1 else u[:, rows] for k, u in self.paid.items()}
        return replace(self, records=self.records.take(rows), codes=self.codes[:, rows], paid=paid)


Cells = Literal["outcomes", "outcomes_of_class", "counts"]


class Drawn(NamedTuple):
    """Some of the records of a part, with their weights.

    Attributes
    ----------
    rows : numpy.ndarray of int64, or slice
        Positions of the records.
    weights : numpy.ndarray, shape (rows, b)
        How often each of these records counts.
    total : numpy.ndarray of float64, shape (b,)
        The sums of the weights.
    """

    rows: IntArray | slice
    weights: Array
    total: FloatArray

    def sums(self, plane: Array) -> FloatArray:
        """Return the weighted sums over these records of whole numbers (n, rows), shape (n, b)."""
        return weighted_sums(plane, self.weights, float(self.total.max(initial=0)))


class DrawnRecords:
    """Records, and how often each of ``b`` resamples draws them.

    Parameters
    ----------
    records : Records
    weights : numpy.ndarray, shape (N, b), optional
        How often each resample (a column) draws each record, in whole numbers. If None, there is
        one column, of ones.
    squares : bool
        See :meth:`framework.outcomes.RecordOutcomes.figures`.

    Attributes
    ----------
    records, squares
    weights : numpy.ndarray, shape (N, b)
        How often each record counts: the draws times the weights of the records themselves.
    total : numpy.ndarray of float64, shape (b,)
        The sums of the weights.
    """

    def __init__(
        self, records: Records, weights: Array | None = None, *, squares: bool = False
    ) -> None:
        drawn = np.ones((len(records), 1), dtype=np.float32) if weights is None else weights
        counted = records.weights
        self.records, self.squares = records, squares
        self.weights = drawn if counted is None else drawn.astype(float) * counted[:, np.newaxis]
        self.total: FloatArray = self.weights.sum(axis=0, dtype=np.float64)
        self._parts: dict[Any, Drawn] = {}

    def part(self, subgroup: int | None = None, code: int | None = None) -> Drawn:
        """Return the records of a subgroup (all if None) whose true class has a code (any if None).

        Copying the weights takes as long as summing them, so each part is made once and cached.
        """
        if (subgroup, code) not in self._parts:
            labels, subgroups = self.records.labels, self.records.subgroups
            mask = np.ones(len(labels), dtype=bool) if code is None else labels == code
            if subgroup is not None and subgroups is not None:
                mask &= subgroups == subgroup
            rows = slice(None) if mask.all() else np.flatnonzero(mask)
            weights = self.weights[rows]
            total = weights.sum(axis=0, dtype=np.float64)
            self._parts[subgroup, code] = Drawn(rows, weights, total)
        return self._parts[subgroup, code]


class Sums:
    """Sums of answers over their records, each computed when a measure first asks for it.

    Parameters
    ----------
    answers : Answers
    drawn : DrawnRecords, optional
        How often each record is drawn; once if None.

    Attributes
    ----------
    answers
    weights, total, squares
        As in :class:`DrawnRecords`.
    """

    squares = False

    def __init__(self, answers: Answers, drawn: DrawnRecords | None = None) -> None:
        self.answers, self._drawn = answers, drawn or DrawnRecords(answers.records)
        self.weights, self.total = self._drawn.weights, self._drawn.total
        self.squares = self._drawn.squares
        self._made: dict[Any, Any] = {}

    def cells(self, kind: Cells, subgroup: int | None = None) -> FloatArray:
        """Return how many records of a subgroup (of all, if None) are answered in each way.

        Returns
        -------
        numpy.ndarray of float64
            ``outcomes``, shape (3, n, b): records with a right, a wrong and no answer.
            ``outcomes_of_class``, shape (K, 3, n, b): the same for each true class.
            ``counts``, shape (K, K + 1, n, b): records by true and by predicted class, where the
            last column counts those without an answer.
        """
        return self.once((kind, subgroup), lambda: self._added(kind, subgroup))

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return a value that several measures share, computed when the first one asks for it."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def weights_of_part(self, records: int) -> Array:
        """Return how often each record of the whole part counts, shape (records, b)."""
        rows = self.answers.records.rows
        if rows is None:
            return self.weights
        weights = np.zeros((records, self.weights.shape[1]))
        np.add.at(weights, rows, self.weights)
        return weights

    def paid(self, name: str, subgroup: int | None = None) -> FloatArray:
        """Return the sum of what was paid for records, in units, shape (n, b)."""
        units, drawn = self.answers.paid[name], self._drawn.part(subgroup)
        if units.shape[1] == 1:
            return np.asarray(units.astype(np.float64) * drawn.total)
        return drawn.sums(units[:, drawn.rows])

    def present(self, classes: BoolArray, subgroup: int | None = None) -> BoolArray:
        """Return whether columns of weights have records of the classes of a mask (K,), (b,)."""
        present = np.zeros(len(self.total), dtype=bool)
        for code in np.flatnonzero(classes):
            present |= self._drawn.part(subgroup, int(code)).total > 0
        return present

    def _added(self, kind: Cells, subgroup: int | None) -> FloatArray:
        codes = range(len(self.answers.records.classes))
        if kind == "outcomes":  # the counts are whole, so adding up the classes is exact
            by_class = self._made.get(("outcomes_of_class", subgroup))
            return self._outcomes(subgroup, None) if by_class is None else by_class.sum(axis=0)
        cells = self._outcomes if kind == "outcomes_of_class" else self._counts
        return np.stack([cells(subgroup, code) for code in codes])

    def _outcomes(self, subgroup: int | None, code: int | None) -> FloatArray:
        drawn = self._drawn.part(subgroup, code)
        codes = self.answers.codes[:, drawn.rows]
        labels = self.answers.records.labels[drawn.rows] if code is None else np.int64(code)
        # compared within the type of the codes, which takes a sixth of the time or less
        right, answered = drawn.sums(codes == labels.astype(codes.dtype)), drawn.sums(codes >= 0)
        outcomes = np.empty((3, *right.shape))
        outcomes[0] = right
        np.subtract(answered, right, out=outcomes[1])
        np.subtract(drawn.total, answered, out=outcomes[2])
        return outcomes

    def _counts(self, subgroup: int | None, code: int) -> FloatArray:
        drawn = self._drawn.part(subgroup, code)
        codes, classes = self.answers.codes[:, drawn.rows], range(len(self.answers.records.classes))
        called = [drawn.sums(codes == other) for other in classes]
        return np.stack([*called, drawn.total - np.sum(called, axis=0)])


class Counts(NamedTuple):
    """What ``n`` candidates answer to the records of ``b`` sets, as a family counts it itself.

    Attributes
    ----------
    outcomes : numpy.ndarray of int64, shape (K, 3, n, b)
        Records with a right, a wrong and no answer, by true class.
    paid : mapping of str to numpy.ndarray of int64, shape (n, b)
        Sums of what was paid, by the name of the cost, in units.
    sizes, failed, limits
        See :class:`Answers`.
    """

    outcomes: IntArray
    paid: Mapping[str, IntArray]
    sizes: Mapping[str, FloatArray]
    failed: BoolArray
    limits: Mapping[str, tuple[Array, Array]]

    def of(self, unions: BoolArray) -> Counts:
        """Return the counts of unions (b, c) of these sets, which have no record in common."""
        paid = {name: units @ unions for name, units in self.paid.items()}
        return self._replace(outcomes=self.outcomes @ unions, paid=paid)


class CountedSums(Sums):
    """Sums that a family has counted, over records without weights and without subgroups.

    Parameters
    ----------
    records : Records
        With three classes and more, no measure may ask which class an answer names.
    counts : Counts
    """

    def __init__(self, records: Records, counts: Counts) -> None:
        none = np.empty((len(counts.failed), 0), dtype=np.int16)
        self.answers = Answers(
            records,
            none,
            dict.fromkeys(counts.paid, none),
            counts.sizes,
            failed=counts.failed,
            limits=counts.limits,
        )
        self._counted = counts
        self._present = counts.outcomes[:, :, 0].sum(axis=1)  # records by true class, (K, b)
        self.total = self._present.sum(axis=0).astype(np.float64)

    def cells(self, kind: Cells, subgroup: int | None = None) -> FloatArray:
        by_class = self._counted.outcomes.astype(np.float64)
        if kind == "outcomes":
            return np.asarray(by_class.sum(axis=0))
        if kind == "outcomes_of_class":
            return by_class
        (first_right, first_wrong, first_none), (right, wrong, none) = by_class  # of two classes
        return np.stack([[first_right, first_wrong, first_none], [wrong, right, none]])

    def paid(self, name: str, subgroup: int | None = None) -> FloatArray:
        return self._counted.paid[name].astype(np.float64)

    def present(self, classes: BoolArray, subgroup: int | None = None) -> BoolArray:
        return np.asarray((self._present[classes] > 0).any(axis=0))


class Measure(Protocol):
    """A metric, and how it is computed from sums of answers."""

    @property
    def metric(self) -> Metric:
        """Name, sense and bounds of the metric."""

    def of(self, sums: Sums) -> FloatArray:
        """Return the metric, shape (n, b)."""


@runtime_checkable
class Share(Measure, Protocol):
    """A metric that may be taken over only some of the records, such as those with an answer."""

    def share(self, sums: Sums) -> FloatArray:
        """Return the share of the records that the metric is taken over, 0 to 1, shape (n, b)."""


@runtime_checkable
class Bounded(Measure, Protocol):
    """A metric that may be a mean of values of records, between known ends."""

    def ends(self, answers: Answers) -> tuple[FloatArray, FloatArray] | None:
        """Return the least and the highest value of a record, (n,) each; None where not known."""


@runtime_checkable
class Difference(Measure, Protocol):
    """A metric that may be the greatest difference between subgroups."""

    def chance(self, sums: Sums) -> FloatArray:
        """Return what it is by chance alone: see :meth:`RecordOutcomes.chance`."""


class Size(NamedTuple):
    """A metric that does not depend on records."""

    metric: Metric

    def of(self, sums: Sums) -> FloatArray:
        """Return the metric, shape (n, b)."""
        size = sums.answers.sizes[self.metric.name]
        return np.repeat(size[:, np.newaxis], len(sums.total), axis=1)

    def ends(self, answers: Answers) -> tuple[FloatArray, FloatArray]:
        """Return the metric twice: no record can change it."""
        size = np.asarray(answers.sizes[self.metric.name], dtype=np.float64)
        return size, size


def measured(answers: Answers, measures: Sequence[Measure], weights: Array | None = None) -> Values:
    """Return the metrics of candidates under weights of the records.

    Parameters
    ----------
    answers : Answers
    measures : sequence of Measure
    weights : numpy.ndarray, shape (N, b), optional
        Whole numbers; each record once if None.

    Returns
    -------
    mapping of str to numpy.ndarray of float64, shape (n, b)
        The values by metric; NaN for candidates that failed.
    """
    drawn = DrawnRecords(answers.records, weights)
    return _summed(answers, drawn, {measure.metric.name: measure.of for measure in measures}, {})[0]


OfSums = Mapping[str, Callable[[Sums], FloatArray]]


def _summed(answers: Answers, drawn: DrawnRecords, metrics: OfSums, shares: OfSums) -> Figures:
    """Return metrics and shares, computed in blocks of candidates."""
    columns = len(drawn.total)
    k, subgroups = len(answers.records.classes), max(len(answers.records.subgroup_names), 1)
    step = max(1, _CELLS // (columns * max(k, 1) * (k + 1) * subgroups))
    pieces = []
    for start in range(0, max(len(answers), 1), step):
        sums = Sums(answers.take(slice(start, start + step)), drawn)
        pieces.append(_valued(sums, metrics, shares))
    return _joined(pieces)


def _valued(sums: Sums, metrics: OfSums, shares: OfSums) -> Figures:
    """Return metrics, NaN for failed candidates, and shares."""

    def of(functions: OfSums) -> dict[str, FloatArray]:
        # Measures by class are last in the list. They are computed first, because the sums over all
        # records are then added up from those by class, which are in the cache.
        values = {name: functions[name](sums) for name in reversed(list(functions))}
        return {name: values[name] for name in functions}

    values, failed = of(metrics), sums.answers.failed
    if failed is not None and failed.any():
        values = {
            n: np.where(failed[:, np.newaxis], np.nan, column) for n, column in values.items()
        }
    return values, of(shares)


def _joined(pieces: Sequence[Figures]) -> Figures:
    """Return the figures of all candidates from those of pieces, in order."""
    values, about = (
        {name: np.concatenate([piece[name] for piece in part]) for name in part[0]}
        for part in zip(*pieces, strict=True)
    )
    return values, about


class AnswerOutcomes(RecordOutcomes):
    """Outcomes of candidates that are computed from their answers.

    Parameters
    ----------
    measures : sequence of Measure
    answers : callable
        Takes genomes (n, d) and returns their :class:`Answers`. Answers of all candidates are kept
        where they fit into 256 MiB.
    X : numpy.ndarray, shape (n, d)
        The genomes of the candidates.
    records : Records
    counts : callable, optional
        Takes genomes (n, d) and masks (b, records) of sets of records and returns their
        :class:`Counts`, faster than from answers. See :class:`CountedSums` for where it may be.
    """

    def __init__(
        self,
        measures: Sequence[Measure],
        answers: Callable[[Array], Answers],
        X: Array,
        records: Records,
        counts: Callable[[Array, BoolArray], Counts] | None = None,
    ) -> None:
        names = [measure.metric.name for measure in measures]
        super().__init__(len(X), len(records), names, records.units)
        self.refitted, self.counted = records.refitted, records.weights
        self._measures, self._answers, self._X, self._records = measures, answers, X, records
        self._counts = counts
        self._held: Answers | None = None

    @classmethod
    def of(cls, measures: Sequence[Measure], answers: Answers) -> Self:
        """Return the outcomes of candidates whose answers are already computed."""
        outcomes = cls(measures, lambda X: answers, np.zeros((len(answers), 0)), answers.records)
        outcomes._held = answers
        return outcomes

    def answers(self, candidates: Which = ALL) -> Answers:
        """Return the answers of some candidates."""
        if self._held is not None:
            return self._held.take(candidates)
        X = np.ascontiguousarray(self._X[candidates])
        answers = self._answers(X)
        if answers.nbytes * len(self._X) <= _HELD * len(X):  # those of all candidates would fit
            self._held = answers if len(X) == len(self._X) else self._answers(self._X)
            return self._held.take(candidates)
        return answers

    def _blocks(self, candidates: Which) -> Iterator[Answers]:
        """Yield the answers of candidates in blocks that take little memory."""
        chosen = np.arange(self.candidates)[candidates]
        step = max(_TOGETHER // max(self.records, 1), 16)  # sums of fewer wait for the memory
        for start in range(0, max(len(chosen), 1), step):
            yield self.answers(chosen[start : start + step])

    def metrics(self, weights: Array, candidates: Which = ALL, names: Names = None) -> Values:
        drawn = DrawnRecords(self._records, weights)
        return self._of_blocks(candidates, drawn, self._functions(names)[0], {})[0]

    def figures(
        self, weights: Array, candidates: Which = ALL, names: Names = None, *, squares: bool = False
    ) -> Figures:
        drawn = DrawnRecords(self._records, weights, squares=squares)
        return self._of_blocks(candidates, drawn, *self._functions(names))

    def figures_of_folds(
        self, fold_of: IntArray, unions: BoolArray, names: Collection[str], candidates: Which = ALL
    ) -> Figures:
        if self._counts is None:
            return super().figures_of_folds(fold_of, unions, names, candidates)
        folds = fold_of == np.arange(len(unions))[:, np.newaxis]
        counts = self._counts(self._X[candidates], folds).of(unions)
        return _valued(CountedSums(self._records, counts), *self._functions(names))

    def chance(self, weights: Array, candidates: Which = ALL) -> Values:
        of = {
            m.metric.name: m.chance
            for m in self._measures
            if isinstance(m, Difference) and m.metric.statistic == "difference"
        }
        return self._of_blocks(candidates, DrawnRecords(self._records, weights), of, {})[0]

    def _functions(self, names: Names) -> tuple[OfSums, OfSums]:
        """Return how metrics and shares follow from sums."""
        wanted = set(self.names if names is None else names)
        of = {m.metric.name: m.of for m in self._measures if m.metric.name in wanted}
        return of, {m.metric.name: m.share for m in self._measures if isinstance(m, Share)}

    def _of_blocks(
        self, candidates: Which, drawn: DrawnRecords, metrics: OfSums, shares: OfSums
    ) -> Figures:
        """Return metrics and shares, computing answers that are not kept only once."""
        return _joined([_summed(b, drawn, metrics, shares) for b in self._blocks(candidates)])

    def ends(self, candidates: Which = ALL) -> Mapping[str, tuple[FloatArray, FloatArray]]:
        if self._counts is None:
            blocks = self._blocks(candidates)
        else:  # ends are of no record: any set will do
            counts = self._counts(self._X[candidates], np.ones((1, self.records), dtype=bool))
            blocks = iter([CountedSums(self._records, counts).answers])
        pieces = []
        for block in blocks:
            of = {m.metric.name: m.ends(block) for m in self._measures if isinstance(m, Bounded)}
            pieces.append({name: ends for name, ends in of.items() if ends is not None})
        return {
            name: (
                np.concatenate([piece[name][0] for piece in pieces]),
                np.concatenate([piece[name][1] for piece in pieces]),
            )
            for name in pieces[0]
        }
