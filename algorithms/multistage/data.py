"""Turns a table into the records and costs of a multi-stage problem.

:func:`load` reads the table of a configuration. :func:`prepare_table` splits it, encodes it and
computes its costs; it returns the arguments of
:class:`~algorithms.multistage.problem.MultiStageProblem`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from algorithms.multistage.config import MultiStageConfig, MultiStageSettings
from algorithms.multistage.decision import Confidences, StageDecision, decision_of
from algorithms.multistage.kernels import decisions
from algorithms.multistage.records import FeatureCosts, Fold, Source, StageData, with_intercept
from framework.answers import Measure
from framework.arrays import FloatArray, IntArray
from framework.data.columns import is_numeric, to_numbers
from framework.data.costs import exact_costs, feature_costs, panels_of
from framework.data.datasets import load_table
from framework.data.divisions import (
    Division,
    FoldRows,
    Subgroups,
    about_folds,
    divide,
    subgroups_in,
)
from framework.data.encoding import Encoder
from framework.data.error_costs import per_class
from framework.data.splits import Split, SplitConfig
from framework.data.tables import Table
from framework.errors import InputError
from framework.measures import need_classes
from framework.measures import rates as rates_of
from framework.models.classifiers import (
    LOGISTIC_REGRESSION,
    CalibrationMethod,
    ClassifierConfig,
    make_estimator,
)
from framework.outcomes import whole_weights

COMPONENTS_FORMAT = 3  # raise it when the content of a component or its storage changes
INCONCLUSIVE = "inconclusive"
_UNUSED = 0.75  # the threshold of confidence where stages decide by costs and so do not use it


def digest(content: Any) -> str:
    """Return the SHA-256 of something that JSON can write."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load(config: MultiStageConfig) -> dict[str, Any]:
    """Load the data of a configuration; return the arguments of ``MultiStageProblem``.

    Raises
    ------
    InputError
        The data, the costs or other keys cannot be used.
    """
    aside = dict(config.split.columns)
    if config.weights is not None:
        aside["weights"] = config.weights
    table = load_table(config.dataset, aside=aside, subgroup=config.subgroup)
    if config.weights is None:
        return prepare_table(table, config)
    weights = column_weights(table, config.weights)
    fingerprint = f"{table.fingerprint} {digest(weights.tolist())}"
    table = replace(table.only(weights > 0), fingerprint=fingerprint)
    return prepare_table(table, config, weights=weights[weights > 0])


def prepare_table(
    table: Table,
    config: MultiStageSettings,
    where: str = "problem",
    *,
    named: bool = True,
    copies: IntArray | None = None,
    weights: FloatArray | None = None,
) -> dict[str, Any]:
    """Split and encode records and compute costs; return the arguments of ``MultiStageProblem``.

    Everything that is fitted (imputing, scaling, encoding, importance) is fitted on the training
    records only. In a cross-validation these are the records of the other folds, except for costs
    by importance, which all folds share.

    Parameters
    ----------
    where : str
        Place of the settings, for messages.
    named : bool
        Whether models ask for columns by name; the columns of an array have no names.
    copies : int64 (n,), optional
        How often each record counts, 1 or more. Records are split first, so that no record is in
        two parts.
    weights : float64 (n,), optional
        How much each record counts, above 0; not with ``copies``. Encoders and costs by importance
        ignore them.

    Raises
    ------
    InputError
        The settings do not fit the records.
    """
    division = divide(table, config.split, config.measure, where)
    split, crossed = division.split, len(division.repeats) > 0
    if not crossed and len(split.validation) == 0:
        raise InputError(f"{where}.split.validation: expected a share above 0, found 0")
    if copies is not None:
        division = _with_copies(division, copies)
        split = division.split
    training = split.pooled if crossed else split.train
    thresholds, grid = _thresholds(config, table, f"{where}.threshold")
    n = 0 if crossed else len(split.validation)
    held = split.test if crossed else np.concatenate([split.validation, split.test])
    counts = None if weights is None else whole_weights(weights)
    # sums of costs over so many records must be exact
    most = max(len(division.repeats) * len(training) if crossed else n, len(split.test))
    if counts is not None:
        most = max(len(division.repeats), 1) * int(counts.sum())
    costs, decision = _priced(config, table, training, weights, most, where)
    rule = decisions.by_confidence(grid) if decision is None else decision.risk_rule()
    copy_of = None if copies is None and division.units_of() is None else division.units
    weight = config.classifier.parameters.get("class_weight")
    if isinstance(weight, Mapping):
        weight = per_class(weight, table.classes, 1.0, f"{where}.classifier.class_weight")
    rates, subgroups = _rates(config, table, where)
    several = len(table.classes) > 2 and need_classes(rates)
    codes = (len(table.classes) - 1).bit_length() if several else 0
    stops = config.missing != "impute" and bool(table.features.isna().any(axis=None))
    answering = thresholds, rule, weight, codes, weights, stops
    encoding = _Encoding(table, *answering, config.calibration, copy_of)
    data, encoder = encoding.encoded(training, held, n)
    scored = split.validation
    if crossed:
        data, scored = _with_folds(data, training, division.repeats, encoding)
    data = replace(data, units=division.units_of(scored))
    by_part: tuple[Subgroups, ...] = ()  # of the scored records and of the test records
    if subgroups is not None:
        parts = scored, division.split.test
        by_part = tuple(map(subgroups.take, parts))
    source = source_of(table, config.split, division)
    source = replace(source, encoder={**encoder.to_json(), "named": named})
    if crossed:
        source = _out_of_fold(source, config, division)
    for of_records in (copies, weights):
        if of_records is not None:
            fingerprint = f"{source.fingerprint} {digest(of_records.tolist())}"
            source = replace(source, fingerprint=fingerprint)
    if weights is not None:
        refuse_unweighted(config.classifier, f"{where}.classifier")
    return {
        "data": data,
        "costs": costs,
        "source": source,
        "error_costs": _error_costs(config.error_costs, table, f"{where}.error_costs"),
        "decision": decision,
        "confidences": Confidences(grid, config.threshold_per_stage) if len(grid) else None,
        "rates": rates,
        "subgroups": by_part,
        "counts": () if counts is None else (counts[scored], counts[division.split.test]),
        "missing": config.missing,
        "max_stages": _max_stages(config, table, f"{where}.max_stages"),
        "remove_features": config.remove_features,
        "classifier": config.classifier,
        "calibration": config.calibration,
    }


def _priced(
    config: MultiStageSettings,
    table: Table,
    training: IntArray,
    weights: FloatArray | None,
    most: int,
    where: str,
) -> tuple[FeatureCosts, StageDecision | None]:
    """Return the costs of features and stages and, if stages decide by costs, their decision.

    All costs are whole numbers on one scale, so that they can be added. In a cross-validation they
    are computed once from all its records, so that a design costs the same in every fold.

    Costs by importance and thresholds of risk are computed from the rows ``training``; ``weights``
    (n,) say how much each record of the table counts. At most ``most`` costs are added up.

    Raises
    ------
    InputError
        The costs do not fit the features or the classes.
    """
    names = [str(name) for name in table.features.columns]
    records, y = table.features.iloc[training], table.labels[training]
    place = f"{where}.costs"
    costs = feature_costs(config.costs, names, records, y, place, table.left_out)
    panels = panels_of(config.costs, names, place, table.left_out)
    parts = [costs, panels.costs, np.array([config.stage_cost])]
    section, risks = config.decision, None
    if section is not None:
        of_training = None if weights is None else weights[training]
        risks = decision_of(section, table.classes, y, f"{where}.decision", of_training)
        parts += [risks[0].errors.ravel(), np.array([risks[0].no_answer])]
    units, scale = exact_costs(np.concatenate(parts), most)
    of_features, of_panels, of_stage, *of_decision = np.split(
        units, np.cumsum([len(part) for part in parts])[:-1]
    )
    decision = None
    if section is not None and risks is not None:
        errors, no_answer = of_decision
        errors = errors.reshape(risks[0].errors.shape)
        decision = StageDecision(*risks, section.per_stage, errors, int(no_answer[0]))
    return FeatureCosts(of_features, scale, panels, of_panels, int(of_stage[0])), decision


def column_weights(table: Table, name: str) -> FloatArray:
    """Return the weights (n,) of records that a column has.

    Raises
    ------
    InputError
        The column has something other than finite numbers from 0, or no number above 0.
    """
    column = table.aside[name]
    weights = to_numbers(column) if is_numeric(column) else np.full(len(column), np.nan)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"problem.weights: expected a number from 0 in each record of {name!r}, found "
            f"{column.iloc[row]} in record {row + 1}"
        )
    if not weights.any():
        raise InputError(
            f"problem.weights: expected a record that counts, found only 0 in {name!r}"
        )
    return weights


def refuse_unweighted(classifier: ClassifierConfig, where: str) -> None:
    """Raise InputError for a classifier whose ``fit`` takes no weights of records."""
    if classifier.kind == LOGISTIC_REGRESSION:
        return
    from sklearn.utils.validation import has_fit_parameter

    estimator = make_estimator(classifier.kind, classifier.parameters)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(
            f"{where}: expected a classifier that takes weights of records, found "
            f"{classifier.kind}, which does not; take another, or leave the weights out"
        )


def _rates(
    config: MultiStageSettings, table: Table, where: str
) -> tuple[tuple[Measure, ...], Subgroups | None]:
    """Return the metrics of ``rates``, and the subgroups if there is a column of them."""
    subgroups = None
    if config.subgroup is not None:
        subgroups = subgroups_in(table.aside[config.subgroup], f"{where}.subgroup")
    positive = -1 if table.positive is None else table.positive
    names, place = () if subgroups is None else subgroups.names, f"{where}.rates"
    compared = {"coverage": "coverage", "accuracy": "accuracy"}
    rates = rates_of(config.rates, table.classes, positive, names, compared, place)
    return rates, subgroups


@dataclass(frozen=True)
class _Encoding:
    """How records of a table become :class:`StageData`; all folds share it."""

    table: Table
    thresholds: FloatArray
    rule: decisions.RiskRule
    class_weight: Any  # 'balanced', a number for each class, or None
    codes: int
    sample_weights: FloatArray | None  # of all records of the table
    stops: bool  # whether records that lack a feature stop there
    calibration: CalibrationMethod
    units: IntArray | None  # a code of each record that copies of it share; None for one each

    def weights_of(self, y: IntArray, of_records: FloatArray | None) -> tuple[float, ...]:
        """Return the weight of each class for training records with labels ``y`` (n,)."""
        if self.class_weight is None:
            return ()
        if isinstance(self.class_weight, str):  # 'balanced': all classes have the same sum
            counts = np.bincount(y, of_records, minlength=len(self.thresholds))
            divisors = np.where(counts > 0, counts, 1)
            return tuple((counts.sum() / (len(counts) * divisors)).tolist())
        return tuple(self.class_weight.tolist())

    def encoded(
        self, training: IntArray, held: IntArray, n_validation: int
    ) -> tuple[StageData, Encoder]:
        """Return the encoded training and held-out records, and the encoder fitted on the former.

        Raises InputError if a feature has no value in the training records, or if these are too few
        for a calibration.
        """
        table, weights = self.table, self.sample_weights
        records, y = table.features.iloc[training], table.labels[training]
        sample_weights = None
        if weights is not None:  # of mean 1: penalties weigh as much whatever the unit of weights
            sample_weights = weights[training] * (len(training) / weights[training].sum())
        copy_of = None if self.units is None else self.units[training]
        encoder = table.fit_encoder(records)
        if self.calibration != "none":
            from framework.models.calibration import folds_of

            folds_of(y, training if copy_of is None else copy_of)  # refuses too few of a class
        asked = range(table.features.shape[1] if self.stops else 0)
        data = StageData(
            design=with_intercept(encoder.transform(records).T),
            y=y,
            held=with_intercept(encoder.transform(table.features.iloc[held]).T),
            y_held=table.labels[held],
            n_validation=n_validation,
            first=np.concatenate([[0], np.cumsum([len(span) for span in encoder.spans])]),
            thresholds=self.thresholds,
            rule=self.rule,
            class_weights=self.weights_of(y, sample_weights),
            sample_weights=sample_weights,
            positive=-1 if table.positive is None else table.positive,
            copy_of=copy_of,
            codes=self.codes,
            unknown=encoder.missing(table.features, asked, held).T,
        )
        return data, encoder


def _with_copies(division: Division, copies: IntArray) -> Division:
    """Return the division after each record is repeated as often as ``copies`` (n,) says."""
    pooled = division.split.pooled
    ends = np.cumsum(copies[pooled])

    def places(rows: IntArray) -> IntArray:
        """Return where the copies of the pooled records ``rows`` are among all copies."""
        times: IntArray = copies[pooled[rows]]
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        copied: IntArray = np.repeat((ends - copies[pooled])[rows], times) + within
        return copied

    repeats = tuple(
        tuple(FoldRows(places(fold.train), places(fold.held_out)) for fold in repeat)
        for repeat in division.repeats
    )
    split = Split(*(np.repeat(part, copies[part]) for part in division.split))
    return division._replace(split=split, repeats=repeats)


def _with_folds(
    data: StageData,
    pooled: IntArray,
    repeats: Sequence[Sequence[FoldRows]],
    encoding: _Encoding,
) -> tuple[StageData, IntArray]:
    """Return the pooled records with their folds, and the rows (n,) that these score.

    Each repeat scores its rows in ascending order, one repeat after the other.
    """
    folds: list[Fold] = []
    scored: list[IntArray] = []
    for repeat in repeats:
        measured = np.sort(np.concatenate([rows.held_out for rows in repeat]))
        before = sum(len(records) for records in scored)
        for rows in repeat:
            held = pooled[rows.held_out]
            part, _ = encoding.encoded(pooled[rows.train], held, len(held))
            place = np.searchsorted(measured, rows.held_out)
            folds.append(Fold(part, before + place, rows.train))
        scored.append(pooled[measured])
    records = np.concatenate(scored)
    y_held = np.concatenate([encoding.table.labels[records], data.y_held])
    unknown = np.zeros((len(data.unknown), len(records)), dtype=bool)
    for fold in folds:
        unknown[:, fold.rows] = fold.data.unknown
    divided = replace(
        data,
        y_held=y_held,
        n_validation=len(records),
        folds=tuple(folds),
        unknown=np.concatenate([unknown, data.unknown], axis=1),
    )
    return divided, records


def _out_of_fold(source: Source, config: MultiStageSettings, division: Division) -> Source:
    """Return the source of a cross-validation, which pools training and validation records."""
    about = {k: v for k, v in source.description.items() if k not in ("train", "validation")}
    about |= about_folds(division, config.split, config.measure)
    fingerprint = f"{source.fingerprint} {config.measure.model_dump_json()}"
    return replace(source, fingerprint=fingerprint, description=about)


def source_of(table: Table, shares: SplitConfig, division: Division) -> Source:
    """Return the source of a divided table: names, classes, sizes, fingerprint and examples."""
    about, split = table.about(), division.split
    if notes := (*table.notes, *division.notes):
        about["notes"] = list(notes)
    parts = [table.fingerprint, shares.model_dump_json(exclude_none=True), division.fingerprint]
    return Source(
        fingerprint=" ".join(filter(None, parts)),
        feature_names=[str(name) for name in table.features.columns],
        classes=table.classes,
        description={
            **about,
            "records": len(table.labels),
            "features": table.features.shape[1],
            "classes": [str(label) for label in table.classes],
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        },
        example=table.example,
    )


def _max_stages(config: MultiStageSettings, table: Table, where: str) -> int:
    n = table.features.shape[1]
    if config.max_stages is None:
        return min(-(-n // 2), 10)
    if config.max_stages > n:
        notes = "".join(f"; {note}" for note in table.notes)  # they say which columns are left out
        raise InputError(
            f"{where}: expected at most the {n} features of the data, found {config.max_stages}"
            f"{notes}"
        )
    return config.max_stages


def _thresholds(
    config: MultiStageSettings, table: Table, where: str
) -> tuple[FloatArray, FloatArray]:
    """Return the least confidence (K,) by class, and the grid (G,) that a search chooses from."""
    grid, threshold = config.confidences(len(table.classes)), config.threshold
    if not isinstance(threshold, tuple):
        default = grid[0] if len(grid) else _UNUSED
        return class_thresholds(default if threshold is None else threshold, table, where), grid
    rows = [class_thresholds(value, table, where) for value in threshold]
    return np.min(rows, axis=0), grid


def class_thresholds(
    threshold: float | Mapping[Any, float], table: Table, where: str = "problem.threshold"
) -> FloatArray:
    """Return the confidence that an answer needs by class, shape (K,).

    Parameters
    ----------
    threshold : float or mapping of class label to float
        As configured: labels may be spelled as texts; those left out need 0.5.
    table : Table
    where : str
        Place of the key, for messages.

    Raises
    ------
    InputError
        A class is unknown, or a confidence is not above 0 and at most 1.
    """
    if not isinstance(threshold, Mapping):
        threshold = dict.fromkeys(table.classes, threshold)
    thresholds = per_class(threshold, table.classes, 0.5, where)
    wrong = thresholds[(thresholds <= 0) | (thresholds > 1)]
    if len(wrong):
        raise InputError(f"{where}: expected confidences above 0 and at most 1, found {wrong[0]}")
    return thresholds


def _error_costs(
    by_class: Mapping[Any, float] | None, table: Table, where: str
) -> FloatArray | None:
    if by_class is None:
        return None
    costs = per_class(by_class, table.classes, 1.0, where)
    if not costs.any():
        raise InputError(f"{where}: expected a cost above zero, found none")
    return costs
