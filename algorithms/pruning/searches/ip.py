"""``ip``: the best pruning with a proof, by branch and bound on merged vote patterns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from algorithms.pruning.branch_and_bound.fractions import BestFraction
from algorithms.pruning.branch_and_bound.instance import Instance, Pruned
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, pack, unpack
from algorithms.pruning.searches.base import DiversityKey, ProgramSearch, as_columns
from algorithms.pruning.searches.base import Share as UnitShare
from framework.algorithm import Outcome
from framework.arrays import Array
from framework.errors import InputError, NoneFeasible
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles

Solver = BranchAndBound | BestFraction
_REPORT_EVERY, _SAVE_EVERY = 0.2, 10.0  # least seconds between reports, and between checkpoints
_CHECKPOINT = "solve"


class IntegerProgram(ProgramSearch):
    """The best members and threshold for weights of the confusion matrix, with a bound.

    A local search finds an ensemble, a minimum cut the first bound; branch and bound on linear
    programs brings the two together. The search proposes the best ensemble that it knows at the
    end; no ensemble has a weighted sum above the bound (``certificates.csv``).

    Parameters
    ----------
    tau, gamma : float, optional
        The numbers of ``diversity`` as separate keys, such as a sweep can vary; gamma is tau if it
        is None.
    looks : int
        Greatest number of ensembles that the first local search values.
    boxes : int
        Boxes whose linear programs are solved in one round, side by side if there are workers. The
        proof depends on this number, but not on the number of workers.
    iterations : int
        Greatest number of simplex iterations. The same number gives the same answer on any machine.
    seconds : float, optional
        Greatest processor time of this process. Only with this limit does the answer depend on the
        machine.
    problem, roles, seed, **options
        As for :class:`~.base.ProgramSearch`; the seed is that of the local searches.

    Notes
    -----
    Ensemble pruning by integer programming, Equations 1 to 20, in the net form: see
    ``docs/pruning.md``.
    """

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        seed: int,
        diversity: DiversityKey | None = None,
        tau: UnitShare | None = None,
        gamma: UnitShare | None = None,
        looks: Annotated[int, Field(ge=1)] = 1_000_000,
        boxes: Annotated[int, Field(ge=1)] = 1,
        iterations: Annotated[int, Field(ge=0)] = 500_000,
        seconds: Annotated[float, Field(gt=0)] | None = None,
        **options: Any,
    ) -> None:
        if diversity is None and (tau is not None or gamma is not None):
            self.diversity_key = "algorithm.tau" if gamma is None else "algorithm.gamma"
        diversity = _one_of(diversity, tau, gamma)
        super().__init__(problem, roles, seed=seed, diversity=diversity, **options)
        self._instance = Instance.of(self.votes, self._weights, self._requirements)
        self._seed, self._looks, self._boxes = seed, looks, boxes
        self.iterations, self.seconds = iterations, seconds
        self._solver: Solver | None = None
        self._trace: list[dict[str, float]] = []
        self._spent = 0.0
        if self._fraction is None and self._weights[2:] == (0, 0) and not self._requirements.caps:
            self.plan = (
                "ip: true negatives and false positives weigh nothing, so calling everything "
                "positive is best"
            )

    def prepare(self, work: Preparation) -> None:
        solver = self._resumed(work)
        if solver is None:
            work.report("first ensemble and bound", 0, 1)
            solver = self._new_solver()
        self._solver = solver
        if not self._trace:
            self._add_to_trace(solver)
        before, reported, written = time.process_time() - self._spent, 0.0, time.perf_counter()
        pause = _SAVE_EVERY
        while not (self._over(solver) or work.out_of_time()):
            state = solver.bound, solver.incumbent
            solver.step(self._boxes, work.workers)
            self._spent = time.process_time() - before
            if state[0] != solver.bound or state[1] is not solver.incumbent:
                self._add_to_trace(solver)
            if time.perf_counter() - reported > _REPORT_EVERY:
                reported = time.perf_counter()
                self._report(work, solver)
            if time.perf_counter() - written > pause:
                start = time.perf_counter()
                work.checkpoints[_CHECKPOINT] = self._packed(solver)
                written = time.perf_counter()
                pause = max(_SAVE_EVERY, 20 * (written - start))  # saving takes 5% at most
        self._spent = time.process_time() - before
        self._report(work, solver)
        if solver.programs:
            work.checkpoints[_CHECKPOINT] = self._packed(solver)

    def propose(self) -> Array | None:
        solver = self._solver
        assert solver is not None
        if solver.incumbent is None:
            raise NoneFeasible(self._none_found(solver))
        self.done, self.reason = True, self._ended(solver)
        return self.rows(solver.incumbent.x[np.newaxis], [solver.incumbent.threshold])

    def outcome(self) -> Outcome:
        """Return value, bound and gap of the weighted sum, the effort, and three tables.

        The tables are ``certificates`` (the bound as that of a metric), ``gap`` (its course) and
        ``votes`` (validation records of each class by votes).
        """
        solver = self._solver
        if solver is None or solver.incumbent is None:
            return Outcome()
        return Outcome(
            self._findings(solver, solver.incumbent),
            self._returned,
            self._listings(solver, solver.incumbent),
        )

    def _findings(self, solver: Solver, best: Pruned) -> dict[str, Any]:
        members = np.flatnonzero(best.x)
        demand = self._instance.requirements.demand
        return {
            "status": "optimal" if solver.done else "stopped",
            "value": best.value,
            "bound": solver.bound,
            "gap": solver.gap,
            "weights": self._words_of_weights(),
            "diversity": None if demand is None else dict(demand._asdict()),
            "members": [self.ids[i] for i in members],
            "threshold": best.threshold,
            "nodes": solver.nodes,
            "programs": solver.programs,
            "iterations": solver.iterations,
            "seconds": self._spent,
        }

    def _words_of_weights(self) -> Any:
        if self._fraction is None:
            return dict(self._weights._asdict())
        parts = {"above": self._fraction.above, "below": self._fraction.below}
        return {name: dict(part._asdict()) for name, part in parts.items()}

    def _listings(self, solver: Solver, best: Pruned) -> dict[str, Mapping[str, Array]]:
        votes = self.votes.histograms(best.x[np.newaxis])[0][:, : int(best.x.sum()) + 1]
        return {
            "certificates": self.certificate(best.value, solver.bound, gap=solver.gap),
            "gap": as_columns(self._trace),
            "votes": {
                "votes": np.arange(votes.shape[1]),
                "negative": votes[0],
                "positive": votes[1],
                "threshold": np.full(votes.shape[1], best.threshold),
            },
        }

    def _new_solver(self) -> Solver:
        options = {"seed": self._seed, "looks": self._looks}
        if self._fraction is None:
            return BranchAndBound(self._instance, **options)
        return BestFraction(self.votes, self._fraction, self._requirements, **options)

    def _packed(self, solver: Solver) -> bytes:
        also = [self._trace, self._spent]
        return solver.pack(also) if isinstance(solver, BestFraction) else pack(solver, also)

    def _report(self, work: Preparation, solver: Solver) -> None:
        values = {"bound": solver.bound, "gap": solver.gap}
        if solver.incumbent is not None:
            values["incumbent"] = solver.incumbent.value
        done = min(solver.iterations, self.iterations)
        work.report(self._line(solver), done, self.iterations, **values)

    def _resumed(self, work: Preparation) -> Solver | None:
        """Return the solver of a checkpoint; None if there is none that can be read."""
        content = work.checkpoints.get(_CHECKPOINT)
        if content is None:
            return None
        solver: Solver
        try:
            if self._fraction is None:
                solver, also = unpack(content, lambda _: self._instance)
            else:
                made = self.votes, self._fraction, self._requirements
                setting = self._seed, self._looks
                solver, also = BestFraction.unpack(content, *made, *setting)
            self._trace, self._spent = also
        except ValueError:  # written by another version: solve again
            return None
        return solver

    def _over(self, solver: Solver) -> bool:
        if solver.done or solver.gap <= self.gap:
            return True
        if solver.iterations >= self.iterations:
            return True
        return self.seconds is not None and self._spent >= self.seconds

    def _line(self, solver: Solver) -> str:
        if solver.incumbent is None:
            return f"bound {solver.bound:g}"
        value = solver.incumbent.value
        return f"incumbent {value:g}, bound {solver.bound:g}, gap {solver.gap:.2%}"

    def _add_to_trace(self, solver: Solver) -> None:
        self._trace.append(
            {
                "iterations": solver.iterations,
                "nodes": solver.nodes,
                "incumbent": np.nan if solver.incumbent is None else solver.incumbent.value,
                "bound": solver.bound,
                "gap": solver.gap,
                "seconds": self._spent,
            }
        )

    def _ended(self, solver: Solver) -> str:
        line = self._line(solver)
        if solver.done:
            return f"proven best ({line})"
        if solver.gap <= self.gap:
            return f"proven within {self.gap:.2%} ({line})"
        return f"{self._limit(solver)}: stopped before the proof was complete ({line})"

    def _limit(self, solver: Solver) -> str:
        """Return the key of the limit that stopped the solver."""
        if solver.iterations >= self.iterations:
            return "algorithm.iterations"
        over = self.seconds is not None and self._spent >= self.seconds
        return "algorithm.seconds" if over else "budget.seconds"

    def _none_found(self, solver: Solver) -> str:
        if solver.done:
            return self.none_meets()
        return (
            f"{self._limit(solver)}: expected an ensemble that meets all demands "
            f"({self._demands}), found none within {solver.iterations} iterations, and no proof "
            "that there is none; raise it or relax a demand"
        )


def _one_of(
    diversity: DiversityKey | None, tau: float | None, gamma: float | None
) -> DiversityKey | None:
    """Return the demand that ``diversity``, or ``tau`` and ``gamma``, states."""
    if tau is None and gamma is None:
        return diversity
    if diversity is not None:
        raise InputError(
            "algorithm.diversity: expected diversity, or tau and gamma, found both "
            f"({diversity!r}, tau={tau}, gamma={gamma}); leave one out"
        )
    least = tau or 0.0
    return least, least if gamma is None else gamma
