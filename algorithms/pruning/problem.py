"""Pruned ensembles of a library's classifiers, with a free vote threshold, as a problem.

A candidate says which classifiers are members, and the threshold: a record with more votes is
called positive (ensemble pruning by integer programming, Section 3). Models are never called:
everything is counted from their votes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.ensembling.means import add_members
from algorithms.moves.bits import pack
from algorithms.moves.variation import moved
from algorithms.pruning.diversity import NAMES, PairMeasure, pair_table, weighted_pair_tables
from algorithms.pruning.votes import (
    VoteTable,
    called_positive,
    confusion_rates,
    pair_credits,
)
from framework.answers import Answers, Measure, Part, Size, Sums
from framework.arrays import Array, BoolArray, FloatArray, IntArray, digest_of
from framework.capabilities import Alternative
from framework.errors import InputError, listed
from framework.libraries.library import Library
from framework.libraries.members import load_members
from framework.libraries.problem import LibraryKeys, LibraryProblem, describe
from framework.measures import Tables, each_once, rarest_share
from framework.roles import Metric
from framework.space import Counts, Integers

VERSION = 1  # to be raised when a value changes for the same library

Threshold = Literal["gene", "majority"]
THRESHOLD_GENE = "threshold"
_COLUMNS = 64  # tables of pairs that are in memory at a time

_RATES = (
    Metric("accuracy", "max", text="share of validation records called rightly", mixes=True),
    Metric("balanced_accuracy", "max", text="mean of both classes' true rates", mixes=True),
    Metric("true_positive_rate", "max", text="positive records called positive", mixes=True),
    Metric("true_negative_rate", "max", text="negative records called negative", mixes=True),
    Metric("false_positive_rate", "min", text="negative records called positive", mixes=True),
    Metric("false_negative_rate", "min", text="positive records called negative", mixes=True),
)

_MEMBERS = Metric("members", "min", "ratio", text="number of classifiers kept", size=True)
_WORDS: dict[PairMeasure, str] = {
    "failure_credit": "pairwise failure credit",
    "disagreement": "share of records on which one of a pair fails",
    "double_fault": "share of records on which no pair fails together",
    "q_statistic": "Yule's Q of a pair as (1 - Q) / 2",
}


def _diversity(measure: PairMeasure) -> tuple[Metric, Metric]:
    name, word = NAMES[measure], _WORDS[measure]
    return (
        Metric(f"{name}_min", "max", text=f"{word}: least mean of a member; 0 for one member"),
        Metric(f"{name}_mean", "max", text=f"{word}: mean of all pairs; 0 for one member"),
    )


class PruningConfig(LibraryKeys):
    """The ``problem`` section of kind ``pruning``; the library has two classes.

    threshold : ``gene`` (the last gene, 0 to K, as in the paper) or ``majority`` (a record is
        called positive by more than half of the votes; a tie is negative).
    models : how many models of the library are used, from its first on; all by default. With a
        ``balanced`` build, a small pool is the beginning of every larger one.
    pair_measure : the diversity of a pair of classifiers, from 0 to 1: ``failure_credit`` (the
        paper's), ``disagreement``, ``double_fault`` or ``q_statistic``; more is more diverse.
    """

    threshold: Threshold = "gene"
    models: int | None = Field(default=None, ge=2)
    pair_measure: PairMeasure = "failure_credit"


class PruningProblem(LibraryProblem):
    """The confusion matrix, size, diversity and costs of pruned ensembles.

    A classifier votes positive if its probability of the positive class is above 1/2.

    Metrics, in natural sign:

    ``accuracy``, ``balanced_accuracy``, ``true_positive_rate``, ``true_negative_rate``,
    ``false_positive_rate``, ``false_negative_rate``
        Ratios of whole counts, each rounded once. If test records lack a class, its rates are 0 and
        ``balanced_accuracy`` is the rate of the other class.
    ``members``
        Number of members.
    ``pfc_min``, ``pfc_mean``
        Least and mean pairwise failure credit of the members (Section 4); 0 for one member. Another
        ``pair_measure`` has its name in place of ``pfc``.
    each cost of the library, under its name
        Sum over the members.

    Parameters
    ----------
    library : Library
        With two classes and at least two classifiers.
    threshold : {'gene', 'majority'}
    pair_measure : str
        See :func:`algorithms.pruning.diversity.pair_table`.
    **asked
        ``positive``, ``costs``, ``rates`` and ``subgroups`` of :class:`LibraryProblem`.

    Raises
    ------
    InputError
        The library is for regression, or it has not two classes or only one classifier; a label or
        cost is unknown; validation records are of one class, or all classifiers vote alike.
    """

    known_metrics = (
        *_RATES,
        _MEMBERS,
        *(metric for measure in NAMES for metric in _diversity(measure)),
        Metric("inference_time", "min", "ratio", text="or any other cost, summed over members"),
    )
    _test: VoteTable | None

    def __init__(
        self,
        library: Library,
        *,
        threshold: Threshold = "gene",
        pair_measure: PairMeasure = "failure_credit",
        **asked: Any,
    ) -> None:
        self.check_classes(library.classes, library.title)
        super().__init__(library, **asked)
        self.threshold, self.pair_measure = threshold, pair_measure
        k = len(library)
        if k < 2:
            raise InputError(f"{library.title}: expected two classifiers or more, found {k}")
        self.space: Counts | Integers = (
            Integers(np.zeros(k + 1, int), np.append(np.ones(k, int), k), members=k)
            if threshold == "gene"
            else Counts(k, 1, empty=False)
        )
        self._set_tables()
        self.measures = self._measures()
        content = [VERSION, library.fingerprint, threshold, self.positive, self.costs]
        if pair_measure != "failure_credit":  # not said of the first one: older fingerprints hold
            content.append(pair_measure)
        content += self.asked
        if not library.fingerprint:
            content[1] = hashlib.sha256(
                self.votes.patterns.tobytes() + self.votes.records.tobytes()
            ).hexdigest()
        self.fingerprint = digest_of(content)

    Config = PruningConfig

    @classmethod
    def from_config(cls, config: PruningConfig) -> PruningProblem:
        options = {"threshold": config.threshold, "pair_measure": config.pair_measure}
        return cls.of_section(config, config.models, **options)

    @staticmethod
    def check_classes(classes: Sequence[Any] | None, title: str) -> None:
        if classes is None:
            raise InputError(
                f"{title}: expected classifiers of two classes, found models for regression; "
                "pruning chooses among classifiers"
            )
        if len(classes) != 2:
            raise InputError(
                f"{title}: expected two classes, found {len(classes)} ({listed(classes[:5])}); "
                "votes are for or against the positive class"
            )

    @property
    def gene_names(self) -> tuple[str, ...]:
        if self.threshold == "majority":
            return self.library.ids
        return (*self.library.ids, THRESHOLD_GENE)

    def settings(self, X: Array) -> Mapping[str, FloatArray]:
        """Return the thresholds of genomes, if a gene chooses them."""
        if self.threshold == "majority":
            return {}
        return {THRESHOLD_GENE: X[:, -1].astype(np.float64)}

    def describe(self) -> Mapping[str, Any]:
        return describe(self.library, self.library.fingerprint or self.fingerprint)

    def split(self, X: Array) -> tuple[Array, IntArray]:
        """Return members, shape (n, K), and thresholds, shape (n,), of genomes."""
        if X.ndim != 2 or X.shape[1] != self.space.d:
            raise ValueError(f"expected genomes of shape (n, {self.space.d}), found {X.shape}")
        members = X[:, : len(self.library)]
        if self.threshold == "majority":
            return members, np.asarray((members > 0).sum(axis=1) // 2)
        return members, X[:, -1].astype(np.int64)

    def genome(self, x: Array, threshold: int) -> Array:
        """Return the genome of members ``x``, shape (K,), and a threshold, shape (d,)."""
        genes = np.asarray(x) if self.threshold == "majority" else np.append(x, threshold)
        return genes.astype(self.space.dtype)

    def neighbours(self, X: Array) -> Array:
        return moved(self.space, X)

    def answers(self, X: Array, part: Part = "search") -> Answers:
        """Return the class with which genomes answer each record, and their sizes and costs."""
        records, table = self.records(part), self._table(part)
        assert records is not None
        members, thresholds = self.split(X)
        called = called_positive(table.patterns, pack(members > 0), thresholds)
        codes = np.where(called, self.positive, 1 - self.positive).astype(np.int8)
        count = (members > 0).sum(axis=1)
        costs = add_members(members > 0, self.cost_table, np.float64)
        sizes = dict(zip(self.costs, costs.T, strict=True))
        sizes[_MEMBERS.name] = count.astype(np.float64)
        return Answers(
            records, codes[:, table.pattern_of], sizes=sizes, failed=count == 0, X=members
        )

    def failures(self) -> BoolArray:
        """Return which classifiers are wrong on which records of the search, (K, N)."""
        votes, truth = self._votes(self.library.validation, self.library.y_validation)
        return np.asarray(votes != truth)

    def _table(self, part: Part) -> VoteTable:
        """Return the votes on the records of a part."""
        if part == "search":
            return self.votes
        if self._test is None:
            library = self.library
            assert library.test is not None
            assert library.y_test is not None
            self._test = VoteTable.of(*self._votes(library.test, library.y_test))
        return self._test

    def alternatives(self) -> Sequence[Alternative]:
        """Return the vote of all classifiers, the single best one, and the largest class."""
        ids = self.library.ids
        every = self.genome(np.ones(len(ids)), len(ids) // 2)
        singles = np.stack([self.genome(row, 0) for row in np.eye(len(ids))])
        name = f"the vote of all {len(ids)} classifiers"
        best = ("balanced_accuracy", "accuracy")
        return [
            Alternative.of_genomes(self, name, ["more than half of the votes"], every[np.newaxis]),
            Alternative.of_genomes(self, "the single best classifier", ids, singles, best),
            self.largest_class(),
        ]

    def explain(self, x: Array) -> str | None:
        members, _ = self.split(x[np.newaxis])
        return None if members.any() else "expected a member or more, found none"

    def decode(self, x: Array) -> Any:
        from algorithms.pruning.model import PrunedVotingClassifier

        rows, thresholds = self.split(x[np.newaxis])
        members = np.flatnonzero(rows[0]).tolist()
        models, costs, encoder = load_members(self.library, members, self.costs)
        assert self.library.classes is not None
        return PrunedVotingClassifier.from_votes(
            models,
            min(int(thresholds[0]), len(members)),  # above, a threshold makes no difference
            self.library.classes,
            positive=self.positive,
            costs=costs,
            encoder=encoder,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()  # tables are made again from the library
        for key in ("votes", "credit", "_test"):
            state.pop(key)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._set_tables()

    def _set_tables(self) -> None:
        library = self.library
        votes, positive = self._votes(library.validation, library.y_validation)
        if positive.all() or not positive.any():
            assert library.classes is not None
            label = library.classes[self.positive if positive.all() else 1 - self.positive]
            raise InputError(
                f"{library.title}: expected validation records of both classes, found {label!r} "
                "alone; measure the models on other records"
            )
        if (votes == votes[0]).all():
            raise InputError(
                f"{library.title}: expected classifiers that differ, found that all "
                f"{len(library)} vote alike on every validation record; nothing can be chosen"
            )
        self.votes = VoteTable.of(votes, positive)
        self.credit = pair_table(votes != positive, self.pair_measure)
        self._test = None

    def _votes(self, P: Array, y: Array) -> tuple[BoolArray, BoolArray]:
        above = np.asarray(P) > 0.5 if self.positive == 1 else np.asarray(P) < 0.5
        return above, np.asarray(y) == self.positive

    def _measures(self) -> tuple[Measure, ...]:
        """Return the measures by which metrics follow from answers."""
        tables, positive = Tables(2), self.positive
        accuracy, balanced, tpr, tnr, fpr, fnr = _RATES
        least, mean = _diversity(self.pair_measure)
        k = len(self.library)
        highs = add_members(np.ones((1, k)), self.cost_table, np.float64)[0]
        costs = self.cost_metrics(highs)
        measures: list[Measure] = [
            tables.ratio(accuracy, "accuracy"),
            BalancedAccuracy(balanced, positive),
            tables.ratio(tpr, "recall", positive),
            tables.ratio(tnr, "recall", 1 - positive),
            tables.ratio(fpr, "false_positive_rate", positive),
            tables.ratio(fnr, "false_negative_rate", positive),
            Size(_MEMBERS._replace(high=float(k))),
            PairDiversity(least, self, least=True),
            PairDiversity(mean, self, least=False),
            *map(Size, costs),
        ]
        self._direct = len(measures)
        return each_once(measures, self.rates)

    def direct(self, X: Array, part: Part) -> Mapping[str, FloatArray]:
        members, thresholds = self.split(X)
        table = self._table(part)
        fp, tp = table.positives(members, thresholds).T
        of_votes = confusion_rates(fp, tp, *table.totals)
        count = (members > 0).sum(axis=1).astype(np.float64)
        credits = pair_credits(self.credit, members)
        costs = add_members(members > 0, self.cost_table, np.float64)
        columns = [*of_votes, count, *credits.T, *costs.T]
        empty = count == 0
        if empty.any():
            columns = [np.where(empty, np.nan, column) for column in columns]
        return dict(zip(self.metric_names[: self._direct], columns, strict=True))


class BalancedAccuracy(NamedTuple):
    """The mean of both classes' true rates, rounded once; one class's if the other has no records.

    Attributes
    ----------
    metric : Metric
    positive : int
        Code of the positive class.
    """

    metric: Metric
    positive: int

    def of(self, sums: Sums) -> FloatArray:
        """Return the values of n ensembles under b columns of weights, shape (n, b)."""
        counts = sums.cells("counts")
        (fp, n0), (tp, n1) = (
            (counts[code, self.positive], counts[code].sum(axis=0))
            for code in (1 - self.positive, self.positive)
        )
        return confusion_rates(fp, tp, n0, n1)[1]

    def share(self, sums: Sums) -> FloatArray:
        """Return the share of the records that the mean is as sure as, shape (n, b)."""
        return rarest_share(sums)


class PairDiversity(NamedTuple):
    """The diversity of ensembles: the least mean of a member's pairs, or the mean of all pairs.

    Attributes
    ----------
    metric : Metric
    pool : PruningProblem
        The diversity of its pairs on the records of the search counts for test records, too.
    least : bool
    """

    metric: Metric
    pool: PruningProblem
    least: bool

    def of(self, sums: Sums) -> FloatArray:
        """Return the values, shape (n, b); 0 for one member, and without genomes."""
        X = sums.answers.X
        if X is None:
            return np.zeros((len(sums.answers), len(sums.total)))
        members = X[:, : len(self.pool.credit)] > 0
        both = sums.once(type(self), lambda: self._credits(sums, members))
        return np.asarray(both[0 if self.least else 1])

    def _credits(self, sums: Sums, members: Array) -> FloatArray:
        """Return the least and the mean diversity, shape (2, n, b)."""
        credits = np.empty((2, len(members), len(sums.total)))
        if sums.answers.records.part == "test":
            credits[:] = pair_credits(self.pool.credit, members).T[..., np.newaxis]
            return credits
        used = np.flatnonzero(members.any(axis=0))
        members, failures = members[:, used], self.pool.failures()[used]
        drawn = sums.weights_of_part(failures.shape[1])
        for start in range(0, len(sums.total), _COLUMNS):
            weights = drawn[:, start : start + _COLUMNS]
            tables = weighted_pair_tables(failures, weights, self.pool.pair_measure)
            for b, table in enumerate(tables, start):
                credits[:, :, b] = pair_credits(table, members).T
        return credits
