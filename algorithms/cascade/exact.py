"""``cascade_exact``: enumerates every policy of every chain of models, and certifies the best."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from algorithms.cascade.config import Abstain
from algorithms.cascade.enumeration import Point, Sweeps, best_of, hull, undominated
from algorithms.cascade.problem import CascadeProblem
from algorithms.cascade.stages import TENS, Stages
from framework.algorithm import Algorithm, Outcome
from framework.arrays import Array
from framework.errors import InputError
from framework.libraries.calls import UNIT, CallCost
from framework.pareto import nondominated
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Integers

_ALWAYS = 2  # chains of up to so many sweeps (three models) are enumerated whatever they take
_CALIBRATED = "calibrated_accuracy"
_CELLS = 40_000_000  # greatest number of answer counts times sums of gains


class ExactCascades(Algorithm):
    """All best compromises of accuracy and cost (and coverage) of cascades, proven.

    Parameters
    ----------
    problem : Problem
        Of kind ``cascade``, with ``order: price``.
    roles : Roles
        The first objective that is a cost of the table is the cost that counts; without one, the
        table's first cost. Constraints do not change what is enumerated.
    seed : int
        Not used: nothing is drawn.
    outcomes : {'calibrated', 'raw'}, optional
        Whether an answer counts with its calibrated probability of being right (metric
        ``calibrated_accuracy``) or as right or wrong (``accuracy``). Calibrated outcomes promise
        less, but more of what they promise holds on new records. With None they are raw where an
        accuracy is an objective and ``calibrated_accuracy`` is none.
    front : {'hull', 'whole'}, optional
        Only the corners of the convex hull, or every best compromise. With None it is the hull
        where outcomes are calibrated, because what lies between its corners is luck. A front with
        abstention is always whole.
    max_models : int
        Greatest number of models in a cascade. Chains of two are the best on new records; longer
        ones fit the luck of the tuning records.
    policies : int
        Greatest number of policies of a chain (of more than three models, without abstention).

    Raises
    ------
    InputError
        The problem has a free order, or there are too many policies or pairs of answers and gains.
    """

    spaces = (Integers,)
    reads = CascadeProblem
    front_only = True

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        outcomes: Literal["calibrated", "raw"] | None = None,
        front: Literal["hull", "whole"] | None = None,
        max_models: Annotated[int, Field(ge=1)] = 2,
        policies: Annotated[int, Field(ge=1)] = 1_000_000_000,
    ) -> None:
        super().__init__(problem, roles, seed=seed)
        source: CascadeProblem = problem.tables()
        if source.order != "price":
            raise InputError(
                "algorithm.kind: cascade_exact asks models by price, found problem.order: free; "
                "take order: price, or another search"
            )
        self.abstain = source.abstain
        self.against = next((name for name in roles.names if name in source.costs), source.costs[0])
        if outcomes is None:
            plain = {"accuracy", "conclusive_accuracy"} & {*roles.names}
            outcomes = "raw" if plain and _CALIBRATED not in roles.names else "calibrated"
        self.metric = "accuracy" if outcomes == "raw" else _CALIBRATED
        if self.abstain != "no" and outcomes == "raw" and "conclusive_accuracy" in roles.names:
            self.metric = "conclusive_accuracy"
        self.max_models = min(max_models, source.calls.k)
        self._each = TENS if outcomes == "calibrated" else 1
        self._records = source.calls.n
        self._k = source.calls.k
        cost = source.calls.costs[self.against]
        self._task = Task(source.stages, self.abstain, cost, outcomes == "calibrated")
        default = "hull" if outcomes == "calibrated" else "whole"
        self.front = "whole" if self.abstain != "no" else front or default
        self._chains = [
            chain
            for length in range(1, self.max_models + 1)
            for chain in itertools.combinations(range(self._k), length)
        ]
        self._check(policies, self._task.sweeps_of(tuple(range(self.max_models))))
        self._points: list[Point] | None = None

    def prepare(self, work: Preparation) -> None:
        of_chains: list[list[Point]] = work.map(
            "chains of models",
            solve_chain,
            self._task,
            self._chains,
            read=from_json,
            write=list,
        )
        self._points = self._reduced([point for points in of_chains for point in points])

    def propose(self) -> Array | None:
        """Return the best policies, the cheapest first, and the single models."""
        assert self._points is not None
        singles = [Point(0, 0, 0, (m,), ()) for m in range(self._k)]
        self.done = True
        self.reason = f"the exact {'front' if self.front == 'whole' else 'hull'} is complete"
        X = np.array([self._genome(point) for point in (*self._points, *singles)])
        _, first = np.unique(X, axis=0, return_index=True)
        return np.asarray(X[np.sort(first)])

    def outcome(self) -> Outcome:
        """Return how much was enumerated, and ``certificates``: what no cascade exceeds."""
        points = self._points
        if points is None:
            return Outcome()
        findings = {
            "exact": self.all_evaluated,
            "metric": self.metric,
            "against": self.against,
            "front": self.front,
            "chains": len(self._chains),
            "points": len(points),
        }
        value = np.array([self._value(point) for point in points])
        table = {
            "metric": np.array([self.metric] * len(points)),
            "value": value,
            "bound": value,
            f"at_most_{self.against}": np.array([p.cost for p in points]) / (UNIT * self._records),
            "at_most_chain_length": np.full(len(points), float(self.max_models)),
        }
        if self.abstain != "no":
            table["at_least_coverage"] = np.array([p.answered for p in points]) / self._records
        return Outcome(findings, tables={"certificates": table})

    def _value(self, point: Point) -> float:
        if self.metric == "conclusive_accuracy":
            return point.gain / max(point.answered, 1)
        return point.gain / (self._each * self._records)

    def _check(self, policies: int, sweeps: Sweeps) -> None:
        always = _ALWAYS if self.abstain == "no" else 0
        if len(sweeps.level) > always and sweeps.policies > policies:
            raise InputError(
                f"algorithm.max_models: expected at most {policies:,} policies of a chain "
                f"(algorithm.policies), found up to {sweeps.policies:.3g} with {self.max_models} "
                f"models and {self._records:,} records; lower max_models, or take another search"
            )
        cells = (self._records + 1) * (self._each * self._records + 1)
        if self.abstain != "no" and cells > _CELLS:
            raise InputError(
                f"algorithm.outcomes: expected at most {_CELLS:,} pairs of answers and gains with "
                f"abstention, found {cells:,} with {self._records:,} records; take outcomes: raw, "
                "fewer records, or another search"
            )

    def _reduced(self, points: list[Point]) -> list[Point]:
        """Return the corners of the hull or the front, the cheapest first."""
        if self.abstain == "no":
            return hull(points) if self.front == "hull" else undominated(points)
        # of policies with equal values the first one in this order stays
        losses = np.array([(-p.answered, -self._value(p), p.cost) for p in points], dtype=float)
        order = sorted(range(len(points)), key=lambda i: (points[i].cost, points[i]))
        _, first = np.unique(losses[order], axis=0, return_index=True)
        distinct = [order[i] for i in first.tolist()]
        best = nondominated(losses[distinct])
        return [points[i] for i, good in zip(distinct, best, strict=True) if good]

    def _genome(self, point: Point) -> Array:
        """Return the genome of a policy; the gene of a model that always answers is 1."""
        x = np.zeros(self.space.d, dtype=self.space.dtype)
        accept, refuse = list(point.levels), [0] * len(point.chain)
        if self.abstain == "early" and point.levels:
            highest = self._task.highest(point.chain)
            accept = list(point.levels[::2])
            for j, cut in enumerate(point.levels[1::2]):
                refuse[j] = highest[j] + 1 - cut
        accept += [1] * (len(point.chain) - len(accept))
        for j, m in enumerate(point.chain):
            x[m] = accept[j]
            if self.abstain == "early":
                x[self._k + m] = refuse[j]
        return x


class Task(NamedTuple):
    """What the enumeration of any chain needs; it is sent to the workers.

    ``calibrated`` says whether gains are calibrated tenths, or 1 for each right answer.
    """

    stages: Stages
    abstain: Abstain
    cost: CallCost
    calibrated: bool

    def sweeps_of(self, chain: tuple[int, ...]) -> Sweeps:
        """Return a chain as sweeps (see :class:`~algorithms.cascade.enumeration.Sweeps`)."""
        n = self.cost.values.shape[1]
        zeros = np.zeros(n, dtype=np.int64)
        level, gain, cost, answered, nobody = [], [], [], [], []
        abstains = self.abstain != "no"
        for j, m in enumerate(chain):
            key = self.stages.key(chain[: j + 1])
            stage = self.stages[key]
            gain.append(self.stages.tens(key) if self.calibrated else stage.right.astype(np.int64))
            cost.append(self.cost.values[m])
            answered.append(1)
            last = j == len(chain) - 1
            if not last or abstains:
                level.append(stage.level)
                # a model whose own answers are never taken only costs: the chain without it is
                # better; but it may serve to refuse records, or to change the answers that follow
                nobody.append(self.stages.answer != "own" or abstains)
            if not last and self.abstain == "early":  # a sweep that refuses the least sure records
                level.append(stage.level.max() + 1 - stage.level)
                gain.append(zeros)
                cost.append(zeros)
                answered.append(0)
                nobody.append(True)
        if self.cost.fixed is not None:  # every record pays it, wherever it leaves
            cost[0] = cost[0] + self.cost.fixed[list(chain)].sum()
        if abstains:  # what comes to the end has no answer
            gain.append(zeros)
            cost.append(zeros)
            answered.append(0)
        return Sweeps(
            np.array(level, dtype=np.int64).reshape(-1, n),
            np.array(gain, dtype=np.int64),
            np.array(cost, dtype=np.int64),
            np.array(answered, dtype=np.int64),
            np.array(nobody, dtype=bool),
            abstains,
        )

    def highest(self, chain: tuple[int, ...]) -> list[int]:
        """Return the highest level at each stage of a chain."""
        keys = [self.stages.key(chain[: j + 1]) for j in range(len(chain))]
        return [int(self.stages[key].level.max()) for key in keys]


def solve_chain(task: Task, chain: tuple[int, ...]) -> list[Point]:
    """Return the best policies of a chain."""
    return best_of(task.sweeps_of(chain), chain, task.abstain != "no")


def from_json(plain: Sequence[Any]) -> list[Point]:
    """Return the points of a chain; TypeError or ValueError for damaged values."""
    return [
        Point(int(a), int(g), int(c), tuple(map(int, chain)), tuple(map(int, cut)))
        for a, g, c, chain, cut in plain
    ]
