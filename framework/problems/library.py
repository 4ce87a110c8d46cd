"""Library: what a pool of fitted models predicts and what each of them costs, as one table.

Searches over ensembles and over prunings read the same table and never call a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from framework.arrays import Array, FloatArray


class Cost(NamedTuple):
    """What each model of a library costs in one currency.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (K,)
        Finite, at least 0.
    unit : str
        Of a value: ``s/1000 rows``, ``MB``.
    """

    values: FloatArray
    unit: str = ""


@dataclass(frozen=True)
class Library:
    """Predictions of ``K`` models on ``N`` validation and ``M`` test records, read-only.

    Attributes
    ----------
    ids : tuple of str, length K
        Names of the models, each once.
    validation : numpy.ndarray of float32, shape (K, N) or (K, N, C)
        Binary: probability of the second class. Multiclass: of each class. Regression: values.
    y_validation : numpy.ndarray, shape (N,)
        Index of each record's class in ``classes`` (int64), or its value (float64).
    classes : tuple, length C, or None
        Labels in the order of the probabilities; None for regression.
    costs : mapping of str to Cost
        By name: ``inference_time``, ``memory``, ``disk``, or the user's own.
    test : numpy.ndarray of float32, shape (K, M) or (K, M, C), or None
    y_test : numpy.ndarray, shape (M,), or None
    configs : tuple of mapping, length K, or None
        Family and parameters of each model, for similarity and for reports.
    name : str
        What reports call it.
    fingerprint : str
        Of the whole content: equal fingerprints, equal tables.
    folder : Path or None
        Where it lies on disk; fitted models, if it has any, are there under ``models/ID``.
    """

    ids: tuple[str, ...]
    validation: Array
    y_validation: Array
    classes: tuple[Any, ...] | None
    costs: Mapping[str, Cost]
    test: Array | None = None
    y_test: Array | None = None
    configs: tuple[Mapping[str, Any], ...] | None = None
    name: str = "library"
    fingerprint: str = ""
    folder: Path | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.ids)
