"""Calls one method for many things, on the workers of a pool: whole runs, models to train."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from framework.errors import ClusterError
from framework.parallel.config import ClusterConfig
from framework.parallel.pool import WorkerPool
from framework.parallel.tasks import Task


class Each:
    """Answers, or what was raised, in the order in which they come.

    Parameters
    ----------
    held : object
        What each worker holds a copy of.
    method : str
        Its method that does the work.
    workers, config
        See :class:`framework.parallel.pool.WorkerPool`.
    pure : bool
        Whether the method leaves no trace but its answer, so that two workers may do the same.
    """

    def __init__(
        self,
        held: Any,
        method: str,
        *,
        workers: int | None,
        config: ClusterConfig,
        pure: bool = False,
    ) -> None:
        self._method = method
        self._done: deque[tuple[Any, Any]] = deque()
        self.pool = WorkerPool(
            held,
            self,
            (method,),
            workers=workers,
            config=config,
            copied=(method,) if pure else (),
        )

    def submit(self, token: Any, *arguments: Any) -> None:
        """Have the method called; ``token`` comes back with what it returns."""
        self.pool.add(Task(self._method, ([token], [arguments])))
        self.pool.dispatch()

    def collect(self) -> tuple[Any, Any]:
        """Wait for the next answer.

        Returns
        -------
        token : object
        answer : object
            What the method returned; or an exception: the one it raised, an EnvironmentFailure
            where no node can do this work, or a ClusterError where its workers died of it.

        Raises
        ------
        ClusterError
            No worker can be started, again and again.
        """
        while not self._done:
            self.pool.step(None)
        return self._done.popleft()

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted."""
        return self.pool.incidents()

    def close(self) -> None:
        """End the workers."""
        self.pool.close()

    # TaskOwner: what the pool of workers calls

    def arguments(self, task: Task, n_components: int) -> tuple[tuple[Any, ...], int]:
        return tuple(task.columns[1][0]), n_components

    def answered(self, task: Task, answer: Any) -> None:
        self._done.append((task.columns[0][0], answer))

    def expects(self, task: Task) -> bool:
        return True

    def raised(self, task: Task, error: Exception) -> None:
        self.answered(task, error)

    def killed(self, task: Task, reason: str) -> None:
        self.answered(task, ClusterError(reason))
