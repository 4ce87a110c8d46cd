"""Rates of classifiers by class and by subgroup, from what is said of what is true.

One implementation for all families: a family says what its candidates answer to each record, the
counts are made here, under any weights of the records, and so are the shares that follow. A share
is over the records with an answer, but coverage; where there is nothing to take a share of it is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError, listed
from framework.jit import njit
from framework.outcomes import RecordOutcomes, Sample
from framework.registry import nearest
from framework.roles import Metric, Sense

NO_ANSWER, FAILED = -1, -2
"""What is said where there is no answer, and of every record where a candidate cannot be built."""

MATTHEWS = "matthews"
_OF_CLASS: dict[str, tuple[Sense, str]] = {
    "precision": ("max", "share of the answers {} that are right"),
    "recall": ("max", "share of the records of {} that are called so"),
    "f1": ("max", "harmonic mean of precision and recall of {}"),
    "false_positive_rate": ("min", "share of the other records that are called {}"),
    "false_negative_rate": ("min", "share of the records of {} that are called something else"),
}
_OF_ALL: dict[str, tuple[Sense, str]] = {
    "accuracy": ("max", "share of the answers that are right"),
    "coverage": ("max", "share of records that get an answer"),
}
_NEED_ANSWERS = ("precision", "f1", "false_positive_rate", MATTHEWS)
_AT_ONCE = 2**24  # answers that are looked at together


def samples_of_answers(
    codes: IntArray, given: IntArray, classes: int, positive: int = -1
) -> dict[str, list[Sample]]:
    """Return the metrics of a classifier's answers to labelled records that are shares.

    Parameters
    ----------
    codes, given : numpy.ndarray of int64, shape (n,)
        The true classes and the answers, -1 for none.
    classes, positive : int
        How many there are; the code of the positive one, -1 for none.
    """
    answered, right = given >= 0, given == codes
    everyone = np.ones(len(codes), dtype=bool)
    of = Sample.share_of
    found = {
        "coverage": [of(answered, everyone)],
        "inconclusive_rate": [of(~answered, everyone)],
        "accuracy": [of(right, answered)],
        "worst_recall": [of(right, answered & (codes == k)) for k in range(classes)],
    }
    if positive >= 0:
        positives, negatives = answered & (codes == positive), answered & (codes != positive)
        found["false_positive_rate"] = [of(given == positive, negatives)]
        found["false_negative_rate"] = [of(~right, positives)]
        found["recall"] = found["true_positive_rate"] = [of(right, positives)]
        found["true_negative_rate"] = [of(given != positive, negatives)]
    return found


class Share(NamedTuple):
    """A rate as sums of counts: ``kind`` of the class of code ``of``; -1 for no class."""

    kind: str
    of: int


class Rates:
    """Which rates a problem reports, and how they follow from counts.

    ``NAME:CLASS`` is a rate of one class against all others, ``NAME`` that of the positive class.
    With subgroups there are also, for coverage, accuracy and the rates of errors (of several
    classes: the recall of each) and for each rate asked for, the greatest difference of two
    subgroups (``NAME_difference``) and the value of the worst one (``worst_group_NAME``). A
    subgroup without records that a rate is about has no part in it.

    Parameters
    ----------
    names : sequence of str
        Of ``precision``, ``recall``, ``f1``, ``false_positive_rate``, ``false_negative_rate``, each
        with or without a class, and ``matthews``, Matthews' correlation coefficient (of several
        classes: Gorodkin 2004).
    classes : sequence
        Labels, by class code.
    positive : int
        Code of the positive class; -1 for none.
    groups : sequence of str, optional
        Names of the subgroups, by code.
    abstains : bool
        Whether there are records without an answer.
    where : str
        Key of the names, for messages.

    Raises
    ------
    InputError
        An unknown name or class, or a name without a class where none is positive.
    """

    def __init__(
        self,
        names: Sequence[str],
        classes: Sequence[Any],
        positive: int = -1,
        groups: Sequence[str] = (),
        *,
        abstains: bool = False,
        where: str = "problem.rates",
    ) -> None:
        self.classes, self.positive, self.groups = tuple(classes), positive, tuple(groups)
        self.shares = {name: self._share(name, where) for name in names}
        compared = dict(self.shares)
        if groups:
            compared = self._usual(abstains) | compared
        self.differences = {_with(name, "{}_difference"): s for name, s in compared.items()}
        self.worst = {_with(name, "worst_group_{}"): s for name, s in compared.items()}
        if not groups:
            self.differences, self.worst = {}, {}

    def _usual(self, abstains: bool) -> dict[str, Share]:
        found = {"coverage": Share("coverage", -1)} if abstains else {}
        found["accuracy"] = Share("accuracy", -1)
        if self.positive >= 0:
            for kind in ("false_positive_rate", "false_negative_rate"):
                found[kind] = Share(kind, self.positive)
        else:
            for code, label in enumerate(self.classes):
                found[f"recall:{as_name(label)}"] = Share("recall", code)
        return found

    def _share(self, name: str, where: str) -> Share:
        kind, _, label = name.partition(":")
        known = [*_OF_CLASS, MATTHEWS]
        if kind not in known or (kind == MATTHEWS and label):
            raise InputError(
                f"{where}: expected {', '.join(known)}, all but the last also as NAME:CLASS, found "
                f"{name!r}{nearest(kind, known)}"
            )
        if kind == MATTHEWS:
            return Share(kind, -1)
        labels = [as_name(known) for known in self.classes]
        if not label:
            if self.positive < 0:
                raise InputError(
                    f"{where}: expected {kind}:CLASS, since no class is the positive one, found "
                    f"{name!r}; classes are {listed(labels)}"
                )
            return Share(kind, self.positive)
        if as_name(label) not in labels:
            raise InputError(
                f"{where}: expected a class of the data ({listed(labels)}), found {name!r}"
                f"{nearest(label, labels)}"
            )
        return Share(kind, labels.index(as_name(label)))

    @cached_property
    def needs_answers(self) -> bool:
        """Whether it matters which of several classes a wrong answer says."""
        kinds = {share.kind for share in [*self.shares.values(), *self.worst.values()]}
        return len(self.classes) > 2 and not kinds.isdisjoint(_NEED_ANSWERS)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All of them: the rates, then differences, then worst subgroups."""
        found = [_metric(name, share, self.classes, "") for name, share in self.shares.items()]
        for name, share in self.differences.items():
            text = f"greatest difference of two subgroups: {self._text(share)}"
            high = 2.0 if share.kind == MATTHEWS else 1.0
            found.append(Metric(name, "min", high=high, text=text))
        found += [_metric(n, s, self.classes, "worst subgroup: ") for n, s in self.worst.items()]
        return tuple(found)

    def _text(self, share: Share) -> str:
        return _metric("", share, self.classes, "").text

    def values(self, counts: FloatArray) -> dict[str, FloatArray]:
        """Return each metric of counts of records.

        Parameters
        ----------
        counts : numpy.ndarray of float64, shape (..., G, K, K + 1)
            Whole numbers: records of a subgroup, of a true class, that are called a class; the last
            column has those without an answer.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (...)
        """
        whole = counts.sum(axis=-3)
        found = {name: value_of(whole, share) for name, share in self.shares.items()}
        known: dict[Share, tuple[FloatArray, FloatArray]] = {}
        for share in {*self.differences.values(), *self.worst.values()}:
            known[share] = _compared(counts, share)
        for name, share in self.differences.items():
            found[name] = known[share][0]
        for name, share in self.worst.items():
            found[name] = known[share][1]
        return found


def further(rated: Sequence[RatedRecords], known: Collection[str]) -> tuple[Metric, ...]:
    """Return the metrics of records, but those that a problem has on its own."""
    return tuple(m for m in rated[0].rates.metrics if m.name not in known) if rated else ()


def as_name(label: Any) -> str:
    """Return a class as names of metrics have it, in which no condition has a space or a sign."""
    return re.sub(r"[\s<>=,]+", "_", str(label))


def _with(name: str, form: str) -> str:
    kind, colon, label = name.partition(":")
    return f"{form.format(kind)}{colon}{label}"


def _metric(name: str, share: Share, classes: Sequence[Any], before: str) -> Metric:
    if share.kind == MATTHEWS:
        text = f"{before}Matthews' correlation of answers and true classes"
        return Metric(name, "max", low=-1.0, text=text)
    sense, text = (_OF_CLASS | _OF_ALL)[share.kind]
    label = "" if share.of < 0 else repr(str(classes[share.of]))
    return Metric(name, sense, text=before + text.format(label))


def fraction(counts: FloatArray, share: Share) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return numerator and denominator of a rate, and how many records it could be about.

    Parameters
    ----------
    counts : numpy.ndarray of float64, shape (..., K, K + 1)
        See :meth:`Rates.values`.
    share : Share
        Not of Matthews' coefficient.
    """
    answered, all_of = counts[..., :-1], counts.sum(axis=-1)
    everyone = all_of.sum(axis=-1)
    if share.kind == "coverage":
        return answered.sum(axis=(-1, -2)), everyone, everyone
    if share.kind == "accuracy":
        right = np.trace(answered, axis1=-2, axis2=-1)
        return right, answered.sum(axis=(-1, -2)), everyone
    k = share.of
    hits, called, true = (
        answered[..., k, k],
        answered[..., :, k].sum(-1),
        answered[..., k, :].sum(-1),
    )
    others = answered.sum(axis=(-1, -2)) - true
    its = all_of[..., k]
    if share.kind == "precision":
        return hits, called, everyone
    if share.kind == "recall":
        return hits, true, its
    if share.kind == "f1":
        return 2 * hits, called + true, its
    if share.kind == "false_positive_rate":
        return called - hits, others, everyone - its
    return true - hits, true, its


def value_of(counts: FloatArray, share: Share) -> FloatArray:
    """Return a rate of counts (..., K, K + 1); 0 where there is nothing to take a share of."""
    if share.kind == MATTHEWS:
        return _matthews(counts[..., :-1])
    above, below, _ = fraction(counts, share)
    return np.asarray(np.divide(above, below, out=np.zeros(above.shape), where=below > 0))


def _matthews(answered: FloatArray) -> FloatArray:
    total = answered.sum(axis=(-1, -2))
    called, true = answered.sum(axis=-2), answered.sum(axis=-1)
    right = np.trace(answered, axis1=-2, axis2=-1)
    top = right * total - (called * true).sum(axis=-1)
    spread = np.sqrt(total**2 - (called**2).sum(axis=-1)) * np.sqrt(
        total**2 - (true**2).sum(axis=-1)
    )
    found = np.divide(top, spread, out=np.zeros(top.shape), where=spread > 0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def _compared(counts: FloatArray, share: Share) -> tuple[FloatArray, FloatArray]:
    """Return the greatest difference of two subgroups, and the worst one's value."""
    values = value_of(counts, share)  # (..., G)
    about = counts.sum(axis=(-1, -2)) if share.kind == MATTHEWS else fraction(counts, share)[2]
    there = about > 0
    least = np.where(there, values, np.inf).min(axis=-1)
    most = np.where(there, values, -np.inf).max(axis=-1)
    some = there.any(axis=-1)
    sense = "max" if share.kind == MATTHEWS else (_OF_CLASS | _OF_ALL)[share.kind][0]
    worst = np.where(some, least if sense == "max" else most, 0.0)
    if share.kind == MATTHEWS:
        return np.where(some, most - least, 0.0), worst
    above, below, _ = fraction(counts, share)
    below = np.where(below > 0, below, 1.0)
    widest = np.zeros(values.shape[:-1])
    for a, b in permutations(range(values.shape[-1]), 2):  # rounded once, as exact methods count
        wide = (above[..., a] * below[..., b] - above[..., b] * below[..., a]) / (
            below[..., a] * below[..., b]
        )
        widest = np.where(there[..., a] & there[..., b], np.maximum(widest, wide), widest)
    return widest, worst


class RatedRecords:
    """The records that rates are of.

    Parameters
    ----------
    rates : Rates
    truth : numpy.ndarray of int64, shape (N,)
        Class codes.
    groups : numpy.ndarray of int64, shape (N,), optional
        Codes of subgroups.
    """

    def __init__(self, rates: Rates, truth: IntArray, groups: IntArray | None = None) -> None:
        self.rates, self.truth = rates, np.asarray(truth, dtype=np.int64)
        self.groups = groups
        k = len(rates.classes)
        group = np.zeros(len(truth), dtype=np.int64) if groups is None else np.asarray(groups)
        self._cells = group * k + self.truth
        self._shape = max(len(rates.groups), 1), k, k + 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(metric.name for metric in self.rates.metrics)

    def content(self) -> list[Any]:
        """Return all that decides the metrics beside the labels, as JSON values."""
        groups = [] if self.groups is None else np.asarray(self.groups).tolist()
        return [list(self.rates.shares), list(self.rates.groups), groups]

    def of_constant(self, code: int, weights: IntArray | None = None) -> dict[str, float]:
        """Return the metrics of what always says one class; records count by weights (N,)."""
        said = np.full((1, len(self.truth)), code, dtype=np.int64)
        found = self.values(said, None if weights is None else weights[:, None])
        return {name: float(column[0, 0]) for name, column in found.items()}

    def counts(self, said: IntArray, weights: Array | None = None) -> FloatArray:
        """Return the counts of :meth:`Rates.values`, shape (n, b, G, K, K + 1).

        Parameters
        ----------
        said : numpy.ndarray of int64, shape (n, N)
            Class codes; -1 for no answer.
        weights : numpy.ndarray, shape (N, b), optional
            How often each record counts; whole numbers. Once each if None.
        """
        if weights is None:
            weights = np.ones((len(self.truth), 1))
        groups, k, columns = self._shape
        drawn = np.ascontiguousarray(weights, dtype=np.float64)
        found = _count(np.ascontiguousarray(said), self._cells, drawn, groups * k, columns)
        return found.transpose(0, 3, 1, 2).reshape(len(said), drawn.shape[1], *self._shape)

    def values(self, said: IntArray, weights: Array | None = None) -> dict[str, FloatArray]:
        """Return the metrics of answers, (n, b) each; NaN of candidates that failed."""
        found = self.rates.values(self.counts(said, weights))
        failed = said[:, 0] == FAILED
        if failed.any():
            found = {name: np.where(failed[:, None], np.nan, of) for name, of in found.items()}
        return found

    def measured(self, n: int, said: Callable[[slice], IntArray]) -> dict[str, FloatArray]:
        """Return the metrics of ``n`` candidates, (n,) each, some of which are asked at a time."""
        step = max(1, _AT_ONCE // max(len(self.truth), 1))
        parts = [self.values(said(slice(i, min(i + step, n)))) for i in range(0, n, step)]
        if not parts:
            return {name: np.zeros(0) for name in self.names}
        return {name: np.concatenate([part[name][:, 0] for part in parts]) for name in parts[0]}


class RatedOutcomes(RecordOutcomes):
    """Outcomes of a family, and rates of the same answers.

    Parameters
    ----------
    base : RecordOutcomes
        Of the other metrics.
    rated : RatedRecords
    said : callable
        The answers of some candidates, as :meth:`RatedRecords.counts` has them.
    names : collection of str
        The metrics that the problem reports.
    """

    def __init__(
        self,
        base: RecordOutcomes,
        rated: RatedRecords,
        said: Callable[[slice | IntArray], IntArray],
        names: Collection[str],
    ) -> None:
        super().__init__(base.candidates, base.records, names, base.units)
        self.refitted = base.refitted
        self._base, self._rated, self._said = base, rated, said

    def metrics(
        self,
        weights: Array,
        candidates: slice | IntArray = slice(None),
        names: Collection[str] | None = None,
    ) -> Mapping[str, FloatArray]:
        wanted = set(self.names if names is None else names)
        found = dict(self._base.metrics(weights, candidates, wanted & set(self._base.names)))
        if wanted & set(self._rated.names):
            found |= self._rated.values(self._said(candidates), weights)
        return {name: found[name] for name in self.names if name in found}


@njit
def _count(
    said: IntArray, cells: IntArray, weights: FloatArray, rows: int, columns: int
) -> FloatArray:
    """Add up weights by cell and answer, shape (n, rows, columns, b); no answer comes last."""
    n, b = len(said), weights.shape[1]
    out = np.zeros((n, rows, columns, b))
    for r in range(n):
        for i in range(said.shape[1]):
            answer = said[r, i] if said[r, i] >= 0 else columns - 1
            for c in range(b):
                out[r, cells[i], answer, c] += weights[i, c]
    return out
