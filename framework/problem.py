"""Problem: what candidates mean and what they are worth. It lives in the workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.parts import SharedParts
from framework.roles import Metric
from framework.space import Space
from framework.streams import RowStreams


class Described:
    """How a problem presents itself in reports. Every answer may be left as it is here."""

    def describe(self) -> Mapping[str, Any]:
        """Return what reports say of the data.

        ``name``, ``source``, ``fingerprint``, ``records``; of ``train``, ``validation``, ``test``,
        ``features``, ``models`` and ``classes`` what there is.
        """
        return {}

    def memory(self, candidates: int | None) -> tuple[int, str]:
        """Return the bytes that evaluating so many candidates may hold, and that in words.

        ``candidates`` is None where nobody knows. (0, "") where it is not worth a line.
        """
        return 0, ""


class Problem(SharedParts, Described, ABC):
    """A space of candidates and how to score them.

    Evaluation is pure: the same genome has the same values in any worker, in any batch, at any
    time. A problem pickles (it travels to the workers once) and knows neither the algorithm nor
    where it is evaluated.

    A class must give :meth:`evaluate` and the attributes below; :meth:`from_config` makes it usable
    from a configuration, :class:`Deployable` its genomes usable as models, and
    :class:`~framework.parts.SharedParts` lets candidates share expensive parts.

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
        Names the problem's content (data, split, parameters): equal fingerprints, equal values.
    gene_names : tuple of str
        One a gene; columns of ``front.csv``.
    """

    space: Space
    metrics: tuple[Metric, ...]
    known_metrics: ClassVar[tuple[Metric, ...]] = ()
    stochastic: bool = False
    fingerprint: str

    @property
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
            Of the class attribute ``Config``, checked.

        Raises
        ------
        InputError
            Data that cannot be used; or the class cannot be made from a configuration.
        """
        raise InputError(
            f"problem.kind: expected a problem that a configuration can make, found "
            f"{cls.__name__} without from_config; use it from Python, or add from_config to it"
        )

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return points of reference for these metrics as objectives; None where there are none.

        Each is a share of the way from the best (0) to the worst value (1) of every metric: what
        trivial candidates reach.
        """
        return None

    def true_front(self, n: int) -> FloatArray | None:
        """Return ``n`` points of the best front there is, as losses; None where it is unknown.

        Spread evenly over the front; shape (n, number of metrics).
        """
        return None

    @abstractmethod
    def evaluate(self, X: Array, streams: RowStreams) -> Mapping[str, Array]:
        """Score a batch.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, d)
            Genomes of ``space``.
        streams : RowStreams
            One generator a row, for stochastic problems.

        Returns
        -------
        mapping of str to numpy.ndarray of float64, shape (n,)
            Every metric in natural sign and unit; NaN where a row cannot be scored.
        """

    def evaluate_test(self, X: Array, streams: RowStreams) -> Mapping[str, Array] | None:
        """Score a batch on records that no search may see; None where there are none."""
        return None

    def explain(self, x: Array) -> str | None:
        """Say why a row's values are NaN, where the problem knows."""
        return None

    def tables(self) -> Any:
        """Return what exact methods and baselines read beyond values of single genomes.

        Its type is an affair between the problem and those who read it: the sub-classifiers of a
        multi-stage problem, say, or the votes of a pool. None where there is nothing to read.
        """
        return None


class Deployable(ABC):
    """What a problem adds whose genomes stand for models that can be deployed."""

    @abstractmethod
    def decode(self, x: Array) -> Any:
        """Return the fitted, deployable scikit-learn estimator that genome ``x``, (d,), stands for.

        Raises
        ------
        InputError
            This genome has no model.
        """

    def example(self) -> Mapping[str, list[Any]]:
        """Return some raw input records for the model, column by column."""
        return {}

    def walk(self, model: Any) -> Any:
        """Return how validation records go through a decoded model, for its README, or None."""
        return None
