"""The contract of a problem: what candidates mean and how they are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

from framework.arrays import Array, FloatArray
from framework.components import SharedComponents
from framework.errors import InputError
from framework.roles import Metric
from framework.space import Space
from framework.streams import CandidateStreams


class Described:
    """How a problem describes itself in reports; each method has a default."""

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the data, for reports.

        Keys: ``name``, ``source``, ``fingerprint`` and ``records``, and those of ``train``,
        ``validation``, ``test``, ``features``, ``models``, ``classes``, ``identifier`` (the
        column that names the records) and ``notes`` (sentences for the user) that apply.
        """
        return {}

    def memory(self, candidates: int | None) -> tuple[int, str]:
        """Return how many bytes a run over so many candidates may need, and a line that says so.

        ``candidates`` is None where their number is unknown. The answer is (0, "") where the need
        is too small to mention.
        """
        return 0, ""


class Problem(SharedComponents, Described, ABC):
    """A space of candidates and how to score them.

    Evaluation is pure: the same genome has the same values in any worker, in any batch, at any
    time. A problem can be pickled, since it is sent to each worker once; it knows neither the
    algorithm nor where it is evaluated.

    A class must define :meth:`evaluate` and the attributes below. With :meth:`from_config` it can
    be used in a configuration, with :class:`Deployable` its genomes can be used as models, and
    with :class:`~framework.components.SharedComponents` candidates can share expensive parts.

    Attributes
    ----------
    space : Space
    metrics : tuple of Metric
        What ``evaluate`` reports.
    known_metrics : tuple of Metric
        What problems of this class can report, for listings.
    stochastic : bool
        Whether ``evaluate`` draws from the rows' streams.
    fingerprint : str
        A digest of the problem's content (data, split, parameters). Problems with equal
        fingerprints give equal values.
    gene_names : tuple of str
        A name for each gene; they name columns of ``front.csv``.
    """

    space: Space
    metrics: tuple[Metric, ...]
    known_metrics: ClassVar[tuple[Metric, ...]] = ()
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
        """Return roughly how many bytes :meth:`from_config` takes at its peak; 0 if unknown."""
        return 0

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return what trivial candidates reach, as points of reference; None if there are none.

        Each point has a coordinate for every metric: the share of the way from its best value (0)
        to its worst one (1).
        """
        return None

    def true_front(self, n: int) -> FloatArray | None:
        """Return ``n`` points spread evenly over the best possible front; None if it is unknown.

        They are losses, shape (n, number of metrics).
        """
        return None

    @abstractmethod
    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        """Score a batch.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)
            Genomes of ``space``.
        streams : CandidateStreams
            One generator a row, for stochastic problems.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (n,)
            Every metric in natural sign and unit; NaN where a row cannot be scored.
        """

    def evaluate_test(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array] | None:
        """Score a batch on the test records, which no search may see; None if there are none."""
        return None

    def explain(self, x: Array) -> str | None:
        """Return why the values of a genome are NaN; None if the problem does not know."""
        return None

    def tables(self) -> Any:
        """Return data that exact methods and baselines read besides the values of single genomes.

        Examples are the answers of trained classifiers or the votes of a pool. Their type is
        agreed between the problem and its readers. None if there is no such data.
        """
        return None


class Deployable(ABC):
    """Methods of problems whose genomes stand for models that can be deployed."""

    @property
    def has_models(self) -> bool:
        """Whether there are models to decode; a library may have their predictions alone."""
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
        """Return how validation records go through a decoded model, for its README, or None."""
        return None
