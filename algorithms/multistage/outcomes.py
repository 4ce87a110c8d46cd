"""The answers of ordered partitions to each record, and what they pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from algorithms.moves.bits import pack
from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import COST, LOSS, HeldOutRecords, counted
from algorithms.multistage.records import StageData
from framework.answers import AnswerOutcomes, Answers, Counts, Measure, Part, Records
from framework.arrays import Array, BoolArray, IntArray, frozen
from framework.data.divisions import Subgroups, subgroups_of


def parts_of(
    data: StageData,
    classes: tuple[Any, ...],
    counts: Sequence[IntArray],
    subgroups: Sequence[Subgroups],
) -> dict[Part, Records | None]:
    """Return the records of the search and the test records, to which answers refer.

    Parameters
    ----------
    data : StageData
    classes : tuple
        Labels, by class code.
    counts : sequence of numpy.ndarray of int64, shape (records,)
        How often each record of a part counts; empty if each counts once.
    subgroups : sequence of Subgroups
        Those of each part; empty if there are none.
    """
    cut = data.n_validation

    def records(part: Part, labels: IntArray, **more: Any) -> Records:
        at = int(part == "test")
        return Records(
            labels,
            classes,
            data.positive,
            weights=counts[at] if counts else None,
            part=part,
            **subgroups_of(subgroups, part),
            **more,
        )

    searched = records("search", data.y_held[:cut], units=data.units, refitted=bool(data.folds))
    return {"search": searched, "test": records("test", data.y_held[cut:]) if data.n_test else None}


def answers_of(
    X: Array, table: scoring.Held, held: HeldOutRecords, charges: scoring.Charges, records: Records
) -> Answers:
    """Send records through the stages of partitions; return their answers and what they pay.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)
    table : Held
        Has every stage classifier that the genomes need.
    held, records
        The same records, as scoring and as metrics read them.
    charges : Charges
    """
    first, names, alike = _names(held)
    total = int(charges.of_feature.sum() + charges.of_panel.sum()) + charges.of_stage * X.shape[1]
    narrow = total < 2**31  # half the memory to write, which takes most of the time
    paid = np.empty((len(X), len(records)), dtype=np.int32 if narrow else np.int64)
    about = held.first_word, charges, held.labels, names, first, paid, held.unknown
    codes, lost, stages, failed = scoring.record_answers(np.ascontiguousarray(X), table, *about)
    columns = {COST: paid, LOSS: lost} if table.rule.by_cost else {COST: paid}
    sizes = {"stages": stages.astype(np.float64)}
    limits = _limits(X, held, charges, stages)
    return Answers(records, codes, columns, sizes, failed=failed, alike=alike, limits=limits)


def outcomes_of(
    X: Array,
    measures: Sequence[Measure],
    asked: Callable[[Array], tuple[scoring.Held, HeldOutRecords]],
    charges: scoring.Charges,
    records: Records,
    *,
    countable: bool,
) -> AnswerOutcomes:
    """Return the outcomes of partitions.

    ``asked`` returns the table that has the classifiers of partitions and what they are asked
    about, ``countable`` says whether no measure asks which of several classes a wrong answer names;
    see :func:`answers_of`.
    """

    def answers(X: Array) -> Answers:
        return answers_of(X, *asked(X), charges, records)

    def counts(X: Array, sets: BoolArray) -> Counts:
        return counts_of(X, *asked(X), charges, sets)

    plain = countable and records.weights is None and not records.subgroup_names
    return AnswerOutcomes(measures, answers, X, records, counts if plain else None)


def counts_of(
    X: Array,
    table: scoring.Held,
    held: HeldOutRecords,
    charges: scoring.Charges,
    sets: BoolArray,
) -> Counts:
    """Count what partitions answer to the records of sets (b, records), and what these pay.

    The other arguments are those of :func:`answers_of`. The records are counted as scoring counts
    them, 64 at a time.
    """
    outcomes = np.empty((held.classes, 3, len(X), len(sets)), dtype=np.int64)
    paid = np.empty((2, len(X), len(sets)), dtype=np.int64)
    for b, (mask, everyone) in enumerate(zip(sets, frozen(pack(sets)), strict=True)):
        some = held._replace(everyone=everyone, negatives=frozen(everyone & held.negatives))
        counts, answered, right = counted(X, table, some, charges)
        present = np.bincount(held.labels[mask], minlength=held.classes)
        outcomes[..., b] = np.stack([right.T, (answered - right).T, (present - answered).T], axis=1)
        paid[..., b] = counts[:, [scoring.COST, scoring.LOSS]].T
    stages, failed = counts[:, scoring.STAGES], counts[:, scoring.FAILED] == 1
    sizes, limits = {"stages": stages.astype(np.float64)}, _limits(X, held, charges, stages)
    return Counts(outcomes, {COST: paid[0], LOSS: paid[1]}, sizes, failed, limits)


def _names(held: HeldOutRecords) -> tuple[int, Array, tuple[int, ...]]:
    """Return how the planes of bits name the class of an answer.

    First the first plane that says it, then the class code of the answer, by the record's true
    class and by the number in the planes (classes, 2^m), then the classes that are not told apart.
    Without planes of class codes, only right, positive and other answers are distinct: with three
    classes and more, a wrong answer stands for any of the others.
    """
    classes, positive = np.arange(held.classes, dtype=np.int16), held.positive
    if held.codes:
        named = np.broadcast_to(
            np.arange(2**held.codes, dtype=np.int16), (held.classes, 2**held.codes)
        )
        return 2 if positive < 0 else 3, np.ascontiguousarray(named), ()
    others = classes[classes != positive]
    wrong = np.where(classes == others[0], others[-1], others[0])
    by_right = [wrong, classes]
    called = [np.full_like(classes, positive)] * 2 if positive >= 0 else []
    alike = tuple(others.tolist()) if held.classes > 2 else ()
    return 1, np.stack([*by_right, *called], axis=1), alike


def _limits(
    X: Array, held: HeldOutRecords, charges: scoring.Charges, stages: IntArray
) -> dict[str, tuple[IntArray, IntArray]]:
    """Return the least and the most that a record can pay, (n,) each, by the name of the cost."""
    stage_of = X[:, : len(charges.of_feature)]
    least, most = _charged(charges, stage_of == 0), _charged(charges, stage_of >= 0)
    least = (least + charges.of_stage) * (held.unknown is None)  # who stops at once pays nothing
    return {COST: (least, most + charges.of_stage * stages)}


def _charged(charges: scoring.Charges, acquired: BoolArray) -> IntArray:
    """Return the cost (n,) of the features that are acquired (n, d), in fixed point."""
    paid: IntArray = acquired @ charges.of_feature
    for panel, cost in enumerate(charges.of_panel):
        paid = paid + cost * acquired[:, charges.panel_of == panel].any(axis=1)
    return paid
