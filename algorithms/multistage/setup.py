"""Makes a multi-stage problem from a configuration, and a model from a genome.

This is apart from the problem because workers, which only score, need none of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from algorithms.multistage.component_table import pack
from algorithms.multistage.kernels.logistic import class_basis
from algorithms.multistage.source import FeatureCosts, Source, digest
from algorithms.multistage.subclassifiers import StageData, columns_of
from framework.arrays import Array, FloatArray, IntArray
from framework.data.costs import CostGroups, cost_groups, exact_costs, feature_costs
from framework.data.datasets import load_table
from framework.data.encoding import Encoder
from framework.data.splits import Split, split_records
from framework.data.tables import Table
from framework.errors import InputError
from framework.models.calibration import CalibratedProbability, folds_of, split
from framework.models.classifiers import LOGISTIC_REGRESSION
from framework.registry import nearest

if TYPE_CHECKING:
    from algorithms.multistage.config import MissingPolicy, MultiStageConfig, MultiStageSettings
    from framework.data.splits import SplitConfig

INCONCLUSIVE = "inconclusive"


def set_up(config: MultiStageConfig) -> dict[str, Any]:
    """Load the data of a configuration; return the arguments of ``MultiStageProblem``."""
    return set_up_table(load_table(config.dataset), config)


def set_up_table(
    table: Table,
    config: MultiStageSettings,
    where: str = "problem",
    *,
    named: bool = True,
    copies: IntArray | None = None,
) -> dict[str, Any]:
    """Split, encode and cost records; return the arguments of ``MultiStageProblem``.

    Everything that is fitted (imputing, scaling, encoding, importance) is fitted on the training
    records only.

    Parameters
    ----------
    table : Table
    config : MultiStageSettings
    where : str
        Place of the settings, for messages.
    named : bool
        Whether the columns have names that models ask for; an array's have none.
    copies : int64 (n,), optional
        How often each record counts, 1 or more. Records are split first, so that no record is in
        two parts.

    Raises
    ------
    InputError
        Settings that do not fit the records.
    """
    split = split_records(table.labels, config.split, f"{where}.split")
    if len(split.validation) == 0:
        raise InputError(f"{where}.split.validation: expected a share above 0, found 0")
    if copies is not None:
        split = Split(*(np.repeat(part, copies[part]) for part in split))
    training = table.features.iloc[split.train]
    y = table.labels[split.train]
    encoder = table.fit_encoder(training)
    names = [str(name) for name in table.features.columns]
    place = f"{where}.costs"
    costs = feature_costs(config.costs, names, training, y, place, table.left_out)
    groups = cost_groups(config.costs, names, place, table.left_out)
    most = max(len(split.validation), len(split.test))
    units, scale = exact_costs(np.concatenate([costs, groups.costs]), most)
    if config.calibration != "none":
        folds_of(y, split.train)  # refuses what has too few records
    held = np.concatenate([split.validation, split.test])
    data = StageData(
        design=np.ascontiguousarray(encoder.transform(training).T),
        y=y,
        held=np.ascontiguousarray(encoder.transform(table.features.iloc[held]).T),
        y_held=table.labels[held],
        n_validation=len(split.validation),
        first=np.concatenate([[0], np.cumsum([len(group) for group in encoder.groups])]),
        thresholds=class_thresholds(config.threshold, table, f"{where}.threshold"),
        positive=-1 if table.positive is None else table.positive,
        copy_of=None if copies is None else split.train,
    )
    source = replace(
        source_of(table, config.split, split), encoder={**encoder.to_json(), "named": named}
    )
    if copies is not None:
        source = replace(source, fingerprint=f"{source.fingerprint} {digest(copies.tolist())}")
    return {
        "data": data,
        "costs": FeatureCosts(units[: len(costs)], scale, groups, units[len(costs) :]),
        "source": source,
        "error_costs": _error_costs(config.error_costs, table, f"{where}.error_costs"),
        "missing": config.missing,
        "max_stages": _max_stages(config, len(names), f"{where}.max_stages"),
        "remove_features": config.remove_features,
        "classifier": config.classifier,
        "calibration": config.calibration,
    }


def source_of(table: Table, shares: SplitConfig, split: Split) -> Source:
    """Return what is known of a table that was split into parts by shares."""
    return Source(
        fingerprint=f"{table.fingerprint} {shares.model_dump_json()}",
        feature_names=[str(name) for name in table.features.columns],
        classes=table.classes,
        description={
            **table.about(),
            "records": len(table.labels),
            "features": table.features.shape[1],
            "classes": [str(label) for label in table.classes],
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        },
        example=table.example,
    )


class Staged(Protocol):
    """What a model of a multi-stage problem is made from, besides its genome."""

    kind: str
    data: StageData
    costs: Array
    cost_scale: int
    groups: CostGroups
    missing: MissingPolicy

    @property
    def calibration(self) -> str: ...

    @property
    def classes(self) -> Sequence[Any]: ...

    @property
    def encoder(self) -> Mapping[str, Any]: ...


def deploy(problem: Staged, x: Array, models: list[bytes]) -> Any:
    """Return the fitted multi-stage classifier of a genome from its stages' stored models."""
    from algorithms.multistage.model import MultiStageClassifier

    stages = [np.flatnonzero(x == stage) for stage in range(int(x.max()) + 1)]
    classifiers = [
        _classifier(problem, (x >= 0) & (x <= stage), model) for stage, model in enumerate(models)
    ]
    thresholds = dict(zip(problem.classes, problem.data.thresholds.tolist(), strict=True))
    same = len(set(thresholds.values())) == 1
    return MultiStageClassifier.from_fitted(
        encoder=Encoder.from_json(problem.encoder),
        stages=stages,
        classifiers=classifiers,
        classes=problem.classes,
        costs=problem.costs / problem.cost_scale,
        cost_groups=problem.groups if len(problem.groups) else None,
        missing=problem.missing,
        threshold=next(iter(thresholds.values())) if same else thresholds,
        reject_label=INCONCLUSIVE,
    )


def _classifier(problem: Staged, acquired: Array, model: bytes) -> Any:
    """Return the classifier of a stage from its stored model."""
    classes = np.asarray(problem.classes)
    if problem.calibration == "none":
        return _uncalibrated(problem, acquired, model)
    base, calibration = split(model)
    return CalibratedProbability(_uncalibrated(problem, acquired, base), calibration, classes)


def _uncalibrated(problem: Staged, acquired: Array, model: bytes) -> Any:
    if problem.kind != LOGISTIC_REGRESSION:
        from framework.models.classifier_files import load_classifier

        return load_classifier(model, f"sub-classifier {problem.kind}")
    from framework.models.linear import LinearProbability

    basis = class_basis(len(problem.classes))
    theta = np.frombuffer(model, dtype="<f8").reshape(basis.shape[1], -1)
    columns = columns_of(problem.data.first, pack(acquired))
    weights: FloatArray = basis @ theta
    if len(problem.classes) == 2:
        weights = weights[1:]
    return LinearProbability(np.asarray(problem.classes), weights[:, columns], weights[:, -1])


def _max_stages(config: MultiStageSettings, n: int, where: str) -> int:
    if config.max_stages is None:
        return min(-(-n // 2), 10)
    if config.max_stages > n:
        raise InputError(
            f"{where}: expected at most the {n} features of the data, found {config.max_stages}"
        )
    return config.max_stages


def class_thresholds(
    given: float | Mapping[Any, float], table: Table, where: str = "problem.threshold"
) -> FloatArray:
    """Return the confidence each class needs, in the order of the classes.

    Parameters
    ----------
    given : float or mapping of class label to float
        As configured: labels may be spelled as texts; those left out need 0.5.
    table : Table
    where : str
        Place of the key, for messages.

    Raises
    ------
    InputError
        An unknown class, or a confidence that is none.
    """
    if not isinstance(given, Mapping):
        given = dict.fromkeys(table.classes, given)
    thresholds = _of_classes(given, table, 0.5, where)
    wrong = thresholds[(thresholds <= 0) | (thresholds > 1)]
    if len(wrong):
        raise InputError(f"{where}: expected confidences above 0 and at most 1, found {wrong[0]}")
    return thresholds


def _error_costs(given: Mapping[Any, float] | None, table: Table, where: str) -> FloatArray | None:
    if given is None:
        return None
    costs = _of_classes(given, table, 1.0, where)
    if not costs.any():
        raise InputError(f"{where}: expected a cost above zero, found none")
    return costs


def _of_classes(given: Mapping[Any, float], table: Table, default: float, where: str) -> FloatArray:
    """Return a number a class, ``default`` for those left out; labels may be spelled as texts."""
    by_name = {str(label): value for label, value in given.items()}
    names = [str(label) for label in table.classes]
    for label in by_name:
        if label not in names:
            raise InputError(
                f"{where}: expected a class of the data ({', '.join(names)}), found "
                f"{label!r}{nearest(label, names)}"
            )
    return np.array([by_name.get(name, default) for name in names])
