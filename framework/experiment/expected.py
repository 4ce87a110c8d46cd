"""What to expect of the solutions of a run: its journal, its problem and resamples together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.choose import Condition, Rule, constraints_of, parse_conditions
from framework.analysis.expectations import Expectation, expect
from framework.analysis.front_expectations import expect_front
from framework.analysis.mixtures import Mixture, expect_mixture
from framework.analysis.ranges import NORMAL, Spread, spreads
from framework.analysis.resamples import Resamples
from framework.arrays import Array, BoolArray, FloatArray, IntArray, row_codes
from framework.batch import Evaluated
from framework.errors import InputError
from framework.experiment.config import check
from framework.experiment.options import AlgorithmOptions, Options
from framework.experiment.unevaluated import searched_again, unevaluated
from framework.front import Archive, Front, Promise, expected_columns
from framework.journal import Journal
from framework.outcomes import RecordOutcomes, Refits, WeightedOutcomes
from framework.problem import Problem, check_genomes
from framework.roles import Roles
from framework.streams import CandidateStreams

_ROUNDED = 1e-6  # by which shares may miss 1
_LEAST_TOTAL, _FOR_A_RECORD = 2**24, 2**16  # units that records of classes have together
_LEAST_UNITS = 500  # of a record, so that rounding changes no share by more than a thousandth
_MOST_TOTAL = 2**50  # sums of resamples, where records are drawn a few times, stay below 2^53
_MOST_SECONDS = 30.0  # of training components again, for figures that only inform

Beside = Callable[[Problem, Array], Array]
"""Of a problem and designs that were evaluated, others that could have been chosen."""


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
        How many of them, the last ones, the method could have chosen and did not evaluate.
    refits : callable, optional
        As :meth:`~framework.problem.Problem.refits`, of records that count as these do.
    tested : int
        How many test records there are.
    """

    ids: IntArray
    values: Mapping[str, FloatArray]
    resamples: Resamples
    X: Array
    beside: int = 0
    refits: Callable[[Array], Refits | None] = lambda X: None
    tested: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """How many units are searched and how many records tested, for a summary."""
        return {"searched": self.resamples.units, "tested": self.tested}

    def positions(self, ids: IntArray) -> IntArray:
        """Return where candidates are among the designs. Raises InputError where one is not."""
        absent = ids[~np.isin(ids, self.ids)]
        if len(absent):
            raise InputError(
                f"expected solutions that the journal has, found {absent[0]}, which it lacks; the "
                "front and the journal are of different runs"
            )
        return np.searchsorted(self.ids, ids)

    def positions_of(self, front: Front) -> IntArray:
        """Return where solutions are, also those whose design an earlier candidate had."""
        if np.isin(front.ids, self.ids).all():
            return self.positions(front.ids)
        codes = row_codes(self.X)
        order = np.argsort(codes)
        return order[np.searchsorted(codes, row_codes(front.X.astype(self.X.dtype)), sorter=order)]

    def spreads(self, front: Front) -> dict[str, list[Spread]]:
        """Return what the ranges of a front's solutions are made of, by metric."""
        at, drawn = self.positions(front.ids[front.ids >= 0]), self.resamples
        resampled, refits = drawn.metrics(at), self.refits(self.X[at])
        return spreads(drawn.outcomes, drawn.units, at, resampled, front.roles.metrics, refits)


def evidence(
    journal: Journal,
    problem: Problem,
    seed: int,
    beside: Beside | None = None,
    *,
    shares: Mapping[str, float] | None = None,
    seconds: float = _MOST_SECONDS,
) -> Evidence | None:
    """Return what resamples can tell of a run; None where the problem has no outcomes.

    With ``shares`` of classes records count as if these were those of the classes. ``seconds`` is
    how long components may take that are to be trained again.

    ``beside`` returns what the method could have chosen too, of the problem and the designs that
    it had evaluated: see :func:`beside_of`.

    Raises
    ------
    InputError
        Components of the candidates are not on this machine's disk, and to train them again would
        take long.
    """
    batches = (batch for batch, _ in journal.batches())
    return evidence_of(batches, problem, seed, beside, shares=shares, seconds=seconds)


def evidence_of(
    batches: Iterable[Evaluated],
    problem: Problem,
    seed: int,
    beside: Beside | None = None,
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
    check_genomes(problem, X, "the journal")
    order = np.argsort(ids)
    _, first = np.unique(row_codes(X[order]), return_index=True)
    order = order[np.sort(first)]
    ids, X = ids[order], np.ascontiguousarray(X[order])
    more = X[:0] if beside is None else beside(problem, X)
    X = np.concatenate([X, more])
    ids = np.concatenate([ids, ids[-1] + 1 + np.arange(len(more))])
    missing = problem.missing_components(X)
    cost = problem.build_cost(missing) if len(missing) else None
    if cost is not None and cost.seconds > seconds:
        raise InputError(
            f"expected the {problem.component_name} of all {len(ids):,} candidates evaluated on "
            f"this machine's disk, found {len(missing):,} missing, which take about "
            f"{cost.seconds:,.0f} s to train again"
        )
    outcomes, refits = problem.outcomes(X), problem.refits
    if outcomes is None:
        return None
    if shares is not None:
        counted = class_weights(problem, shares, outcomes)
        outcomes, refits = WeightedOutcomes(outcomes, counted), partial(_counted, problem, counted)
    values = {
        name: np.concatenate([piece.values[name] for piece in pieces])[order]
        for name in pieces[0].values
    }
    resamples = Resamples(outcomes, seed)
    if len(more):
        claimed = resamples.claimed(np.arange(len(X) - len(more), len(X)))
        values = {name: np.append(column, claimed[name]) for name, column in values.items()}
    tested = int(problem.describe().get("test") or 0)
    return Evidence(ids, values, resamples, X, len(more), refits, tested)


def _counted(problem: Problem, counted: IntArray, X: Array) -> Refits | None:
    """Return what the models of a problem do on records of which each counts so often."""
    refits = problem.refits(X)
    if refits is None:
        return None
    each = counted[: len(refits.fold_of)]
    return refits._replace(models=(WeightedOutcomes(model, each) for model in refits.models))


def beside_of(
    algorithm: AlgorithmOptions | str | Mapping[str, Any] | None,
    front: Front,
    problem: Problem,
    seed: int,
) -> Beside | None:
    """Return what gives the designs that a search could have chosen beside those it evaluated.

    None where these are enough: but for methods that have a front alone evaluated, and for those
    that evaluate little beside their path (``front_only`` and ``narrow`` of
    :class:`~framework.algorithm.Algorithm`).
    """
    # options that are read from the directory of a run are as written: its package may be missing
    written = algorithm.model_dump(mode="json") if isinstance(algorithm, Options) else algorithm
    options = check(AlgorithmOptions, written, "algorithm")
    search = options.registered_class
    if not len(front) or not (search.front_only or search.narrow):
        return None
    made = partial(options.make, problem, front.roles, seed)
    if search.narrow:
        return lambda problem, X: searched_again(problem, made, front, X, seed)
    return (lambda problem, X: unevaluated(problem, front, X, seed)) if made().front_only else None


def class_weights(
    problem: Problem, shares: Mapping[str, float], outcomes: RecordOutcomes
) -> IntArray:
    """Return how often each record of the outcomes counts so that classes have certain shares.

    Where records count differently already, that stays so within each class.

    Raises
    ------
    InputError
        Classes that are missing or unknown, or no shares that add up to 1, each large enough to
        be counted.
    """
    truth_and_labels = problem.truth()
    if truth_and_labels is None:
        raise InputError(
            "prior: expected a problem whose records have known classes, found one without"
        )
    truth, labels = truth_and_labels
    names = [str(label) for label in labels]
    shown = ", ".join(f"{name}={share:g}" for name, share in shares.items())
    if set(shares) != set(names):
        raise InputError(
            f"prior: expected a share of each class ({', '.join(names)}), found {shown}"
        )
    wanted = np.array([shares[name] for name in names])
    if not (wanted > 0).all() or abs(wanted.sum() - 1) > _ROUNDED:
        raise InputError(f"prior: expected shares above 0 that add up to 1, found {shown}")
    counts = np.bincount(truth, outcomes.counted, minlength=len(names))
    if not counts.all():
        missing = names[int(counts.argmin())]
        raise InputError(f"prior: expected records of each class, found none of {missing!r}")
    each = wanted / counts
    together, smallest = float(each @ np.bincount(truth)), float(each.min())
    total = max(_LEAST_TOTAL, _FOR_A_RECORD * len(truth), _LEAST_UNITS * together / smallest)
    if total > _MOST_TOTAL:
        least = wanted[each.argmin()] / smallest * together * _LEAST_UNITS / _MOST_TOTAL
        raise InputError(
            f"prior: expected shares of at least {least:.1g}, smaller ones cannot be counted, "
            f"found {shown}"
        )
    return np.rint(each * (total / together)).astype(np.int64)[truth]


def scored_again(
    resampled: Evidence, problem: Problem, roles: Roles, seed: int, *, tested: bool = True
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
    evaluated = np.arange(len(resampled.ids) - resampled.beside)
    values = resampled.resamples.claimed(evaluated)
    archive.update(Evaluated(resampled.ids[evaluated], resampled.X[evaluated], dict(values)))
    if archive.rows is None:
        raise InputError("choose: expected a candidate that meets all constraints, found none")
    rows = archive.rows
    test = problem.evaluate_test(rows.X, CandidateStreams(seed, rows.ids)) if tested else None
    names, settings = problem.gene_names, problem.settings(rows.X)
    return Front(rows, roles, names, test, settings=settings)


def with_expected(front: Front, resampled: Evidence) -> tuple[Front, dict[str, Any]]:
    """Return a front with what to expect of each solution, and what this rests on.

    The latter is for ``summary.json``: how many ``designs`` were evaluated and how many of them
    ``resampled``, whether these are the ``whole`` of those that may win, and how many
    ``resamples``; of an exact method also how many ``neighbours`` of its front.
    """
    if not len(front):
        return front, {"unknown": "the front is empty"}
    at = resampled.positions_of(front)
    refits = resampled.refits(resampled.X[at])
    promised = expect_front(
        resampled.resamples, front.roles, resampled.values, front.ids, at, refits
    )
    names = ("designs", "resampled", "whole", "resamples")
    about = {**{name: getattr(promised, name) for name in names}, **resampled.sizes}
    if resampled.resamples.outcomes.refitted and refits is None:
        about["refits"] = "unknown"
    if resampled.beside:  # of an exact method
        about |= {"designs": promised.designs - resampled.beside, "neighbours": resampled.beside}
    return replace(front, expected=promised.columns), about


def expectation(resampled: Evidence, front: Front, position: int, **rule: Any) -> Expectation:
    """Return what to expect of a solution of a front that a rule of ``choose`` picked."""
    chosen_by = Rule(front, **rule)
    at = int(resampled.positions(front.ids[position : position + 1])[0])
    spread = {name: of[position] for name, of in resampled.spreads(front).items()}
    return replace(expect(resampled.resamples, chosen_by, at, spread), beside=resampled.beside)


def mixture_expectation(
    resampled: Evidence, front: Front, mixture: Mixture, best: str, where: Sequence[str | Condition]
) -> tuple[dict[str, Promise], float]:
    """Return what to expect of a mixture of a front with trivial classifiers behind it.

    See :func:`~framework.analysis.mixtures.expect_mixture`.
    """
    solutions = front.ids[front.ids >= 0]
    positions = resampled.positions(solutions)
    spread = resampled.spreads(front)
    return expect_mixture(resampled.resamples, front, positions, mixture, best, where, spread)


class Sure(NamedTuple):
    """The solutions of a front that meet all limits surely enough.

    Attributes
    ----------
    front : Front
        These alone.
    share : mapping of int to float
        Share of the resamples in which all limits hold together, less the luck of being on the
        front, by id, of the whole front.
    edge : str
        A sentence where a limit is hardly below what any solution meets so surely; else empty.
    """

    front: Front
    share: Mapping[int, float]
    edge: str = ""


class _Tightest(NamedTuple):
    """The tightest limit that a solution meets surely, the others as they are."""

    condition: Condition
    near: bool  # within a standard error of what was asked for


def sure_front(
    resampled: Evidence, front: Front, where: Sequence[str | Condition], percent: float
) -> Sure:
    """Return the part of a front whose limits hold with at least so many per cent.

    All of them hold together in so many of the resamples, in which a solution's figures are moved
    to what to expect of it. And each holds at the one-sided bound of so many per cent, as the
    solution's range has it: of three answers all are right in every resample.

    Raises
    ------
    InputError
        No limit, no share, or no solution passes: the message has the highest limit that is met.
    """
    conditions = parse_conditions(where)
    if not 0 < percent < 100:
        raise InputError(f"sure: expected a percentage between 0 and 100, found {percent:g}")
    if not conditions:
        raise InputError("sure: expected with at least one limit, such as --where coverage>=0.8")
    rule = Rule(front, where=conditions)
    if front.expected is None:
        front, _ = with_expected(front, resampled)
    values = resampled.resamples.metrics(resampled.positions(front.ids), rule.needs)
    values = {name: column - _luck(front, name)[:, None] for name, column in values.items()}
    met = rule.holds(values).mean(axis=1)
    passes = met >= percent / 100
    claimed = np.ones(len(front), dtype=bool)
    for condition in conditions:
        claimed &= condition.holds(front.rows.values[condition.metric])
        passes &= condition.holds(_bound(front, condition, percent))
    tightest = list(_tightest(front, conditions, values, percent))
    rest = " with the other limits as they are" if len(conditions) > 1 else ""
    if not tightest:  # none meets the others
        alone = ([c] for c in conditions)
        tightest = [one for c in alone for one in _tightest(front, c, values, percent)]
        rest = " without the other limits"
    shown = " or ".join(str(one.condition) for one in tightest)
    passing = np.flatnonzero(claimed & passes)
    if len(passing):
        share = dict(zip(front.ids.tolist(), met.tolist(), strict=True))
        near = [str(one.condition) for one in tightest if one.near]
        edge = (
            "a limit lies at the edge of what can be reached, where much of what passes is luck: "
            f"the tightest that a solution meets so surely is {' or '.join(near)}"
        )
        some = Front(front.rows.take(passing), front.roles, front.gene_names)
        return Sure(some, share, edge if near else "")
    text = ", ".join(map(str, conditions))
    best = int(np.argmax(np.where(claimed, met, -1.0)))
    surest = (
        f"; solution {front.ids[best]} comes nearest, with {100 * met[best]:.0f}%"
        if claimed[best] and met[best] < percent / 100
        else ""
    )
    limit = f"; the tightest limit that one does meet is {shown}{rest}" if shown else ""
    raise InputError(
        f"sure: no solution meets {text} together with {percent:g}%, in the resamples and by the "
        f"number of records{surest}{limit}"
    )


def _luck(front: Front, name: str) -> FloatArray:
    """Return by how much what solutions claim is above what to expect of them; 0 if unknown."""
    columns = expected_columns(front.roles.metrics).get(name, ("",))
    expected = (front.expected or {}).get(columns[0])
    if expected is None:
        return np.zeros(len(front))
    return np.asarray(np.nan_to_num(front.rows.values[name] - expected))


def _bound(front: Front, condition: Condition, percent: float) -> FloatArray:
    """Return the one-sided bound of solutions in the metric of a condition; claims if unknown."""
    name = condition.metric
    columns = expected_columns(front.roles.metrics).get(name, ("",) * 3)
    values = [(front.expected or {}).get(column) for column in columns]
    expected, low, high = values
    if condition.operator == "==" or expected is None or low is None or high is None:
        return front.rows.values[name]
    end = low if condition.operator in (">", ">=") else high
    return np.asarray(expected + (end - expected) * (NormalDist().inv_cdf(percent / 100) / NORMAL))


def _tightest(
    front: Front,
    conditions: Sequence[Condition],
    values: Mapping[str, FloatArray],
    percent: float,
) -> Iterator[_Tightest]:
    """Yield the tightest limit of each condition that a solution meets surely."""
    for i, condition in enumerate(conditions):
        if condition.operator == "==":
            continue
        others: BoolArray = ~np.isnan(values[condition.metric])
        for other in (*constraints_of(front.roles), *conditions[:i], *conditions[i + 1 :]):
            others &= other.holds(values[other.metric])
            others &= other.holds(_bound(front, other, percent))[:, None]
        side = 1.0 if condition.operator in (">", ">=") else -1.0
        column = np.where(others, side * values[condition.metric], -np.inf)
        needed = int(np.ceil(percent / 100 * column.shape[1] - 1e-9))
        limits = np.sort(column, axis=1)[:, column.shape[1] - needed]
        limits = np.fmin(limits, side * _bound(front, condition, percent))
        best = int(limits.argmax())
        if np.isfinite(limits[best]):
            error = float(values[condition.metric][best].std())
            near = bool(limits[best] < side * condition.value + error)
            # rounded to the side on which it holds
            shown = side * np.floor(limits[best] * 1e4) / 1e4
            sign = ">=" if side > 0 else "<="
            yield _Tightest(Condition(condition.metric, sign, float(f"{shown:.6g}")), near)


def tightened(sure: Sure, where: Sequence[str | Condition]) -> list[Condition]:
    """Return limits as tight as the least that the sure solutions claim.

    A rule with them does about what the guarded rule does, so that its optimism is the latter's.
    """
    tight = []
    for condition in parse_conditions(where):
        column = sure.front.rows.values[condition.metric]
        if condition.operator in (">", ">="):
            condition = Condition(condition.metric, ">=", float(column.min()))
        elif condition.operator in ("<", "<="):
            condition = Condition(condition.metric, "<=", float(column.max()))
        tight.append(condition)
    return tight
