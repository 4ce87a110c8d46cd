"""Work done alone in a child of this process: what kills that too is no fault of a machine."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from framework.errors import EnvironmentFailure

# what the work prints goes to standard error: standard output has the answer
_CHILD = """
import os, pickle, sys
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = pickle.load(sys.stdin.buffer)
work = pickle.load(sys.stdin.buffer)
pickle.dump(work(), answer)
"""


def done_alone(work: Callable[[], Any]) -> Any | None:
    """Return what ``work`` returns in a child of this process; None if it ends the child.

    The child has a session of its own: an interrupt of this process is no failure of the work.

    Raises
    ------
    EnvironmentFailure
        This machine is at fault.
    """
    from ray import cloudpickle

    content = pickle.dumps(sys.path) + cloudpickle.dumps(partial(_attempt, work))
    child = subprocess.run(
        [sys.executable, "-P", "-c", _CHILD],
        input=content,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        start_new_session=True,
        check=False,
    )
    if child.returncode:
        return None
    answer = pickle.loads(child.stdout)
    if isinstance(answer, EnvironmentFailure):
        raise answer
    return answer


def _attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except EnvironmentFailure as failure:
        return failure
