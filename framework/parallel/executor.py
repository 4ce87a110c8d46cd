"""Run many independent tasks, in this process or on Ray, and collect what they return."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from framework.errors import ClusterError, EnvironmentFailure
from framework.machine import reason_of
from framework.parallel.cluster import cluster
from framework.parallel.config import ClusterConfig, ray_pays, uses_ray
from framework.parallel.pool import WorkerPool
from framework.parallel.tasks import Task

_TRIED_SECONDS = 4.0  # of work in this process before the time of the other tasks is estimated
_LATEST = 20  # tasks from which it is estimated: the first ones also load what all need
_SHARED = 4  # shared objects that are kept in Ray's object store, the latest ones


class Ended(NamedTuple):
    """A task that has ended.

    Attributes
    ----------
    key : object
        The key with which it was submitted.
    answer : object
        What the function returned; None if there is an error.
    error : Exception or None
        What it raised: an EnvironmentFailure if no node can do the task, a ClusterError if workers
        and then a child of this process died of it.
    again : bool
        Whether :meth:`Executor.run` will try it once more.
    """

    key: Any
    answer: Any
    error: Exception | None
    again: bool = False


class Executor:
    """Run independent tasks one after the other in this process, or in parallel on Ray workers.

    With ``workers='auto'`` the tasks start in this process and the remaining ones move to Ray once
    it pays (:mod:`framework.parallel.config`). Workers that die are replaced, and a task whose node
    was at fault is tried on other nodes; such incidents are counted. Results arrive in any order.
    Use it as a context manager: it disconnects from Ray at the end.

    There are two ways to use it. :meth:`run` takes all tasks at once::

        with Executor(train, workers="auto", started=print) as executor:
            for ended in executor.run(plans, lambda plan: (data, plan)):
                ...  # ended.key is the plan, ended.answer what train(data, plan) returned

    :meth:`submit` and :meth:`collect` are for callers that decide on the next task by the results
    of earlier ones.

    Parameters
    ----------
    function : callable
        Does a task: ``function(shared, *arguments)``. A function of a module, or an instance with
        ``__call__``. With Ray, it, the arguments and the answer are pickled.
    workers : 'serial', 'auto', 'all' or int
        Where tasks run: in this process; where it is faster; on Ray with all cores; on Ray with
        this number of workers.
    address : str, optional
        A running Ray cluster to join; Ray is used then, whatever ``workers`` says.
    config : ClusterConfig, optional
        How workers run on Ray.
    pure : bool
        Whether a task has no effect but its answer, so that an idle worker may repeat one that
        another worker is late with.
    started : callable, optional
        Called once, when Ray is used, with a description of it: ``Ray, 4 workers``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        workers: str | int = "auto",
        address: str | None = None,
        config: ClusterConfig | None = None,
        pure: bool = False,
        started: Callable[[str], None] = lambda description: None,
    ) -> None:
        self._function, self._workers, self._address = function, workers, address
        self._config = config or ClusterConfig()
        self._pure, self._started = pure, started
        self._waiting: deque[tuple[Any, Any, tuple[Any, ...]]] = deque()
        self._ended: deque[Ended] = deque()
        self._ends: deque[float] = deque([time.perf_counter()], maxlen=_LATEST)  # times of ends
        self._spent = 0.0  # seconds of work in this process
        self._pool: WorkerPool | None = None
        self._in_store: deque[tuple[Any, Any]] = deque(maxlen=_SHARED)  # shared, its reference
        self._stack = ExitStack()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def run(
        self,
        keys: Iterable[Any],
        prepare: Callable[[Any], Sequence[Any]],
        *,
        attempts: int = 1,
    ) -> Iterator[Ended]:
        """Run a task for each key; yield each when it has ended, in any order.

        At most twice as many tasks as there are workers are prepared at a time, so that neither
        arguments nor answers pile up in memory.

        Parameters
        ----------
        keys : iterable
        prepare : callable
            Returns ``(shared, *arguments)`` of a key's task, just before it is submitted. An
            exception that it raises becomes the error of that task.
        attempts : int
            How often a task that raises is tried; retries come after all other tasks.
        """
        waiting = deque((key, 1) for key in keys)
        under_way = 0
        while waiting or under_way:
            while waiting and under_way < self.width:
                key, attempt = waiting.popleft()
                under_way += 1
                try:
                    arguments = prepare(key)
                except Exception as error:  # whatever it is, only this task fails
                    self._end((key, attempt), None, error)
                else:
                    self.submit((key, attempt), *arguments)
            ended = self.collect(later=len(waiting))
            under_way -= 1
            key, attempt = ended.key
            again = ended.error is not None and attempt < attempts
            if again:
                waiting.append((key, attempt + 1))
            yield ended._replace(key=key, again=again)

    def submit(self, key: Any, shared: Any, *arguments: Any) -> None:
        """Add a task; its result comes back with its ``key``.

        Parameters
        ----------
        key : object
            Anything; it is not sent to workers.
        shared : object
            The function's first argument: what tasks have in common, such as data or a problem.
            Consecutive tasks with the same object send it once.
        *arguments
            The function's other arguments.
        """
        self._waiting.append((key, shared, arguments))
        if self._pool is None and uses_ray(self._workers, self._address):
            self._join()
        self._hand_out()

    def collect(self, later: int = 0) -> Ended:
        """Wait for the next task that ends.

        Parameters
        ----------
        later : int
            How many tasks the caller still expects to submit: whether Ray pays depends on all the
            work that is left.

        Raises
        ------
        ClusterError
            No worker can be started, after several attempts.
        """
        if self._pool is None and not self._ended and self._pays(later):
            self._join()
            self._hand_out()
        while not self._ended:
            if self._pool is not None:
                self._pool.step(None)
            else:
                self._run_here()
        return self._ended.popleft()

    @property
    def width(self) -> int:
        """How many tasks to have submitted at a time: enough to keep all workers busy."""
        return 1 if self._pool is None else 2 * max(1, self._pool.size)

    def seconds_left(self, tasks: int) -> float:
        """Return the estimated seconds that ``tasks`` tasks will take; 0 if none has ended yet."""
        n = len(self._ends) - 1
        return (self._ends[-1] - self._ends[0]) / n * tasks if n else 0.0

    def incidents(self) -> Mapping[str, int]:
        """Return the number of incidents by kind, such as ``workers_lost``."""
        return Counter({} if self._pool is None else self._pool.incidents())

    # In this process ---------------------------------------------------------------------------

    def _run_here(self) -> None:
        key, shared, arguments = self._waiting.popleft()
        start = time.perf_counter()
        try:
            answer, failure = self._function(shared, *arguments), None
        except Exception as error:  # the caller decides what it means
            answer, failure = None, error
        self._spent += time.perf_counter() - start
        self._end(key, answer, failure)

    def _end(self, key: Any, answer: Any, error: Exception | None) -> None:
        self._ends.append(time.perf_counter())
        self._ended.append(Ended(key, answer, error))

    def _pays(self, later: int) -> bool:
        """Return whether ``auto`` should use Ray from now on."""
        left = len(self._waiting) + later
        if left < 2 or self._spent < _TRIED_SECONDS:
            return False
        return ray_pays(self._workers, self.seconds_left(left))

    # On Ray ------------------------------------------------------------------------------------

    def _join(self) -> None:
        count = self._workers if isinstance(self._workers, int) else None
        joined = self._stack.enter_context(cluster(count, self._address, self._config))
        self._pool = WorkerPool(
            _Function(self._function),
            self,
            (_CALL,),
            workers=joined.workers,
            config=self._config,
            copied=(_CALL,) if self._pure else (),
            raising=(_CALL,),
        )
        self._stack.callback(self._pool.close)  # the pool is closed before its cluster
        self._started(joined.description)

    def _hand_out(self) -> None:
        """Give all waiting tasks to the pool of workers, if there is one."""
        if self._pool is None:
            return
        while self._waiting:
            key, shared, arguments = self._waiting.popleft()
            self._pool.add(Task(_CALL, ([key], [(shared, arguments)])))
        self._pool.dispatch()

    def _reference(self, shared: Any) -> Any:
        """Return a reference to an object in Ray's store; put it there if it is not."""
        import ray

        for stored, reference in self._in_store:
            if stored is shared:
                return reference
        self._in_store.append((shared, ray.put(shared)))
        return self._in_store[-1][1]

    # TaskOwner: what the pool of workers calls ---------------------------------------------------

    def arguments(self, task: Task, n_components: int) -> tuple[tuple[Any, ...], int]:
        shared, arguments = task.columns[1][0]
        return ([self._reference(shared)], arguments), n_components

    def work(self, task: Task) -> Callable[[], Any]:
        shared, arguments = task.columns[1][0]
        return partial(self._function, shared, *arguments)

    def answered(self, task: Task, answer: Any) -> None:
        self._end(task.columns[0][0], answer, None)

    def raised(self, task: Task, error: Exception) -> None:
        self._end(task.columns[0][0], None, error)

    def killed(self, task: Task, reason: str) -> None:
        self.raised(task, ClusterError(reason))


_CALL = "call"


class _Function:
    """The function that does the tasks, as a worker holds it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def call(self, box: list[Any], arguments: tuple[Any, ...]) -> Any:
        """Do a task; ``box`` holds a reference to the shared object.

        Raises
        ------
        EnvironmentFailure
            This node cannot load the shared object.
        """
        import ray

        try:
            shared = ray.get(box[0])
        except Exception as error:  # code or data that this node lacks
            raise EnvironmentFailure(reason_of(error)) from error
        return self._function(shared, *arguments)
