"""The nodes of the cluster in use: how many workers they have room for, and which ones fail."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from time import monotonic
from typing import Any

from framework.parallel.config import Resources

ATTEMPTS = 3  # failures of every node after which a task, or the whole cluster, is given up
_PROBE_SECONDS = 2.0  # between two probes of the nodes, and for their answers
SILENT_SECONDS = 5.0  # without an answer, after which a node is reported


class Nodes:
    """The nodes of a cluster that are alive, and how often each has failed.

    Parameters
    ----------
    resources : Resources
        What each worker takes.

    Attributes
    ----------
    failures : Counter of str
        How often each node has failed for which it is to blame, by its id.
    used : set of str
        The nodes on which workers have run.
    """

    def __init__(self, resources: Resources) -> None:
        import ray

        self._ray: Any = ray
        self._resources, self._shape = resources, resources.shape()
        self.failures: Counter[str] = Counter()
        self.used: set[str] = set()
        self._alive: list[dict[str, Any]] = []
        self._last_answer: dict[str, float] = {}  # its time by node; at first that of the probe
        self._reported: set[str] = set()  # the silent nodes that were reported
        self._closed = threading.Event()
        self._probe: threading.Thread | None = None
        self.refresh()

    def refresh(self) -> None:
        """Ask the cluster which nodes are alive; all other methods use the last answer."""
        self._alive = [node for node in call_in_thread(self._ray.nodes) if node["Alive"]]

    def newly_silent(self) -> list[str]:
        """Return the nodes in use that no longer answer, each once, by name and address.

        Ray takes a minute to declare a node dead whose cable was pulled; whoever waits for it wants
        to know sooner. A thread probes the nodes as soon as there are two.
        """
        if self._probe is None and len(self._alive) > 1:
            self._probe = threading.Thread(target=self._ask_nodes, name="silent nodes", daemon=True)
            self._probe.start()
        now = monotonic()
        names = []
        for node in self._alive:
            name = node["NodeID"]
            silent = now - self._last_answer.get(name, now) > SILENT_SECONDS
            if silent and name in self.used and name not in self._reported:
                names.append(f"{node.get('NodeName', name)} ({node['NodeManagerAddress']})")
            (self._reported.add if silent else self._reported.discard)(name)
        return names

    def close(self) -> None:
        """End the thread that probes the nodes."""
        self._closed.set()

    def _ask_nodes(self) -> None:
        while not self._closed.wait(_PROBE_SECONDS):
            nodes = self._alive
            places = [(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in nodes]
            answers = answering(places, _PROBE_SECONDS)
            now = monotonic()
            for i, node in enumerate(nodes):
                if i in answers:
                    self._last_answer[node["NodeID"]] = now
                else:
                    self._last_answer.setdefault(node["NodeID"], now)

    def capacity(self) -> int:
        """Return how many workers the nodes that are alive have room for."""
        return sum(self._room(node) for node in self._alive)

    def options(self, avoided: Set[str]) -> dict[str, Any]:
        """Return the options of an actor that avoids some nodes."""
        options = self._resources.options()
        if avoided:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(avoided))})"}
        return options

    def avoided(self) -> frozenset[str]:
        """Return the nodes that have failed more often than the best one."""
        least = min((self.failures[node] for node in self._usable()), default=0)
        return frozenset(node for node, count in self.failures.items() if node and count > least)

    def all_failed(self) -> bool:
        """Return whether every node with room for a worker has failed ``ATTEMPTS`` times."""
        usable = self._usable()
        return bool(usable) and min(self.failures[node] for node in usable) >= ATTEMPTS

    def tried_everywhere(self, failed_on: list[str]) -> bool:
        """Return whether a task that failed on these nodes has been tried often enough."""
        if len(failed_on) < ATTEMPTS:
            return False
        return max(Counter(failed_on).values()) >= ATTEMPTS or set(failed_on) >= {*self._usable()}

    def lost(self) -> int:
        """Return how many nodes on which workers ran are gone."""
        return len(self.used - self.alive())

    def alive(self) -> set[str]:
        """Return the ids of the nodes that are alive."""
        return {node["NodeID"] for node in self._alive}

    def node_of(self, actor: Any) -> str:
        """Return the id of the node where an actor was to start; empty if unknown.

        It is needed for actors that could not be started, and so did not report their node.
        """
        try:
            table = self._ray._private.state.actors(actor._actor_id.hex())
            return str(table["Address"]["NodeID"])
        except Exception:  # a private interface of Ray, which may change
            return ""

    def _room(self, node: dict[str, Any]) -> int:
        """Return how many workers fit on a node."""
        amounts = node["Resources"]
        return int(min(amounts.get(name, 0.0) / need + 1e-9 for name, need in self._shape.items()))

    def _usable(self) -> list[str]:
        return [node["NodeID"] for node in self._alive if self._room(node)]


def answering(places: Sequence[tuple[str, int]], seconds: float) -> set[int]:
    """Return the indices of the places (host, port) that accept a connection within ``seconds``."""
    numbers: set[int] = set()
    deadline = monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for i, (host, port) in enumerate(places):
            connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            connection.setblocking(False)
            connection.connect_ex((host, port))
            selector.register(connection, selectors.EVENT_WRITE, i)
        while selector.get_map() and (left := deadline - monotonic()) > 0:
            for key, _ in selector.select(left):
                connection = key.fileobj  # type: ignore[assignment]
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    numbers.add(key.data)
                selector.unregister(connection)
                connection.close()
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return numbers


def call_in_thread(
    call: Callable[[], Any], seconds: float | None = None, over: threading.Event | None = None
) -> Any:
    """Return the result of a call into Ray that is made by another thread.

    Some calls hang for ever once Ray's servers are gone. Here the calling thread can still receive
    the signal by which :func:`~framework.parallel.cluster.guarded` ends its wait.

    Parameters
    ----------
    call : callable
    seconds : float, optional
        How long to wait.
    over : threading.Event, optional
        If the call succeeds, the other thread lives on until this is set.

    Raises
    ------
    TimeoutError
        The call has not returned in time.
    Exception
        What the call raises.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        else:
            if over is not None:
                over.wait()

    threading.Thread(target=run, name="question to Ray", daemon=True).start()
    return future.result(seconds)
