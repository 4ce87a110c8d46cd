"""Metrics of ordered partitions, from the bits of stage classifiers.

Metrics of each class are for data where some classes are rare. They count only records with an
answer, as coverage counts the others. They follow from two counts per class: records that are
answered, and records that are answered rightly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from algorithms.moves.bits import pack
from algorithms.multistage.kernels import scoring
from algorithms.multistage.records import StageData
from framework.answers import Measure, Size
from framework.arrays import Array, FloatArray, IntArray, WordArray, frozen, sum_in_order
from framework.measures import OverClasses, Ratio, Tables
from framework.roles import Metric

COST, LOSS = "cost", "loss"
"""The names of what is paid: for features, and for errors and missing answers."""

POSITIVE = (
    Metric(
        "false_positive_rate",
        "min",
        text="share of the answered negatives that are called positive",
    ),
    Metric(
        "false_negative_rate",
        "min",
        text="share of the answered positives that are called something else",
    ),
    Metric("recall", "max", text="share of the answered positives that are called positive"),
    Metric("f1", "max", text="harmonic mean of precision and recall of the positive class"),
)
"""Only where there is a positive class."""

BALANCED = Metric(
    "balanced_accuracy", "max", text="mean over the classes of the share of answers that are right"
)
WORST = Metric("worst_recall", "max", text="the least of the classes' shares of right answers")
ERROR_COST = Metric(
    "error_cost",
    "min",
    "ratio",
    text="mean cost per record of wrong answers, by true class; no answer costs nothing",
)
"""Only where errors have costs."""
RISKS = (
    Metric("risk", "min", "ratio", text="mean cost per record of errors and of no answers"),
    Metric("total_cost", "min", "ratio", text="risk and mean acquisition cost per record, added"),
)
"""Only where stages decide by costs."""
METRICS = (
    Metric("coverage", "max", text="share of records that get an answer"),
    Metric("accuracy", "max", text="share of the answers that are right"),
    Metric("cost", "min", "ratio", text="mean acquisition cost per record"),
    Metric("stages", "min", "ratio", text="number of stages", size=True),
    Metric("inconclusive_rate", "min", text="share of records without an answer"),
    BALANCED,
    WORST,
    *POSITIVE,
    ERROR_COST,
    *RISKS,
)


class HeldOutRecords(NamedTuple):
    """The records of one part of the data, as scoring reads them.

    Attributes
    ----------
    labels : numpy.ndarray of int64, shape (records,)
        Class codes.
    positive : int
        Code of the positive class, -1 for none.
    first_word : int
        Where in each plane of bits the words of these records begin.
    everyone, negatives : numpy.ndarray of uint64, shape (words,)
        A bit for every record, and one for those whose true class is not the positive one.
    unknown : numpy.ndarray of uint64, shape (features, words), optional
        A bit for each record that lacks a feature, if models stop there.
    codes : int
        Number of planes that have the class of an answer.
    """

    labels: IntArray
    positive: int
    classes: int
    first_word: int
    everyone: WordArray
    negatives: WordArray
    unknown: WordArray | None
    codes: int = 0


def held_out_records(data: StageData) -> tuple[HeldOutRecords, HeldOutRecords]:
    """Return the validation records and the test records."""
    cut, classes = data.n_validation, len(data.thresholds)

    def part(rows: slice, first_word: int) -> HeldOutRecords:
        labels = data.y_held[rows]
        everyone = np.ones(len(labels), dtype=bool)
        planes = frozen(pack(everyone)), frozen(pack(labels != data.positive))
        unknown = frozen(pack(data.unknown[:, rows])) if len(data.unknown) else None
        about = labels, data.positive, classes, first_word
        return HeldOutRecords(*about, *planes, unknown, data.codes)

    return part(slice(cut), 0), part(slice(cut, None), data.validation_words)


def measure(
    X: Array,
    table: scoring.Held,
    records: HeldOutRecords,
    charges: scoring.Charges,
    cost_scale: int,
    error_costs: FloatArray | None,
) -> dict[str, FloatArray]:
    """Return the metrics of genomes, one value each; NaN where a classifier could not be built.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
    table : Held
        Has every stage classifier that the genomes need.
    records : HeldOutRecords
    charges, cost_scale
        A real cost is ``charges / cost_scale``.
    error_costs : numpy.ndarray of float64, shape (classes,), optional
        What a wrong answer costs, by true class.
    """
    n, positive = len(records.labels), records.positive
    counts, answered, right = counted(X, table, records, charges)
    conclusive = counts[:, scoring.CONCLUSIVE]
    values = {
        "coverage": conclusive / n,
        "accuracy": counts[:, scoring.RIGHT] / np.maximum(conclusive, 1),
        "cost": counts[:, scoring.COST] / (cost_scale * n),
        "stages": counts[:, scoring.STAGES].astype(np.float64),
        "inconclusive_rate": (n - conclusive) / n,
    }
    if positive >= 0:
        false, negatives = counts[:, scoring.FALSE_POSITIVE], counts[:, scoring.NEGATIVE]
        hits, positives = counts[:, scoring.POSITIVE] - false, conclusive - negatives
        misses = positives - hits
        values |= {
            "false_positive_rate": false / np.maximum(negatives, 1),
            "false_negative_rate": misses / np.maximum(positives, 1),
            "recall": hits / np.maximum(positives, 1),
            "f1": 2 * hits / np.maximum(2 * hits + false + misses, 1),
        }
    values |= by_class(answered, right, np.bincount(records.labels, minlength=records.classes))
    if error_costs is not None:
        values["error_cost"] = sum_in_order((answered - right) * error_costs) / n
    if table.rule.by_cost:
        loss, paid = counts[:, scoring.LOSS], counts[:, scoring.COST]
        values |= {"risk": loss / (cost_scale * n), "total_cost": (loss + paid) / (cost_scale * n)}
    failed = counts[:, scoring.FAILED] == 1
    if failed.any():
        values = {name: np.where(failed, np.nan, column) for name, column in values.items()}
    return values


def counted(
    X: Array, table: scoring.Held, records: HeldOutRecords, charges: scoring.Charges
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the counts of genomes, and those of answered and of right records by true class.

    Returns
    -------
    tuple of three numpy.ndarray of int64, shape (n, 9), (n, classes) and (n, classes)
        See :func:`~algorithms.multistage.kernels.scoring.score` for the first.
    """
    asked = X, table, records.first_word, charges
    of_records = records.everyone, records.negatives, records.unknown
    if records.positive < 0 or records.classes > 2:
        return scoring.score(*asked, *of_records, records.labels, records.classes)
    counts, _, _ = scoring.score(*asked, *of_records)
    negatives, false = counts[:, scoring.NEGATIVE], counts[:, scoring.FALSE_POSITIVE]
    order = [0, 1] if records.positive == 1 else [1, 0]
    answered = np.column_stack([negatives, counts[:, scoring.CONCLUSIVE] - negatives])[:, order]
    right = np.column_stack([negatives - false, counts[:, scoring.POSITIVE] - false])[:, order]
    return counts, answered, right


def by_class(answered: Array, right: Array, present: Array) -> dict[str, FloatArray]:
    """Return the metrics over all classes.

    Parameters
    ----------
    answered, right : numpy.ndarray of int64, shape (n, K)
        Number of records of each class with an answer, and with the right one.
    present : numpy.ndarray of int64, shape (K,)
        Number of all records of each class. A class without records is ignored; one whose records
        all get no answer has a share of 0.
    """
    shares = (right / np.maximum(answered, 1))[:, present > 0]
    return {
        "balanced_accuracy": sum_in_order(shares) / shares.shape[1],
        "worst_recall": shares.min(axis=1),
    }


def measures_of(
    metrics: Sequence[Metric],
    classes: int,
    positive: int,
    cost_scale: int,
    error_costs: FloatArray | None,
) -> tuple[Measure, ...]:
    """Return how each metric follows from answers; see :func:`measure` for the arguments."""
    tables = Tables(classes)
    every, nothing = np.ones(classes, dtype=bool), 0 * tables.everyone
    wrong = tables.answered - tables.right
    recalls = [tables.ratio(BALANCED, "recall", code) for code in range(classes)]

    def measure_of(metric: Metric) -> Measure:
        name = metric.name
        if name in ("coverage", "accuracy"):
            return tables.ratio(metric, name)
        if metric in POSITIVE:
            return tables.ratio(metric, name, positive)
        if name in (BALANCED.name, WORST.name):
            return OverClasses(metric, recalls, least=name == WORST.name)
        if name == "stages":
            return Size(metric)
        over, paid, per = {
            "inconclusive_rate": (tables.everyone - tables.answered, (), 1),
            "cost": (nothing, (COST,), cost_scale),
            "risk": (nothing, (LOSS,), cost_scale),
            "total_cost": (nothing, (LOSS, COST), cost_scale),
            "error_cost": (
                nothing if error_costs is None else wrong * error_costs[:, np.newaxis],
                (),
                1,
            ),
        }[name]
        return Ratio(metric, over, tables.everyone, every, paid, per=per)

    return tuple(map(measure_of, metrics))
