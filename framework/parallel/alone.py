"""Does work alone in a child process, to tell a fault of the work from a fault of a machine."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from framework.errors import EnvironmentFailure
from framework.machine import child_environment, is_machine_failure, reason_of

# The program of the child. Standard output carries a line break as soon as the work is loaded, and
# then the pickled answer; what the work prints goes to standard error. The child ends if its parent
# is killed.
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
    """The child process has died.

    Attributes
    ----------
    loaded : bool
        Whether the work was loaded, so that the child died of doing it.
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

    The child runs in its own session, so that an interrupt of this process does not reach it.

    Parameters
    ----------
    work : callable
    variables : mapping of str to str, optional
        Further variables of the child's environment.
    folder : str, optional
        The working folder of the child; by default that of this process.

    Raises
    ------
    EnvironmentFailure
        This machine is at fault.
    ChildDied
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
    """Do the work; return the pickle of its result and its exception, one of which is None."""
    from ray import cloudpickle

    answer, error = None, None
    try:
        answer = work()
    except Exception as raised:
        failed = is_machine_failure(raised)
        error = EnvironmentFailure(reason_of(raised)) if failed else raised
    content: bytes = cloudpickle.dumps((answer, error))
    return content
