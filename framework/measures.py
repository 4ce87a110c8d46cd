"""Metrics as data: rates and mean costs are ratios of two tables of whole numbers.

Each table is multiplied with the counts of records by true and predicted class, and one sum is
divided by the other. Means, certificates, differences between subgroups and rows of integer
programs are all derived from the tables, so no family needs code of its own for them.

``NAME:CLASS`` is a rate of one class against all others, ``NAME`` that of the positive class. All
rates but coverage are taken over the records with an answer. A share of no records is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from framework.answers import Answers, Cells, Measure, Sums
from framework.arrays import Array, BoolArray, FloatArray, IntArray
from framework.errors import InputError, listed
from framework.outcomes import Sample
from framework.registry import class_text, nearest
from framework.roles import Metric, Sense

_RATES: dict[str, tuple[Sense, str]] = {
    "precision": ("max", "share of the answers {} that are right"),
    "recall": ("max", "share of the records of {} that are called so"),
    "f1": ("max", "harmonic mean of precision and recall of {}"),
    "false_positive_rate": ("min", "share of the other records that are called {}"),
    "false_negative_rate": ("min", "share of the records of {} that are called something else"),
    "accuracy": ("max", "share of the answers that are right"),
    "coverage": ("max", "share of records that get an answer"),
    "right": ("max", "share of records that are answered rightly"),
}
_OF_CLASS = tuple(_RATES)[:5]
_COMPARED = {"accuracy": "accuracy"}
_EXACT = 2**53  # floats hold whole numbers up to here exactly


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of sums over records.

    Attributes
    ----------
    metric : Metric
    over, under : numpy.ndarray, shape (K, K + 1)
        What a record adds to the numerator and to the denominator, by its true class (row) and its
        predicted class (column; the last one is for no answer).
    about : numpy.ndarray of bool, shape (K,)
        The true classes that the metric is about: for a subgroup without records of these classes
        it is not defined.
    paid : sequence of str
        Names of costs in :attr:`~framework.answers.Answers.paid` that are added to the numerator.
    per : int
        The ratio is divided by this number; the value of a unit of the first cost multiplies it.
    complement : bool
        Whether the metric is 1 minus the ratio.
    """

    metric: Metric
    over: Array
    under: Array
    about: BoolArray
    paid: tuple[str, ...] = ()
    per: int = 1
    complement: bool = False

    def of(self, sums: Sums, subgroup: int | None = None) -> FloatArray:
        """Return its values over a subgroup or all records, shape (n, b)."""
        scale = sums.answers.scale.get(self.paid[0], 1.0) if self.paid else 1.0
        return self.value(*self.parts(sums, subgroup), scale)

    def parts(self, sums: Sums, subgroup: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return numerator and denominator over a subgroup or all records, shape (n, b) each."""
        kind, over, under = self._cells
        if kind == "counts":
            self._check_names(sums.answers.alike)
        cells = sums.cells(kind, subgroup)
        most = float(sums.total.max(initial=0))
        above, below = _added(over, cells, most), _added(under, cells, most)
        for name in self.paid:
            above = above + sums.paid(name, subgroup)
        return above, below

    def value(self, above: FloatArray, below: FloatArray, scale: float = 1.0) -> FloatArray:
        """Return the metric of numerators and denominators; the ratio is 0 where it is over 0."""
        share = np.zeros(above.shape)
        top = above if scale == 1.0 else above * scale
        np.divide(top, below if self.per == 1 else below * self.per, out=share, where=below > 0)
        return 1.0 - share if self.complement else share

    def share(self, sums: Sums, subgroup: int | None = None) -> FloatArray:
        """Return the metric's records (of a subgroup) as a share of all records, shape (n, b)."""
        cells, most = sums.cells(self._cells[0], subgroup), float(sums.total.max(initial=0))
        below = _added(self._cells[2], cells, most)
        return np.asarray(below / (self.under.max() * np.maximum(sums.total, 1.0)))

    def ends(self, answers: Answers) -> tuple[FloatArray, FloatArray] | None:
        """Return the least and the highest cost of a record, (n,) each; None where not known."""
        if self.metric.kind == "bounded" or self.complement:
            return None
        name, limits = "", None
        if len(self.paid) == 1 and not self.over.any():
            (name,) = self.paid
            limits, paid = answers.limits.get(name), answers.paid[name]
            if limits is None and paid.shape[1] == 1:  # all records pay the same
                limits = paid[:, 0], paid[:, 0]
        if limits is None:  # a mean between bounds that each record's cost keeps, too
            least, most = (np.full(len(answers), end) for end in self.metric.ends)
            return (least, most) if np.isfinite(self.metric.ends).all() else None
        least, most = (units * answers.scale.get(name, 1.0) / self.per for units in limits)
        return least, most

    def sample(self, answers: Answers, most: Mapping[str, float]) -> Sample | None:
        """Return the metric of one classifier as a mean over records; None where it is no mean.

        The arguments are those of :func:`samples_of`.
        """
        if not np.isin(self.under, (0, 1)).all():
            return None
        labels, codes = answers.records.labels, answers.codes[0]
        values, among = self.over[labels, codes], self.under[labels, codes] > 0
        high = float(self.over.max())
        shares = not self.paid and np.isin(self.over, (0, 1)).all() and self.per == 1
        for name in self.paid:
            values, high = values + answers.paid[name][0], high + most[name]
        if high <= 0:
            return None
        if shares:
            share = Sample.share_of(values > 0, among)
            return share._replace(mean=1.0 - share.mean) if self.complement else share
        return Sample.mean_of(values[among] / self.per, high / self.per)

    @property
    def needs_classes(self) -> bool:
        """Whether the metric depends on which class a wrong answer names."""
        return self._cells[0] == "counts"

    def _check_names(self, alike: tuple[int, ...]) -> None:
        """Refuse answers with indistinct classes (``alike``) that the metric treats differently."""
        for true, a, b in product(range(len(self.over)), alike, alike):
            cells = (true, a), (true, b)
            same = [table[cells[0]] == table[cells[1]] for table in (self.over, self.under)]
            if true not in (a, b) and not all(same):
                raise ValueError(f"{self.metric.name}: expected answers that name their class")

    @cached_property
    def _cells(self) -> tuple[Cells, Array, Array]:
        """The coarsest kind of :meth:`Sums.cells` that suffices, and both tables in its shape."""
        k, tables = len(self.over), np.stack([self.over, self.under])
        wrong = tables[:, :, :k][:, ~np.eye(k, dtype=bool)].reshape(2, k, k - 1)
        if (wrong != wrong[..., :1]).any():
            return "counts", self.over, self.under
        right = np.diagonal(tables, axis1=1, axis2=2)
        over, under = np.stack([right, wrong[..., 0], tables[..., k]], axis=-1)  # (K, 3) each
        if (over == over[0]).all() and (under == under[0]).all():
            return "outcomes", over[0], under[0]
        return "outcomes_of_class", over, under


def _added(table: Array, cells: FloatArray, most: float) -> FloatArray:
    """Return the sum of the cells, at most ``most`` each, weighted by a table, shape (n, b).

    Raises
    ------
    InputError
        The sum may exceed 2^53, so that rounding would make it depend on the order of adding.
    """
    greatest = float(np.abs(table).max()) * most * table.size
    if greatest >= _EXACT:
        raise InputError(
            "costs: expected sums below 2^53 units, found up to "
            f"{greatest:.3g}; take a coarser unit"
        )
    total = np.zeros(cells.shape[-2:])
    for place in zip(*np.nonzero(table), strict=True):
        total += cells[place] if table[place] == 1 else table[place] * cells[place]
    return total


def _matthews(counts: FloatArray) -> FloatArray:
    """Return Matthews' correlation coefficient, or Gorodkin's (2004) for more than two classes."""
    called, true = counts.sum(axis=0), counts.sum(axis=1)
    total, right = true.sum(axis=0), np.trace(counts)
    top = right * total - (called * true).sum(axis=0)
    spread = np.sqrt(total**2 - (called**2).sum(axis=0)) * np.sqrt(total**2 - (true**2).sum(axis=0))
    coefficients = np.divide(top, spread, out=np.zeros(top.shape), where=spread > 0)
    return np.asarray(np.clip(coefficients, -1.0, 1.0))


# texts and formulas over the counts (K, K, n, b) of answers by true and predicted class
_COEFFICIENTS: dict[str, tuple[str, Callable[[FloatArray], FloatArray]]] = {
    "matthews": ("Matthews' correlation of answers and true classes", _matthews),
}


Rates = Annotated[
    tuple[str, ...],
    Field(
        description="Further metrics: "
        + ", ".join(f"`{name}`" for name in (*_OF_CLASS, *_COEFFICIENTS))
        + f"; the first {len(_OF_CLASS)} are of the positive class, or as `NAME:CLASS` of another."
    ),
]
"""The key of a configuration that :func:`rates` takes."""


class Coefficient(NamedTuple):
    """A metric in [-1, 1] that the counts of answers by true and predicted class decide."""

    metric: Metric
    formula: Callable[[FloatArray], FloatArray]

    def share(self, sums: Sums, subgroup: int | None = None) -> FloatArray:
        """Return the share of the records (of a subgroup) of the rarest class, shape (n, b)."""
        return rarest_share(sums, subgroup)

    def of(self, sums: Sums, subgroup: int | None = None) -> FloatArray:
        """Return the coefficients on the records of a subgroup (on all if None), shape (n, b)."""
        if sums.answers.alike:
            raise ValueError(f"{self.metric.name}: expected answers that name their class")
        return self.formula(sums.cells("counts", subgroup)[:, :-1])


@dataclass(frozen=True)
class OverClasses:
    """The mean or the least of one ratio per class, over the classes for which it is defined."""

    metric: Metric
    ratios: Sequence[Ratio]
    least: bool = False

    def of(self, sums: Sums) -> FloatArray:
        """Return the mean or the least ratio, shape (n, b); 0 where none is defined."""
        present = np.stack([sums.present(ratio.about) for ratio in self.ratios])
        values = np.stack([ratio.of(sums) for ratio in self.ratios])
        if self.least:
            least = np.where(present[:, np.newaxis], values, np.inf).min(axis=0)
            return np.where(present.any(axis=0), least, 0.0)
        total: FloatArray = np.zeros(values.shape[1:])
        for value, has_records in zip(values, present, strict=True):
            total += np.where(has_records, value, 0.0)
        return np.asarray(total / np.maximum(present.sum(axis=0), 1))

    def share(self, sums: Sums) -> FloatArray:
        """Return the share of the records of the rarest class, shape (n, b)."""
        return rarest_share(sums)


class BetweenSubgroups(NamedTuple):
    """The greatest difference of a rate between two subgroups, or the value of the worst one.

    Subgroups for which the rate is not defined (see :attr:`Ratio.about`) are left out.
    """

    metric: Metric
    rate: Ratio | Coefficient
    worst: bool

    def of(self, sums: Sums) -> FloatArray:
        """Return its values, shape (n, b)."""
        codes, present = self._present(sums)
        if self.worst or isinstance(self.rate, Coefficient):
            values = np.stack([self.rate.of(sums, code) for code in codes])
            return self._extremes(values, present)
        parts = [self.rate.parts(sums, code) for code in codes]
        above, below = (np.stack(part) for part in zip(*parts, strict=True))
        below = np.where(below > 0, below, 1.0)
        widest = np.zeros(above.shape[1:])
        # one common denominator, so a difference is rounded once, as in the exact methods
        for a, b in permutations(codes, 2):
            gap = (above[a] * below[b] - above[b] * below[a]) / (below[a] * below[b])
            widest = np.where(present[a] & present[b], np.maximum(widest, gap), widest)
        return widest

    def chance(self, sums: Sums) -> FloatArray:
        """Return the difference of subgroups that are alike under the first weights, (n, b)."""
        codes, present = self._present(sums)
        values = np.stack([self.rate.of(sums, code) for code in codes])
        return self._replace(worst=False)._extremes(values - values[..., :1], present)

    def _present(self, sums: Sums) -> tuple[range, BoolArray]:
        """Return the codes of the subgroups, and for which the rate is defined, (codes, 1, b)."""
        codes = range(len(sums.answers.records.subgroup_names))
        every = np.ones(len(sums.answers.records.classes), dtype=bool)
        about = self.rate.about if isinstance(self.rate, Ratio) else every
        return codes, np.stack([sums.present(about, code) for code in codes])[:, np.newaxis]

    def share(self, sums: Sums) -> FloatArray:
        """Return the least of the subgroups' shares of the records, shape (n, b).

        It is 0 where the rate of a subgroup is over no record, such as a precision if nobody in it
        is called positive.
        """
        codes, present = self._present(sums)
        return _least([self.rate.share(sums, code) for code in codes], present, sums)

    def _extremes(self, values: FloatArray, present: BoolArray) -> FloatArray:
        """Return the widest gap or the worst value over subgroups, the first axis; 0 of none."""
        least = np.where(present, values, np.inf).min(axis=0)
        most = np.where(present, values, -np.inf).max(axis=0)
        defined = present.any(axis=0)
        if not self.worst:
            return np.where(defined, most - least, 0.0)
        return np.where(defined, least if self.rate.metric.sense == "max" else most, 0.0)


def rarest_share(sums: Sums, subgroup: int | None = None) -> FloatArray:
    """Return the share of the records, (n, b), that are answered and of the rarest class.

    A mean over classes, or the least of them, is as sure as the figure of that class; a coefficient
    too, which is 0 in every resample where the few positives are all missed.
    """
    answered = sums.cells("outcomes_of_class", subgroup)[:, :2].sum(axis=1)
    return _least(list(answered / np.maximum(sums.total, 1.0)), answered > 0, sums)


def _least(shares: Sequence[FloatArray], counted: BoolArray, sums: Sums) -> FloatArray:
    """Return the least of some shares among those that count, shape (n, b); 0 of none."""
    each = np.stack(shares)
    order = each
    if sums.squares:  # by the part that is known least: see RecordOutcomes.figures
        alike = each[..., :1] ** 2 / np.where(each[..., 1:] > 0, each[..., 1:], 1.0)
        order = np.broadcast_to(alike, each.shape)
    order = np.where(counted, order, np.inf)
    least = np.take_along_axis(each, order.argmin(axis=0)[np.newaxis], axis=0)[0]
    return np.where(np.isfinite(order.min(axis=0)), least, 0.0)


class Tables:
    """The tables of whole numbers, by true and predicted class, that ratios are made of.

    Attributes
    ----------
    everyone, answered, right : numpy.ndarray of int64, shape (K, K + 1)
        1 for all records, for those with an answer, for those with the right answer; else 0.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.everyone: IntArray = np.ones((classes, classes + 1), dtype=np.int64)
        self.answered: IntArray = self.everyone * (np.arange(classes + 1) < classes)
        self.right: IntArray = np.eye(classes, classes + 1, dtype=np.int64)

    def true(self, code: int) -> IntArray:
        """Return the table of answered records whose true class is this one."""
        return np.asarray(self.answered * (np.arange(self.classes) == code)[:, np.newaxis])

    def called(self, code: int) -> IntArray:
        """Return the table of records whose predicted class is this one."""
        return np.asarray(self.everyone * (np.arange(self.classes + 1) == code))

    def ratio(self, metric: Metric, kind: str, code: int = -1) -> Ratio:
        """Return a rate of some kind, such as "recall", of the class with a code (-1 for none)."""
        of_class: BoolArray = np.arange(self.classes) == code
        every: BoolArray = np.ones(self.classes, dtype=bool)
        true, called = self.true(code), self.called(code)
        hits = self.right * true
        over, under, about = {
            "coverage": (self.answered, self.everyone, every),
            "accuracy": (self.right, self.answered, every),
            "right": (self.right, self.everyone, every),
            "precision": (hits, called, of_class),
            "recall": (hits, true, of_class),
            "f1": (2 * hits, called + true, of_class),
            "false_positive_rate": (called - hits, self.answered - true, ~of_class),
            "false_negative_rate": (true - hits, true, of_class),
        }[kind]
        return Ratio(metric, over, under, about)


def rates(
    names: Sequence[str],
    classes: Sequence[Any],
    positive: int = -1,
    subgroups: Sequence[str] = (),
    compared: Mapping[str, str] = _COMPARED,
    where: str = "problem.rates",
) -> tuple[Measure, ...]:
    """Return the rates that a configuration asks for, and how subgroups differ in them.

    With subgroups, two metrics are added for each rate asked for, for the metrics ``compared``, and
    for the two error rates (the recall of each class, where none is positive): the greatest
    difference between two subgroups (``NAME_difference``) and the value of the worst subgroup
    (``worst_subgroup_NAME``).

    Parameters
    ----------
    names : sequence of str
        As :data:`Rates` says.
    classes : sequence
        Labels, by class code; none where answers are only right or wrong.
    positive : int
        Code of the positive class; -1 for none.
    subgroups : sequence of str
        Names of the subgroups, by code.
    compared : mapping of str to str
        Metrics of the family that subgroups are compared in, and of which kind each is: ``right``
        over all records, ``accuracy`` over those with an answer, or ``coverage``.
    where : str
        The key of the configuration that messages name.

    Raises
    ------
    InputError
        A name or class is unknown, or a name lacks its class where no class is positive.
    """
    tables = Tables(len(classes) or 2)

    def measure(name: str, kind: str, code: int) -> Ratio | Coefficient:
        if kind in _COEFFICIENTS:
            text, formula = _COEFFICIENTS[kind]
            return Coefficient(Metric(name, "max", low=-1.0, text=text), formula)
        sense, text = _RATES[kind]
        label = "" if code < 0 else repr(str(classes[code]))
        return tables.ratio(Metric(name, sense, text=text.format(label)), kind, code)

    chosen = [measure(name, *_named(name, classes, positive, where)) for name in names]
    if not subgroups:
        return tuple(chosen)
    usual = {name: (kind, -1) for name, kind in compared.items()}
    if positive >= 0:
        usual |= {kind: (kind, positive) for kind in ("false_positive_rate", "false_negative_rate")}
    else:
        usual |= {f"recall:{name}": ("recall", k) for k, name in enumerate(_names(classes))}
    every = {name: measure(name, *rate) for name, rate in usual.items()}
    every |= {rate.metric.name: rate for rate in chosen}
    differences = [_difference(rate) for rate in every.values()]
    return (*chosen, *differences, *(_worst_subgroup(rate) for rate in every.values()))


def _named(name: str, classes: Sequence[Any], positive: int, where: str) -> tuple[str, int]:
    """Return the kind of a rate and the code of its class, -1 for none."""
    kind, _, label = name.partition(":")
    kinds = [*_OF_CLASS, *_COEFFICIENTS]
    if kind not in kinds or (kind in _COEFFICIENTS and label):
        raise InputError(
            f"{where}: expected {', '.join(kinds)}, the first {len(_OF_CLASS)} also as "
            f"NAME:CLASS, found {name!r}{nearest(kind, kinds)}"
        )
    if kind in _COEFFICIENTS:
        return kind, -1
    if not label:
        if positive < 0:
            raise InputError(
                f"{where}: expected {kind}:CLASS, since no class is the positive one, found "
                f"{name!r}; classes are {listed(_names(classes))}"
            )
        return kind, positive
    labels, label = [*map(str, classes), *_names(classes)], class_text(label, classes)
    if label not in labels:
        raise InputError(
            f"{where}: expected a class of the data ({listed(_names(classes))}), found {name!r}"
            f"{nearest(label, labels)}"
        )
    return kind, labels.index(label) % len(classes)


def _difference(rate: Ratio | Coefficient) -> BetweenSubgroups:
    metric = Metric(
        _with(rate.metric.name, "{}_difference"),
        "min",
        high=2.0 if isinstance(rate, Coefficient) else 1.0,
        text=f"greatest difference of two subgroups: {rate.metric.text}",
        statistic="difference",
    )
    return BetweenSubgroups(metric, rate, worst=False)


def _worst_subgroup(rate: Ratio | Coefficient) -> BetweenSubgroups:
    name = _with(rate.metric.name, "worst_subgroup_{}")
    text = f"worst subgroup: {rate.metric.text}"
    return BetweenSubgroups(rate.metric._replace(name=name, text=text), rate, worst=True)


def samples_of(
    measures: Sequence[Measure], answers: Answers, most: Mapping[str, float]
) -> dict[str, list[Sample]]:
    """Return samples of the measures that are means over records, or the least of several means.

    Parameters
    ----------
    measures : sequence of Measure
    answers : Answers
        The answers of one classifier.
    most : mapping of str to float
        The most units that a record can pay, by the names of ``answers.paid``.
    """
    samples: dict[str, list[Sample]] = {}
    for measure in measures:
        least = isinstance(measure, OverClasses) and measure.least
        ratios = measure.ratios if least else [measure]  # type: ignore[attr-defined]
        each = [r.sample(answers, most) if isinstance(r, Ratio) else None for r in ratios]
        countable = [sample for sample in each if sample is not None]
        if len(countable) == len(each):
            samples[measure.metric.name] = countable
    return samples


def need_classes(measures: Sequence[Measure]) -> bool:
    """Return whether any measure depends on which class a wrong answer names."""
    rates = [m.rate if isinstance(m, BetweenSubgroups) else m for m in measures]
    return any(
        isinstance(m, Coefficient) or (isinstance(m, Ratio) and m.needs_classes) for m in rates
    )


def each_once(
    measures: Sequence[Measure], rates: Sequence[Measure] = (), where: str = "library"
) -> tuple[Measure, ...]:
    """Return a family's measures, then the rates that it lacks; refuse a cost with a name of them.

    Raises
    ------
    InputError
        Two measures have the same name.
    """
    names = [measure.metric.name for measure in measures]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{where}: expected costs with other names than metrics have, found a cost named "
            f"{twice!r}; rename it"
        )
    by_name = dict(zip(names, measures, strict=True))
    for rate in rates:
        by_name.setdefault(rate.metric.name, rate)
    return tuple(by_name.values())


def _names(classes: Sequence[Any]) -> list[str]:
    """Return the classes as metric names say them; those that would be equal get their number."""
    names = [re.sub(r"[\s<>=,]+", "_", str(label)) for label in classes]
    while len(set(names)) < len(names):  # a numbered one may equal the name of another class
        names = [n if names.count(n) == 1 else f"{n}_{k}" for k, n in enumerate(names, start=1)]
    return names


def _with(name: str, form: str) -> str:
    kind, colon, label = name.partition(":")
    return f"{form.format(kind)}{colon}{label}"
