"""The exact global front of ordered partitions, computed in integer arithmetic.

:func:`choose` says how a search proceeds, or why it is impossible, before it starts;
:class:`Exact` is the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.multistage.bit_planes import StageTables
from algorithms.multistage.exact import dynamic_programming
from algorithms.multistage.exact.chains import (
    ChainFront,
    Prices,
    RiskFront,
    Vectors,
    hard_first,
    of_levels,
    prices,
    surjections,
)
from algorithms.multistage.exact.dynamic_programming import Stop
from algorithms.multistage.exact.dynamic_steps import Answers
from algorithms.multistage.exact.enumeration import enumerate_chains, table_bytes
from algorithms.multistage.problem import MultiStageProblem
from framework.algorithm import Algorithm, Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import ContractError, InputError, Unfit
from framework.front import volume
from framework.pareto import nondominated
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Partition

METRICS = ("coverage", "accuracy", "cost")
BY_COST = ("risk", "total_cost", "cost", "coverage")  # where stages decide by costs
FEATURES_AT_MOST = 22
_QUICK_SECONDS = 60.0  # up to here chains are enumerated: that counts chromosomes as well
_SEED_CHAINS = 50_000_000  # chains looked at to give the programme a good start
_LEAST_ROWS = 100_000  # states that the programme needs room for to be worth a try

Method = Literal["enumeration", "dynamic_programming"]


@dataclass(frozen=True)
class Task:
    """The size of an exact search, and the limits of its memory and time.

    Attributes
    ----------
    n, k : int
        Number of features, and greatest number of stages.
    records, words : int
        Number of validation records, and of machine words with a bit for each of them.
    memory_gb, hours : float
        The user's limits.
    values : int
        Number of thresholds that a design may have in all its stages; each is a search.
    """

    n: int
    k: int
    records: int
    words: int
    memory_gb: float
    hours: float
    values: int = 1

    @property
    def candidates(self) -> int:
        """Number of chains of feature sets, at each threshold."""
        return self.values * count_chains(self.n, self.k)

    @property
    def seconds(self) -> float:
        """About how long going through all chains takes."""
        return self.candidates * (3 + self.words) * 1e-9

    @property
    def enumeration_bytes(self) -> int:
        """Memory of an enumeration: tables of all feature sets, and the cells."""
        sets = (1 << self.n) * ((40 + 16 * self.values) * self.words + 2 * self.records + 8)
        return sets + table_bytes(self.records, self.k)

    @property
    def rows(self) -> int:
        """Number of states of the dynamic programme that fit into the memory."""
        sets = 2**self.n
        fixed = sets * ((16 + 16 * self.values) * self.words + 2 * self.records)
        fixed += sets * dynamic_programming.set_bytes(self.words, self.records)
        fixed += table_bytes(self.records, 4)
        # when the arrays grow, old ones and new ones are in memory together
        return int((self.memory_gb * 1e9 - fixed) / 1.5 / dynamic_programming.row_bytes(self.words))

    @property
    def enumerable(self) -> bool:
        """Whether all chains can be gone through within memory and hours."""
        fits = self.enumeration_bytes <= self.memory_gb * 1e9
        return fits and self.seconds <= 3600 * self.hours

    @property
    def seed_stages(self) -> int:
        """Greatest number of stages whose chains are few enough to be looked at beforehand."""
        few = (j for j in range(1, self.k + 1) if count_chains(self.n, j) <= _SEED_CHAINS)
        return max(few)

    def limits(self, falls_back: bool) -> dynamic_programming.Limits:
        """Return how far the dynamic programme goes.

        If it ``falls_back`` to an enumeration, it takes no longer than that would.
        """
        seconds = self.seconds if falls_back else 3600 * self.hours
        steps = seconds / dynamic_programming.STEP_SECONDS / self.values
        return dynamic_programming.Limits(self.rows, steps)


def choose(
    task: Task, method: Literal["auto"] | Method, *, one_way: bool, bounds: bool
) -> tuple[Method, str]:
    """Return the method to begin with, and the plan in words for the user.

    Parameters
    ----------
    task : Task
    method : {'auto', 'enumeration', 'dynamic_programming'}
    one_way : bool
        Whether the constraints allow dynamic programming; see :func:`check_roles`.
    bounds : bool
        Whether bounds are enough.

    Raises
    ------
    Unfit
        There are too many features, or the search is not expected to finish within memory and
        hours.
    """
    if task.n > FEATURES_AT_MOST:
        raise Unfit(
            f"algorithm.kind: exact trains all 2^n - 1 sub-classifiers, found n={task.n} features "
            f"({2**task.n - 1:,}), at most {FEATURES_AT_MOST} can be done"
        )
    candidates = task.candidates
    text = f"{2**task.n - 1:,} sub-classifiers, "
    counting = (
        f"then all {candidates:,} candidates one by one, about {duration(task.seconds)} and "
        f"{task.enumeration_bytes / 1e9:.2g} GB"
    )
    room = task.rows >= _LEAST_ROWS and one_way and task.k > 1
    waited = method == "enumeration" or not room or task.seconds <= _QUICK_SECONDS
    if method != "dynamic_programming" and task.enumerable and waited:
        return "enumeration", f"exact: {text}{counting}"
    if room and method != "enumeration":
        seconds = 3600 * task.hours
        otherwise = "what it leaves open is bounded" if bounds else "then it gives up"
        if method == "auto" and task.enumerable:
            seconds = task.seconds
            otherwise = f"then one by one, about {duration(seconds)}"
        return "dynamic_programming", (
            f"exact: {text}then a dynamic programme over {2**task.n:,} feature sets for "
            f"{candidates:,} candidates, up to {task.memory_gb:g} GB and "
            f"{duration(seconds)}; {otherwise}"
        )
    if task.enumerable and method == "dynamic_programming":
        needs = "problem.max_stages of 2 or more" if task.k == 1 else "a greater memory_gb"
        if not one_way:
            needs = "constraints against bad values alone"
        raise Unfit(
            f"algorithm.method: dynamic_programming takes {needs}; take method: auto, which goes "
            f"through all {candidates:,} candidates in about {duration(task.seconds)}"
        )
    reason = "" if one_way else ", and constraints leave no other method"
    raise Unfit(
        f"algorithm: exact cannot finish within memory_gb={task.memory_gb:g} and "
        f"hours={task.hours:g}: {text}{counting}{reason}; raise these or lower "
        "problem.max_stages"
    )


def check_roles(roles: Roles, metrics: Sequence[str] = METRICS) -> bool:
    """Refuse unknown roles; return whether every constraint only excludes bad values.

    Raises
    ------
    InputError
        A metric or a sense is not among those that exact searches know.
    """
    for objective in roles.objectives:
        if objective.metric not in metrics:
            raise InputError(
                f"objectives: exact knows {', '.join(metrics)}, found {objective.metric!r}; take "
                "another algorithm"
            )
        sense = roles.metrics[objective.metric].sense
        if objective.sense != sense:
            raise Unfit(
                f"objectives: exact takes {objective.metric} with sense {sense}, found "
                f"{objective.sense}"
            )
    one_way = True
    for constraint in roles.constraints:
        if constraint.metric not in metrics:
            raise Unfit(
                f"constraints: exact knows {', '.join(metrics)}, found {constraint.metric!r}"
            )
        largest_best = roles.metrics[constraint.metric].sense == "max"
        other_way = constraint.at_most if largest_best else constraint.at_least
        if other_way is not None and constraint.metric == "cost":
            raise Unfit("constraints: exact takes a greatest cost, found a least one")
        one_way &= other_way is None
    return one_way


def plan_by_risk(
    task: Task, method: Literal["auto"] | Method, *, one_way: bool, bounds: bool
) -> tuple[Method, str]:
    """Do as :func:`choose` does where stages decide by costs.

    Raises
    ------
    Unfit
        There are too many features, or the user asked for what needs an enumeration.
    """
    if task.n > FEATURES_AT_MOST:
        choose(task, "auto", one_way=True, bounds=False)  # raises
    asked = {
        "algorithm.method: enumeration": method == "enumeration",
        "algorithm.bounds: true": bounds,
        "constraints from the other side": not one_way,
    }
    for what, present in asked.items():
        if present:
            raise Unfit(
                "algorithm: exact has a dynamic programme alone where problem.decision is given, "
                f"found {what}; leave that out"
            )
    return "dynamic_programming", (
        f"exact: {2**task.n - 1:,} sub-classifiers, then a dynamic programme over the sets, up to "
        f"{task.memory_gb:g} GB and {duration(3600 * task.hours)}; then it gives up"
    )


def count_chains(n: int, k: int) -> int:
    """Count the chains of at most ``k`` sets of ``n`` features (EMSCO paper, Equation 2)."""
    return sum(surjections(n, j) for j in range(1, k + 1))


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 120:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


class Exact(Algorithm):
    """The exact front of a multi-stage problem: no candidate dominates a member of it.

    The workers train all 2^n - 1 sub-classifiers. The front is then computed from their bits, in
    integers, and its members are evaluated in one batch, whose values must agree exactly.

    Parameters
    ----------
    problem : Problem
        Of kind ``multistage``, without ``remove_features``, with at most 22 features.
    roles : Roles
        Objectives among coverage, accuracy and cost, in their natural sense; constraints on these.
        Where stages decide by costs: among risk, total_cost, cost and coverage.
    seed : int
        Not used: nothing is random.
    method : {'auto', 'enumeration', 'dynamic_programming'}
        ``enumeration`` evaluates all chromosomes, divided among the workers, and counts those that
        share an objective vector. ``dynamic_programming`` is for many stages and does not count.
        ``auto`` enumerates if that takes up to about a minute. Otherwise it starts with dynamic
        programming, and enumerates if that has not finished in the time an enumeration takes.
    memory_gb : float
        Limit of the memory of the search besides the sub-classifiers. A Ray worker that enumerates
        needs a table of its own.
    hours : float
        Limit of the time of the search besides training. It is counted in steps at the speed of a
        usual core, so that a search ends at the same step on any machine. An enumeration that is
        estimated to take longer is refused.
    bounds : bool
        If dynamic programming reaches a limit, return the points found so far and an upper bound
        that no candidate exceeds. This is not the exact front, and the summary says so.

    Raises
    ------
    InputError
        The problem or the roles are of another kind, or the search is not expected to finish
        within the limits; from :meth:`prepare`, if dynamic programming reaches a limit and
        ``bounds`` is false.

    Notes
    -----
    With fewer than three objectives the front is a part of the front of all three. The same holds
    with constraints against bad values (at least some coverage or accuracy, at most some cost):
    whatever dominates a feasible candidate is feasible, too. Constraints in the other direction,
    on coverage or accuracy, need enumeration, which knows the least cost of each (coverage,
    accuracy); on cost they are refused.
    """

    spaces = (Partition,)
    reads = MultiStageProblem
    front_only = True

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        method: Literal["auto", "enumeration", "dynamic_programming"] = "auto",
        memory_gb: Annotated[float, Field(gt=0)] = 4.0,
        hours: Annotated[float, Field(gt=0)] = 1.0,
        bounds: bool = False,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        stages: MultiStageProblem = problem.tables()
        chosen, data = stages.confidences, stages.data
        self._task = Task(
            len(stages.costs),
            stages.space.k,
            data.n_validation,
            data.validation_words,
            memory_gb,
            hours,
            1 if chosen is None else len(chosen.thresholds),
        )
        self._charges, self._cost_scale = stages.charges, stages.cost_scale
        self._names = problem.gene_names
        self.bounds = bounds
        self._decision = stages.decision
        self._levels = stages.space.levels
        one_way = check_roles(roles, METRICS if self._decision is None else BY_COST)
        self._coverage = "coverage" in [*roles.names, *(c.metric for c in roles.constraints)]
        self._falls_back = method == "auto" and self._task.enumerable
        self.method: Method
        plan = choose if self._decision is None else plan_by_risk
        self.method, self.plan = plan(self._task, method, one_way=one_way, bounds=bounds)
        self._problem: MultiStageProblem | None = stages  # until its tables are taken
        self._tables: list[StageTables] | Answers | None = None  # until the front is found
        self._front: ChainFront | RiskFront | None = None
        self._stopped: Stop | None = None
        self._above: dict[str, FloatArray] = {}

    @classmethod
    def check_fit(cls, problem: Problem) -> None:
        super().check_fit(problem)
        stages: MultiStageProblem = problem.tables()
        if stages.space.removal:
            raise Unfit(
                "algorithm.kind: exact takes every feature, found problem.remove_features: true; "
                "set it to false"
            )
        if stages.confidences is not None and stages.confidences.per_stage:
            raise Unfit(
                "algorithm.kind: exact takes one threshold for all stages of a candidate, found "
                "problem.threshold_per_stage: true; set it to false"
            )
        if stages.counts:
            raise Unfit(
                "problem.weights, in Python a sample_weight that is not whole: expected a search "
                "that weighs records, found an exact one, which counts each of them once"
            )
        if stages.data.unknown.any():
            raise Unfit(
                f"problem.missing: expected impute for an exact search, found {stages.missing} and "
                "records that lack values"
            )

    def __getstate__(self) -> dict[str, Any]:
        if self._front is None:
            self._take_tables()  # what is pickled does without the problem
        return self.__dict__

    def prepare(self, work: Preparation) -> None:
        if self._problem is not None:
            keys, done = self._problem.sub_classifiers.missing_sets(), 0
            for many in work.workers.build(keys):
                done += many
                work.report("training sub-classifiers", done, len(keys))
        tables, price = self._take_tables(), prices(self._charges)
        if isinstance(tables, Answers):
            by_risk = self._by_risk(tables, price, work)
            self._front = by_risk.take(self._best(self._measured(by_risk)))
            self._tables = None
            return
        fronts, above = [], None
        for level, of_level in enumerate(tables):
            front, bound = self._search(hard_first(of_level), level, price, work)
            fronts.append(front.take(self._best(self._measured(front))))
            if bound is not None:
                above = bound if above is None else above.with_further(bound)
        together = of_levels(fronts)
        self._front = together.take(self._best(self._measured(together)))
        if above is not None:
            values = self._measured(above.with_further(together.vectors))
            best = self._best(values)
            self._above = {name: column[best] for name, column in values.items()}
        self._tables = None

    def propose(self) -> Array | None:
        assert self._front is not None
        if len(self._front) == 0:
            self.done, self.reason = True, "no candidate meets the constraints"
            return None
        if isinstance(self._front, RiskFront):
            return self._front.genomes(self._task.n, self._levels).astype(self.space.dtype)
        return self._front.genomes(self._task.n).astype(self.space.dtype)

    def learn(self, batch: Evaluated) -> None:
        assert self._front is not None
        for name, column in self._measured(self._front).items():
            wrong = np.flatnonzero((batch.values[name] != column) & batch.ok)
            if len(wrong):
                i = wrong[0]
                raise ContractError(
                    f"exact: expected {name} {column[i]!r} of genome {batch.X[i].tolist()}, found "
                    f"{batch.values[name][i]!r} evaluated: one of the two computes it wrongly"
                )
        self.done, self.reason = True, "the exact front is complete"
        if self._stopped is not None:
            gap = self._volumes()["gap"]
            self.reason = (
                f"algorithm.{self._stopped}: not proven exact, a lower bound of the "
                f"front (upper_bound.csv is the upper one; {gap:.1%} of its hypervolume is between)"
            )
        if batch.errors:
            self.reason = f"{len(batch.errors)} members of the front could not be evaluated"

    def outcome(self) -> Outcome:
        """Return how the front was found, whether it is exact, and further tables.

        ``chromosomes`` says for each row of the front how many chromosomes share its metrics; it is
        None where they were not counted. If the search was stopped, ``hypervolume`` has that of the
        lower and of the upper bound, and the ``gap``: the share of the upper one that is missing in
        the lower one.

        The rows of the table ``upper_bound`` are not attained; every candidate is at most as good
        as one of them.
        """
        counts = None if self._front is None else self._front.chromosomes
        findings = {
            "method": self.method,
            "exact": self._front is not None and self._stopped is None and self.all_evaluated,
            "candidates": self._task.candidates,
            "chromosomes": None if counts is None else counts.tolist(),
        }
        if self._stopped is None:
            return Outcome(findings)
        findings |= {"stopped_by": self._stopped, "hypervolume": self._volumes()}
        return Outcome(findings, tables={"upper_bound": self._above})

    def _take_tables(self) -> list[StageTables] | Answers:
        if self._tables is None:
            assert self._problem is not None
            held = self._problem.sub_classifiers
            if self._decision is None:
                self._tables = [held.stage_tables(level) for level in range(self._task.values)]
            else:
                self._tables = dynamic_programming.answers_by_cost(*held.stage_planes())
            self._problem = None
        return self._tables

    def _by_risk(self, answers: Answers, price: Prices, work: Preparation) -> RiskFront:
        """Return the front where stages decide by costs."""
        assert self._decision is not None
        front, stopped = dynamic_programming.front_by_risk(
            answers,
            price,
            self._task.k,
            self._task.limits(False),
            per_stage=self._decision.per_stage,
            coverage=self._coverage,
            report=partial(work.report, "following feature sets"),
        )
        if stopped is not None:
            raise InputError(self._too_long(stopped, ""))
        return front

    def _too_long(self, stopped: Stop, instead: str) -> str:
        return (
            f"algorithm.{stopped}: the dynamic programme needs more than "
            f"{getattr(self._task, stopped):g} on these data; raise it, lower "
            f"problem.max_stages{instead} (there is no front: what was found so far may be beaten)"
        )

    def _search(
        self, tables: StageTables, level: int, price: Prices, work: Preparation
    ) -> tuple[ChainFront, Vectors | None]:
        """Return points that include the front; or, after a limit, attained points and a bound."""
        k, values = self._task.k, self._task.values

        def report(stage: str, done: int, total: int) -> None:
            work.report(stage, level * total + done, values * total)

        counted = partial(report, "going through chains")
        if self.method == "enumeration":
            return enumerate_chains(tables, price, k, work.workers, counted), None
        seed = enumerate_chains(tables, price, self._task.seed_stages).front()
        outcome = dynamic_programming.front_of_chains(
            tables,
            price,
            k,
            seed,
            self._task.limits(self._falls_back),
            bounds=self.bounds and not self._falls_back,
            report=partial(report, "following feature sets"),
        )
        if outcome.stopped is None:
            return outcome.front, None
        if self._falls_back:
            self.method = "enumeration"
            return enumerate_chains(tables, price, k, work.workers, counted), None
        if outcome.above is None:
            instead = ", or set algorithm.bounds: true for a lower and an upper bound"
            raise InputError(self._too_long(outcome.stopped, instead))
        self._stopped = outcome.stopped
        return outcome.front, outcome.above

    def _best(self, values: Mapping[str, FloatArray]) -> IntArray:
        """Return the feasible and non-dominated rows, sorted by their losses."""
        feasible = np.flatnonzero(self.roles.violation(values) == 0.0)
        losses = self.roles.losses(values)
        front = feasible[nondominated(losses[feasible])]
        return front[np.lexsort(losses[front].T[::-1])]

    def _measured(self, points: ChainFront | Vectors | RiskFront) -> dict[str, FloatArray]:
        """Return the metrics of points, negated where the problem has the other sense."""
        values = points.values(self._task.records, self._cost_scale)
        for name in values:
            natural = "max" if name in ("coverage", "accuracy") else "min"
            if self.roles.metrics[name].sense != natural:
                values[name] = -values[name]
        return values

    def _volumes(self) -> dict[str, float]:
        """Return the hypervolume of the lower and of the upper bound, and the gap between them."""
        assert self._front is not None
        lower = volume(self.roles.losses(self._measured(self._front)), self.roles)
        upper = volume(self.roles.losses(self._above), self.roles)
        return {"lower": lower, "upper": upper, "gap": 1.0 - lower / upper if upper else 0.0}
