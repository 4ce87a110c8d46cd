"""Problem: what candidates mean and what they are worth. It lives in the workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from framework.arrays import Array, FloatArray
from framework.roles import Metric
from framework.space import Space
from framework.streams import RowStreams


class Problem(ABC):
    """A space of candidates and how to score them.

    Evaluation is pure: the same genome has the same values in any worker, in any batch, at any
    time. A problem pickles (it travels to the workers once) and knows neither the algorithm nor
    where it is evaluated.

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

    @property
    def unwrapped(self) -> Problem:
        """The problem itself; what a wrapper (of tests, say) wraps."""
        return self

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

    def example(self) -> Mapping[str, list[Any]]:
        """Return some raw input records for :meth:`decode`'s model, column by column."""
        return {}

    def decode(self, x: Array) -> Any:
        """Return the fitted, deployable scikit-learn estimator that genome ``x`` stands for."""
        raise NotImplementedError(f"{type(self).__name__} has no deployable model")

    def walk(self, model: Any) -> Any:
        """Return how validation records go through :meth:`decode`'s model, a ``Walk``, or None."""
        return None
