"""Certify solutions of a run on fresh labelled records: which of them surely meet limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from framework.analysis.certify import Samples, least_records, needed, order, passed
from framework.analysis.choose import (
    Condition,
    column_of,
    loss_of,
    meets,
    parse_conditions,
    require_solutions,
)
from framework.analysis.ranges import taken_over
from framework.answering import AnsweringProblem
from framework.arrays import Array, IntArray, WordArray, category_text
from framework.errors import InputError, listed
from framework.front import Front
from framework.outcomes import Sample
from framework.problem import Deployable, Problem, check_genomes
from framework.registry import nearest, require_columns, require_labels
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    import pandas as pd

_UNLIKELY = 0.01  # a chance of equal records below this is taken for none


class Tested(NamedTuple):
    """A solution that was tested.

    Attributes
    ----------
    position : int
        Position in the front.
    p : float
        The p-value of the hypothesis that the solution breaks a limit.
    measured : mapping of str to float
        The metrics with limits, on the fresh records; NaN where a mean is over none of them, such
        as that of a class that none of them has.
    """

    position: int
    p: float
    measured: dict[str, float]


class Certification(NamedTuple):
    """What was tested on fresh records, and what passed.

    Attributes
    ----------
    certified : tuple of Tested
        In the order of the tests; with a probability of ``1 - delta`` none breaks a limit.
    failed : Tested or None
        The first one that did not pass, with which the tests ended.
    untested : int
        Number of solutions that would have been tested after it.
    records : int
        Number of fresh records.
    best : str
        The metric that is wanted beside the limits.
    needed : int or None
        If nothing is certified: about how many records would certify the one that failed, if it is
        as good as on these; None if it does not meet the limits on these.
    needed_as_claimed : int or None
        The same, if it is as good as it claims.
    compared : bool
        Whether the fresh records could be compared with those of the search.
    unknown : int
        Number of fresh records whose labels the run does not know, so that they are ``other``.
    """

    certified: tuple[Tested, ...]
    failed: Tested | None
    untested: int
    records: int
    best: str
    needed: int | None
    needed_as_claimed: int | None
    compared: bool
    unknown: int

    @property
    def chosen(self) -> int:
        """Position of the best that is certified: the last one of the chain."""
        return self.certified[-1].position


def certify(
    problem: Problem,
    front: Front,
    frame: pd.DataFrame,
    target: str,
    where: Sequence[str | Condition],
    *,
    delta: float = 0.1,
    best: str | None = None,
    place: str = "fresh records",
    group: pd.Series[Any] | None = None,
    other: str = "",
) -> Certification:
    """Return which solutions of a front meet limits on records that no search has seen.

    With a probability of at least ``1 - delta`` over the draw of these records, none of the
    solutions that are certified breaks a limit. The records are drawn independently of each other
    and of all that came before, from where the model will run.

    Parameters
    ----------
    problem : Problem
        The run's.
    front : Front
    frame : pandas.DataFrame
        Fresh records, with their labels.
    target : str
        The column of the labels.
    where : sequence of str or Condition
        Limits, one or more.
    delta : float
        Between 0 and 1.
    best : str, optional
        The metric that is wanted beside the limits; the first objective without a limit if None.
    place : str
        Where the records come from, for messages.
    group : pandas.Series, optional
        The column by which the records of the run were kept together, such as the patient, with its
        values there.
    other : str
        The class of the labels that the run does not know, if it merged rare ones.

    Raises
    ------
    InputError
        There is no solution; a limit cannot be certified; records have no label, weights, are those
        of the search, or too few; or the solutions are no classifiers.
    """
    require_solutions(front)
    limits = _limits(front, where, delta)
    labels = problem.labels() if isinstance(problem, Deployable) else ()
    if not len(labels):
        raise InputError(
            "certify: expected a run whose solutions are classifiers that answer labelled records, "
            f"found {type(problem).__name__}; calls with answers need problem.rates"
        )
    assert isinstance(problem, Deployable)
    if isinstance(problem, AnsweringProblem):
        _refuse_weighted(problem)
    X = front.X.astype(problem.space.dtype)
    check_genomes(problem, X, "front.csv")
    codes, unknown = _codes(frame, target, labels, place, other)
    if group is not None:
        _refuse_grouped(frame, group, place)
    searched = problem.known_records(frame, codes)
    if searched is not None:
        _refuse_known(*searched, place)
    free = [name for name in front.roles.names if name not in {c.metric for c in limits}]
    best = best or (free or list(front.roles.names))[0]
    losses = loss_of(front, best, "best")

    @cache
    def samples(i: int) -> Samples:
        """Return what the model of a solution, as it is exported, does on the fresh records."""
        return problem.samples(X[i], frame, codes)

    # sizes are exact, so that their limits hold or do not; what depends on records is tested
    sizes = {metric.name for metric in problem.metrics if metric.size}  # a front may say otherwise
    fixed = [c for c in limits if c.metric in sizes]
    drawn = [c for c in limits if c not in fixed]
    values = problem.evaluate(X, CandidateStreams(0, front.ids)) if fixed else front.rows.values
    candidates = np.flatnonzero(meets(fixed, front.roles, values))
    if not len(candidates):
        raise InputError(f"where {fixed[0]}: no solution is left")
    if not drawn:
        raise InputError(
            f"where: expected a limit on what records decide, such as accuracy>=0.85, found "
            f"{', '.join(map(str, fixed))} alone, which is known of each solution without any"
        )
    first = samples(int(candidates[0]))
    _check_metrics(drawn, first)
    shown, least = ", ".join(map(str, drawn)), least_records(first, drawn, delta)
    if least is None:
        raise InputError(
            f"where: expected limits that records can prove, found {shown}, which no number of "
            "records does"
        )
    if len(frame) < least:
        raise InputError(
            f"{place}: expected at least {least:,} records to certify {shown} at delta {delta:g}, "
            f"even if none spoke against it; found {len(frame):,}"
        )
    # tested in a fixed order until one fails, which keeps the chance of any error at most delta
    claims = _claims(problem, front, X, candidates, first, drawn)
    ranking = order(claims, drawn, losses[candidates])
    chain = candidates[ranking]
    tested = passed(chain.tolist(), samples, drawn, delta)
    rows = [
        Tested(i, p, {c.metric: _worst(c, measured[c.metric]) for c in drawn})
        for i, measured, p in tested
    ]
    ended = tested[-1][2] > delta
    none = ended and len(tested) == 1
    return Certification(
        certified=tuple(rows[:-1] if ended else rows),
        failed=rows[-1] if ended else None,
        untested=len(chain) - len(tested),
        records=len(frame),
        best=best,
        needed=needed(tested[0][1], drawn, len(frame), delta) if none else None,
        needed_as_claimed=(
            needed(claims[ranking[0]], drawn, _searched(problem), delta) if none else None
        ),
        compared=searched is not None,
        unknown=unknown,
    )


def _limits(front: Front, where: Sequence[str | Condition], delta: float) -> list[Condition]:
    if not 0 < delta < 1:
        raise InputError(f"delta: expected a probability between 0 and 1, found {delta:g}")
    if not where:
        raise InputError("certify: expected at least one limit, such as --where coverage>=0.8")
    limits = list(parse_conditions(where))
    for condition in limits:
        column_of(front, condition.metric, "where")
        if condition.operator == "==":
            raise InputError(
                f"where {condition}: expected a limit (>=, >, <= or <); no records prove that a "
                "figure is met exactly"
            )
    return limits


def _codes(
    frame: pd.DataFrame, target: str, labels: Sequence[Any], place: str, other: str
) -> tuple[IntArray, int]:
    """Return the class of each fresh record, shape (n,), and how many are ``other`` by default."""
    require_columns([target], frame.columns, f"{place}: labels")
    column = frame[target]
    if not len(column):
        raise InputError(f"{place}: expected records, found none")
    require_labels(column.isna(), repr(target), place)
    numbers = {category_text(label): code for code, label in enumerate(labels)}
    texts = [category_text(value) for value in column.tolist()]
    unknown = [row for row, text in enumerate(texts) if text not in numbers]
    if unknown and other not in numbers:
        raise InputError(
            f"{place}: expected one of the classes of the run ({listed(list(numbers))}) in "
            f"{target!r}, found {texts[unknown[0]]!r} in record {unknown[0] + 1}"
        )
    codes = [numbers[text if text in numbers else other] for text in texts]
    return np.array(codes, dtype=np.int64), len(unknown)


def _refuse_weighted(problem: AnsweringProblem) -> None:
    """Refuse metrics in which records have weights: what is tested are means of single records."""
    records = problem.records()
    if records is not None and records.weights is not None:
        raise InputError(
            "certify: expected a run whose metrics count each record once, found one with weights "
            "(problem.weights); no certificate is known here for weighted means, so search without"
        )


def _refuse_grouped(frame: pd.DataFrame, group: pd.Series[Any], place: str) -> None:
    """Refuse records of which several may be of one group, or of a group that the run had.

    They are not drawn independently of each other, or of the search.
    """
    name = str(group.name)
    require_columns([name], frame.columns, f"{place}: split.group of this run")
    fresh, searched = ([*map(_spelled, column.tolist())] for column in (frame[name], group))
    again, met = frame[name].duplicated(), np.isin(fresh, searched)
    for which, wanted, fault, instead in (
        (again, "one record of each value", "are further ones", "draw one of each by lot"),
        (met, "records of new values", "have one of the table of this run", "give others"),
    ):
        if which.any():
            raise InputError(
                f"{place}: expected {wanted} of {name!r}, found {which.sum():,} of {len(frame):,} "
                f"that {fault}; records of a group are not drawn independently, so {instead}"
            )


def _spelled(value: Any) -> str:
    """Return one spelling of a value of a group: 0001 is a text in one table, and 1 in another."""
    text = category_text(value)
    try:
        return category_text(float(text))
    except ValueError:
        return text


def _refuse_known(fresh: WordArray, searched: WordArray, place: str) -> None:
    """Refuse records of the search, and copies, unless the data are full of equal records.

    The chance that a fresh record equals another is the share of the records of the search that
    equal another one of it. More equal records than can be expected by that are refused.
    """
    from scipy.stats import binom

    _, which, counts = np.unique(searched, return_inverse=True, return_counts=True)
    chance = float((counts[which.ravel()] > 1).mean())
    met = int(np.isin(fresh, searched).sum())
    again = len(fresh) - len(np.unique(fresh))
    for count, what in (
        (met, "that no search has seen, found {} that this run was trained or measured on"),
        (again, "that were drawn independently, found {} that are copies of others"),
    ):
        if count and binom.sf(count - 1, len(fresh), chance) < _UNLIKELY:
            share = f"{count:,} of {len(fresh):,}"
            raise InputError(
                f"{place}: expected records {what.format(share)}; no guarantee is possible with "
                "them, give others"
            )


def _check_metrics(limits: Sequence[Condition], samples: Samples) -> None:
    for condition in limits:
        if condition.metric not in samples:
            raise InputError(
                f"where {condition}: expected a limit on one of {', '.join(samples)}; found "
                f"{condition.metric!r}, which is no share of records or mean of bounded costs"
                f"{nearest(condition.metric, samples)}"
            )


def _searched(problem: Problem) -> int:
    """Return how many records a search measured its candidates on."""
    about = problem.describe()
    return int(about.get("out_of_fold") or about.get("validation") or 0)


def _claims(
    problem: Problem,
    front: Front,
    X: Array,
    candidates: IntArray,
    first: Samples,
    limits: Sequence[Condition],
) -> list[Samples]:
    """Return what solutions claim, as samples, which tell how surely they seem to meet limits.

    They decide in which order solutions are tested, and how many records would be needed. A rate is
    over as many records as the solution has for it, such as those that it calls positive. The
    least of several means, such as the worst recall, counts as often as ``first``, the samples of a
    solution on the fresh records, has means of it: each one is tested.
    """
    outcomes, records = problem.outcomes(X[candidates]), _searched(problem)
    names, everyone = {condition.metric for condition in limits}, np.arange(len(candidates))
    shares = {} if outcomes is None else taken_over(outcomes, everyone)[0]
    by_metric: dict[str, list[Sample]] = {}
    for name in names:
        metric, means = front.roles.metrics[name], front.rows.values[name][candidates]
        counts = records * shares.get(name, np.ones(len(means)))
        by_metric[name] = [
            Sample(
                mean,
                round(count),
                1.0 if metric.kind == "bounded" else max(metric.high, mean),
                metric.kind == "bounded",
            )
            for mean, count in zip(means.tolist(), counts.tolist(), strict=True)
        ]
    return [
        {name: [by_metric[name][i]] * len(first[name]) for name in names}
        for i in range(len(candidates))
    ]


def _worst(condition: Condition, samples: Sequence[Sample]) -> float:
    if not all(sample.records for sample in samples):
        return math.nan
    means = [sample.mean for sample in samples]
    return min(means) if condition.operator in (">", ">=") else max(means)
