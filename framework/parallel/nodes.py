"""The nodes of the cluster in use: how many workers they have room for, and which ones fail."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from time import monotonic
from typing import Any

from framework.parallel.config import Resources

ATTEMPTS = 3  # failures of a node that are tolerated while all nodes fail
_PROBE_SECONDS = 2.0  # between questions to the nodes, and for an answer
SILENT_SECONDS = 5.0  # without an answer from which a node is named


class Nodes:
    """The nodes of a cluster that are alive, and how often each has failed.

    Parameters
    ----------
    resources : Resources
        Of each worker.
    """

    def __init__(self, resources: Resources) -> None:
        import ray

        self._ray: Any = ray
        self._resources, self._shape = resources, resources.shape()
        self._failures: Counter[str] = Counter()
        self._used: set[str] = set()
        self._alive: list[dict[str, Any]] = []
        self._heard: dict[str, float] = {}
        self._named: set[str] = set()
        self._closed = threading.Event()
        self._probe: threading.Thread | None = None
        self.refresh()

    def refresh(self) -> None:
        """Ask the cluster which nodes are alive; all other methods use the last answer."""
        self._alive = [node for node in call_in_thread(self._ray.nodes) if node["Alive"]]

    def newly_silent(self) -> list[str]:
        """Return the nodes in use that no longer answer, each once, by name and address.

        Ray takes a minute to declare a node dead whose cable was pulled; who waits for it wants to
        know sooner. They are asked by a thread, once there are two nodes.
        """
        if self._probe is None and len(self._alive) > 1:
            self._probe = threading.Thread(target=self._ask_nodes, name="silent nodes", daemon=True)
            self._probe.start()
        now = monotonic()
        names = []
        for node in self._alive:
            name = node["NodeID"]
            silent = now - self._heard.get(name, now) > SILENT_SECONDS
            if silent and name in self._used and name not in self._named:
                names.append(f"{node.get('NodeName', name)} ({node['NodeManagerAddress']})")
            (self._named.add if silent else self._named.discard)(name)
        return names

    def close(self) -> None:
        """End the thread that asks the nodes."""
        self._closed.set()

    def _ask_nodes(self) -> None:
        while not self._closed.wait(_PROBE_SECONDS):
            nodes = self._alive
            places = [(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in nodes]
            answers = answering(places, _PROBE_SECONDS)
            now = monotonic()
            for i, node in enumerate(nodes):
                if i in answers:
                    self._heard[node["NodeID"]] = now
                else:
                    self._heard.setdefault(node["NodeID"], now)

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
        """Return the nodes that fail more than others do."""
        least = min((self._failures[node] for node in self._usable()), default=0)
        return frozenset(node for node, count in self._failures.items() if node and count > least)

    def note_use(self, node: str) -> None:
        """Note that a worker runs on a node."""
        self._used.add(node)

    def count_failure(self, node: str) -> None:
        """Count a failure that is the node's own."""
        self._failures[node] += 1

    def forget_failures(self) -> None:
        """Count anew: what failed was not theirs."""
        self._failures.clear()

    def failures(self, node: str) -> int:
        """Return how often a node has failed."""
        return self._failures[node]

    def all_failed(self) -> bool:
        """Return whether every node with room for a worker has failed again and again."""
        usable = self._usable()
        return bool(usable) and min(self._failures[node] for node in usable) >= ATTEMPTS

    def tried_everywhere(self, failed_on: list[str]) -> bool:
        """Return whether a task that failed on these nodes has been tried on every node."""
        if len(failed_on) < ATTEMPTS:
            return False
        most = max(Counter(failed_on).values())
        return most >= ATTEMPTS or set(failed_on) >= set(self._usable())

    def lost(self) -> int:
        """Return how many nodes on which workers ran are gone."""
        return len(self._used - self.alive())

    def alive(self) -> set[str]:
        """Return the ids of the nodes that are alive."""
        return {node["NodeID"] for node in self._alive}

    def node_of(self, actor: Any) -> str:
        """Return the node where an actor was to start; empty where it is unknown.

        An actor that could not be started has not reported it itself.
        """
        try:
            table = self._ray._private.state.actors(actor._actor_id.hex())
            return str(table["Address"]["NodeID"])
        except Exception:  # no public part of Ray: without it, the node is just unknown
            return ""

    def _room(self, node: dict[str, Any]) -> int:
        """Return how many workers fit on a node: one where they take nothing."""
        held = node["Resources"]
        if not self._shape:
            return 1
        return int(min(held.get(name, 0.0) / need + 1e-9 for name, need in self._shape.items()))

    def _usable(self) -> list[str]:
        return [node["NodeID"] for node in self._alive if self._room(node)]


def answering(places: Sequence[tuple[str, int]], seconds: float) -> set[int]:
    """Return which of some hosts and ports take a connection within so many seconds."""
    numbers: set[int] = set()
    deadline = monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for i, (host, port) in enumerate(places):
            asked = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            asked.setblocking(False)
            asked.connect_ex((host, port))
            selector.register(asked, selectors.EVENT_WRITE, i)
        while selector.get_map() and (left := deadline - monotonic()) > 0:
            for key, _ in selector.select(left):
                asked = key.fileobj  # type: ignore[assignment]
                if asked.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    numbers.add(key.data)
                selector.unregister(asked)
                asked.close()
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return numbers


def call_in_thread(
    call: Callable[[], Any], seconds: float | None = None, over: threading.Event | None = None
) -> Any:
    """Call into Ray from another thread, and return the result: some calls hang without a server.

    The thread that waits can receive signals, so that a dead cluster can end its wait. It raises
    TimeoutError after so many seconds. The other thread lives on until ``over`` is
    set, if the call returned.
    """
    done = threading.Event()
    answers: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:
            errors.append(error)
        finally:
            done.set()
        if over is not None and answers:
            over.wait()

    threading.Thread(target=run, name="question to Ray", daemon=True).start()
    if not done.wait(seconds):
        raise TimeoutError
    if errors:
        raise errors[0]
    return answers[0]
