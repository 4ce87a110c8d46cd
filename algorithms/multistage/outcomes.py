"""What ordered partitions answer to each record, and what they pay for it."""

from __future__ import annotations

import numpy as np

from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import COST, LOSS, HeldOutRecords
from framework.answers import NO_ANSWER, Answers, Records
from framework.arrays import Array, BoolArray, IntArray

_ANSWERED, _RIGHT, _CALLED = range(3)  # planes of record_outcomes()


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
        wrong = np.where(held.labels == others[0], others[-1], others[0])
        codes = np.where(planes[_RIGHT], held.labels, wrong).astype(np.int16)
        if held.positive >= 0:
            codes[planes[_CALLED] > 0] = held.positive
    codes[planes[_ANSWERED] == 0] = NO_ANSWER
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
    for group, cost in enumerate(charges.of_group):
        paid = paid + cost * acquired[:, charges.group_of == group].any(axis=1)
    return paid
