"""Greedy ensemble selection: each step adds one pick, by loss only or by loss and cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.ensembling.searches.base import CountsSearch
from framework.algorithm import Outcome
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.problem import Problem
from framework.roles import Roles


class GES(CountsSearch):
    """GES*: greedy selection with replacement that returns every ensemble on its way.

    The first step evaluates every model alone. Each further step evaluates the ensemble with one
    more pick of each model, and continues with the best of these.

    Parameters
    ----------
    iterations : int
        Greatest number of steps.
    ties : {'random', 'fewest_models'}
        How one of equally good candidates is selected: at random, or at random among those that
        pick a model that is already in the ensemble, if there are any.
    use_best : bool
        Whether the returned ensembles end with the first one of least loss; otherwise the ensemble
        of every step is returned.
    problem, roles, **options
        As for :class:`~.base.CountsSearch`. Only the candidates with the least violation of the
        constraints compete.

    Notes
    -----
    Caruana et al. 2004, doi:10.1145/1015330.1015432; HAPEns paper, Appendix A.1 and Algorithm 2.
    That paper says that each ensemble is better than the one before, which greedy selection does
    not guarantee.

    ``outcome().returned`` has the ids of the feasible ensembles of the steps. The run ends early
    at the best possible loss, if nothing can be picked any more, or if all candidates of a step
    fail. A step evaluates as many rows as there are models; writing each takes O(models).
    """

    ends_at_best = True
    narrow = True

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        iterations: Annotated[int, Field(ge=1)] = 50,
        ties: Literal["random", "fewest_models"] = "random",
        use_best: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self.iterations, self.ties, self.use_best = iterations, ties, use_best
        self._ends_at_best = self.ends_at_best and bool(
            np.isfinite(roles.limits()[self._fitness, 0])
        )
        self._ensemble: Array = np.zeros(self.space.d, dtype=self.space.dtype)
        self._steps: list[int] = []  # id of each step's ensemble
        self._losses: list[float] = []
        self._feasible: list[bool] = []

    def propose(self) -> Array | None:
        X = (self._ensemble + self.singles())[self._ensemble < self.max_count]
        if len(X) == 0:
            self.done, self.reason = True, "every model is picked as often as can be"
            return None
        return X

    def learn(self, batch: Evaluated) -> None:
        rows = batch.take(batch.ok) if batch.errors else batch
        if len(rows) == 0:
            self.done, self.reason = True, "every candidate of a step failed"
            return
        loss, violation = self.loss(rows), self.roles.violation(rows.values)
        least = np.flatnonzero(violation == violation.min())
        if len(least) == len(rows):
            chosen = self._choose(rows, loss)
        else:
            chosen = int(least[self._choose(rows.take(least), loss[least])])
        self._ensemble = rows.X[chosen].copy()
        self._steps.append(int(rows.ids[chosen]))
        self._losses.append(float(loss[chosen]))
        self._feasible.append(bool(violation[chosen] == 0.0))
        if len(self._steps) == self.iterations:
            self.done, self.reason = True, "algorithm.iterations"
        elif self._ends_at_best and loss[chosen] == 0.0 and violation[chosen] == 0.0:
            self.done, self.reason = True, "the best possible loss"

    def outcome(self) -> Outcome:
        steps = [i for i, feasible in enumerate(self._feasible) if feasible]
        if self.use_best and steps:
            best = min(steps, key=lambda i: (self._losses[i], i))
            steps = [i for i in steps if i <= best]
        return Outcome(returned=np.array([self._steps[i] for i in steps], dtype=np.int64))

    def _choose(self, rows: Evaluated, loss: FloatArray) -> int:
        """Return the position of the candidate to continue with."""
        return self._lot(rows, np.flatnonzero(loss == loss.min()))

    def _lot(self, rows: Evaluated, equals: IntArray) -> int:
        """Return one of equally good candidates, as ``ties`` says."""
        if self.ties == "fewest_models" and len(equals) > 1:
            members = np.count_nonzero(rows.X[equals], axis=1)
            equals = equals[members == members.min()]
        if len(equals) == 1:
            return int(equals[0])
        return int(equals[self.rng.integers(len(equals))])


class MultiGES(GES):
    """Multi-GES: greedy selection by a weighted sum of loss and costs.

    A candidate's score is ``(1 - weight) * loss + weight * cost``, both scaled to [0, 1] over the
    candidates of the step (0 if all are equal). The candidate with the lowest score is taken.
    Several costs are scaled each and averaged.

    Parameters
    ----------
    weight : float
        Weight of the cost. The paper's 0.68 was the best of twenty on its own results.
    final_weight : float, optional
        Weight of the cost in the last of ``iterations`` steps; the weight moves there evenly from
        ``weight`` in the first step. If None, it does not move, as in the paper.
    cost : str or sequence of str
        One or more metrics of the problem.
    cost_charging : {'marginal', 'own'}
        The cost of a candidate: that of the whole ensemble, so that a model that is already in it
        adds nothing; or, as in the paper, that of the picked model alone, at every pick.
    problem, roles, **options
        As for :class:`GES`.

    Raises
    ------
    InputError
        The problem has no such metric.

    Notes
    -----
    HAPEns paper, Appendix A.1 and Algorithm 2. Whether several costs are better is an open question
    of its Section 4.
    """

    ends_at_best = False  # a cheaper ensemble with the same loss may follow

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        weight: Annotated[float, Field(ge=0, le=1)] = 0.68,
        final_weight: Annotated[float, Field(ge=0, le=1)] | None = None,
        cost: str | Annotated[tuple[str, ...], Field(min_length=1)] = "inference_time",
        cost_charging: Literal["marginal", "own"] = "marginal",
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self.weight, self.cost_charging = weight, cost_charging
        self.final_weight = weight if final_weight is None else final_weight
        self.costs = (cost,) if isinstance(cost, str) else tuple(cost)
        self._signs = np.array([self.sign_of(name, "cost") for name in self.costs])
        self._single_costs: FloatArray = np.full((self.space.d, len(self.costs)), np.nan)

    def learn(self, batch: Evaluated) -> None:
        if not self._steps:
            self._single_costs[np.argmax(batch.X, axis=1)] = self._paid(batch)
        super().learn(batch)

    def _choose(self, rows: Evaluated, loss: FloatArray) -> int:
        if self.cost_charging == "own":
            picked = np.argmax(rows.X - self._ensemble, axis=1)
            paid = self._single_costs[picked]
            paid = np.where(np.isnan(paid), np.inf, paid)  # a model that failed alone is dearest
        else:
            paid = self._paid(rows)
        done = len(self._steps) / max(self.iterations - 1, 1)
        weight = self.weight + done * (self.final_weight - self.weight)
        cost = sum(map(_scaled, paid.T)) / len(self.costs)
        score = (1.0 - weight) * _scaled(loss) + weight * cost
        return self._lot(rows, np.flatnonzero(score == score.min()))

    def _paid(self, rows: Evaluated) -> FloatArray:
        """Return the costs, signed so that smaller is better, shape (n, costs)."""
        return np.asarray(np.column_stack([rows.values[name] for name in self.costs]) * self._signs)


def _scaled(values: FloatArray) -> FloatArray:
    """Return values scaled to [0, 1]: all 0 if they are equal, and 1 for infinite ones."""
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return np.zeros(len(values))
    span = finite.max() - finite.min()
    scaled = (values - finite.min()) / (span if span > 0.0 else 1.0)
    return np.asarray(np.minimum(scaled, 1.0))
