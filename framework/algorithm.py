"""The contract of a search: it proposes candidates and learns from their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from framework import registry
from framework.arrays import Array, IntArray, kept
from framework.batch import Evaluated
from framework.errors import ContractError, InputError, Unfit
from framework.preparation import Preparation
from framework.problem import Problem
from framework.roles import Roles
from framework.space import Space
from framework.streams import algorithm_stream

_STEPS, _LONGEST_STEP = 16, 32

MaxPending = Annotated[int, Field(ge=1)] | None
"""Parameter of a search: how many rows may be out while it goes on; None has it in generations."""


@dataclass(frozen=True)
class Outcome:
    """What an algorithm knows about its result besides the rows.

    Attributes
    ----------
    findings : mapping of str to JSON value
        Written to ``summary.json``.
    returned : numpy.ndarray of int64, shape (r,), or None
        Ids of the feasible rows that the method returns by its own definition; None if that is
        the front of everything evaluated.
    tables : mapping of str to columns
        Further tables: the name of each CSV file, and its columns, of equal length.
    """

    findings: Mapping[str, Any] = field(default_factory=dict)
    returned: IntArray | None = None
    tables: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)


class Algorithm(ABC):
    """Base of all searches: ``ask`` for candidates, ``tell`` their values, in the order asked.

    A subclass implements :meth:`propose` and :meth:`learn`. It keeps the space and the roles but
    not the problem, takes its random numbers from ``self.rng`` only, and uses nothing but the
    values it was told. The same seed therefore asks for the same candidates, whoever evaluates
    them.

    Parameters
    ----------
    problem : Problem
        Only its space, metrics and gene names are kept.
    roles : Roles
    seed : int

    Attributes
    ----------
    spaces : tuple of Space classes
        Class attribute: the spaces that it can search.
    reads : class
        Class attribute: what the problem's ``tables()`` must be, where it needs them.
    max_pending : int
        It is asked for another batch while fewer rows than this are out, asked for and not told:
        1 has it wait for each batch. Batches are told in the order asked, and one that was told
        is followed by the asking that it makes room for, so what a row can know depends on this
        number alone, and not on who evaluates how fast.
    evaluations_per_generation : int or None
        How many rows count as a generation (in budgets, progress and logs) where batches are
        pieces of one; None: each batch is one. Rows of pieces are journaled as they arrive.
    done : bool
        True once it has nothing more to propose; ``reason`` says why.
    plan : str
        A line for the user about what it is going to do, shown before it starts; may be empty.

    Raises
    ------
    Unfit
        It cannot search the problem's space.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Space,)
    reads: ClassVar[type] = object
    max_pending: int = 1
    evaluations_per_generation: int | None = None
    plan: str = ""

    def __init__(self, problem: Problem, roles: Roles, *, seed: int) -> None:
        if not isinstance(problem.space, self.spaces):
            words = " and ".join(space.words for space in self.spaces)
            raise Unfit(
                f"algorithm.kind: {name_of(type(self))} searches {words}, found {problem.space!r}"
            )
        if not isinstance(problem.tables(), self.reads):
            raise Unfit(
                f"algorithm.kind: {name_of(type(self))} reads the tables of a "
                f"{self.reads.__name__}, found {type(problem).__name__} without them"
            )
        self.space = problem.space
        self.roles = roles
        self.metric_names = problem.metric_names
        self.rng = algorithm_stream(seed)
        self.done = False
        self.reason = ""
        self._asked: deque[tuple[int, Array]] = deque()
        self._next_id = 0
        self._out = 0

    @abstractmethod
    def propose(self) -> Array | None:
        """Return genomes to evaluate, shape (n, d), n >= 1; they are copied.

        None says that it needs the answers to earlier batches first, or is ``done``.
        """

    @abstractmethod
    def learn(self, batch: Evaluated) -> None:
        """Learn from the values of a whole batch that :meth:`propose` returned, in its order."""

    def prepare(self, work: Preparation) -> None:  # noqa: B027 (a hook)
        """Compute what the first batch needs, with the help of the workers.

        The driver calls it once in each session, before the first :meth:`ask`. It does nothing
        unless overridden. An algorithm that is asked without this call must reach the same state
        by itself.
        """

    def outcome(self) -> Outcome:
        """Return what it knows about its result besides the rows told so far."""
        return Outcome()

    def ask(self) -> Array | None:
        """Return the next batch of genomes, shape (n, d), read-only.

        None says that it needs the answers to earlier batches first, or is ``done``.
        """
        if self.done or self._out >= self.max_pending:
            return None
        X = self.propose()
        if X is None:
            return None
        X = kept(X)
        self._asked.append((self._next_id, X))
        self._next_id += len(X)
        self._out += len(X)
        return X

    def tell(self, batch: Evaluated) -> None:
        """Answer the oldest batch asked for.

        Raises
        ------
        ContractError
            The batch is not that one: unknown, incomplete, reordered, with other genomes, or
            with a metric missing. The state is untouched then.
        """
        if not self._asked:
            raise ContractError("tell: expected an ask before, found no batch waiting")
        first, X = self._asked[0]
        batch.check_answers(first, X, self.metric_names, "tell")
        self._asked.popleft()
        self._out -= len(X)
        self.learn(batch)

    def feasible(self, batch: Evaluated) -> IntArray:
        """Return the ids of the rows that did not fail and meet the constraints."""
        ids: IntArray = batch.ids[batch.ok & (self.roles.violation(batch.values) == 0.0)]
        return ids

    def give_up(self, reason: str) -> Array | None:
        """Return what :meth:`propose` does that finds nothing: None, and done if no row is out.

        Otherwise an answer may bring something new.
        """
        if not self._out:
            self.done, self.reason = True, reason
        return None

    def make_asynchronous(self, max_pending: int, generation: int) -> int:
        """Have generations flow into each other; return how many rows to propose at once.

        Rows are made in steps of ``max_pending / 16``, at least 1 and at most 32, and the rows of a
        step know all steps that end ``max_pending`` rows or more before its own end; the first ones
        know nothing.

        Parameters
        ----------
        max_pending : int
            Rows that may be out, at least 1.
        generation : int
            How many rows count as a generation.
        """
        step = min(max(max_pending // _STEPS, 1), _LONGEST_STEP)
        self.max_pending = max(max_pending // step * step, 1)
        self.evaluations_per_generation = generation
        return step


def known_horizon(horizon: int | None) -> int:
    """Return the evaluations that a schedule is stretched over, where they are known.

    An algorithm that follows one takes them as its parameter ``horizon``. A configuration that
    leaves it out has it filled in from its budget, once and for all: a run that goes on with more
    budget keeps its schedule.

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
    """Return the names of the registered algorithms that declare to search such a problem."""
    tables, found = problem.tables(), []
    for name in registry.names("algorithms"):
        cls = registry.load("algorithms", name)
        if isinstance(problem.space, cls.spaces) and isinstance(tables, cls.reads):
            found.append(name)
    return found


def make(
    algorithm: type[Algorithm], problem: Problem, roles: Roles, *, seed: int, **parameters: Any
) -> Algorithm:
    """Return an algorithm in its initial state.

    Raises
    ------
    InputError
        It cannot search the problem; the message names algorithms that can.
    """
    try:
        return algorithm(problem, roles, seed=seed, **parameters)
    except Unfit as error:
        own = name_of(algorithm)
        others = ", ".join(name for name in fitting(problem) if name != own) or "none"
        raise InputError(f"{error}; take another algorithm (for this problem: {others})") from error
