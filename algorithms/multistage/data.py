"""Data of a multi-stage problem: its settings, and how a table becomes records, costs and codes.

A configuration (:class:`MultiStageConfig`) or a table in memory is split, encoded and priced by
:func:`prepare_table`; what comes out are the arguments of
:class:`~algorithms.multistage.problem.MultiStageProblem`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.multistage.bit_planes import words_for
from algorithms.multistage.kernels import logistic
from framework.arrays import FloatArray, IntArray, frozen
from framework.data.columns import listed
from framework.data.costs import CostGroups, CostsConfig, cost_groups, exact_costs, feature_costs
from framework.data.datasets import DatasetConfig
from framework.data.splits import Split, SplitConfig, split_records
from framework.data.tables import Table
from framework.errors import InputError
from framework.models.classifiers import CalibrationMethod, ClassifierConfig
from framework.registry import nearest
from framework.settings import Section

MOST_COLUMNS = 200  # of a table where a fit on all columns pays as a start for the others
COMPONENTS_FORMAT = 2  # raise it when what a component holds or how it is stored changes
INCONCLUSIVE = "inconclusive"


MissingPolicy = Literal["impute", "ask", "inconclusive"]


class DataConfig(Section):
    """Where the records are."""

    dataset: DatasetConfig


class RecordsConfig(Section):
    """How records are split, what their features cost, and when an answer counts.

    split : shares of the records to train on, to search on and to test on.
    costs : what each feature costs; 1 each if None.
    threshold : confidence that a prediction needs, for all classes or by label (the paper's
        future work); labels left out need 0.5.
    """

    split: SplitConfig = SplitConfig.model_validate({})
    costs: CostsConfig | None = None
    threshold: float | dict[str | int | float | bool, float] = 0.75


class MultiStageSettings(RecordsConfig):
    """What a multi-stage problem needs to know besides the records.

    max_stages : the paper's k; min(ceil(n / 2), 10) unless given, never above n.
    remove_features : let a gene be -1, the feature is never acquired (the paper's future work).
    error_costs : what a wrong answer costs, by the label of the true class; labels left out cost 1.
    missing : what a model does where a value is missing in a stage that is reached: take the
        median, stop and ask for it, or give no answer.
    classifier : what is trained for each stage.
    calibration : how confidences are calibrated, by cross-validation within the training records.
    """

    max_stages: int | None = Field(default=None, ge=1)
    remove_features: bool = False
    error_costs: dict[str | int | float | bool, Annotated[float, Field(ge=0)]] | None = None
    missing: MissingPolicy = "impute"
    classifier: ClassifierConfig = ClassifierConfig()
    calibration: CalibrationMethod = "none"


class MultiStageConfig(MultiStageSettings, DataConfig):  # in this order the data set comes first
    """The ``problem`` section of kind ``multistage``: a data set and its settings."""


@dataclass(frozen=True)
class StageData:
    """The records in the form in which sub-classifiers are trained and scored.

    Attributes
    ----------
    design : float64 (D, training records)
        One row per encoded column, so that sums over records run along memory.
    y : int64 (training records,)
        Class codes.
    held : float64 (D, validation + test records)
    y_held : int64
    n_validation : int
    first : int64 (features + 1,)
        Feature ``i`` has the encoded columns ``first[i]`` to ``first[i + 1] - 1``.
    thresholds : float64 (classes,)
        Confidence that a prediction of each class needs.
    positive : int
        Code of the positive class, -1 for none.
    copy_of : int64 (training records,), optional
        Equal for copies of one record, which cross-validation keeps together; None: no copies.
    """

    design: FloatArray
    y: IntArray
    held: FloatArray
    y_held: IntArray
    n_validation: int
    first: IntArray
    thresholds: FloatArray
    positive: int
    copy_of: IntArray | None = None
    _starts: dict[float, FloatArray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # As arrays come out of Ray's object store: kernels are compiled once for both.
        for name in ("design", "y", "held", "y_held", "first", "thresholds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def start(self, C: float) -> FloatArray:
        """Return where logistic regressions on subsets start: the one on all columns.

        Shape (free directions, D + 1), the intercept last; zeros where it does not converge or
        there are very many columns. Of the data alone, and fitted once.
        """
        if C not in self._starts:
            basis, S = logistic.class_basis(len(self.thresholds)), with_intercept(self.design)
            theta = np.zeros((basis.shape[1], len(S)))
            few = len(self.design) <= MOST_COLUMNS
            if not (few and logistic.fit(S, self.y, basis, C, theta)):
                theta[:] = 0.0
            self._starts[C] = theta
        return self._starts[C]

    @property
    def n_features(self) -> int:
        """Number of features, each of one encoded column or more."""
        return len(self.first) - 1

    @property
    def planes(self) -> int:
        """Bits per record: conclusive, right, and called positive where there is such a class."""
        return 2 if self.positive < 0 else 3

    @property
    def validation_words(self) -> int:
        """Words of 64 bits that the validation records take."""
        return words_for(self.n_validation)

    @property
    def words(self) -> int:
        """Words per plane: those of the validation records, then those of the test records."""
        return self.validation_words + words_for(len(self.y_held) - self.n_validation)


def with_intercept(columns: FloatArray) -> FloatArray:
    """Return the design of a fit: columns (d, N) and the intercept's."""
    return np.concatenate([columns, np.ones((1, columns.shape[1]))])


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


def digest(content: Any) -> str:
    """Return the SHA-256 of something that JSON can write."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def prepare_table(
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
        from framework.models.calibration import folds_of

        folds_of(y, split.train)  # refuses classes with too few records
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
    """Return one number per class, ``default`` for those left out; labels may be texts."""
    by_name = {str(label): value for label, value in given.items()}
    names = [str(label) for label in table.classes]
    for label in by_name:
        if label not in names:
            raise InputError(
                f"{where}: expected a class of the data ({listed(names)}), found "
                f"{label!r}{nearest(label, names)}"
            )
    return np.array([by_name.get(name, default) for name in names])
