"""What a problem may know beside the values of its candidates, each with a default.

These are the bases of :class:`~framework.problem.Problem`: a family overrides what it knows, and
whoever asks of a problem that does not know gets none of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import InputError
from framework.outcomes import RecordOutcomes, Refits
from framework.space import Space
from framework.streams import CandidateStreams


class TrivialClassifier(NamedTuple):
    """What scores a classifier that gives one label always and reads nothing.

    Attributes
    ----------
    name : str
        For the user, such as ``always negative``.
    label : the label that it gives
    classes : the labels there are, in the order of the problem's models
    values, test : mapping of str to float
        All metrics of the problem, on validation and on test records; no ``test`` without those.
    """

    name: str
    label: Any
    classes: Sequence[Any]
    values: Mapping[str, float]
    test: Mapping[str, float] | None = None


class Alternative(NamedTuple):
    """What a person would do without a search, such as one classifier with several thresholds.

    Attributes
    ----------
    name : str
        For the user, such as ``a logistic regression on all features``.
    points : tuple of str
        One name each, such as ``threshold 0.8``.
    outcomes : RecordOutcomes
        Of the points, on the records that candidates are scored on.
    test : mapping of str to numpy.ndarray, shape (points,), optional
        Their metrics on the test records.
    best : sequence of str
        Where a person would take one of the points: the metrics by which, of which the first one
        that is an objective counts, else the first. It is chosen on the records searched, and so
        chosen anew in each resample of them. Empty where every point stands for itself.
    """

    name: str
    points: Sequence[str]
    outcomes: RecordOutcomes
    test: Mapping[str, Array] | None = None
    best: Sequence[str] = ()

    @classmethod
    def of_genomes(
        cls,
        problem: OnRecords,
        name: str,
        points: Sequence[str],
        X: Array,
        best: Sequence[str] = (),
    ) -> Alternative:
        """Return an alternative whose points are genomes (points, d) of a problem with outcomes."""
        outcomes = problem.outcomes(X)
        if outcomes is None:
            raise ValueError("expected a problem with outcomes, found one without")
        test = problem.evaluate_test(X, CandidateStreams(0, np.arange(len(X))))
        return cls(name, tuple(points), outcomes, test, tuple(best))


class Described:
    """How a problem describes itself in reports; each method has a default."""

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the data, for reports.

        The keys are ``name``, ``source``, ``fingerprint`` and ``records``, and those of ``train``,
        ``validation``, ``test``, ``features``, ``models``, ``classes``, ``costs`` (texts on what is
        paid for what), ``identifier`` (the column that names the records) and ``notes`` (sentences
        for the user) that apply. Where candidates are not measured on validation records,
        ``out_of_fold`` is the number of records instead, ``measured`` says what values are of
        ("out-of-fold on 576 records"), and ``measure`` how ("cross-validation, 5 folds").
        """
        return {}

    def memory(self, candidates: int | None) -> tuple[int, str]:
        """Return the bytes that a run with so many candidates may need, and a line for the user.

        ``candidates`` is None if their number is unknown. The result is (0, "") if the memory is
        too little to mention.
        """
        return 0, ""

    @classmethod
    def memory_to_load(cls, config: Any) -> int:
        """Return roughly the peak memory of :meth:`from_config` in bytes; 0 if unknown."""
        return 0

    def settings(self, X: Array) -> Mapping[str, FloatArray]:
        """Return numbers of genomes (n, d) that tables of a front show beside metrics, by name.

        A threshold is one; NaN where a design does without. Of ``gene_names``, or other names.
        """
        return {}

    def explain(self, x: Array) -> str | None:
        """Return why the values of a genome are NaN; None if the problem does not know."""
        return None

    @property
    def remains(self) -> str:
        """How what to expect of solutions is known to be wrong, a line for the user; or empty."""
        return ""


class SearchHints:
    """What helps searches: points of reference, designs to begin with, data of exact methods."""

    space: Space

    def starts(self) -> Array:
        """Return genomes that one could have without a search, shape (n, d); none by default.

        Searches that say so evaluate them first, so that their result is never worse on the
        records searched.
        """
        return np.zeros((0, self.space.d), dtype=self.space.dtype)

    def neighbours(self, X: Array) -> Array:
        """Return designs that differ from genomes (n, d) by one move, shape (m, d); or none.

        Beside the front of an exact method they stand for the designs that it chose from.
        """
        return np.zeros((0, self.space.d), dtype=self.space.dtype)

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return the values of trivial candidates, as reference points; None if there are none.

        Each point has one coordinate per metric, from 0 (its best value) to 1 (its worst).
        """
        return None

    def true_front(self, n: int) -> FloatArray | None:
        """Return ``n`` points spread evenly over the true Pareto front; None if it is unknown.

        They are losses, shape (n, number of metrics).
        """
        return None

    def tables(self) -> Any:
        """Return data that exact methods and baselines read besides the values of candidates.

        Examples are the predictions of trained classifiers or the votes of a pool. The type is
        agreed between the problem and its readers. None if there is no such data.
        """
        return None


class OnRecords:
    """What candidates do on each record, and what one could do without a search."""

    def evaluate_test(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array] | None:
        """Evaluate a batch on the test records, which no search may use; None if there are none."""
        return None

    def outcomes(self, X: Array) -> RecordOutcomes | None:
        """Return how candidates do on each record that :meth:`evaluate` scores them on.

        From it follows what to expect of them on new records. None if the problem does not know,
        or if its metrics do not follow from records.
        """
        return None

    def refits(self, X: Array) -> Refits | None:
        """Return what the models of a cross-validation, and those handed out, do on all records.

        The records are the first of :meth:`outcomes`, each once. From it follows how much fitting
        anew changes. None without a cross-validation, or if the problem does not know.
        """
        return None

    def truth(self) -> tuple[IntArray, Sequence[Any]] | None:
        """Return the class (code) of each record of :meth:`outcomes`, and the labels by code.

        None where records have no classes, or those are not known.
        """
        return None

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return what one can always have without a model; none where answers are no classes.

        A choice by expected cost, and mixtures, look at them beside the solutions.
        """
        return ()

    def alternatives(self) -> Sequence[Alternative]:
        """Return what a person would do without a search; none where the problem does not know.

        A front is compared with it. Only of problems with :meth:`outcomes`.

        Raises
        ------
        InputError
            Something of it cannot be trained.
        """
        return ()


class Repriced:
    """The same designs under other costs of errors, or with other prices of features.

    Genomes mean the same under both, so that designs can be scored again.
    """

    def with_errors(
        self, section: Mapping[str, Any], errors: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the section ``problem`` of a configuration with other costs of errors, by class.

        Raises
        ------
        InputError
            The problem has no metric of them, or there is no such class.
        """
        raise InputError(
            "costs: expected fp and fn, since costs by class are no metric of this problem, found "
            f"{', '.join(errors)}"
        )

    def with_prices(
        self, section: Mapping[str, Any], prices: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the section ``problem`` of a configuration with other prices of some features.

        Raises
        ------
        InputError
            The problem's features have no prices, or there is none of a name.
        """
        raise InputError(
            f"prices: expected a problem whose features have prices, found {section.get('kind')!r}"
        )
