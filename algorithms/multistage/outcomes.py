"""What ordered partitions answer to each record, and what they pay for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import COST, LOSS, HeldOutRecords
from algorithms.multistage.records import StageData
from framework.answers import NO_ANSWER, Answers, Part, Records
from framework.arrays import Array, BoolArray, IntArray
from framework.data.subgroups import Subgroups

_ANSWERED, _RIGHT, _CALLED = range(3)  # planes of record_outcomes()


def parts_of(
    data: StageData,
    classes: tuple[Any, ...],
    counts: Sequence[IntArray],
    subgroups: Sequence[Subgroups],
) -> dict[Part, Records | None]:
    """Return the records of the search and the test records, as answers are about them.

    Parameters
    ----------
    data : StageData
    classes : tuple
        Labels, by class code.
    counts : sequence of numpy.ndarray of int64, shape (records,)
        How often each record counts, by part; none where each counts once.
    subgroups : sequence of Subgroups
        By part; none where there are no subgroups.
    """
    cut = data.n_validation

    def records(part: Part, labels: IntArray, **more: Any) -> Records:
        at = int(part == "test")
        return Records(
            labels,
            classes,
            data.positive,
            weights=counts[at] if counts else None,
            subgroups=subgroups[at].codes if subgroups else None,
            subgroup_names=subgroups[at].names if subgroups else (),
            part=part,
            **more,
        )

    searched = records("search", data.y_held[:cut], units=data.units, refitted=bool(data.folds))
    return {"search": searched, "test": records("test", data.y_held[cut:]) if data.n_test else None}


def answers_of(
    X: Array,
    table: scoring.Held,
    held: HeldOutRecords,
    charges: scoring.Charges,
    records: Records,
) -> Answers:
    """Send records through the stages of partitions; return what came of them.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
    table : Held
        Has every stage classifier that the genomes need.
    held, records
        The same records, as scoring and as metrics read them.
    charges

    Notes
    -----
    Of several classes, where no bits tell the class, a wrong answer may be any other one but the
    positive class.
    """
    planes, paid, stages, failed = scoring.record_outcomes(
        np.ascontiguousarray(X), table, held.first_word, charges, len(records)
    )
    first = 2 if held.positive < 0 else 3
    alike: tuple[int, ...] = ()
    if held.codes:
        codes = np.zeros(planes.shape[1:], dtype=np.int16)
        for plane in range(held.codes):
            codes |= planes[first + plane].astype(np.int16) << plane
    else:
        others = [code for code in range(held.classes) if code != held.positive]
        alike = tuple(others) if held.classes > 2 else ()
        labels = held.labels.astype(np.int16)  # as narrow as codes: these are many
        wrong = np.where(labels == others[0], others[-1], others[0]).astype(np.int16)
        codes = np.where(planes[_RIGHT].view(bool), labels, wrong)
        if held.positive >= 0:
            codes[planes[_CALLED] > 0] = held.positive
    codes = np.where(planes[_ANSWERED].view(bool), codes, np.int16(NO_ANSWER))
    columns = {COST: paid}
    rule = table.rule
    if rule.by_cost:
        loss: IntArray = rule.no_answer * (1 - planes[_ANSWERED].astype(np.int64))
        for plane, weight in zip(planes[rule.errors :], rule.weights, strict=True):
            loss += weight * plane.astype(np.int64)
        columns[LOSS] = loss
    sizes = {"stages": stages.astype(np.float64)}
    stage_of = X[:, : len(charges.of_feature)]
    least, most = _charged(charges, stage_of == 0), _charged(charges, stage_of >= 0)
    limits = {COST: (least + charges.of_stage, most + charges.of_stage * stages)}
    return Answers(records, codes, columns, sizes, failed=failed, alike=alike, limits=limits)


def _charged(charges: scoring.Charges, acquired: BoolArray) -> IntArray:
    """Return what features (n, d) cost together, in units, (n,)."""
    paid: IntArray = acquired @ charges.of_feature
    for panel, cost in enumerate(charges.of_panel):
        paid = paid + cost * acquired[:, charges.panel_of == panel].any(axis=1)
    return paid
