"""The contract of a problem: what candidates mean and how they are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from framework.arrays import Array, IntArray, WordArray
from framework.capabilities import Described, OnRecords, Repriced, SearchHints
from framework.components import SharedComponents
from framework.errors import InputError
from framework.outcomes import Sample
from framework.roles import Metric
from framework.space import Space
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    import pandas as pd


class Problem(SharedComponents, Described, SearchHints, OnRecords, Repriced, ABC):
    """A search space, the metrics of its candidates, and how to evaluate them.

    Evaluation is pure: a genome has the same values in every worker, in every batch and at every
    time. A problem can be pickled, because it is sent to each worker once. It knows neither the
    algorithm nor the evaluator.

    A class must define :meth:`evaluate` and the attributes below. With :meth:`from_config` it can
    be used in a configuration, with :class:`Deployable` its genomes can be used as models. All
    other methods have defaults: those on parts that candidates share
    (:class:`~framework.components.SharedComponents`), and the capabilities of
    :mod:`framework.capabilities`.

    Attributes
    ----------
    space : Space
    metrics : tuple of Metric
        The metrics that ``evaluate`` returns.
    costs_of_errors : tuple of str
        Metrics that count what errors cost. The first of them that a problem reports is the one to
        minimise.
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
        """Return the classes that models can answer, by code; none if answers are no classes."""
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
            The true class of each record.

        Returns
        -------
        mapping of str to sequence of Sample
            By metric, the mean over records that it is, or the means of which it is the least.
            Other metrics are missing: no limit on them can be certified.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """
        return {}

    def positive_code(self) -> int:
        """Return the code of the positive class; -1 for none."""
        return -1

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        """Return hash codes of labelled records, and of the records that the search has used.

        Shapes are (n,) and (m,); equal records have equal hash codes. None if it is not known which
        records were used. Arguments and errors are those of :meth:`samples`.
        """
        return None


def check_genomes(problem: Problem, X: Array, place: str) -> None:
    """Refuse genomes (n, d) that were read from a file and are not in the problem's space.

    Raises
    ------
    InputError
    """
    if X.shape[1] != problem.space.d or not problem.space.contains(X).all():
        raise InputError(f"{place}: expected genomes of this problem, found others; run it again")
