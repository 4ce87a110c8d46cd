"""Workers on Ray: placed, handed work, watched and replaced, in one place for all that use them.

As many workers are asked for as are wanted: those for which there is no room yet are pending, so
that an autoscaler sees the demand and a node that joins gets its share at once. A worker that dies
is replaced and its work done again, by others.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter, sleep
from typing import Any

from framework.errors import ClusterError, EnvironmentFailure
from framework.parallel.config import ClusterConfig
from framework.parallel.nodes import Nodes
from framework.parallel.slot import Slot, death_reason
from framework.parallel.work import DispatchCost, Owner, Work
from framework.parallel.worker import Ready, Worker
from framework.run.requests import CHUNK_SECONDS, patience

_LOG = logging.getLogger(__name__)
_STRIKES = 3  # deaths that a lone item may cause
_TEND = 0.5  # seconds between looks at the workers
_STUCK = 30.0  # seconds that a worker may go on with what another one has done
_SILENT = 30.0  # seconds without any worker before that is said
_SERIAL = "or run with --workers serial"


class WorkerPool:
    """Has work done by workers on the Ray that this process is connected to.

    Parameters
    ----------
    held : object
        What each worker holds a copy of; its methods do the work.
    owner : Owner
        Takes the answers.
    kinds : sequence of str
        Names of the methods, most urgent first.
    workers : int, optional
        How many to ask for, as far as there is room; None takes the whole cluster, whatever its
        size becomes.
    config : ClusterConfig
    timed : sequence of str
        Kinds to which ``config.row_timeout`` applies.
    copied : sequence of str
        Kinds that an idle worker may do again when another one is late: those that leave no
        trace but their answer.
    """

    def __init__(
        self,
        held: Any,
        owner: Owner,
        kinds: Sequence[str],
        *,
        workers: int | None,
        config: ClusterConfig,
        timed: Sequence[str] = (),
        copied: Sequence[str] = (),
    ) -> None:
        import ray

        self._ray: Any = ray
        self._owner, self._workers, self._config = owner, workers, config
        self._timed = frozenset(timed) if config.row_timeout is not None else frozenset()
        self._copied = frozenset(copied) if config.copies else frozenset()
        self._class: Any = ray.remote(max_restarts=0, max_task_retries=0)(Worker)
        self._held = ray.put(held)
        self._nodes = Nodes(config.resources)
        self._slots: list[Slot] = []
        self._requests: dict[Any, tuple[Slot, Work | None]] = {}  # None: asked if ready
        self._queues: dict[str, deque[Work]] = {kind: deque() for kind in kinds}
        self._costs = {kind: DispatchCost() for kind in kinds}
        self._incidents: Counter[str] = Counter()
        self._stillborn: list[str] = []  # why, of those in a row that could not be started
        self._tended = 0.0
        self._quiet_since, self._warned = perf_counter(), False
        self._resize()

    def add(self, work: Work) -> None:
        """Queue work."""
        self._queues[work.kind].append(work)

    def forget(self, kind: str) -> None:
        """Drop what is queued of a kind, and what was learned of its cost."""
        self._queues[kind].clear()
        self._costs[kind] = DispatchCost()

    def step(self, timeout: float | None) -> bool:
        """Hand out work, wait and take what is answered; tell whether anything was, in time.

        Raises
        ------
        ClusterError
            No worker can be started, again and again.
        """
        deadline = None if timeout is None else perf_counter() + timeout
        while True:
            self._tend()
            self.dispatch()
            left = _TEND if deadline is None else min(_TEND, deadline - perf_counter())
            if self._wait(max(0.0, left)):
                return True
            if deadline is not None and perf_counter() >= deadline:
                return False

    def close(self) -> None:
        """End the workers; what is not done is dropped."""
        for slot in self._slots:
            self._end(slot)
        self._slots.clear()
        self._requests.clear()
        for queue in self._queues.values():
            queue.clear()

    @property
    def ready(self) -> list[Slot]:
        """The workers that are there."""
        return [slot for slot in self._slots if slot.pid is not None]

    @property
    def size(self) -> int:
        """How many workers there are, those included that wait for room."""
        return len(self._slots)

    def incidents(self) -> Mapping[str, int]:
        """Return what incidents the workers, counted; nothing that did not happen."""
        lost = self._nodes.lost()
        return {**self._incidents, **({"nodes_lost": lost} if lost else {})}

    # Workers ----------------------------------------------------------------------------------

    def _resize(self) -> None:
        """Ask for workers until there are as many as wanted; give up pending ones beyond that.

        A pending one that keeps away from a node which is no longer avoided is asked for anew: it
        would wait for ever once the nodes that it may start on are gone.
        """
        allowed = self._nodes.up() - self._nodes.avoided()
        for slot in [slot for slot in self._slots if slot.pid is None and slot.avoided & allowed]:
            self._remove(slot)
        wanted = self._nodes.capacity() if self._workers is None else self._workers
        pending = [slot for slot in self._slots if slot.pid is None]
        for slot in pending[: max(0, len(self._slots) - wanted)]:
            self._remove(slot)
        for _ in range(wanted - len(self._slots)):
            self._hire()

    def _hire(self) -> None:
        """Start a worker; it gets work once it answers."""
        avoided = self._nodes.avoided()
        actor = self._class.options(**self._nodes.options(avoided)).remote([self._held])
        slot = Slot(actor, avoided)
        self._slots.append(slot)
        self._requests[slot.actor.ready.remote()] = slot, None

    def _tend(self) -> None:
        """Look at the workers now and then."""
        now = perf_counter()
        if now - self._tended < _TEND:
            return
        self._tended = now
        self._nodes.look()
        self._resize()
        if self.ready:
            self._quiet_since, self._warned = now, False
        elif now - self._quiet_since > _SILENT and not self._warned:
            self._warned = True
            _LOG.warning(
                "no Ray worker has started for %.0f s%s: the cluster has no room for one of %s, or "
                "its machines are slow; waiting for it",
                _SILENT,
                f", and {self._failed()}" if self._stillborn else "",
                self._config.resources.shape(),
            )
        for slot in self.ready:
            if slot.asked:
                self._check_time(slot, now)
        if self._copied and not any(self._queues.values()):
            self._copy_late(now)

    def _check_time(self, slot: Slot, now: float) -> None:
        """End a worker that ran out of the time that its row has, or of use."""
        work = slot.asked[0][1]
        if work.settled and now - slot.since > _STUCK:
            self._bury(slot, "it hangs at what another worker has done")
            return
        if work.kind in self._timed:
            limit = (self._config.row_timeout or 0.0) * len(work)
            if now - slot.since > limit:
                self._incidents["timeouts"] += 1
                self._bury(slot, f"took more than row_timeout, {limit:g} s")

    def _copy_late(self, now: float) -> None:
        """Have idle workers do again what others are late with; whoever is first counts."""
        idle = [slot for slot in self.ready if not slot.asked]
        late = [slot for slot in self.ready if slot.asked and self._is_late(slot, now)]
        for slot in late:
            for _, work in slot.asked:
                if not idle:
                    return
                if work.kind in self._copied and not work.settled and work.out == 1:
                    other = min(idle, key=lambda found: found.node == slot.node)
                    idle.remove(other)
                    self._incidents["copies"] += 1
                    self._send(other, work)

    def _is_late(self, slot: Slot, now: float) -> bool:
        """Tell whether a worker takes far longer than others would."""
        work = slot.asked[0][1]
        return now - slot.since > patience(len(work), self._costs[work.kind].per_row or 0.0)

    # Requests ---------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Give work to the workers that have least to do, while any has room."""
        n = len(self.ready)
        for kind, queue in self._queues.items():
            cost = self._costs[kind]
            while queue:
                size = cost.chunk(len(queue[0]), n)
                # nothing waits for a long one; a suspect must not take others' answers along
                alone = bool(queue[0].strikes) or size * (cost.per_row or 1.0) > 2 * CHUNK_SECONDS
                slot = self._idlest(alone)
                if slot is None:
                    break
                work = queue.popleft()
                if len(work) > size:
                    queue.appendleft(work.slice(size, len(work)))
                    work = work.slice(0, size)
                slot.alone = alone
                self._send(slot, work)

    def _idlest(self, alone: bool) -> Slot | None:
        """Return the worker with the fewest requests of those that take another."""
        free = [slot for slot in self._slots if slot.takes(alone)]
        return min(
            free, key=lambda slot: (self._nodes.failures(slot.node), len(slot.asked)), default=None
        )

    def _send(self, slot: Slot, work: Work) -> None:
        arguments, slot.parts = self._owner.arguments(work, slot.parts)
        ref = slot.actor.do.remote(work.kind, *arguments)
        if not slot.asked:
            slot.since = perf_counter()
        slot.asked.append((ref, work))
        self._requests[ref] = slot, work
        work.out += 1

    def _wait(self, timeout: float) -> bool:
        """Take what has been answered; tell whether anything was, in time."""
        refs = list(self._requests)
        if not refs:
            sleep(timeout)
            return False
        answered, _ = self._ray.wait(refs, num_returns=1, timeout=timeout)
        if answered and len(refs) > 1:
            answered, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in answered:  # in the order of asking
            if ref in self._requests:  # else its worker was found dead a moment ago
                self._take(ref)
        return bool(answered)

    def _take(self, ref: Any) -> None:
        slot, work = self._requests[ref]
        try:
            answer = self._ray.get(ref)
        except Exception as error:  # a dead worker, or what the method raised
            cause = getattr(error, "cause", None)
            if work is not None and isinstance(cause, EnvironmentFailure):
                self._unfit(slot, cause.reason)
            elif work is not None and isinstance(cause, Exception) and self._owner.expects(work):
                if self._settled(ref):
                    self._owner.raised(work, cause)
            else:
                self._bury(slot, death_reason(error))
            return
        if work is None:
            self._welcome(ref, slot, answer)
            return
        seconds, result = answer
        self._costs[work.kind].add(seconds, len(work))
        if self._settled(ref):
            self._owner.answered(work, result)

    def _settled(self, ref: Any) -> bool:
        """Strike off a request that a living worker has answered; tell whether it is the first."""
        slot, work = self._requests.pop(ref)
        assert work is not None  # callers know
        slot.asked.remove((ref, work))
        slot.since = perf_counter()
        work.out -= 1
        first, work.settled = not work.settled, True
        return first

    def _welcome(self, ref: Any, slot: Slot, ready: Ready) -> None:
        """Note that a worker has started, or that its node cannot load what it is to hold."""
        slot.node = ready.node
        if ready.error:
            self._unfit(slot, ready.error)
            return
        del self._requests[ref]
        slot.pid, slot.parts = ready.pid, ready.parts
        self._nodes.use(ready.node)
        self._stillborn.clear()

    # Deaths -----------------------------------------------------------------------------------

    def _bury(self, slot: Slot, reason: str) -> None:
        """Replace a worker and have its work done again; the oldest is the suspect."""
        _LOG.warning("a Ray worker died and is replaced: %s", reason)
        self._incidents["workers_lost" if slot.pid else "environment_failures"] += 1
        if slot.pid is None:
            slot.node = self._nodes.node_of(slot.actor)
            self._blame(slot, reason)
        lost = self._remove(slot)
        self._put_back(lost[1:])
        if lost and not (lost[0].settled or lost[0].out):
            self._suspect(lost[0], slot.node, reason)
        self._resize()

    def _unfit(self, slot: Slot, reason: str) -> None:
        """Replace a worker whose node is at fault, on another node if there is one."""
        _LOG.warning("a Ray worker is of no use where it runs and is replaced: %s", reason)
        self._incidents["environment_failures"] += 1
        self._blame(slot, reason)
        lost = self._remove(slot)
        self._put_back(lost[1:])
        if lost and not (lost[0].settled or lost[0].out):
            work = lost[0]
            work.failed_on.append(slot.node)
            if self._nodes.covered(work.failed_on):
                work.settled = True
                self._owner.raised(work, EnvironmentFailure(reason))
            else:
                self._queues[work.kind].appendleft(work)
        self._resize()

    def _blame(self, slot: Slot, reason: str) -> None:
        """Count a failure of a node.

        Raises
        ------
        ClusterError
            No worker can be started anywhere.
        """
        self._nodes.blame(slot.node)
        if slot.pid is not None:
            return
        self._stillborn.append(reason)
        enough = 3 * max(len(self._slots), 1) + 5
        if not self.ready and (self._nodes.hopeless() or len(self._stillborn) >= enough):
            raise ClusterError(
                f"no Ray worker can be started: {self._failed()}; make code, data, memory and disk "
                f"available where they run, {_SERIAL}"
            )

    def _failed(self) -> str:
        return f"{len(self._stillborn)} in a row failed (last: {self._stillborn[-1]})"

    def _remove(self, slot: Slot) -> list[Work]:
        """End a worker; return its work, oldest first."""
        self._end(slot)
        self._slots.remove(slot)
        for ref in [ref for ref, (other, _) in self._requests.items() if other is slot]:
            del self._requests[ref]
        for _, work in slot.asked:
            work.out -= 1
        return [work for _, work in slot.asked]

    def _put_back(self, lost: Sequence[Work]) -> None:
        """Queue what has not been done before all else."""
        for work in reversed(lost):
            if not work.settled and not work.out:
                self._queues[work.kind].appendleft(work)

    def _suspect(self, work: Work, node: str, reason: str) -> None:
        """Divide the work that a worker died of, or count the deaths by a lone item."""
        if len(work) > 1:
            self._queues[work.kind].extendleft(reversed(work.split()))
            return
        work.strikes.append(node)
        self._nodes.look()
        up = self._nodes.up()
        if sum(struck in up for struck in work.strikes) < _STRIKES:  # a lost node is no one's fault
            self._queues[work.kind].appendleft(work)
            return
        work.settled = True
        self._owner.killed(work, f"killed its worker {_STRIKES} times (last: {reason})")

    def _end(self, slot: Slot) -> None:
        if not self._ray.is_initialized():  # it ended with its cluster; asking would start one
            return
        with suppress(self._ray.exceptions.RayError):  # it may never have started
            self._ray.kill(slot.actor)
