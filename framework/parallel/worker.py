"""What runs in a Ray worker: it does what it is asked with the one thing that it holds."""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any, NamedTuple

from framework.errors import EnvironmentFailure
from framework.machine import is_machine_failure, reason_of


class Ready(NamedTuple):
    """What a worker says of itself once it is there.

    Attributes
    ----------
    node : str
        The node's id.
    pid : int
    parts : int
        How many shared parts it holds.
    error : str
        Why it could not load what it is to hold; empty if it could.
    """

    node: str
    pid: int
    parts: int
    error: str


class Worker:
    """Holds an object and calls its methods, one at a time.

    Parameters
    ----------
    box : list
        The object, or a reference to it: in a list, so that loading it can fail in ``ready``,
        which says on which node, and not while the worker is made.
    """

    def __init__(self, box: list[Any]) -> None:
        self._box, self._held = box, None

    def ready(self) -> Ready:
        """Load what the worker holds."""
        import ray

        node, error = ray.get_runtime_context().get_node_id(), ""
        try:
            self._held = ray.get(self._box[0])
        except Exception as failure:  # code or data that this node lacks, whatever it raises
            error = reason_of(failure)
        return Ready(node, os.getpid(), getattr(self._held, "n_components", 0), error)

    def do(self, name: str, *arguments: Any) -> tuple[float, Any]:
        """Call a method of what is held; return the seconds it took and its answer.

        Raises
        ------
        EnvironmentFailure
            This node is at fault, not the work.
        """
        start = perf_counter()
        try:
            answer = getattr(self._held, name)(*arguments)
        except Exception as error:
            if is_machine_failure(error):  # its cause would not survive the journey
                raise EnvironmentFailure(reason_of(error)) from None
            raise
        return perf_counter() - start, answer
