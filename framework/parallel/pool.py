"""A pool of workers on Ray: starts them, gives them tasks, watches and replaces them.

All wanted workers are requested at once, even if there is no room for some of them yet: the pending
requests show an autoscaler the demand, and a node that joins gets its share immediately. A worker
that dies is replaced, and its tasks are done again by others.

The death of a worker may have nothing to do with its task: a user or the system may have killed it.
So a task that three workers died of is tried once more in a child of this process, and is given up
only if the child dies, too. If all workers die while they start, tasks are done in such children,
one by one.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from framework.errors import ClusterError, EnvironmentFailure
from framework.parallel.alone import ChildDied, done_alone
from framework.parallel.config import OR_SERIAL, ClusterConfig
from framework.parallel.nodes import SILENT_SECONDS, Nodes
from framework.parallel.tasks import CHUNK_SECONDS, DispatchCost, Task, TaskOwner
from framework.parallel.worker import Worker, WorkerStarted

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3  # workers that a single item may kill before it is done in a child process
OVERDUE = "took more than row_timeout"
_POLL_SECONDS = 1.0  # between checks of the workers
# How long a worker may go on with a task that another one has finished, before it is replaced:
_STUCK_SECONDS = 30.0  # if it has done a task of this kind before,
_COMPILING_SECONDS = 300.0  # and if not, since it may be compiling
_ROOM_SECONDS = 30.0  # without room for any worker, before a warning
_START_SECONDS = 120.0  # without any worker, before a warning; a cold start takes up to 60
_REQUESTS = 2  # at most at a worker, so that it need not wait for the next one


@dataclass(eq=False)
class WorkerSlot:
    """A worker as the pool sees it: where it runs, and its requests, the oldest first."""

    actor: Any
    avoided: frozenset[str] = frozenset()  # the nodes where it may not start
    pid: int | None = None  # None until the worker is ready
    node: str = ""
    n_components: int = 0
    requests: deque[tuple[Any, Task]] = field(default_factory=deque)  # references, tasks
    since: float = 0.0  # when it began with the oldest request
    exclusive: bool = False  # its latest request is long, or may kill the worker
    done: set[str] = field(default_factory=set)  # kinds of tasks that it has answered

    def accepts(self, exclusive: bool) -> bool:
        """Return whether to send the worker another request.

        A long request, or one that may kill the worker, is exclusive: it shares the worker with no
        other. Otherwise a worker is sent no more than it needs to stay busy, because tasks that
        wait in the pool can still be joined into fewer requests.
        """
        alone = exclusive or self.exclusive
        return len(self.requests) < (1 if alone else _REQUESTS)


class WorkerPool:
    """Workers on the Ray cluster that this process is connected to, and their tasks.

    Parameters
    ----------
    held : object
        The object of which each worker gets a copy; its methods do the tasks.
    owner : TaskOwner
        Takes the results.
    kinds : sequence of str
        Names of the methods, most urgent first.
    workers : int, optional
        How many workers to request; None uses the whole cluster as it grows and shrinks.
    config : ClusterConfig
        What each worker takes of its node, and how long a task may take.
    timed : sequence of str
        Kinds to which ``config.row_timeout`` applies.
    copied : sequence of str
        Kinds that an idle worker may repeat when another one is late: those that leave no trace
        but their result.
    joined : sequence of str
        Kinds whose columns are arrays: short tasks that wait become one request.
    raising : sequence of str
        Kinds whose method may raise; a worker that raises in another one is replaced.
    """

    def __init__(
        self,
        held: Any,
        owner: TaskOwner,
        kinds: Sequence[str],
        *,
        workers: int | None,
        config: ClusterConfig,
        timed: Sequence[str] = (),
        copied: Sequence[str] = (),
        joined: Sequence[str] = (),
        raising: Sequence[str] = (),
    ) -> None:
        import ray

        self._ray: Any = ray
        self._owner, self._workers, self._config = owner, workers, config
        self._timed = frozenset(timed) if config.row_timeout is not None else frozenset()
        self._copied = frozenset(copied) if config.copies else frozenset()
        self._joined, self._raising = frozenset(joined), frozenset(raising)
        self._class: Any = ray.remote(max_restarts=0, max_task_retries=0)(Worker)
        try:
            self._held = ray.put(held)
        except ray.exceptions.RayError:
            raise
        except Exception as error:  # whatever an object raises that is to be pickled
            raise ClusterError(
                "workers: expected a problem that can be copied to workers, found one that holds "
                f"something that cannot be ({error.__cause__ or error}); make it inside the "
                "function that needs it, or take workers: serial"
            ) from error
        self._nodes = Nodes(config.resources)
        self._slots: list[WorkerSlot] = []
        self._requests: dict[Any, tuple[WorkerSlot, Task | None]] = {}  # None: worker is starting
        self._queues: dict[str, deque[Task]] = {kind: deque() for kind in kinds}
        self._costs = {kind: DispatchCost() for kind in kinds}
        self._incidents: Counter[str] = Counter()
        self._failed_starts: list[str] = []  # reasons, since the last worker that started
        self._polled = 0.0  # time of the last check
        self._without_workers_since, self._warned = perf_counter(), False
        self._resize()

    def add(self, task: Task) -> None:
        """Queue a task."""
        self._queues[task.kind].append(task)

    def forget(self, kind: str) -> None:
        """Drop the queued tasks of a kind, and the measurements of their cost."""
        self._queues[kind].clear()
        self._costs[kind] = DispatchCost()

    def step(self, timeout: float | None) -> bool:
        """Send tasks, wait, and take results; return whether any arrived in time.

        Raises
        ------
        ClusterError
            No worker can be started, after several attempts.
        """
        deadline = None if timeout is None else perf_counter() + timeout
        while True:
            self._poll()
            self.dispatch()
            left = (
                _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - perf_counter())
            )
            if self._wait(max(0.0, left)):
                return True
            if deadline is not None and perf_counter() >= deadline:
                return False

    def close(self) -> None:
        """End the workers and drop the tasks that are not done."""
        self._nodes.close()
        for slot in self._slots:
            self._end(slot)
        self._slots.clear()
        self._requests.clear()
        for queue in self._queues.values():
            queue.clear()

    @property
    def ready(self) -> list[WorkerSlot]:
        """The workers that have started."""
        return [slot for slot in self._slots if slot.pid is not None]

    @property
    def size(self) -> int:
        """Number of workers, including those that have not started."""
        return len(self._slots)

    def incidents(self) -> Mapping[str, int]:
        """Return the number of incidents by kind; kinds that did not happen are left out."""
        lost = self._nodes.lost()
        return {**self._incidents, **({"nodes_lost": lost} if lost else {})}

    # Workers ----------------------------------------------------------------------------------

    def _resize(self) -> None:
        """Request workers until there are as many as wanted; drop pending ones beyond that.

        A pending worker that avoids a node which is acceptable again is replaced: it would wait for
        ever if all nodes on which it may start were gone.
        """
        allowed = self._nodes.alive() - self._nodes.avoided()
        for slot in [slot for slot in self._slots if slot.pid is None and slot.avoided & allowed]:
            self._remove(slot)
        wanted = self._nodes.capacity() if self._workers is None else self._workers
        pending = [slot for slot in self._slots if slot.pid is None]
        for slot in pending[: max(0, len(self._slots) - wanted)]:
            self._remove(slot)
        for _ in range(wanted - len(self._slots)):
            avoided = self._nodes.avoided()
            actor = self._class.options(**self._nodes.options(avoided)).remote([self._held])
            slot = WorkerSlot(actor, avoided)
            self._slots.append(slot)
            self._requests[actor.ready.remote()] = slot, None  # it gets tasks once it answers

    def _poll(self) -> None:
        """Check the workers, but not too often: replace, resize, warn, repeat late requests."""
        now = perf_counter()
        if now - self._polled < _POLL_SECONDS:
            return
        self._polled = now
        self._nodes.refresh()
        for name in self._nodes.newly_silent():
            _LOG.warning(
                "node %s has not answered for %.0f s; others do its work again if it is lost",
                name,
                SILENT_SECONDS,
            )
        self._resize()
        self._warn(now)
        for slot in self.ready:
            if slot.requests:
                self._check_time(slot, now)
        if self._copied and not any(self._queues.values()):
            self._copy_late(now)

    def _warn(self, now: float) -> None:
        """Warn once that no worker starts, with the reason."""
        if self.ready:
            self._without_workers_since, self._warned = now, False
            return
        waited, warning = now - self._without_workers_since, ""
        if not self._nodes.capacity() and waited > _ROOM_SECONDS:
            shape = self._config.resources.shape()
            warning = f"no node has room for a Ray worker of {shape}; waiting for one that has"
        elif waited > _START_SECONDS:
            failed = f", and {self._failed_text()}" if self._failed_starts else ""
            warning = (
                f"no Ray worker has started for {waited:.0f} s{failed}: the machines are busy; "
                "waiting for one"
            )
        if warning and not self._warned:
            self._warned = True
            _LOG.warning("%s", warning)

    def _check_time(self, slot: WorkerSlot, now: float) -> None:
        """Replace a worker that exceeds its time limit, or hangs at a task done by another one."""
        task = slot.requests[0][1]
        patience = _STUCK_SECONDS if task.kind in slot.done else _COMPILING_SECONDS
        if task.finished and now - slot.since > patience:
            self._replace_dead(slot, "it hangs at what another worker has done")
            return
        if task.kind in self._timed:
            limit = (self._config.row_timeout or 0.0) * len(task)
            if now - slot.since > limit:
                self._incidents["timeouts"] += 1
                self._replace_dead(slot, f"{OVERDUE}, {limit:g} s")

    def _copy_late(self, now: float) -> None:
        """Have idle workers repeat late requests of others; the first result counts."""
        idle = [slot for slot in self.ready if not slot.requests]
        late = [slot for slot in self.ready if slot.requests and self._is_late(slot, now)]
        for slot in late:
            for _, task in slot.requests:
                if not idle:
                    return
                if task.suspect:  # with another copy each time, it would never be divided
                    continue
                if task.kind in self._copied and not task.finished and task.in_flight == 1:
                    other = min(idle, key=lambda worker: worker.node == slot.node)
                    idle.remove(other)
                    self._incidents["copies"] += 1
                    self._send(other, task)

    def _is_late(self, slot: WorkerSlot, now: float) -> bool:
        """Return whether a worker's oldest request takes far longer than expected."""
        task = slot.requests[0][1]
        return now - slot.since > self._costs[task.kind].late_after(len(task))

    # Requests ---------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send queued tasks to the workers with the least work, while any accepts more."""
        if not any(slot.accepts(False) for slot in self.ready):
            return
        now = perf_counter()
        loads = {slot: self._load(slot, now) for slot in self.ready}
        for kind, queue in self._queues.items():
            cost = self._costs[kind]
            waiting = sum(map(len, queue)) if kind in self._joined else 0
            while queue:
                # no request should wait behind a long one, nor be lost to one that kills its worker
                long = not cost.per_item or cost.per_item > 2 * CHUNK_SECONDS
                exclusive = long or not queue[0].is_new
                slot = self._least_busy(exclusive, loads)
                if slot is None:
                    break
                items = waiting or len(queue[0])
                finite = [load for load in loads.values() if load < inf]
                mean = (cost.seconds(items) + sum(finite)) / len(finite)
                task = self._next(queue, cost.chunk(items, mean - loads[slot]))
                waiting = max(0, waiting - len(task))
                loads[slot] += cost.seconds(len(task))
                slot.exclusive = exclusive
                self._send(slot, task)

    def _load(self, slot: WorkerSlot, now: float) -> float:
        """Return the seconds of work that a worker still has; infinity if it is late.

        Nobody knows how long a late worker will take, so that nothing should wait behind it.
        """
        if not slot.requests:
            return 0.0
        first, *others = (self._costs[task.kind].seconds(len(task)) for _, task in slot.requests)
        left = first - (now - slot.since)
        return inf if left < -CHUNK_SECONDS else max(left, 0.0) + sum(others)

    def _next(self, queue: deque[Task], size: int) -> Task:
        """Take a task of at most ``size`` items out of a queue; short tasks may be joined."""
        task = queue.popleft()
        if len(task) > size:
            queue.appendleft(task.slice(size, len(task)))
            return task.slice(0, size)
        tasks, left = [task], size - len(task)
        if task.kind in self._joined and task.is_new:
            while queue and queue[0].is_new and len(queue[0]) <= left:
                tasks.append(queue.popleft())
                left -= len(tasks[-1])
        return Task.joined(tasks) if len(tasks) > 1 else task

    def _least_busy(self, exclusive: bool, loads: Mapping[WorkerSlot, float]) -> WorkerSlot | None:
        """Return the worker to send a request to: on the best node, with the least work."""
        free = [slot for slot, load in loads.items() if load < inf and slot.accepts(exclusive)]
        return min(
            free, key=lambda slot: (self._nodes.failures[slot.node], loads[slot]), default=None
        )

    def _send(self, slot: WorkerSlot, task: Task) -> None:
        arguments, slot.n_components = self._owner.arguments(task, slot.n_components)
        ref = slot.actor.do.remote(task.kind, *arguments)
        if not slot.requests:
            slot.since = perf_counter()
        slot.requests.append((ref, task))
        self._requests[ref] = slot, task
        task.in_flight += 1

    def _wait(self, timeout: float) -> bool:
        """Take the results that have arrived; return whether any arrived in time."""
        refs = list(self._requests)
        if not refs:
            sleep(timeout)
            return False
        answered, _ = self._ray.wait(refs, num_returns=1, timeout=timeout)
        if answered and len(refs) > 1:
            answered, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in answered:  # in the order of sending
            if ref in self._requests:  # else its worker has just been replaced
                self._take(ref)
        return bool(answered)

    def _take(self, ref: Any) -> None:
        slot, task = self._requests[ref]
        try:
            answer = self._ray.get(ref)
        except Exception as error:  # a dead worker, or what the method raised
            cause = getattr(error, "cause", None)
            if task is not None and isinstance(cause, EnvironmentFailure):
                self._replace_misplaced(slot, cause.reason)
            elif task is not None and isinstance(cause, Exception) and task.kind in self._raising:
                if self._finished(ref):
                    self._owner.raised(task, cause)
            else:
                died = isinstance(error, self._ray.exceptions.ActorDiedError)
                self._replace_dead(slot, death_reason(error), killed=died)
            return
        if task is None:
            self._started(ref, slot, answer)
            return
        seconds, result = answer
        self._costs[task.kind].add(seconds, len(task))
        if self._finished(ref):
            self._owner.answered(task, result)

    def _finished(self, ref: Any) -> bool:
        """Remove a request that a worker has answered; return whether it is the first answer."""
        slot, task = self._requests.pop(ref)
        assert task is not None  # a worker that starts is handled by _started
        slot.requests.remove((ref, task))
        slot.since = perf_counter()
        slot.done.add(task.kind)
        task.in_flight -= 1
        first, task.finished = not task.finished, True
        return first

    def _started(self, ref: Any, slot: WorkerSlot, ready: WorkerStarted) -> None:
        """Record that a worker has started, or that its node cannot load the object."""
        slot.node = ready.node
        if ready.error:
            self._replace_misplaced(slot, ready.error)
            return
        del self._requests[ref]
        slot.pid, slot.n_components = ready.pid, ready.n_components
        self._nodes.used.add(ready.node)
        self._failed_starts.clear()

    # Failures ---------------------------------------------------------------------------------

    def _replace_dead(self, slot: WorkerSlot, reason: str, *, killed: bool = False) -> None:
        """Replace a dead worker and queue its tasks again; the oldest may be the cause.

        ``killed`` says that its process has ended, for whatever reason.
        """
        _LOG.warning("a Ray worker died and is replaced: %s", reason)
        self._incidents["workers_lost" if slot.pid else "environment_failures"] += 1
        if slot.pid is None:
            slot.node = self._nodes.node_of(slot.actor)
            self._count_failure(slot, reason, killed=killed)
        suspect = self._remove(slot)
        if suspect is not None:
            self._retry(suspect, slot.node, reason)
        self._resize()

    def _replace_misplaced(self, slot: WorkerSlot, reason: str) -> None:
        """Replace a worker whose node is at fault, if possible by one on another node."""
        _LOG.warning("a Ray worker cannot work on its node and is replaced: %s", reason)
        self._incidents["environment_failures"] += 1
        self._count_failure(slot, reason)
        task = self._remove(slot)
        if task is not None:
            task.failed_on.append(slot.node)
            if self._nodes.tried_everywhere(task.failed_on):
                task.finished = True
                self._owner.raised(task, EnvironmentFailure(reason))
            else:
                self._queues[task.kind].appendleft(task)
        self._resize()

    def _count_failure(self, slot: WorkerSlot, reason: str, *, killed: bool = False) -> None:
        """Count a failure of a node; if all workers are killed as they start, do a task alone.

        Raises ClusterError if that cannot be done either.
        """
        self._nodes.failures[slot.node] += 1
        if slot.pid is not None:
            return
        self._failed_starts.append(reason)
        enough = 3 * max(len(self._slots), 1) + 5
        if self.ready or not (self._nodes.all_failed() or len(self._failed_starts) >= enough):
            return
        if not killed or not self._next_alone(slot.node, reason):
            raise ClusterError(
                f"no Ray worker can be started: {self._failed_text()}; make code, data, memory and "
                f"disk available where they run, {OR_SERIAL}"
            )

    def _next_alone(self, node: str, reason: str) -> bool:
        """Do the next task alone and forget the failures; return False if the child fails, too."""
        for queue in filter(None, self._queues.values()):
            task = self._next(queue, self._costs[queue[0].kind].chunk(len(queue[0]), inf))
            _LOG.warning("no Ray worker lives until it is ready: work goes on in a child process")
            try:
                self._do_alone(task)
            except ChildDied as died:
                if not died.loaded:
                    return False
                self._retry(task, node, reason)
            break
        self._failed_starts.clear()
        self._nodes.failures.clear()
        return True

    def _do_alone(self, task: Task) -> None:
        """Do a task in a child of this process; raises ChildDied."""
        begun, folder = perf_counter(), self._config.working_dir
        try:
            answer = done_alone(
                self._owner.work(task),
                self._config.environment(),
                folder if folder and Path(folder).is_dir() else None,
            )
        except ChildDied:
            raise
        except Exception as error:
            if not isinstance(error, EnvironmentFailure) and task.kind not in self._raising:
                raise ChildDied(loaded=True) from error
            task.finished = True
            self._owner.raised(task, error)
        else:
            task.finished = True
            self._owner.answered(task, answer)
        finally:
            for slot in self._slots:  # their answers were not looked at: do not count the time
                slot.since += perf_counter() - begun

    def _failed_text(self) -> str:
        return f"{len(self._failed_starts)} in a row failed (last: {self._failed_starts[-1]})"

    def _remove(self, slot: WorkerSlot) -> Task | None:
        """End a worker and put its tasks, except the oldest, back at the head of their queues.

        Returns
        -------
        Task or None
            The oldest task, if it is not finished and no other worker does it.
        """
        self._end(slot)
        self._slots.remove(slot)
        for ref in [ref for ref, (other, _) in self._requests.items() if other is slot]:
            del self._requests[ref]
        tasks = [task for _, task in slot.requests]
        for task in tasks:
            task.in_flight -= 1
        for task in reversed(tasks[1:]):
            if not task.finished and not task.in_flight:
                self._queues[task.kind].appendleft(task)
        first = tasks[0] if tasks else None
        if first is not None:
            first.suspect = True
        return None if first is None or first.finished or first.in_flight else first

    def _retry(self, task: Task, node: str, reason: str) -> None:
        """Divide a task that may have killed its worker; count the attempts of a single item."""
        if len(task) > 1:
            self._queues[task.kind].extendleft(reversed(task.split()))
            return
        task.attempts.append(node)
        self._nodes.refresh()
        alive = self._nodes.alive()  # a death counts only if the node has survived it
        if sum(node in alive for node in task.attempts) < _ATTEMPTS:
            self._queues[task.kind].appendleft(task)
            return
        history = f"killed its worker {_ATTEMPTS} times (last: {reason})"
        if OVERDUE not in reason:
            try:
                self._do_alone(task)
                return
            except ChildDied as died:
                history += f", and {died}"
        task.finished = True
        self._owner.killed(task, history)

    def _end(self, slot: WorkerSlot) -> None:
        if not self._ray.is_initialized():  # the cluster is gone: a call would start a new one
            return
        with suppress(self._ray.exceptions.RayError):  # the worker may never have started
            self._ray.kill(slot.actor)


def death_reason(error: Exception) -> str:
    """Return the informative line of Ray's message about a dead worker."""
    text = str(error)
    detail = re.search(r"exit detail: (.+?)(?:\. |\.$|\n|$)", text)
    if detail:
        return detail.group(1)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
