"""The nodes of the cluster in use: how many workers they have room for, and which ones fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Set
from typing import Any

from framework.parallel.config import Resources

ATTEMPTS = 3  # failures of a node that are tolerated while all nodes fail


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
        self.refresh()

    def refresh(self) -> None:
        """Ask the cluster which nodes are alive; all other methods use the last answer."""
        self._alive = [node for node in call_in_thread(self._ray.nodes) if node["Alive"]]

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

    def failures(self, node: str) -> int:
        """Return how often a node has failed."""
        return self._failures[node]

    def all_failed(self) -> bool:
        """Return whether every node with room for a worker has failed again and again."""
        known = self._usable()
        return bool(known) and min(self._failures[node] for node in known) >= ATTEMPTS

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


def call_in_thread(call: Callable[[], Any]) -> Any:
    """Call into Ray from another thread, and return the result: some calls hang without a server.

    The thread that waits can receive signals, so that a dead cluster can end its wait.
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

    threading.Thread(target=run, name="question to Ray", daemon=True).start()
    done.wait()
    if errors:
        raise errors[0]
    return answers[0]
