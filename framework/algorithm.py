"""The contract of a search: it proposes candidates and learns from their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from framework import registry
from framework.arrays import Array, IntArray, fixed
from framework.batch import Evaluated
from framework.errors import ContractError, InputError, Unfit
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Space
from framework.streams import algorithm_stream

# steps of an asynchronous search: short ones use newer values, long ones cost less per candidate
_STEPS, _LONGEST_STEP = 16, 32

MaxPending = Annotated[int, Field(ge=1)] | None
"""Parameter of an asynchronous search: how many candidates may be pending at once.

None makes the search synchronous: it proceeds in generations.
"""


@dataclass(frozen=True)
class Outcome:
    """What an algorithm knows about its result besides the evaluations.

    Attributes
    ----------
    findings : mapping of str to JSON value
        Written to ``summary.json``.
    returned : numpy.ndarray of int64, shape (r,), or None
        Ids of the feasible candidates that the method returns by its own definition; None if that
        is the Pareto front of all evaluations.
    tables : mapping of str to columns
        Further tables, as name of the CSV file -> columns of equal length.
    """

    findings: Mapping[str, Any] = field(default_factory=dict)
    returned: IntArray | None = None
    tables: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)


class Algorithm(ABC):
    """Base class of all searches: propose candidates and learn from their values.

    A subclass implements :meth:`propose` and, unless it has nothing to learn, :meth:`learn`. The
    driver calls :meth:`ask`, which calls ``propose``, and answers each batch with :meth:`tell`,
    which calls ``learn``. Batches are answered in the order in which they were proposed.

    To be reproducible, an algorithm

    - keeps the space and the roles, but not the problem;
    - draws random numbers from ``self.rng`` only;
    - uses only the values that it is told, not the time or the machine.

    The same seed then proposes the same candidates, no matter where or how fast they are
    evaluated, and a run can be resumed by replaying its journal.

    Parameters
    ----------
    problem : Problem
        Only its space, metrics and gene names are kept.
    roles : Roles
    seed : int

    Attributes
    ----------
    spaces : tuple of Space classes
        Class attribute: the search spaces that it supports.
    reads : class
        Class attribute: the type that the problem's ``tables()`` must have, if it needs tables.
    front_only : bool
        Whether it has only those candidates evaluated that it has already chosen among others by
        their figures, as exact methods do. An instance may set it to false, where that depends on
        its parameters.
    max_pending : int
        How many candidates may be pending, that is, proposed but not told yet. The next batch is
        proposed as soon as fewer than this are pending. With 1, the default, the algorithm
        waits for each batch. A larger number keeps parallel workers busy, and each candidate is
        proposed with less knowledge. Because batches are told in the order of proposal, and each
        is followed by the proposals that it makes room for, the information that a candidate is
        based on depends on this number alone, not on the workers.
    evaluations_per_generation : int or None
        How many evaluations count as one generation in budgets, progress and logs. Set it where
        the batches are pieces of a generation, as in asynchronous searches; the evaluations are
        then written to the journal as they arrive. None, the default: each batch is a generation.
    done : bool
        True once it has nothing more to propose; ``reason`` is the text that says why.
    plan : str
        One line for the user about what it is going to do, shown before it starts; may be empty.
    narrow : bool
        Class attribute: whether it evaluates few candidates besides those on its path, as greedy
        methods do. For statistics it then searches again in resamples of the records, to find
        what else it could have chosen.

    Raises
    ------
    Unfit
        It does not support the problem's space, or needs tables that the problem lacks.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Space,)
    reads: ClassVar[type] = object
    front_only: bool = False
    max_pending: int = 1
    evaluations_per_generation: int | None = None
    plan: str = ""
    narrow: ClassVar[bool] = False

    def __init__(self, problem: Problem, roles: Roles, *, seed: int) -> None:
        self.check_fit(problem)
        self.space = problem.space
        self.roles = roles
        self.metric_names = problem.metric_names
        self.rng = algorithm_stream(seed)
        self.done = False
        self.reason = ""
        self._batches: deque[tuple[int, Array]] = deque()
        self._next_id = 0
        self._pending = 0
        self._prepared = False

    @classmethod
    def check_fit(cls, problem: Problem) -> None:
        """Refuse, by ``Unfit``, a problem that no setting of this search can take.

        By default it is asked for the space and the tables.
        """
        if not isinstance(problem.space, cls.spaces):
            words = " and ".join(space.words for space in cls.spaces)
            raise Unfit(f"algorithm.kind: {name_of(cls)} searches {words}, found {problem.space!r}")
        if not isinstance(problem.tables(), cls.reads):
            raise Unfit(
                f"algorithm.kind: {name_of(cls)} reads the tables of a {cls.reads.__name__}, "
                f"found {type(problem).__name__} without them"
            )

    @abstractmethod
    def propose(self) -> Array | None:
        """Return genomes to evaluate, shape (n, d) with n >= 1; they are checked and copied.

        Return None to wait for the values of earlier batches, or when ``done``.
        """

    def learn(self, batch: Evaluated) -> None:  # noqa: B027 (a hook)
        """Learn from the values of a complete batch that :meth:`propose` returned, in its order.

        By default nothing is learned.
        """

    def prepare(self, work: Preparation) -> None:  # noqa: B027 (a hook)
        """Compute what the first batch depends on, with the help of the workers.

        It is called once, before the first :meth:`propose`. By default it does nothing.
        """

    def begin(self, work: Preparation | None = None) -> None:
        """Call :meth:`prepare`, the first time; :meth:`ask` does so, in this process, if need be.

        The driver calls it once per session, before the first :meth:`ask`.
        """
        if not self._prepared:
            self.prepare(work or Preparation())
            self._prepared = True

    @property
    def all_evaluated(self) -> bool:
        """Whether it was told the values of all its batches; a budget may cut the last one."""
        return not self._batches

    def outcome(self) -> Outcome:
        """Return what is known about the result besides the evaluations so far."""
        return Outcome()

    def ask(self) -> Array | None:
        """Return the next batch of genomes, shape (n, d), read-only.

        None means that it waits for the values of earlier batches, or is ``done``.

        Raises
        ------
        ContractError
            What :meth:`propose` returned has another type or shape, or a gene beyond its bounds.
        """
        if self.done or self._pending >= self.max_pending:
            return None
        self.begin()
        X = self.propose()
        if X is None:
            return None
        X = fixed(np.ascontiguousarray(X))
        self.space.check_bounds(X)
        self._batches.append((self._next_id, X))
        self._next_id += len(X)
        self._pending += len(X)
        return X

    def tell(self, batch: Evaluated) -> None:
        """Take the values of the oldest pending batch, and learn from them.

        Raises
        ------
        ContractError
            The batch is not that one: unknown, incomplete, reordered, with other genomes, or
            with a metric missing. The state is then unchanged.
        """
        if not self._batches:
            raise ContractError("tell: expected an ask before, found no batch waiting")
        first, X = self._batches[0]
        batch.check_answers(first, X, self.metric_names, "tell")
        self._batches.popleft()
        self._pending -= len(X)
        self.learn(batch)

    def feasible(self, batch: Evaluated) -> IntArray:
        """Return the ids of the candidates that did not fail and meet the constraints."""
        ids: IntArray = batch.ids[batch.ok & (self.roles.violation(batch.values) == 0.0)]
        return ids

    def give_up(self, reason: str) -> Array | None:
        """Return None, for a :meth:`propose` that finds nothing new; done if nothing is pending.

        While candidates are pending, their values may still lead to something new.
        """
        if not self._pending:
            self.done, self.reason = True, reason
        return None

    def make_asynchronous(self, max_pending: int, generation: int) -> int:
        """Make the search asynchronous; return how many candidates to propose at once.

        Generations then overlap: candidates are proposed in steps of ``max_pending / 16``, at least
        1 and at most 32. A step uses the values of all steps that end at least ``max_pending``
        candidates before its own end; the first steps use none.

        Parameters
        ----------
        max_pending : int
            Number of candidates that may be pending, at least 1.
        generation : int
            Number of evaluations that count as a generation.
        """
        step = min(max(max_pending // _STEPS, 1), _LONGEST_STEP)
        self.max_pending = max(max_pending // step * step, 1)
        self.evaluations_per_generation = generation
        return step


def known_horizon(horizon: int | None) -> int:
    """Return the number of evaluations that a schedule is stretched over.

    An algorithm with a schedule has the parameter ``horizon``. If a configuration omits it, it is
    set from the budget once: a run that is resumed with a larger budget keeps its schedule.

    Raises
    ------
    InputError
        None: the budget counts no evaluations.
    """
    if horizon is None:
        raise InputError(
            "algorithm.horizon: expected the number of evaluations that its schedule is stretched "
            "over, found none; give it, or budget.evaluations"
        )
    return horizon


def name_of(algorithm: type[Algorithm]) -> str:
    """Return the name under which an algorithm is registered, or else that of its class."""
    place = f"{algorithm.__module__}:{algorithm.__qualname__}"
    return registry.name_at("algorithms", place) or algorithm.__name__


def fitting(problem: Problem) -> list[str]:
    """Return the names of the registered algorithms that can search a problem."""
    names = []
    for name in registry.names("algorithms"):
        with suppress(Unfit):
            registry.load("algorithms", name).check_fit(problem)
            names.append(name)
    return names
