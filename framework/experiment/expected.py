"""What to expect of a run's solutions on new records: from its journal, its problem, resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.choose import Condition, Rule, constraints_of, parse_conditions
from framework.analysis.expectations import Expectation, expect, expect_front
from framework.analysis.ranges import NORMAL, Spread, spreads
from framework.analysis.resamples import Resamples
from framework.arrays import Array, BoolArray, FloatArray, IntArray, row_codes
from framework.batch import Evaluated
from framework.errors import InputError
from framework.experiment.config import check
from framework.experiment.options import AlgorithmOptions, Options
from framework.experiment.unevaluated import searched_again, unevaluated
from framework.front import Archive, Front, expected_columns
from framework.outcomes import RecordOutcomes, Refits, WeightedOutcomes
from framework.problem import Problem, check_genomes
from framework.registry import class_text
from framework.roles import Roles
from framework.streams import CandidateStreams

_ROUNDED = 1e-6  # by which the sum of shares may miss 1
_LEAST_TOTAL, _FOR_A_RECORD = 2**24, 2**16  # whole weights: of all records, of one on average
_LEAST_UNITS = 500  # weight of a record, so that rounding changes it by at most a thousandth
_MOST_TOTAL = 2**50  # sums of resamples, where records are drawn a few times, stay below 2^53
_MOST_SECONDS = 30.0  # of training components again, for figures that only inform


class Beside(NamedTuple):
    """Designs that a method could have chosen without evaluating them.

    Attributes
    ----------
    designs : callable
        Takes the problem and the designs that were evaluated; returns these others.
    searched : bool
        Whether they come from the same search made anew in resamples of the records; otherwise an
        exact method chose among them.
    """

    designs: Callable[[Problem, Array], Array]
    searched: bool


class Evidence(NamedTuple):
    """Resamples of a run's records, and the different designs that it evaluated.

    Attributes
    ----------
    ids : numpy.ndarray of int64, shape (n,)
        For each design, the id of the first candidate that has it; ascending.
    values : mapping of str to numpy.ndarray of float64, shape (n,)
        Metrics of the designs.
    resamples : Resamples
        Outcomes of the designs in resamples of the records.
    X : numpy.ndarray, shape (n, d)
        The designs.
    beside : int
        How many of the designs, the last ones, were not evaluated, though the method could have
        chosen them.
    refits : callable, optional
        :meth:`~framework.problem.Problem.refits`, with records weighted as in ``resamples``.
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
        """How many records are searched and how many tested, for a summary."""
        return {"searched": self.resamples.outcomes.records, "tested": self.tested}

    def positions(self, ids: IntArray) -> IntArray:
        """Return the positions of ids among the designs; raises InputError for an unknown one."""
        absent = ids[~np.isin(ids, self.ids)]
        if len(absent):
            raise InputError(
                f"expected solutions that the journal has, found {absent[0]}, which it lacks; the "
                "front and the journal are of different runs"
            )
        return np.searchsorted(self.ids, ids)

    def positions_of(self, front: Front) -> IntArray:
        """Return the positions of solutions, also where an earlier candidate had the design."""
        if np.isin(front.ids, self.ids).all():
            return self.positions(front.ids)
        codes = row_codes(self.X)
        order = np.argsort(codes)
        return order[np.searchsorted(codes, row_codes(front.X.astype(self.X.dtype)), sorter=order)]

    def spreads(self, front: Front) -> dict[str, list[Spread]]:
        """Return the spreads of a front's solutions, from which ranges follow, by metric."""
        positions, drawn = self.positions(front.ids[front.ids >= 0]), self.resamples
        resampled, refits = drawn.metrics(positions), self.refits(self.X[positions])
        metrics = front.roles.metrics
        return spreads(drawn, positions, resampled, metrics, refits)


def evidence(
    batches: Iterable[Evaluated],
    problem: Problem,
    seed: int,
    beside: Beside | None = None,
    *,
    shares: Mapping[str, float] | None = None,
    seconds: float = _MOST_SECONDS,
) -> Evidence | None:
    """Return what resamples can tell of a run; None where the problem has no outcomes.

    Parameters
    ----------
    batches : iterable of Evaluated
        All evaluations of the run.
    problem : Problem
    seed : int
        The run's, of the resamples.
    beside : Beside, optional
        See :func:`beside_of`.
    shares : mapping of str to float, optional
        Records are weighted so that the classes have these shares.
    seconds : float
        How long it may take to train missing components again.

    Raises
    ------
    InputError
        Components of the candidates are not on this machine's disk, and it would take longer to
        train them again.
    """
    if type(problem).outcomes is Problem.outcomes:
        return None
    pieces = [piece for batch in batches if len(piece := batch.take(batch.ok))]
    if not pieces:
        return None
    rows = Evaluated.concat(pieces)  # in the order of their ids
    check_genomes(problem, rows.X, "the journal")
    # each design once, as its first candidate
    rows = rows.take(np.sort(np.unique(row_codes(rows.X), return_index=True)[1]))
    ids, X, values = rows.ids, np.ascontiguousarray(rows.X), dict(rows.values)
    # designs that were not evaluated follow, with ids of their own; resamples have their metrics
    others = X[:0] if beside is None else beside.designs(problem, X)
    X = np.concatenate([X, others])
    ids = np.concatenate([ids, ids[-1] + 1 + np.arange(len(others))])
    missing = problem.missing_components(X)
    cost = problem.build_cost(missing) if len(missing) else None
    if cost is not None and cost.seconds > seconds:
        raise InputError(
            f"expected the {problem.component_name} of all {len(ids):,} designs on this machine's "
            f"disk, found {len(missing):,} missing, which take about {cost.seconds:,.0f} s to "
            "train again"
        )
    outcomes, refits = problem.outcomes(X), problem.refits
    if outcomes is None:
        return None
    if shares is not None:
        weights = class_weights(problem, shares, outcomes)
        outcomes, refits = WeightedOutcomes(outcomes, weights), partial(_weighted, problem, weights)
    searched = len(others) if beside is not None and beside.searched else 0
    resamples = Resamples(outcomes, seed, searched=searched)
    if len(others):
        claimed = resamples.claimed(np.arange(len(X) - len(others), len(X)))
        values = {name: np.append(column, claimed[name]) for name, column in values.items()}
    tested = int(problem.describe().get("test") or 0)
    return Evidence(ids, values, resamples, X, len(others), refits, tested)


def _weighted(problem: Problem, weights: IntArray, X: Array) -> Refits | None:
    """Return the refits of a problem on weighted records."""
    refits = problem.refits(X)
    if refits is None:
        return None
    weights = weights[: len(refits.fold_of)]
    return refits._replace(models=(WeightedOutcomes(model, weights) for model in refits.models))


def beside_of(
    algorithm: AlgorithmOptions | str | Mapping[str, Any] | None,
    front: Front,
    problem: Problem,
    seed: int,
) -> Beside | None:
    """Return a function that gives designs which a search could have chosen without evaluating.

    None for most searches: what they could have chosen is among what they evaluated. This is not so
    for searches that evaluate their front alone, or little beside their path (``front_only`` and
    ``narrow`` of :class:`~framework.algorithm.Algorithm`), nor where a problem has so many designs
    that every search evaluates but few (its ``narrow``).
    """
    # options that were read from a run's directory are as written, without the class of their kind
    written = algorithm.model_dump(mode="json") if isinstance(algorithm, Options) else algorithm
    options = check(AlgorithmOptions, written, "algorithm")
    search = options.registered_class
    narrow = search.narrow or problem.narrow
    if not len(front) or not (search.front_only or narrow):
        return None
    made = partial(options.make, problem, front.roles, seed)
    if made().front_only:
        return Beside(lambda problem, X: unevaluated(problem, front, X, seed), searched=False)
    again = Beside(lambda problem, X: searched_again(problem, made, front, X, seed), searched=True)
    return again if narrow else None


def class_weights(
    problem: Problem, shares: Mapping[str, float], outcomes: RecordOutcomes
) -> IntArray:
    """Return whole weights of the records, int64 (N,), that give the classes certain shares.

    They multiply weights that the records have already, so that these still count in each class.

    Raises
    ------
    InputError
        A class is missing or unknown, the shares do not add up to 1, or one is too small to be
        counted in whole weights.
    """
    truth_and_labels = problem.truth()
    if truth_and_labels is None:
        raise InputError(
            "prior: expected a problem whose records have known classes, found one without"
        )
    truth, labels = truth_and_labels
    names = [str(label) for label in labels]
    shown = ", ".join(f"{name}={share:g}" for name, share in shares.items())
    shares = {class_text(name, labels): share for name, share in shares.items()}
    if set(shares) != set(names):
        raise InputError(
            f"prior: expected a share of each class ({', '.join(names)}), found {shown}"
        )
    target = np.array([shares[name] for name in names])
    if not (target > 0).all() or abs(target.sum() - 1) > _ROUNDED:
        raise InputError(f"prior: expected shares above 0 that add up to 1, found {shown}")
    counts = np.bincount(truth, outcomes.counted, minlength=len(names))
    if not counts.all():
        missing = names[int(counts.argmin())]
        raise InputError(f"prior: expected records of each class, found none of {missing!r}")
    each = target / counts  # the weight of a record by class, before it is made a whole number
    together, smallest = float(each @ np.bincount(truth)), float(each.min())
    total = max(_LEAST_TOTAL, _FOR_A_RECORD * len(truth), _LEAST_UNITS * together / smallest)
    if total > _MOST_TOTAL:
        least = target[each.argmin()] / smallest * together * _LEAST_UNITS / _MOST_TOTAL
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
    resampled : Evidence
        With the outcomes of that other problem, which has other prices of features, say.
    problem : Problem
    roles : Roles
        Of its metrics.
    seed : int
    tested : bool
        Whether the front has metrics on the test records.

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
    """Return a front with expected figures of each solution, and what these rest on.

    The latter is for ``summary.json``: how many ``designs`` were evaluated and how many of them
    were ``resampled``, whether these are all (``whole``) that may be chosen in a resample, and how
    many ``resamples``; ``neighbours`` counts designs that were not evaluated.
    """
    if not len(front):
        return front, {"unknown": "the front is empty"}
    positions = resampled.positions_of(front)
    refits = resampled.refits(resampled.X[positions])
    promised = expect_front(
        resampled.resamples, front.roles, resampled.values, front.ids, positions, refits
    )
    names = ("designs", "resampled", "whole", "resamples")
    about = {**{name: getattr(promised, name) for name in names}, **resampled.sizes}
    if resampled.resamples.outcomes.refitted and refits is None:
        about["refits"] = "unknown"
    if resampled.beside:
        about |= {"designs": promised.designs - resampled.beside, "neighbours": resampled.beside}
    return replace(front, expected=promised.columns), about


def expectation(resampled: Evidence, front: Front, position: int, **rule: Any) -> Expectation:
    """Return what to expect of the solution at a position, which a rule of ``choose`` picked."""
    chosen_by = Rule(front, **rule)
    design = int(resampled.positions(front.ids[position : position + 1])[0])
    spread = {name: column[position] for name, column in resampled.spreads(front).items()}
    return replace(expect(resampled.resamples, chosen_by, design, spread), beside=resampled.beside)


class Sure(NamedTuple):
    """The solutions of a front that meet all limits surely enough.

    Attributes
    ----------
    front : Front
        These alone.
    share : mapping of int to float
        For each solution of the whole front, by id, the share of the resamples in which all limits
        hold together, once the optimism of its figures is taken off.
    edge : str
        A warning if a limit is nearly as tight as any that a solution meets so surely; else empty.
    """

    front: Front
    share: Mapping[int, float]
    edge: str = ""


def sure_front(
    resampled: Evidence, front: Front, where: Sequence[str | Condition], percent: float
) -> Sure:
    """Return the solutions of a front that meet limits with a confidence of at least ``percent``.

    All limits have to hold together in that share of the resamples, in which a solution's figures
    are shifted to what to expect of it. In addition, each limit has to hold at the one-sided bound
    of that confidence, by the solution's range: if a solution answers three records, all right, it
    is right in every resample, but three records prove little.

    Raises
    ------
    InputError
        There is no limit, ``percent`` is none, or no solution passes; the message says which limit
        could be met.
    """
    conditions = parse_conditions(where)
    if not 0 < percent < 100:
        raise InputError(f"sure: expected a percentage between 0 and 100, found {percent:g}")
    if not conditions:
        raise InputError("sure: expected a limit too, such as --where coverage>=0.8, found none")
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
    if not tightest:  # no solution meets the other limits
        tightest = [t for c in conditions for t in _tightest(front, [c], values, percent)]
        rest = " without the other limits"
    shown = " or ".join(str(limit) for limit, _ in tightest)
    passing = np.flatnonzero(claimed & passes)
    if len(passing):
        share = dict(zip(front.ids.tolist(), met.tolist(), strict=True))
        near = [str(limit) for limit, is_near in tightest if is_near]
        edge = (
            "a limit lies at the edge of what can be reached, where much of what passes is luck: "
            f"the tightest that a solution meets so surely is {' or '.join(near)}"
        )
        sure = Front(front.rows.take(passing), front.roles, front.gene_names)
        return Sure(sure, share, edge if near else "")
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
    """Return claimed minus expected values of a metric, (n,); 0 where the latter are unknown."""
    columns = expected_columns(front.roles.metrics).get(name, ("",))
    expected = (front.expected or {}).get(columns[0])
    if expected is None:
        return np.zeros(len(front))
    return np.asarray(np.nan_to_num(front.rows.values[name] - expected))


def _bound(front: Front, condition: Condition, percent: float) -> FloatArray:
    """Return one-sided bounds (n,) of the metric of a condition; claimed values if unknown."""
    name = condition.metric
    columns = expected_columns(front.roles.metrics).get(name, ("",) * 3)
    expected, low, high = [(front.expected or {}).get(column) for column in columns]
    if condition.operator == "==" or expected is None or low is None or high is None:
        return front.rows.values[name]
    end = low if condition.operator in (">", ">=") else high
    # a range ends NORMAL standard errors away, the bound at the quantile of its confidence; the
    # range of a figure of which nothing is known has no standard errors, nor has that of a quantile
    metric, quantile = front.roles.metrics[name], NormalDist().inv_cdf(percent / 100)
    anything = (low <= metric.ends[0]) & (high >= metric.ends[1]) | (metric.statistic == "quantile")
    return np.where(anything, end, expected + (end - expected) * (quantile / NORMAL))


def _tightest(
    front: Front,
    conditions: Sequence[Condition],
    values: Mapping[str, FloatArray],
    percent: float,
) -> Iterator[tuple[Condition, bool]]:
    """Yield, for each condition, the tightest limit that a solution meets surely, if any does.

    The others of the conditions have to hold, in the same resamples and at their bounds. With each
    limit comes whether it is within a standard error of what was asked for.
    """
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
        # the greatest value that a solution reaches in as many resamples as needed
        limits = np.sort(column, axis=1)[:, column.shape[1] - needed]
        limits = np.fmin(limits, side * _bound(front, condition, percent))
        best = int(limits.argmax())
        if np.isfinite(limits[best]):
            error = float(values[condition.metric][best].std())
            near = bool(limits[best] < side * condition.value + error)
            # rounded down, so that it still holds
            shown = side * np.floor(limits[best] * 1e4) / 1e4
            sign = ">=" if side > 0 else "<="
            yield Condition(condition.metric, sign, float(f"{shown:.6g}")), near


def tightened(sure: Sure, where: Sequence[str | Condition]) -> list[Condition]:
    """Return limits that all the sure solutions just meet with what they claim.

    A rule with these limits picks about what the rule with ``sure`` picks, so that its optimism,
    which resamples can tell, is about that of the latter.
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
