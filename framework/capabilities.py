"""What a problem may offer besides the values of its candidates.

The classes here are bases of :class:`~framework.problem.Problem`. A family overrides the methods
that it has an answer to; the defaults answer None, or an empty result.
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
    """The scores of a classifier that always gives the same label and reads nothing.

    Attributes
    ----------
    name : str
        A name for the user, such as ``always negative``.
    label : the label that it gives
    classes : all labels, in the order of the problem's models
    values, test : mapping of str to float
        All metrics of the problem on validation and on test records; None without test records.
    outcomes : RecordOutcomes, optional
        Its outcomes on the validation records, as the only candidate.
    """

    name: str
    label: Any
    classes: Sequence[Any]
    values: Mapping[str, float]
    test: Mapping[str, float] | None = None
    outcomes: RecordOutcomes | None = None


class Alternative(NamedTuple):
    """What a person would do without a search, such as one classifier with several thresholds.

    Attributes
    ----------
    name : str
        A name for the user, such as ``a logistic regression on all features``.
    points : tuple of str
        The names of its points, such as ``threshold 0.8``.
    outcomes : RecordOutcomes
        The outcomes of the points, on the records that candidates are scored on.
    test : mapping of str to numpy.ndarray, shape (points,), optional
        The metrics of the points on the test records.
    best : sequence of str
        Empty if each point is an alternative of its own. Otherwise a person would take only the
        best point by one of these metrics: the first that is an objective, else the first. The
        point is chosen on the records searched, and therefore again in each resample of them.
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

        The keys are ``name``, ``source``, ``fingerprint`` and ``records`` and, where they apply,
        ``train``, ``validation``, ``test``, ``features``, ``models``, ``classes``, ``costs`` (texts
        on what is paid for what), ``identifier`` (the column that names the records) and ``notes``
        (sentences for the user). If candidates are measured by cross-validation, ``out_of_fold``
        replaces ``validation`` as the number of records, ``measured`` says where values come from
        ("out-of-fold on 576 records") and ``measure`` how ("cross-validation, 5 folds").
        """
        return {}

    def memory(self, candidates: int | None) -> tuple[int, str]:
        """Return the bytes of memory that a run may need, and a line about it for the user.

        ``candidates`` is the number of candidates, None if unknown. The result is (0, "") if the
        memory is too little to mention.
        """
        return 0, ""

    @classmethod
    def memory_to_load(cls, config: Any) -> int:
        """Return roughly the peak memory of :meth:`from_config` in bytes; 0 if unknown."""
        return 0

    def settings(self, X: Array) -> Mapping[str, FloatArray]:
        """Return settings of genomes (n, d), such as thresholds, for tables of a front, by name.

        NaN stands for a design without the setting. A name may be one of ``gene_names``.
        """
        return {}

    def explain(self, x: Array) -> str | None:
        """Return why the values of a genome are NaN; None if the problem does not know."""
        return None

    @property
    def remains(self) -> str:
        """A known error of the expected figures, as a line for the user; empty if there is none."""
        return ""


class SearchHints:
    """What helps searches: designs to begin with, neighbours, reference points, further data."""

    space: Space
    narrow: bool = False
    """Whether a search evaluates but few of the designs that it could have chosen."""

    def starts(self) -> Array:
        """Return designs that one could have without a search, shape (n, d); none by default.

        Some searches evaluate them first, so that their result is never worse than these on the
        records searched.
        """
        return np.zeros((0, self.space.d), dtype=self.space.dtype)

    def neighbours(self, X: Array) -> Array:
        """Return designs that differ from genomes (n, d) by one move, shape (m, d); or none.

        An exact method evaluates its front only: for statistics, the neighbours of the front stand
        for the other designs that it chose from.
        """
        return np.zeros((0, self.space.d), dtype=self.space.dtype)

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return the values of trivial candidates, as reference points; None if there are none.

        Each point has one coordinate per metric, from 0 (the best value) to 1 (the worst).
        """
        return None

    def true_front(self, n: int) -> FloatArray | None:
        """Return ``n`` points spread evenly over the true Pareto front; None if it is unknown.

        They are losses, shape (n, number of metrics).
        """
        return None

    def tables(self) -> Any:
        """Return what exact methods and baselines read besides the values of candidates.

        Examples are the predictions of trained classifiers or the votes of a pool. By default it is
        the problem itself; its readers say which class they take (``Algorithm.reads``).
        """
        return self


class OnRecords:
    """What candidates do on each record, and what one could do without a search."""

    def evaluate_test(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array] | None:
        """Evaluate a batch on the test records, which no search may use; None if there are none."""
        return None

    def outcomes(self, X: Array) -> RecordOutcomes | None:
        """Return how candidates do on each record that :meth:`evaluate` scores them on.

        What to expect on new records is computed from this. None if the problem does not know, or
        if its metrics are not computed from records.
        """
        return None

    def refits(self, X: Array) -> Refits | None:
        """Return what the models of a cross-validation and the exported models do on all records.

        The records are the first ones of :meth:`outcomes`, each once. What refitting changes is
        estimated from this. None without a cross-validation, or if the problem does not know.
        """
        return None

    def truth(self) -> tuple[IntArray, Sequence[Any]] | None:
        """Return the class (code) of each record of :meth:`outcomes`, and the labels by code.

        None where records have no classes, or those are not known.
        """
        return None

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return the classifiers that one can always have without a model; none without classes.

        A choice by expected cost, and mixtures, consider them besides the solutions.
        """
        return ()

    def alternatives(self) -> Sequence[Alternative]:
        """Return what a person would do without a search, to compare a front with.

        It is empty if the problem does not know, or has no :meth:`outcomes`.

        Raises
        ------
        InputError
            An alternative cannot be trained.
        """
        return ()


class Repriced:
    """The same designs under other costs of errors, or with other prices of features.

    Genomes keep their meaning, so that designs can be scored again.
    """

    def with_errors(
        self, section: Mapping[str, Any], errors: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the section ``problem`` of a configuration with other costs of errors, by class.

        Raises
        ------
        InputError
            No metric of the problem depends on these costs, or a class does not exist.
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
            The problem's features have no prices, or a name is unknown.
        """
        raise InputError(
            f"prices: expected a problem whose features have prices, found {section.get('kind')!r}"
        )
