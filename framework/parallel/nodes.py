"""The nodes of the cluster in use: how many workers they have room for, and which ones fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Any

from framework.parallel.config import Resources
from framework.parallel.guard import heeding_signals

TRIES = 3  # failures of a node's own that are forgiven while all nodes fail


class Nodes:
    """Watches nodes, and counts their failures.

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
        self._up: list[dict[str, Any]] = []
        self.look()

    def look(self) -> None:
        """Ask the cluster which nodes are up; all else rests on the last answer."""
        self._up = [node for node in heeding_signals(self._ray.nodes) if node["Alive"]]

    def capacity(self) -> int:
        """Return how many workers the nodes that are up have room for."""
        return sum(self._room(node) for node in self._up)

    def options(self, avoided: Set[str]) -> dict[str, Any]:
        """Return the options of an actor that keeps away from some nodes."""
        options = self._resources.options()
        if avoided:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(avoided))})"}
        return options

    def avoided(self) -> frozenset[str]:
        """Return the nodes that fail more than others do."""
        least = min((self._failures[node] for node in self._usable()), default=0)
        return frozenset(node for node, count in self._failures.items() if node and count > least)

    def use(self, node: str) -> None:
        """Note that a worker runs on a node."""
        self._used.add(node)

    def blame(self, node: str) -> None:
        """Count a failure that is the node's own."""
        self._failures[node] += 1

    def failures(self, node: str) -> int:
        """Return how often a node has failed."""
        return self._failures[node]

    def hopeless(self) -> bool:
        """Tell whether every node with room for a worker has failed again and again."""
        known = self._usable()
        return bool(known) and min(self._failures[node] for node in known) >= TRIES

    def covered(self, failed_on: list[str]) -> bool:
        """Tell whether work that failed on these nodes has been tried wherever it can be."""
        if len(failed_on) < TRIES:
            return False
        most = max(Counter(failed_on).values())
        return most >= TRIES or set(failed_on) >= set(self._usable())

    def lost(self) -> int:
        """Return how many nodes on which workers ran are gone."""
        return len(self._used - self.up())

    def up(self) -> set[str]:
        """Return the ids of the nodes that are up."""
        return {node["NodeID"] for node in self._up}

    def node_of(self, actor: Any) -> str:
        """Return where an actor was to start; empty where it is not known.

        One that could not be started has not told it itself.
        """
        try:
            table = self._ray._private.state.actors(actor._actor_id.hex())
            return str(table["Address"]["NodeID"])
        except Exception:  # not a public face of Ray: without it, failures are just not placed
            return ""

    def _room(self, node: dict[str, Any]) -> int:
        """Return how many workers fit on a node: one where they take nothing."""
        held = node["Resources"]
        if not self._shape:
            return 1
        return int(min(held.get(name, 0.0) / need + 1e-9 for name, need in self._shape.items()))

    def _usable(self) -> list[str]:
        return [node["NodeID"] for node in self._up if self._room(node)]
