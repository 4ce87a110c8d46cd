"""Work done alone in a child of this process: what kills that too is no fault of a machine."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from framework.errors import EnvironmentFailure
from framework.machine import child_environment, is_machine_failure, reason_of

# what the work prints goes to standard error: standard output has the answer, after an empty line
# once the work is loaded; a child whose parent was killed ends
_CHILD = """
import os, pickle, sys, threading, time
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
parent = os.getppid()
def watch():
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
sys.path[:] = pickle.load(sys.stdin.buffer)
work = pickle.load(sys.stdin.buffer)
answer.write(b"\\n")
answer.flush()
answer.write(work())
answer.close()
"""


class ChildDied(Exception):
    """The child has died: of the work, or already while it loaded it.

    Attributes
    ----------
    loaded : bool
    """

    def __init__(self, loaded: bool) -> None:
        super().__init__("a process of its own")
        self.loaded = loaded


def done_alone(
    work: Callable[[], Any],
    variables: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> Any:
    """Return what ``work`` returns in a child of this process.

    The child has a session of its own: an interrupt of this process is no failure of the work.

    Parameters
    ----------
    work : callable
    variables : mapping of str to str, optional
        Further variables of the child's environment.
    folder : str, optional
        Where it runs; by default where this process does.

    Raises
    ------
    EnvironmentFailure
        This machine is at fault.
    ChildDied
        The child has died.
    Exception
        What the work raises.
    """
    from ray import cloudpickle

    child = subprocess.run(
        [sys.executable, "-P", "-c", _CHILD],
        input=pickle.dumps(sys.path) + cloudpickle.dumps(partial(_attempt, work)),
        stdout=subprocess.PIPE,
        env=child_environment(**(variables or {})),
        cwd=folder,
        start_new_session=True,
        check=False,
    )
    if child.returncode:
        raise ChildDied(loaded=bool(child.stdout))
    answer, error = pickle.loads(child.stdout[1:])
    if error is not None:
        raise error
    return answer


def _attempt(work: Callable[[], Any]) -> bytes:
    """Do the work; return a pickle of what it returns and what it raises."""
    from ray import cloudpickle

    answer, error = None, None
    try:
        answer = work()
    except Exception as raised:
        failed = is_machine_failure(raised)
        error = EnvironmentFailure(reason_of(raised)) if failed else raised
    content: bytes = cloudpickle.dumps((answer, error))
    return content
