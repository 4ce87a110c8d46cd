"""What a multi-stage problem keeps of the table that its records come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.multistage.subclassifiers import StageData
from framework.arrays import IntArray, frozen
from framework.data.costs import CostGroups
from framework.models.classifiers import CalibrationMethod, ClassifierConfig

PARTS_FORMAT = 2  # raise it when what a part holds or how it is stored changes


@dataclass(frozen=True)
class FeatureCosts:
    """What features cost, as fixed-point numbers whose sums are exact.

    Attributes
    ----------
    units : numpy.ndarray of int64, shape (n,)
    scale : int
        A real cost is ``units / scale``.
    groups : CostGroups, optional
        Features that are paid for together, with the real costs.
    group_units : numpy.ndarray of int64, shape (m,)
        Those costs.
    """

    units: IntArray
    scale: int = 1
    groups: CostGroups | None = None
    group_units: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        for name in ("units", "group_units"):
            units = frozen(np.asarray(getattr(self, name), dtype=np.int64))
            object.__setattr__(self, name, units)

    @property
    def total(self) -> float:
        """Cost of all features."""
        return float(self.units.sum() + self.group_units.sum()) / self.scale


@dataclass(frozen=True)
class Source:
    """Where the records come from, and what models and reports need to know of it.

    Attributes
    ----------
    fingerprint : str
        Of the records, their split and their encoding.
    feature_names : sequence of str
    classes : sequence
        Labels, by class code.
    encoder : mapping
        ``Encoder.to_json()`` of the fitted encoder; empty where models encode for themselves.
    description : mapping
        See :meth:`framework.problem.Described.describe`.
    example : mapping of str to list
        A few raw records, as columns.
    """

    fingerprint: str
    feature_names: Sequence[str]
    classes: Sequence[Any]
    encoder: Mapping[str, Any] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)
    example: Mapping[str, list[Any]] = field(default_factory=dict)


def parts_fingerprint(
    data: StageData, source: Source, classifier: ClassifierConfig, calibration: CalibrationMethod
) -> str:
    """Return the SHA-256 of all that decides what a sub-classifier answers."""
    content = [
        PARTS_FORMAT,
        source.fingerprint,
        classifier.kind,
        classifier.parameters,
        data.thresholds.tolist(),
        data.positive,
    ]
    if calibration != "none":  # without it, as before there was any: caches stay good
        content.append(calibration)
    return digest(content)


def digest(content: Any) -> str:
    """Return the SHA-256 of something that JSON can write."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
