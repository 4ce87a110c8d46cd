"""Algorithm: a serial coordinator that proposes candidates and learns from their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from framework.arrays import Array, frozen
from framework.batch import Evaluated
from framework.errors import ContractError
from framework.problem import Problem
from framework.roles import Roles
from framework.streams import algorithm_stream
from framework.workforce import Workforce

Report = Callable[[str, int, int], None]
"""Told, now and then, what is being done, how much of it is done, and how much there is."""


class Algorithm(ABC):
    """Base of all searches: ``ask`` for candidates, ``tell`` their values, in the order asked.

    A subclass implements :meth:`propose` and :meth:`learn`. It keeps the space and the roles but
    not the problem, draws from ``self.rng`` alone, and looks at nothing but what it was told; so
    the same seed asks for the same candidates whoever evaluates them.

    Parameters
    ----------
    problem : Problem
        Only its space, metrics and gene names are kept.
    roles : Roles
    seed : int

    Attributes
    ----------
    lookahead : int
        Batches it may propose before earlier answers arrive.
    done : bool
        True once it has nothing more to propose; ``reason`` says why.
    plan : str
        What the user is told before it starts: a line, or nothing.
    """

    lookahead: int = 1
    plan: str = ""

    def __init__(self, problem: Problem, roles: Roles, *, seed: int) -> None:
        self.space = problem.space
        self.roles = roles
        self.metric_names = problem.metric_names
        self.rng = algorithm_stream(seed)
        self.done = False
        self.reason = ""
        self._asked: deque[tuple[int, Array]] = deque()
        self._next_id = 0

    @abstractmethod
    def propose(self) -> Array | None:
        """Return genomes to evaluate, shape (n, d), n >= 1; None = nothing until told."""

    @abstractmethod
    def learn(self, batch: Evaluated) -> None:
        """Take in a batch that :meth:`propose` returned, whole and in order."""

    def prepare(self, workers: Workforce, report: Report) -> None:  # noqa: B027 (a hook)
        """Do what the first ask rests on, with the workers' help; nothing unless overridden.

        The driver calls it once, before the first ask. An algorithm that is asked without must
        come to the same by itself.
        """

    def findings(self) -> Mapping[str, Any]:
        """Return what it knows of its result beyond the rows, for ``summary.json``."""
        return {}

    def listings(self) -> Mapping[str, Mapping[str, Array]]:
        """Return tables beyond the front: name of a CSV file to columns of one length."""
        return {}

    def ask(self) -> Array | None:
        """Return the next batch of genomes, shape (n, d), read-only; None = nothing until told."""
        if self.done or len(self._asked) >= self.lookahead:
            return None
        X = self.propose()
        if X is None:
            return None
        X = frozen(X)
        self._asked.append((self._next_id, X))
        self._next_id += len(X)
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
        self.learn(batch)
