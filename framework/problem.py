"""The contract of a problem: what candidates mean and how they are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, WordArray
from framework.components import SharedComponents
from framework.errors import InputError
from framework.outcomes import RecordOutcomes, Refits, Sample
from framework.roles import Metric
from framework.space import Space
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    import pandas as pd


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
        cls, problem: Problem, name: str, points: Sequence[str], X: Array, best: Sequence[str] = ()
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


class Problem(SharedComponents, Described, ABC):
    """A search space, the metrics of its candidates, and how to evaluate them.

    Evaluation is pure: a genome has the same values in every worker, in every batch and at every
    time. A problem can be pickled, because it is sent to each worker once. It knows neither the
    algorithm nor the evaluator.

    A class must define :meth:`evaluate` and the attributes below. With :meth:`from_config` it can
    be used in a configuration, with :class:`Deployable` its genomes can be used as models, and
    with :class:`~framework.components.SharedComponents` candidates can share expensive parts.

    Attributes
    ----------
    space : Space
    metrics : tuple of Metric
        The metrics that ``evaluate`` returns.
    costs_of_errors : tuple of str
        Metrics of what errors cost, where they have costs: the first that is reported is what is
        to be least.
    known_metrics : tuple of Metric
        The metrics that problems of this class can return, for listings.
    stochastic : bool
        Whether ``evaluate`` draws random numbers from the candidates' streams.
    fingerprint : str
        A digest of the problem's content (data, split, parameters). Problems with equal
        fingerprints give equal values.
    gene_names : tuple of str
        A name for each gene; they name columns of ``front.csv``.
    """

    space: Space
    metrics: tuple[Metric, ...]
    known_metrics: ClassVar[tuple[Metric, ...]] = ()
    costs_of_errors: ClassVar[tuple[str, ...]] = ()
    stochastic: bool = False
    fingerprint: str

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in order."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def gene_names(self) -> tuple[str, ...]:
        return tuple(str(i) for i in range(self.space.d))

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Return the problem that a configuration's ``problem`` section describes.

        Parameters
        ----------
        config : pydantic model
            A checked instance of the class attribute ``Config``.

        Raises
        ------
        InputError
            The data cannot be used, or the class cannot be used in a configuration.
        """
        raise InputError(
            f"problem.kind: expected a problem that a configuration can make, found "
            f"{cls.__name__} without from_config; use it from Python, or add from_config to it"
        )

    @classmethod
    def memory_to_load(cls, config: Any) -> int:
        """Return roughly the peak memory of :meth:`from_config` in bytes; 0 if unknown."""
        return 0

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return the values of trivial candidates, as reference points; None if there are none.

        Each point has one coordinate per metric, from 0 (its best value) to 1 (its worst).
        """
        return None

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return what one can always have without a model; none where answers are no classes.

        A choice by expected cost, and mixtures, look at them beside the solutions.
        """
        return ()

    @property
    def remains(self) -> str:
        """How what to expect of solutions is known to be wrong, a line for the user; or empty."""
        return ""

    def settings(self, X: Array) -> Mapping[str, FloatArray]:
        """Return numbers of genomes (n, d) that tables of a front show beside metrics, by name.

        A threshold is one; NaN where a design does without. Of ``gene_names``, or other names.
        """
        return {}

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

    def true_front(self, n: int) -> FloatArray | None:
        """Return ``n`` points spread evenly over the true Pareto front; None if it is unknown.

        They are losses, shape (n, number of metrics).
        """
        return None

    @abstractmethod
    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        """Evaluate a batch of candidates.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)
            Genomes of ``space``.
        streams : CandidateStreams
            One random generator per candidate, for stochastic problems.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (n,)
            Every metric in natural sign and unit; NaN where a candidate cannot be evaluated.
        """

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

    def with_errors(
        self, section: Mapping[str, Any], errors: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the section ``problem`` of a configuration with other costs of errors, by class.

        Genomes mean the same under both, so that designs can be scored again.

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

        Genomes mean the same under both, so that designs can be scored again.

        Raises
        ------
        InputError
            The problem's features have no prices, or there is none of a name.
        """
        raise InputError(
            f"prices: expected a problem whose features have prices, found {section.get('kind')!r}"
        )

    def alternatives(self) -> Sequence[Alternative]:
        """Return what a person would do without a search; none where the problem does not know.

        A front is compared with it. Only of problems with :meth:`outcomes`.

        Raises
        ------
        InputError
            Something of it cannot be trained.
        """
        return ()

    def explain(self, x: Array) -> str | None:
        """Return why the values of a genome are NaN; None if the problem does not know."""
        return None

    def tables(self) -> Any:
        """Return data that exact methods and baselines read besides the values of candidates.

        Examples are the predictions of trained classifiers or the votes of a pool. The type is
        agreed between the problem and its readers. None if there is no such data.
        """
        return None


class Deployable(ABC):
    """Methods of problems whose genomes stand for models that can be deployed."""

    @property
    def has_models(self) -> bool:
        """Whether there are models to decode; a library may only have predictions."""
        return True

    @abstractmethod
    def decode(self, x: Array) -> Any:
        """Return the fitted, deployable scikit-learn estimator that genome ``x``, (d,), stands for.

        Raises
        ------
        InputError
            This genome has no model.
        """

    def example(self) -> Mapping[str, list[Any]]:
        """Return a few input records for the model, as columns."""
        return {}

    def walk(self, model: Any) -> Any:
        """Return how validation records pass through a decoded model, for its README, or None."""
        return None

    def labels(self) -> Sequence[Any]:
        """Return the classes that models answer, by code; none where answers are no classes."""
        return ()

    def samples(
        self, x: Array, frame: pd.DataFrame, codes: IntArray
    ) -> Mapping[str, Sequence[Sample]]:
        """Return what the model of a genome does on labelled records.

        Parameters
        ----------
        x : numpy.ndarray, shape (d,)
        frame : pandas.DataFrame of n records
        codes : numpy.ndarray of int64, shape (n,)
            Their classes.

        Returns
        -------
        mapping of str to sequence of Sample
            The metrics that are means over records, or the least of several such; a limit on one
            of them can be certified.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """
        return {}

    def positive_code(self) -> int:
        """Return the code of the positive class; -1 for none."""
        return -1

    def shares(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return of how many of the records metrics are, as shares, where that is not of all.

        ``values`` are all metrics of some candidates.
        """
        return {}

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        """Return codes of labelled records, and of those that the search has used.

        Parameters
        ----------
        frame : pandas.DataFrame of n records
        codes : numpy.ndarray of int64, shape (n,)
            Their classes.

        Returns
        -------
        two numpy.ndarray of uint64, shapes (n,) and (m,), or None
            Equal for equal records. None if it is not known which records those are.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """
        return None
