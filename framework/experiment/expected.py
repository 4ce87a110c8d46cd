"""What to expect of the solutions of a run: its journal, its problem and resamples together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from framework import registry
from framework.analysis.choose import Condition, Mixture, parse_condition
from framework.analysis.expectations import Expectation, Resamples, Rule, expect, expect_mixture
from framework.analysis.front_expectations import expect_front
from framework.arrays import Array, BoolArray, FloatArray, IntArray, row_codes
from framework.batch import Evaluated
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.unevaluated import unevaluated
from framework.front import Archive, Front, Promise, expected_columns
from framework.journal import Journal
from framework.outcomes import RecordOutcomes, WeightedOutcomes
from framework.problem import Problem
from framework.roles import Roles
from framework.streams import CandidateStreams

_ROUNDED = 1e-6  # by which shares may miss 1
_LEAST_TOTAL, _FOR_A_RECORD = 2**24, 2**16  # units that records of classes have together
_MOST_SECONDS = 30.0  # of training components again, for figures that only inform


class Evidence(NamedTuple):
    """Resamples of a run's records, and the designs that it evaluated.

    Attributes
    ----------
    ids : numpy.ndarray of int64, shape (n,)
        Of each design that was evaluated, the first candidate's; ascending.
    values : mapping of str to numpy.ndarray of float64, shape (n,)
        Their metrics, in the same order.
    resamples : Resamples
        Of their outcomes, in the same order.
    X : numpy.ndarray, shape (n, d)
        The designs.
    beside : int
        How many of them, the last ones, nobody evaluated: beside an exact method's front.
    """

    ids: IntArray
    values: Mapping[str, FloatArray]
    resamples: Resamples
    X: Array
    beside: int = 0

    def positions(self, ids: IntArray) -> IntArray:
        """Return where candidates are among the designs."""
        return np.searchsorted(self.ids, ids)


def evidence(
    journal: Journal,
    problem: Problem,
    seed: int,
    front: Front | None = None,
    *,
    shares: Mapping[str, float] | None = None,
    seconds: float = _MOST_SECONDS,
) -> Evidence | None:
    """Return what resamples can tell of a run; None where the problem has no outcomes.

    With ``shares`` of classes records count as if these were those of the classes. ``seconds`` is
    how long components may take that are to be trained again.

    ``front`` is that of a method which has nothing else evaluated (``Algorithm.front_only``): it
    chose from all designs, and some 2,000 beside the front stand for them
    (:func:`~framework.experiment.unevaluated.unevaluated`).

    Raises
    ------
    InputError
        Components of the candidates are not on this machine's disk, and to train them again would
        take long.
    """
    batches = (batch for batch, _ in journal.batches())
    return evidence_of(batches, problem, seed, front, shares=shares, seconds=seconds)


def evidence_of(
    batches: Iterable[Evaluated],
    problem: Problem,
    seed: int,
    front: Front | None = None,
    *,
    shares: Mapping[str, float] | None = None,
    seconds: float = _MOST_SECONDS,
) -> Evidence | None:
    """Return what resamples can tell of evaluations that are at hand; see :func:`evidence`."""
    if type(problem).outcomes is Problem.outcomes:
        return None
    pieces = [piece for batch in batches if len(piece := batch.take(batch.ok))]
    if not pieces:
        return None
    ids = np.concatenate([piece.ids for piece in pieces])
    X = np.concatenate([piece.X for piece in pieces])
    order = np.argsort(ids)
    _, first = np.unique(row_codes(X[order]), return_index=True)
    order = order[np.sort(first)]
    ids, X = ids[order], np.ascontiguousarray(X[order])
    beside = 0
    if front is not None and len(front):
        near = unevaluated(problem, front, X, seed)
        beside = len(near)
        X = np.concatenate([X, near])
        ids = np.concatenate([ids, ids[-1] + 1 + np.arange(beside)])
    missing = problem.missing_components(X)
    cost = problem.build_cost(missing) if len(missing) else None
    if cost is not None and cost.seconds > seconds:
        raise InputError(
            f"expected the {problem.component_name} of all {len(ids):,} designs evaluated on this "
            f"machine's disk, found {len(missing):,} missing, which take about {cost.seconds:,.0f} "
            "s to train again"
        )
    outcomes = problem.outcomes(X)
    if outcomes is None:
        return None
    if shares is not None:
        outcomes = WeightedOutcomes(outcomes, class_weights(problem, shares, outcomes))
    values = {
        name: np.concatenate([piece.values[name] for piece in pieces])[order]
        for name in pieces[0].values
    }
    resamples = Resamples(outcomes, seed)
    if beside:
        more = resamples.claimed(np.arange(len(X) - beside, len(X)))
        values = {name: np.append(column, more[name]) for name, column in values.items()}
    return Evidence(ids, values, resamples, X, beside)


def exact_front(config: RunConfig, front: Front) -> Front | None:
    """Return the front of a run as :func:`evidence` asks for it: None where it was searched for."""
    algorithm = registry.load("algorithms", config.algorithm.kind)
    return front if algorithm.front_only else None


def class_weights(
    problem: Problem, shares: Mapping[str, float], outcomes: RecordOutcomes
) -> IntArray:
    """Return how often each record of the outcomes counts so that classes have certain shares.

    Where records count differently already, that stays so within each class.

    Raises
    ------
    InputError
        Classes that are missing or unknown, or no shares above 0 that add up to 1.
    """
    known = problem.truth()
    if known is None:
        raise InputError(
            "prior: expected a problem whose records have known classes, found one without"
        )
    truth, labels = known
    names = [str(label) for label in labels]
    given = ", ".join(f"{name}={share:g}" for name, share in shares.items())
    if set(shares) != set(names):
        raise InputError(
            f"prior: expected a share of each class ({', '.join(names)}), found {given}"
        )
    wanted = np.array([shares[name] for name in names])
    if not (wanted > 0).all() or abs(wanted.sum() - 1) > _ROUNDED:
        raise InputError(f"prior: expected shares above 0 that add up to 1, found {given}")
    counts = np.bincount(truth, outcomes.counted, minlength=len(names))
    if not counts.all():
        missing = names[int(counts.argmin())]
        raise InputError(f"prior: expected records of each class, found none of {missing!r}")
    each = wanted / counts
    total = max(_LEAST_TOTAL, _FOR_A_RECORD * len(truth))
    whole = np.rint(each * (total / float(each @ np.bincount(truth))))
    return np.maximum(whole, 1).astype(np.int64)[truth]


def scored_again(
    found: Evidence, problem: Problem, roles: Roles, seed: int, *, tested: bool = True
) -> Front:
    """Return the front of the designs that a run evaluated as another problem scores them.

    Parameters
    ----------
    found : Evidence
        Of that other problem, which has other prices of features, say.
    problem : Problem
    roles : Roles
        Of its metrics.
    seed : int
    tested : bool
        Whether the test records say what these figures are.

    Raises
    ------
    InputError
        No design meets the run's constraints now.
    """
    archive = Archive(roles)
    evaluated = np.arange(len(found.ids) - found.beside)
    values = found.resamples.claimed(evaluated)
    archive.update(Evaluated(found.ids[evaluated], found.X[evaluated], dict(values)))
    if archive.rows is None:
        raise InputError("choose: expected a design that meets the run's constraints, found none")
    rows = archive.rows
    test = problem.evaluate_test(rows.X, CandidateStreams(seed, rows.ids)) if tested else None
    return Front(rows, roles, problem.gene_names, test)


def with_expected(front: Front, found: Evidence) -> tuple[Front, dict[str, Any]]:
    """Return a front with what to expect of each solution, and what this rests on.

    The latter is for ``summary.json``: how many ``designs`` were evaluated and how many of them
    ``resampled``, whether these are the ``whole`` of those that may win, and how many
    ``resamples``; of an exact method also how many ``neighbours`` of its front.
    """
    if not len(front):
        return front, {"unknown": "the front is empty"}
    known = expect_front(
        found.resamples, front.roles, found.values, front.ids, found.positions(front.ids)
    )
    about = {name: getattr(known, name) for name in ("designs", "resampled", "whole", "resamples")}
    if found.beside:  # of an exact method
        about |= {"designs": known.designs - found.beside, "neighbours": found.beside}
    return replace(front, expected=known.columns), about


def expectation(found: Evidence, front: Front, position: int, **rule: Any) -> Expectation:
    """Return what to expect of a solution of a front that a rule of ``choose`` picked."""
    made = Rule(front, **rule)
    at = int(found.positions(front.ids[position : position + 1])[0])
    return replace(expect(found.resamples, made, at), beside=found.beside)


def mixture_expectation(
    found: Evidence, front: Front, mixture: Mixture, best: str, where: Sequence[str | Condition]
) -> tuple[dict[str, Promise], float]:
    """Return what to expect of a mixture of a front with trivial classifiers behind it.

    See :func:`~framework.analysis.expectations.expect_mixture`.
    """
    solutions = front.ids[front.ids >= 0]
    positions = found.positions(solutions)
    return expect_mixture(found.resamples, front, positions, mixture, best, where)


class Sure(NamedTuple):
    """The solutions of a front that meet all limits in enough resamples.

    Attributes
    ----------
    front : Front
        These alone.
    share : mapping of int to float
        Share of the resamples in which all limits hold together, less the luck of being on the
        front, by id, of the whole front.
    """

    front: Front
    share: Mapping[int, float]


def sure_front(
    found: Evidence, front: Front, where: Sequence[str | Condition], percent: float
) -> Sure:
    """Return the part of a front whose limits all hold in at least so many per cent of resamples.

    A solution's figures in the resamples lie around what it claims. They are moved to what to
    expect of it: by the optimism of its spot on the front.

    Raises
    ------
    InputError
        No limit, no share, or no solution passes: the message has the highest limit that is met.
    """
    conditions = [parse_condition(c) if isinstance(c, str) else c for c in where]
    if not 0 < percent < 100:
        raise InputError(f"sure: expected a percentage between 0 and 100, found {percent:g}")
    if not conditions:
        raise InputError("sure: expected with at least one limit, such as --where coverage>=0.8")
    rule = Rule(front, where=conditions)
    resamples = found.resamples
    if front.expected is None:
        front, _ = with_expected(front, found)
    values = resamples.outcomes.metrics(resamples.weights, found.positions(front.ids), rule.needs)
    values = {name: column - _luck(front, name)[:, None] for name, column in values.items()}
    held = rule.holds(values)
    met = held.mean(axis=1)
    claimed = np.ones(len(front), dtype=bool)
    for condition in conditions:
        claimed &= condition.holds(front.rows.values[condition.metric])
    passing = np.flatnonzero(claimed & (met >= percent / 100))
    if len(passing):
        share = dict(zip(front.ids.tolist(), met.tolist(), strict=True))
        return Sure(Front(front.rows.take(passing), front.roles, front.gene_names), share)
    text = ", ".join(map(str, conditions))
    best = int(np.argmax(np.where(claimed, met, -1.0)))
    surest = (
        f"; solution {front.ids[best]} comes nearest, with {100 * met[best]:.0f}%"
        if claimed[best]
        else ""
    )
    raise InputError(
        f"sure: no solution meets {text} together in {percent:g}% of the resamples{surest}"
        f"{_highest(rule, conditions, values, percent)}"
    )


def _luck(front: Front, name: str) -> FloatArray:
    """Return by how much what solutions claim is above what to expect of them; 0 if unknown."""
    columns = expected_columns(front.roles.metrics).get(name, ("",))
    expected = (front.expected or {}).get(columns[0])
    if expected is None:
        return np.zeros(len(front))
    return np.asarray(np.nan_to_num(front.rows.values[name] - expected))


def _highest(
    rule: Rule, conditions: Sequence[Condition], values: Mapping[str, FloatArray], percent: float
) -> str:
    """Return the tightest limit of each condition that a solution meets so often, as a text."""
    found = []
    for i, condition in enumerate(conditions):
        if condition.operator == "==":
            continue
        others: BoolArray = ~np.isnan(values[condition.metric])
        for other in (*rule.conditions[: -len(conditions)], *conditions[:i], *conditions[i + 1 :]):
            others &= other.holds(values[other.metric])
        side = 1.0 if condition.operator in (">", ">=") else -1.0
        column = np.where(others, side * values[condition.metric], -np.inf)
        needed = int(np.ceil(percent / 100 * column.shape[1] - 1e-9))
        limit = float(np.sort(column, axis=1)[:, column.shape[1] - needed].max())
        if np.isfinite(limit):
            sign = ">=" if side > 0 else "<="
            # rounded to the side on which it holds
            shown = side * np.floor(limit * 1e4) / 1e4
            found.append(f"{condition.metric}{sign}{shown:.6g}")
    if not found:
        return ""
    rest = " with the other limits as they are" if len(conditions) > 1 else ""
    return f"; the tightest limit that one does meet is {' or '.join(found)}{rest}"


def tightened(sure: Sure, where: Sequence[str | Condition]) -> list[Condition]:
    """Return limits as tight as the least that the sure solutions claim.

    A rule with them does about what the guarded rule does, so that its optimism is the latter's.
    """
    found = []
    for item in where:
        condition = parse_condition(item) if isinstance(item, str) else item
        column = sure.front.rows.values[condition.metric]
        if condition.operator in (">", ">="):
            condition = Condition(condition.metric, ">=", float(column.min()))
        elif condition.operator in ("<", "<="):
            condition = Condition(condition.metric, "<=", float(column.max()))
        found.append(condition)
    return found
