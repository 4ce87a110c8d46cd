"""The designs that a method could have chosen without having them evaluated.

An exact method chooses from all designs, and a search that follows one path would have followed
another had the records been a little different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from framework.algorithm import Algorithm
from framework.analysis.choose import constraints_of, losses_of, meets
from framework.analysis.resamples import PILOT, SEARCHES, Resamples
from framework.arrays import Array, BoolArray, FloatArray, evenly, row_codes
from framework.batch import Evaluated
from framework.front import Front
from framework.problem import Problem
from framework.run.evaluator import evaluate_candidates

_DESIGNS = 2000  # that stand for all of them
_SPOTS = 16  # solutions of the front, evenly spread, from which searches start
_ROUNDS = 8  # moves from the front
_LOOKED_AT = 20_000  # designs of a round, fewer of many records:
_WORK = 2e9  # designs x records x resamples of a round: about a second
_AUGMENTED = 1e-3  # weight of the sum of scaled losses beside the greatest one
_AGAIN = 2e7  # designs x records of all searches: some seconds
_ASKED = 800  # batches of a search: those that ask for few candidates at a time would take long


def unevaluated(problem: Problem, front: Front, X: Array, seed: int) -> Array:
    """Return designs beside a front that would have been chosen had the records been others.

    In each of 32 resamples of the records, local searches start from some solutions of the front
    (the *spots*) and move to better :meth:`~framework.problem.Problem.neighbours` until there are
    none, for at most eight rounds. About 2,000 designs, the best that they meet, stand for all.
    Where neighbours of the front need components that are not trained yet, nothing is searched:
    these neighbours, evenly thinned, are the designs.

    Parameters
    ----------
    problem : Problem
    front : Front
        Not empty.
    X : numpy.ndarray, shape (n, d)
        Designs that were evaluated; none of them is returned.
    seed : int
        The run's, of the resamples.
    """
    start = front.X.astype(problem.space.dtype)
    moves = _distinct(problem.neighbours(start[evenly(len(start), _DESIGNS)]))
    designs = start[evenly(len(start), _SPOTS)]
    outcomes = None if len(problem.missing_components(moves)) else problem.outcomes(designs)
    if outcomes is None:
        return _without(moves[evenly(len(moves), _DESIGNS)], X)
    most, spots = int(min(_LOOKED_AT, _WORK / (outcomes.records * PILOT))), len(designs)
    for _ in range(_ROUNDS):
        moves = moves[evenly(len(moves), max(most, _DESIGNS))]
        looked = np.concatenate([designs, _without(moves, designs)])
        if len(problem.missing_components(looked)):
            break
        nearest = _best(problem, front, looked, spots, seed)
        fresh = looked[len(designs) :][nearest[len(designs) :]]
        designs = looked[nearest]
        if not len(fresh):
            break
        each = max(len(problem.neighbours(fresh[:1])), 1)
        moves = _distinct(problem.neighbours(fresh[evenly(len(fresh), max(most // each, 1))]))
    return _without(designs, X)


def searched_again(
    problem: Problem, made: Callable[[], Algorithm], front: Front, X: Array, seed: int
) -> Array:
    """Return the best of what the same search evaluates in eight resamples of the records.

    Parameters
    ----------
    problem : Problem
        If it has no outcomes, no design is returned.
    made : callable
        Returns the search in its initial state.
    front : Front
        Not empty. Returned are designs that are among the best of one of its spots in a resample.
    X : numpy.ndarray, shape (n, d)
        Designs that were evaluated; none of them is returned. A search in a resample has as many
        evaluations, or as many as some seconds allow. No design is returned where it asks for more
        than 800 batches.
    seed : int
        The run's, of the resamples.
    """
    spots = front.X.astype(problem.space.dtype)[evenly(len(front), _SPOTS)]
    outcomes = problem.outcomes(spots)
    if outcomes is None:
        return X[:0]
    designs, most = [spots], min(len(X), int(_AGAIN / (SEARCHES * outcomes.records)))
    for weights in Resamples(outcomes, seed, SEARCHES).weights.T:
        search, count, batches = made(), 0, 0
        while count < most and (proposed := search.ask()) is not None:
            batches += 1
            if batches > _ASKED:
                return X[:0]
            search.tell(_evaluated(problem, proposed, count, weights[:, np.newaxis], seed))
            designs.append(proposed)
            count += len(proposed)
    others = _without(np.concatenate(designs), np.concatenate([spots, X]))
    looked = np.concatenate([spots, others])
    return others[_best(problem, front, looked, len(spots), seed)[len(spots) :]]


def _evaluated(problem: Problem, X: Array, first: int, weights: Array, seed: int) -> Evaluated:
    """Return designs with their metrics in a resample, weights (records, 1); ids from ``first``."""
    batch = evaluate_candidates(problem, seed, first + np.arange(len(X)), X)
    outcomes = problem.outcomes(X)
    assert outcomes is not None
    values = dict(batch.values)
    for name, column in outcomes.metrics(weights).items():
        values[name] = np.where(batch.ok, column[:, 0], np.nan)
    return replace(batch, values=values)


def _best(problem: Problem, front: Front, X: Array, spots: int, seed: int) -> BoolArray:
    """Return which designs are among the best of some spot in some resample.

    The first ``spots`` designs are those spots themselves, and always among them. As in
    :mod:`~framework.analysis.expectations`, the best one of a spot has the least augmented
    achievement scalarisation: max(z) + 0.001 sum(z) over the objectives, where z is its loss above
    that of the spot, as a share of the front's span.
    """
    outcomes, roles = problem.outcomes(X), front.roles
    assert outcomes is not None
    pilot, conditions = Resamples(outcomes, seed).first(PILOT), constraints_of(roles)
    losses = np.empty((len(roles.names), len(X), pilot.count))
    needs = {*roles.names, *(condition.metric for condition in conditions)}
    for piece, values in pilot.pieces(np.arange(len(X)), needs):
        feasible = meets(conditions, roles, values)
        losses[:, piece] = np.where(feasible, losses_of(roles, values), np.inf)
    span = np.ptp(front.losses, axis=0)
    span = np.where(span > 0, span, 1.0)[:, np.newaxis, np.newaxis]
    each = max(_DESIGNS // (spots * pilot.count), 1)
    chosen = np.arange(len(X)) < spots
    for spot in range(spots):
        at_spot = losses[:, spot : spot + 1]
        scaled = (losses - np.where(np.isfinite(at_spot), at_spot, 0.0)) / span
        score: FloatArray = scaled.max(axis=0) + _AUGMENTED * scaled.sum(axis=0)
        chosen |= least(score, each).any(axis=1)
    return chosen


def least(values: FloatArray, count: int) -> BoolArray:
    """Return which are the least of each column, of equal ones the first, shape (n, columns).

    Sorting the columns takes ten times as long.
    """
    count = min(count, len(values))
    last = np.partition(values, count - 1, axis=0)[count - 1]
    less, equal = values < last, values == last
    first = equal & (equal.cumsum(axis=0) <= count - less.sum(axis=0))
    return np.asarray(less | first)


def _distinct(X: Array) -> Array:
    """Return each design once, in order."""
    _, first = np.unique(row_codes(X), return_index=True)
    return X[np.sort(first)]


def _without(X: Array, others: Array) -> Array:
    """Return the designs that are not among others."""
    return _distinct(np.concatenate([others.astype(X.dtype), X]))[len(_distinct(others)) :]
